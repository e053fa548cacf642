/* Floats in blocks with 8-bit scales, of 4 bits (NVFP4, MXFP4) and 8 bits (MXFP8): every slice of them as codes and as
 * floats, their tensors, and scales that are refused. */
#include <math.h>

#include "unit/loader_fixture.h"

#include "base/checked.h"
#include "each_case.h"
#include "loader/integers/dequantise.h"
#include "loader/integers/int8.h"
#include "loader/integers/quant_tensors.h"

enum { K = 96, N = 12, MAX_GROUPS = K / 16 };

/* The numbers of the codes, by the definitions of the formats. */
static double number_of(uint8_t code, int exponent_bits, int mantissa_bits, int bias)
{
  int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = code & ((1 << mantissa_bits) - 1);
  double magnitude = exponent ? ldexp(1 + ldexp(mantissa, -mantissa_bits), exponent - bias)
                              : ldexp(mantissa, 1 - bias - mantissa_bits);
  return code >> (exponent_bits + mantissa_bits) ? -magnitude : magnitude;
}

typedef struct layer {
  uint8_t codes[N * K], bytes[1 + N * K], scales[N * MAX_GROUPS]; /* bytes: one after alignment, as in a file */
  char global[1 + sizeof(float)];
  yk_weight_view view;
} layer;

static layer draw(yk_packing packing, float global)
{
  layer l = {0};
  bool is_fp8 = packing == YK_PACKING_MXFP8, is_nv = packing == YK_PACKING_NVFP4 || packing == YK_PACKING_NVFP4_FACTOR;
  uint32_t state = 7 + (uint32_t)packing;
  for (int i = 0; i < N * K; i++) {
    uint8_t code = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    l.codes[i] = is_fp8 ? (code & 0x7F) == 0x7F ? 0x12 : code : code & 0xF;
    if (is_fp8)
      l.bytes[1 + i] = l.codes[i];
    else
      l.bytes[1 + i / 2] |= (uint8_t)(l.codes[i] << 4 * (i % 2));
  }
  for (int i = 0; i < N * MAX_GROUPS; i++) {
    uint8_t code = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    l.scales[i] = is_nv ? code % 0x7F : code % 255;
  }
  memcpy(l.global + 1, &global, sizeof global);
  l.view = (yk_weight_view){.format = is_fp8 ? YK_WEIGHT_FP8 : YK_WEIGHT_FP4,
                            .k = K,
                            .n = N,
                            .group = is_nv ? 16 : 32,
                            .packing = packing,
                            .tensor = "layer.weight"};
  return l;
}

static void point(layer *l)
{
  l->view.qweight = l->bytes + 1;
  l->view.scales = l->scales;
  l->view.global_scale = l->global + 1;
}

static float scale_of(const layer *l, int64_t n, int64_t k)
{
  uint8_t code = l->scales[n * (K / l->view.group) + k / l->view.group];
  float global;
  memcpy(&global, l->global + 1, sizeof global);
  switch (l->view.packing) {
  case YK_PACKING_NVFP4: return (float)number_of(code, 4, 3, 7) / global;
  case YK_PACKING_NVFP4_FACTOR: return (float)number_of(code, 4, 3, 7) * global;
  default: return (float)ldexp(1, code - 127);
  }
}

static void check_slice(const layer *l, const yk_weight_slice *slice, int64_t group)
{
  yk_weight_view rows;
  yk_err err = YK_ERR_INIT;
  int64_t n_k = slice->k_end - slice->k_begin, n_n = slice->n_end - slice->n_begin;
  void *buffer =
      aligned_alloc(64, (size_t)yk_round_up_i64((int64_t)yk_int8_repacked_bytes(&l->view, slice, NULL, group), 64));
  float *floats = malloc((size_t)(n_k * n_n) * sizeof *floats);
  assert_true(buffer && floats);
  expect_ok("repack", yk_int8_repack(&l->view, slice, NULL, group, NULL, buffer, &rows, &err), &err);
  expect_ok("dequantise", yk_dequantise(&l->view, slice, floats, n_k, &err), &err);
  assert_true(rows.packing == YK_PACKING_ROWS && rows.dtype == YK_F32 && !rows.global_scale);
  for (int64_t n = 0; n < n_n; n++)
    for (int64_t k = 0; k < n_k; k++) {
      int64_t row = slice->n_begin + n, column = slice->k_begin + k;
      uint8_t code = l->codes[row * K + column];
      float scale = scale_of(l, row, column);
      double number = l->view.format == YK_WEIGHT_FP8 ? number_of(code, 4, 3, 7) : number_of(code, 2, 1, 1);
      assert_int_equal(((const uint8_t *)rows.qweight)[n * n_k + k], code);
      assert_true(((const float *)rows.scales)[n * (n_k / group) + k / group] == scale);
      assert_true(floats[n * n_k + k] == scale * (float)number);
    }
  free(floats);
  free(buffer);
}

static const yk_packing packings[] = {YK_PACKING_NVFP4, YK_PACKING_NVFP4_FACTOR, YK_PACKING_MXFP4, YK_PACKING_MXFP8};
enum { N_PACKINGS = sizeof packings / sizeof *packings };

static void every_slice(void **state)
{
  (void)state;
  static const struct {
    yk_weight_slice slice;
    int64_t group;
  } cases[] = {{{0, K, 0, N}, 16}, {{32, 96, 3, 8}, 16}, {{8, 40, 0, N}, 8}, {{72, 80, 11, 12}, 8}, {{0, 24, 1, 2}, 8}};
  for (size_t p = 0; each_case(p, p < N_PACKINGS); p++) {
    layer l = draw(packings[p], 0.3f);
    point(&l);
    for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++)
      check_slice(&l, &cases[i].slice, cases[i].group);
  }
}

static void scales_that_are_no_numbers(void **state)
{
  (void)state;
  for (size_t p = 0; each_case(p, p < N_PACKINGS); p++) {
    layer l = draw(packings[p], 2.0f);
    yk_err err = YK_ERR_INIT;
    float floats[N * K];
    point(&l);
    l.scales[5 * (K / l.view.group) + 1] = p < 2 ? 0x7F : 0xFF;
    const yk_weight_slice with = {0, K, 0, N}, without = {0, l.view.group, 0, N};
    expect_error("scale", YK_E_FORMAT, "layer.weight|scale of group 1, output 5|finite",
                 yk_dequantise(&l.view, &with, floats, K, &err), &err);
    expect_ok("other groups", yk_dequantise(&l.view, &without, floats, K, &err), &err);
  }
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static yk_status read_layer(const char *tensors, const yk_quant_scheme *scheme, int64_t k, float global, yk_err *err)
{
  char data[8192] = {0};
  yk_shards *shards;
  yk_weight_view view = {.k = k, .n = N};
  temp_dir dir = temp_dir_make();
  memcpy(data, &global, sizeof global);
  write_layer(&dir, tensors, data, sizeof data);
  expect_ok("open", yk_shards_open(dir.path, NULL, &shards, err), err);
  yk_status status = yk_quant_read(shards, "layer", scheme, &view, err);
  yk_shards_close(shards);
  temp_dir_remove(&dir);
  return status;
}

#define NV_SCALE "weight_scale F8_E4M3 [12,6] 72;"

static void tensors(void **state)
{
  (void)state;
  static const struct {
    yk_packing packing;
    int64_t k;
    float global;
    const char *header, *words; /* words NULL: it is read */
  } cases[] = {
      {YK_PACKING_NVFP4, K, 2, "weight_global_scale F32 [1] 4;weight_packed U8 [12,48] 576;" NV_SCALE, NULL},
      {YK_PACKING_NVFP4_FACTOR, K, 2, "weight_scale_2 F32 [] 4;weight U8 [12,48] 576;" NV_SCALE, NULL},
      {YK_PACKING_MXFP4, K, 0, "weight_packed U8 [12,48] 576;weight_scale U8 [12,3] 36;", NULL},
      {YK_PACKING_MXFP4, K, 0, "weight_packed U8 [12,48] 576;weight_scale F8_E8M0 [12,3] 36;", NULL},
      {YK_PACKING_MXFP8, K, 0, "weight F8_E4M3 [12,96] 1152;weight_scale U8 [12,3] 36;", NULL},
      {YK_PACKING_NVFP4, K, 0, "weight_global_scale F32 [1] 4;weight_packed U8 [12,48] 576;" NV_SCALE,
       "layer.weight_global_scale|other than 0, found 0"},
      {YK_PACKING_NVFP4_FACTOR, K, INFINITY, "weight_scale_2 F32 [] 4;weight U8 [12,48] 576;" NV_SCALE,
       "layer.weight_scale_2|found inf"},
      {YK_PACKING_NVFP4, K, 2, "weight_global_scale F32 [2] 8;weight_packed U8 [12,48] 576;" NV_SCALE,
       "layer.weight_global_scale|[1]|found F32 [2]"},
      {YK_PACKING_NVFP4, K, 2, "weight_global_scale BF16 [1] 2;weight_packed U8 [12,48] 576;" NV_SCALE,
       "layer.weight_global_scale|F32|bfloat16"},
      {YK_PACKING_NVFP4, K, 2, "weight_packed U8 [12,48] 576;" NV_SCALE, "layer.weight_global_scale is missing"},
      {YK_PACKING_NVFP4, 88, 2, "weight_packed U8 [12,44] 528;", "88 inputs|multiple of group_size 16"},
      {YK_PACKING_MXFP8, 80, 2, "weight F8_E4M3 [12,80] 960;", "80 inputs|multiple of group_size 32"},
      {YK_PACKING_MXFP4, K, 0, "weight_packed U8 [12,48] 576;weight_scale F8_E4M3 [12,3] 36;",
       "layer.weight_scale|U8 or F8_E8M0|found F8_E4M3"},
      {YK_PACKING_MXFP8, K, 0, "weight U8 [12,96] 1152;weight_scale U8 [12,3] 36;", "layer.weight|F8_E4M3|found U8"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    bool is_nv = cases[i].packing == YK_PACKING_NVFP4 || cases[i].packing == YK_PACKING_NVFP4_FACTOR;
    const yk_quant_scheme scheme = {.format = cases[i].packing == YK_PACKING_MXFP8 ? YK_WEIGHT_FP8 : YK_WEIGHT_FP4,
                                    .packing = cases[i].packing,
                                    .group_size = is_nv ? 16 : 32,
                                    .zeros = YK_ZEROS_NONE};
    yk_err err = YK_ERR_INIT;
    yk_status status = read_layer(cases[i].header, &scheme, cases[i].k, cases[i].global, &err);
    if (cases[i].words)
      expect_error(cases[i].header, YK_E_FORMAT, cases[i].words, status, &err);
    else
      expect_ok(cases[i].header, status, &err);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_slice), cmocka_unit_test(scales_that_are_no_numbers),
                                     cmocka_unit_test(tensors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
