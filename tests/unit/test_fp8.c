/* Weights in 8-bit floats: the tensors that they may have, every slice of them in rows of bytes and as floats, and NaN
 * codes. */
#include <math.h>

#include "unit/loader_fixture.h"

#include "base/checked.h"
#include "base/float8.h"
#include "each_case.h"
#include "loader/integers/block_tensors.h"
#include "loader/integers/dequantise.h"
#include "loader/integers/int8.h"
#include "loader/kv_scales.h"
#include "parallel/shard.h"

enum { K = 200, N = 40 };

/* ---- Slices ------------------------------------------------------------------------------------------------------ */

typedef struct layer {
  uint8_t codes[1 + N * K]; /* one byte after alignment, as in a file */
  uint8_t scales[1 + 4 * N * K];
  float scale_of[N][K]; /* of a block's row and column */
  yk_weight_view view;
} layer;

static void put_scale(layer *l, int64_t row, int64_t column, float value)
{
  int64_t i = row * yk_ceil_div_i64(K, l->view.group) + column;
  uint32_t element = 0;
  yk_dtype_store(l->view.dtype, &element, 0, value);
  l->scale_of[row][column] = yk_dtype_load(l->view.dtype, &element, 0);
  size_t n_bytes = yk_dtype_bytes(l->view.dtype);
  memcpy(l->scales + 1 + (size_t)i * n_bytes, &element, n_bytes);
}

static layer *draw(int64_t group_n, int64_t group, yk_dtype dtype)
{
  layer *l = calloc(1, sizeof *l);
  assert_non_null(l);
  uint32_t state = 1;
  l->view = (yk_weight_view){.format = YK_WEIGHT_FP8,
                             .k = K,
                             .n = N,
                             .group = group,
                             .group_n = group_n,
                             .dtype = dtype,
                             .packing = YK_PACKING_BLOCKS,
                             .qweight = l->codes + 1,
                             .scales = l->scales + 1,
                             .tensor = "layer.weight"};
  for (int64_t i = 0; i < N * K; i++) {
    uint8_t code = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    l->codes[1 + i] = yk_e4m3_is_nan(code) ? 0x7E : code;
  }
  for (int64_t i = 0; i < yk_ceil_div_i64(N, group_n); i++)
    for (int64_t j = 0; j < yk_ceil_div_i64(K, group); j++) {
      state = state * 1664525u + 1013904223u;
      put_scale(l, i, j, ldexpf((float)(state >> 8) + 1.0f, (int)(state & 7) - 30));
    }
  return l;
}

static yk_status repack(const layer *l, const yk_weight_slice *slice, void **buffer, yk_weight_view *out, yk_err *err)
{
  int64_t group = yk_shard_group((yk_range){slice->k_begin, slice->k_end}, l->view.group);
  size_t n_bytes = (size_t)yk_round_up_i64((int64_t)yk_int8_repacked_bytes(&l->view, slice, NULL, group), 64);
  *buffer = aligned_alloc(64, n_bytes);
  assert_non_null(*buffer);
  return yk_int8_repack(&l->view, slice, NULL, group, NULL, *buffer, out, err);
}

static void check_slice(const layer *l, const yk_weight_slice *slice)
{
  void *buffer;
  yk_weight_view rows;
  yk_err err = YK_ERR_INIT;
  expect_ok("repack", repack(l, slice, &buffer, &rows, &err), &err);
  int64_t n_k = slice->k_end - slice->k_begin, n_n = slice->n_end - slice->n_begin;
  assert_int_equal(rows.packing, YK_PACKING_ROWS);
  assert_int_equal(rows.k, n_k);
  assert_int_equal(rows.n, n_n);
  assert_int_equal(rows.dtype, YK_F32);
  int64_t n_groups = yk_ceil_div_i64(n_k, rows.group);
  float *floats = malloc((size_t)(n_k * n_n) * sizeof *floats);
  assert_non_null(floats);
  expect_ok("dequantise", yk_dequantise(&l->view, slice, floats, n_k, &err), &err);
  for (int64_t n = 0; n < n_n; n++)
    for (int64_t k = 0; k < n_k; k++) {
      int64_t row = slice->n_begin + n, column = slice->k_begin + k;
      uint8_t code = l->codes[1 + row * K + column];
      float scale = l->scale_of[row / l->view.group_n][column / l->view.group];
      assert_int_equal(((const uint8_t *)rows.qweight)[n * n_k + k], code);
      assert_true(((const float *)rows.scales)[n * n_groups + k / rows.group] == scale);
      assert_true(floats[n * n_k + k] == scale * yk_e4m3_to_f32(code));
    }
  free(floats);
  free(buffer);
}

static void every_slice(void **state)
{
  (void)state;
  static const struct {
    int64_t group_n, group;
    yk_dtype dtype;
  } cases[] = {{16, 64, YK_F32}, {24, 48, YK_BF16}, {1, K, YK_F16}, {N, K, YK_F32}, {7, 13, YK_F32}, {1, 32, YK_BF16}};
  static const int64_t k_cuts[] = {0, 8, 48, 64, 131, 192, K}, n_cuts[] = {0, 1, 16, 23, N};
  for (size_t c = 0; each_case(c, c < sizeof cases / sizeof *cases); c++) {
    layer *l = draw(cases[c].group_n, cases[c].group, cases[c].dtype);
    for (size_t i = 0; each_case(i, i < sizeof k_cuts / sizeof *k_cuts); i++)
      for (size_t j = i + 1; each_case(j, j < sizeof k_cuts / sizeof *k_cuts); j++)
        for (size_t a = 0; each_case(a, a < sizeof n_cuts / sizeof *n_cuts); a++)
          for (size_t b = a + 1; each_case(b, b < sizeof n_cuts / sizeof *n_cuts); b++) {
            const yk_weight_slice slice = {k_cuts[i], k_cuts[j], n_cuts[a], n_cuts[b]};
            check_slice(l, &slice);
          }
    free(l);
  }
}

/* ---- NaN codes --------------------------------------------------------------------------------------------------- */

static void refuse_slice(const layer *l, const yk_weight_slice *slice, const char *words)
{
  void *buffer;
  yk_weight_view rows;
  yk_err err = YK_ERR_INIT;
  float *floats = calloc(N * K, sizeof *floats);
  assert_non_null(floats);
  expect_error("repack", YK_E_FORMAT, words, repack(l, slice, &buffer, &rows, &err), &err);
  expect_error("dequantise", YK_E_FORMAT, words, yk_dequantise(&l->view, slice, floats, K, &err), &err);
  free(buffer);
  free(floats);
}

static void codes_that_are_no_numbers(void **state)
{
  (void)state;
  static const uint8_t codes[] = {0x7F, 0xFF};
  static const yk_weight_slice with[] = {{0, K, 0, N}, {131, 132, 29, 30}, {100, 140, 20, N}},
                               without[] = {{0, 131, 0, N}, {132, K, 0, N}, {0, K, 0, 29}, {0, K, 30, N}};
  for (size_t i = 0; i < sizeof codes; i++) {
    layer *l = draw(16, 64, YK_F32);
    l->codes[1 + 29 * K + 131] = codes[i];
    for (size_t s = 0; s < sizeof with / sizeof *with; s++)
      refuse_slice(l, &with[s],
                   codes[i] == 0x7F ? "layer.weight|row 29, column 131|0x7F" : "layer.weight|row 29, column 131|0xFF");
    for (size_t s = 0; each_case(s, s < sizeof without / sizeof *without); s++) check_slice(l, &without[s]);
    free(l);
  }
}

static void scales_that_are_no_numbers(void **state)
{
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  static const yk_dtype dtypes[] = {YK_F16, YK_BF16, YK_F32};
  static const yk_weight_slice with = {120, 130, 18, 33}, without = {0, 128, 0, N};
  for (size_t i = 0; i < 3; i++) {
    layer *l = draw(16, 64, dtypes[i]);
    put_scale(l, 1, 2, bad[i]);
    refuse_slice(l, &with, "layer.weight|scale of group 2, output 18|finite");
    check_slice(l, &without);
    free(l);
  }
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

enum { ROWS = 20, COLUMNS = 36 };

/* A file of layer.weight and up to two further tensors. */
static yk_status read_layer(const char *tensors, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err)
{
  static const uint8_t data[4 * ROWS * COLUMNS];
  yk_shards *shards;
  temp_dir dir = temp_dir_make();
  write_layer(&dir, tensors, data, sizeof data);
  *view = (yk_weight_view){.k = COLUMNS, .n = ROWS};
  expect_ok("open", yk_shards_open(dir.path, NULL, &shards, err), err);
  yk_status status = yk_block_tensors_read(shards, "layer", scheme, view, err);
  yk_shards_close(shards);
  temp_dir_remove(&dir);
  return status;
}

#define WEIGHT "weight F8_E4M3 [20,36] 720;"

static void shapes_of_scales(void **state)
{
  (void)state;
  static const struct {
    int32_t outputs, inputs;
    const char *header;
    yk_dtype dtype;
  } good[] = {{-1, -1, WEIGHT "weight_scale F32 [] 4;", YK_F32},
              {-1, -1, WEIGHT "weight_scale BF16 [1] 2;", YK_BF16},
              {-1, -1, WEIGHT "weight_scale_inv BF16 [1,1] 2;", YK_BF16},
              {128, 128, WEIGHT "weight_scale_inv F32 [1,1] 4;", YK_F32},
              {1, -1, WEIGHT "weight_scale F16 [20,1] 40;input_scale F32 [] 4;", YK_F16},
              {1, -1, WEIGHT "weight_scale F32 [20] 80;", YK_F32},
              {8, 16, WEIGHT "weight_scale_inv F32 [3,3] 36;", YK_F32},
              {8, 16, WEIGHT "weight_scale F32 [3,1,3,1] 36;", YK_F32}};
  for (size_t i = 0; each_case(i, i < sizeof good / sizeof *good); i++) {
    yk_quant_scheme scheme = {.format = YK_WEIGHT_FP8, .group_outputs = good[i].outputs, .group_size = good[i].inputs};
    yk_weight_view view;
    yk_err err = YK_ERR_INIT;
    expect_ok(good[i].header, read_layer(good[i].header, &scheme, &view, &err), &err);
    assert_int_equal(view.format, YK_WEIGHT_FP8);
    assert_int_equal(view.packing, YK_PACKING_BLOCKS);
    assert_int_equal(view.dtype, good[i].dtype);
    assert_int_equal(view.group, good[i].inputs == 16 ? 16 : COLUMNS);
    assert_int_equal(view.group_n, good[i].outputs == 8 ? 8 : good[i].outputs == 1 ? 1 : ROWS);
  }
}

static void tensors_that_do_not_fit(void **state)
{
  (void)state;
  static const struct {
    int32_t outputs, inputs;
    yk_status status;
    const char *header, *words;
  } bad[] = {
      {-1, -1, YK_E_FORMAT, WEIGHT, "layer.weight_scale_inv|layer.weight_scale|missing"},
      {-1, -1, YK_E_FORMAT, WEIGHT "weight_scale F32 [] 4;weight_scale_inv F32 [] 4;", "found both"},
      {-1, -1, YK_E_FORMAT, WEIGHT "weight_scale F32 [2] 8;", "layer.weight_scale|[1]|found F32 [2]"},
      {-1, -1, YK_E_FORMAT, WEIGHT "weight_scale F32 [20,1] 80;", "expected|[1, 1]|found F32 [20, 1]"},
      {1, -1, YK_E_FORMAT, WEIGHT "weight_scale F32 [] 4;", "expected|[20, 1]|found F32 []"},
      {1, -1, YK_E_FORMAT, WEIGHT "weight_scale F32 [1,20] 80;", "[20, 1]|found F32 [1, 20]"},
      {8, 16, YK_E_FORMAT, WEIGHT "weight_scale_inv F32 [2,2] 16;", "weight_scale_inv|[3, 3]|found F32 [2, 2]"},
      {8, 16, YK_E_FORMAT, WEIGHT "weight_scale_inv F32 [9] 36;", "[3, 3]|found F32 [9]"},
      {8, 16, YK_E_FORMAT, WEIGHT "weight_scale F32 [3,3,1,1] 36;", "[3, 3]|found F32 [3, 3, 1, 1]"},
      {8, 16, YK_E_FORMAT, WEIGHT "weight_scale F32 [1,3,1,3] 36;", "[3, 3]|found F32 [1, 3, 1, 3]"},
      {8, 16, YK_E_FORMAT, WEIGHT "weight_scale_inv F8_E8M0 [3,3] 9;", "F16, BF16 or F32|found F8_E8M0"},
      {1, -1, YK_E_FORMAT, "weight F8_E4M3 [36,20] 720;weight_scale F32 [20,1] 80;",
       "layer.weight|F8_E4M3 [20, 36], found F8_E4M3 [36, 20]"},
      {1, -1, YK_E_FORMAT, "weight U8 [20,36] 720;weight_scale F32 [20,1] 80;", "F8_E4M3|found U8"},
      {1, -1, YK_E_UNSUPPORTED, "weight F8_E5M2 [20,36] 720;weight_scale F32 [20,1] 80;",
       "layer.weight|F8_E5M2|supported: F8_E4M3"},
  };
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof *bad); i++) {
    yk_quant_scheme scheme = {.format = YK_WEIGHT_FP8, .group_outputs = bad[i].outputs, .group_size = bad[i].inputs};
    yk_weight_view view;
    yk_err err = YK_ERR_INIT;
    yk_status status = read_layer(bad[i].header, &scheme, &view, &err);
    expect_error(bad[i].header, bad[i].status, bad[i].words, status, &err);
  }
}

/* ---- The KV cache's scales --------------------------------------------------------------------------------------- */

/* The scale of K in a file with these tensors of layer 0's attention. */
static yk_status read_k_scale(yk_model_family family, yk_quant_method method, const char *tensors, float *scale,
                              yk_err *err)
{
  const yk_model_config config = {.family = family, .n_kv_heads = 2, .head_dim = 4, .quant.method = method};
  const float data[4] = {0.5f, 0.25f, 2.0f, 4.0f};
  float offset;
  yk_shards *shards;
  temp_dir dir = temp_dir_make();
  write_module(&dir, "model.layers.0.self_attn", tensors, data, sizeof data);
  expect_ok("open", yk_shards_open(dir.path, NULL, &shards, err), err);
  yk_status status = yk_kv_scales_read(&config, shards, YK_ROLE_K, 0, 5, 1, scale, &offset, err);
  yk_shards_close(shards);
  temp_dir_remove(&dir);
  return status;
}

static void scales_of_the_cache(void **state)
{
  (void)state;
  static const char own[] = "k_scale F32 [1] 4;v_scale F32 [1] 4;",
                    of_modules[] = "k_proj.k_scale F32 [] 4;v_proj.v_scale F32 [] 4;", none[] = "o_proj.x F32 [] 4;";
  static const struct {
    yk_model_family family;
    yk_quant_method method;
    const char *tensors;
    float scale;
    const char *words; /* NULL: it is read */
  } cases[] = {
      {YK_FAMILY_LLAMA, YK_QUANT_COMPRESSED_TENSORS, own, 0.5f, NULL},
      {YK_FAMILY_PHI3, YK_QUANT_COMPRESSED_TENSORS, own, 0.5f, NULL},
      {YK_FAMILY_LLAMA, YK_QUANT_MODELOPT, of_modules, 0.5f, NULL},
      {YK_FAMILY_PHI3, YK_QUANT_MODELOPT, of_modules, 0.5f, NULL},
      {YK_FAMILY_LLAMA, YK_QUANT_MODELOPT, none, 1.0f, NULL},
      {YK_FAMILY_LLAMA, YK_QUANT_MODELOPT, "v_proj.v_scale F32 [] 4;", 0, "self_attn.k_proj.k_scale is missing"},
      {YK_FAMILY_LLAMA, YK_QUANT_COMPRESSED_TENSORS, none, 0, "self_attn.k_scale is missing"},
      {YK_FAMILY_LLAMA, YK_QUANT_MODELOPT, "k_proj.k_scale F32 [4] 16;", 0, "k_proj.k_scale|[1]|found F32 [4]"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    float scale = 0;
    yk_err err = YK_ERR_INIT;
    yk_status status = read_k_scale(cases[i].family, cases[i].method, cases[i].tensors, &scale, &err);
    if (cases[i].words)
      expect_error(cases[i].tensors, YK_E_FORMAT, cases[i].words, status, &err);
    else
      expect_ok(cases[i].tensors, status, &err);
    assert_true(cases[i].words || scale == cases[i].scale);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_slice),
                                     cmocka_unit_test(codes_that_are_no_numbers),
                                     cmocka_unit_test(scales_that_are_no_numbers),
                                     cmocka_unit_test(shapes_of_scales),
                                     cmocka_unit_test(tensors_that_do_not_fit),
                                     cmocka_unit_test(scales_of_the_cache)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
