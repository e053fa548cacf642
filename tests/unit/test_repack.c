/* Repacked weights and errors do not depend on the number of threads, and memory does not grow with the number of
 * layers. Layers are large enough to be cut among all of them. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "each_case.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/layout/layout.h"
#include "loader/integers/group_order.h"
#include "model/repack.h"

enum { K = 768, N = 1040, GROUP = 32, N_GROUPS = K / GROUP, N_POOLS = 3 };
enum { TABLE = 32 * N /* scales: gemv rounds its groups up to whole words */ };

static const int n_threads[N_POOLS] = {1, 2, 5};

static const uint16_t nan_f16 = 0x7E00;

/* Tensors that suit every packing of 8 bits or less: bytes beyond those of a packing are not read. */
typedef struct tensors {
  uint8_t weight[K * N];
  uint32_t zeros[TABLE];
  uint16_t scales[TABLE], bias[N], x_offset[K];
  int32_t g_idx[K], outputs[N];
} tensors;

typedef struct fixture {
  tensors t;
  yk_model_device keeps, keeps_not;
  yk_cpu_pool *pools[N_POOLS]; /* of n_threads; the first is NULL */
} fixture;

static void make_tensors(tensors *t)
{
  uint32_t state = 7;
  for (size_t i = 0; i < sizeof t->weight; i++) {
    state = state * 1664525u + 1013904223u;
    t->weight[i] = (uint8_t)((state >> 24) | 0x11);         /* no nibble is 0, so that a zero point may be 16 */
    if ((t->weight[i] & 0x7F) == 0x7F) t->weight[i] = 0x11; /* NaN in 8-bit floats */
  }
  for (int i = 0; i < TABLE; i++) {
    t->zeros[i] = (state = state * 1664525u + 1013904223u);
    t->scales[i] = yk_f32_to_f16((float)(1 + (state >> 20) % 1000) / 1024.0f);
  }
  for (int i = 0; i < N; i++) {
    t->outputs[i] = (i * 7 + 3) % N;
    t->bias[i] = (uint16_t)i;
  }
  for (int i = 0; i < K; i++) {
    t->g_idx[(i * 37 + 3) % K] = i / GROUP;
    t->x_offset[i] = yk_f32_to_f16((float)(i % 17 - 8));
  }
}

/* linear_keeps of a device without a table row for 8 bits or an order of inputs. */
static bool keeps_4_bits(const yk_linear_spec *spec, int i)
{
  const yk_weight_view *weight = &spec->parts[i].weight;
  return !weight->act_order && (weight->format == YK_WEIGHT_PLAIN || weight->format == YK_WEIGHT_AWQ);
}

static int set_up(void **state)
{
  fixture *f = *state = calloc(1, sizeof *f);
  make_tensors(&f->t);
  f->keeps =
      (yk_model_device){.dtype = YK_F16, .linear_bytes = yk_cpu_linear_bytes, .linear_keeps = yk_cpu_linear_keeps};
  f->keeps_not =
      (yk_model_device){.dtype = YK_BF16, .linear_bytes = yk_cuda_linear_bytes, .linear_keeps = keeps_4_bits};
  for (int i = 1; i < N_POOLS; i++)
    if (yk_cpu_pool_create(n_threads[i], &f->pools[i], NULL) != YK_OK) return -1;
  return 0;
}

static int tear_down(void **state)
{
  fixture *f = *state;
  for (int i = 0; i < N_POOLS; i++) yk_cpu_pool_destroy(f->pools[i]);
  free(f);
  return 0;
}

static const struct {
  yk_weight_format format;
  yk_packing packing;
} packings[] = {{YK_WEIGHT_AWQ, YK_PACKING_AWQ_GEMM},  {YK_WEIGHT_AWQ, YK_PACKING_AWQ_GEMV},
                {YK_WEIGHT_AWQ, YK_PACKING_GPTQ},      {YK_WEIGHT_AWQ, YK_PACKING_COMPRESSED},
                {YK_WEIGHT_INT8, YK_PACKING_GPTQ},     {YK_WEIGHT_INT8, YK_PACKING_COMPRESSED},
                {YK_WEIGHT_INT8, YK_PACKING_BLOCKS},   {YK_WEIGHT_FP8, YK_PACKING_BLOCKS},
                {YK_WEIGHT_FP4, YK_PACKING_MXFP4},     {YK_WEIGHT_FP8, YK_PACKING_MXFP8},
                {YK_WEIGHT_PLAIN, YK_PACKING_AWQ_GEMM}};
enum { N_PACKINGS = sizeof packings / sizeof *packings };

static bool has_zeros(yk_packing packing)
{
  return packing < YK_PACKING_BLOCKS;
}

static yk_linear_spec make_spec(const fixture *f, int i, bool orders_outputs, bool act_order)
{
  const tensors *t = &f->t;
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = 8};
  yk_linear_part *part = &spec.parts[0];
  *part = (yk_linear_part){.weight = {.format = packings[i].format,
                                      .k = K,
                                      .n = N,
                                      .group = GROUP,
                                      .group_n = 1,
                                      .dtype = YK_F16,
                                      .packing = packings[i].packing,
                                      .qweight = t->weight,
                                      .qzeros = has_zeros(packings[i].packing) ? t->zeros : NULL,
                                      .has_zeros = has_zeros(packings[i].packing),
                                      .zeros_less_one = packings[i].packing == YK_PACKING_GPTQ,
                                      .scales = t->scales,
                                      .act_order = act_order,
                                      .g_idx = act_order ? t->g_idx : NULL,
                                      .bias = t->bias,
                                      .bias_dtype = YK_F16},
                           .k = {0, K},
                           .n = {0, N},
                           .group_local = GROUP,
                           .use_bias = true,
                           .n_order = orders_outputs ? t->outputs : NULL};
  if (packings[i].format == YK_WEIGHT_PLAIN) {
    part->weight.plain = t->weight; /* of half as many inputs */
    part->weight.k = part->k.end = K / 2;
    part->weight.group = part->group_local = 0;
  } else if (!orders_outputs) {
    part->n = (yk_range){24, N - 40};
  }
  return spec;
}

static void sort_inputs(const yk_model_device *dev, yk_linear_part *part)
{
  const yk_group_share all = {0, K, false};
  yk_group_places places;
  yk_err err = YK_ERR_INIT;
  if (!yk_repack_sorts(dev, part)) return;
  assert_int_equal(yk_group_order_measure(&part->weight, &all, &places, &err), YK_OK);
  part->k_places = places.n;
  part->group_local = places.group;
}

static void expect_same_bytes(const char *what, const void *a, const void *b, int64_t n_bytes)
{
  if (!a != !b || (a && memcmp(a, b, (size_t)n_bytes) != 0)) fail_msg("%s differ", what);
}

static void expect_same(const yk_linear_part *a, const yk_linear_part *b)
{
  const yk_weight_view *x = &a->weight, *y = &b->weight;
  bool is_bytes = x->format != YK_WEIGHT_AWQ;
  int64_t groups = x->group ? yk_ceil_div_i64(x->k, x->group) : 0, element = (int64_t)yk_dtype_bytes(x->dtype);
  assert_int_equal(x->format, y->format);
  assert_true(x->k == y->k && x->n == y->n && x->group == y->group && x->dtype == y->dtype);
  if (x->format == YK_WEIGHT_PLAIN)
    expect_same_bytes("floats", x->plain, y->plain, x->k * x->n * element);
  else
    expect_same_bytes("integers", x->qweight, y->qweight, is_bytes ? x->k * x->n : x->k * x->n / 2);
  expect_same_bytes("scales", x->scales, y->scales, groups * x->n * element);
  expect_same_bytes("zeros", x->qzeros, y->qzeros, is_bytes ? groups * x->n * element : groups * x->n / 2);
  expect_same_bytes("biases", (const char *)x->bias + 2 * a->n.begin, (const char *)y->bias + 2 * b->n.begin,
                    2 * yk_range_size(a->n));
  expect_same_bytes("orders of x", a->x_order, b->x_order, yk_range_size(a->k) * 4);
}

static void check_bytes(const fixture *f, const yk_model_device *dev, const yk_linear_spec *spec)
{
  yk_rank_buffer alone = {0}, shared = {0};
  yk_linear_spec by_one, by_many;
  yk_err err = YK_ERR_INIT;
  if (yk_repack_layer(dev, spec, NULL, &alone, &by_one, &err) != YK_OK) fail_msg("%s", err.message);
  for (int i = 1; i < N_POOLS; i++) {
    if (shared.memory) memset(shared.memory, 0xA5, shared.n_bytes);
    assert_int_equal(yk_repack_layer(dev, spec, f->pools[i], &shared, &by_many, &err), YK_OK);
    expect_same(&by_one.parts[0], &by_many.parts[0]);
  }
  free(alone.memory);
  free(shared.memory);
}

static void threads_do_not_change_bytes(void **state)
{
  fixture *f = *state;
  for (int i = 0; i < N_PACKINGS; i++)
    for (int kept = 0; kept < 2; kept++)
      for (int orders_outputs = 0; orders_outputs < 2; orders_outputs++)
        for (int act_order = 0; act_order < 2; act_order++) {
          if (act_order && packings[i].packing != YK_PACKING_GPTQ) continue;
          const yk_model_device *dev = kept ? &f->keeps : &f->keeps_not;
          yk_linear_spec spec = make_spec(f, i, orders_outputs, act_order);
          spec.parts[0].as_16_bits = !kept && packings[i].format == YK_WEIGHT_INT8;
          sort_inputs(dev, &spec.parts[0]);
          check_bytes(f, dev, &spec);
        }
}

/* ---- Floats as 8-bit integers ------------------------------------------------------------------------------------ */

enum { INT8_K = 200, INT8_N = 37 };

/* Weights of float32 whose rows differ in size: row 5 is zeros, row 6 has a magnitude whose 127th part is subnormal,
 * row 7 has ties, at odd multiples of half its scale, and both ends of the range. */
static void fill_rows(float *rows)
{
  uint32_t state = 3;
  for (int i = 0; i < INT8_N * INT8_K; i++) {
    state = state * 1664525u + 1013904223u;
    rows[i] = ((float)(state >> 8) / 16777216.0f - 0.5f) * (float)(1 + i / INT8_K);
    if (i / INT8_K == 5) rows[i] = 0;
    if (i / INT8_K == 6) rows[i] *= 1e-39f;
    if (i / INT8_K == 7) rows[i] = (float)(i % INT8_K % 128) - 63.5f;
  }
  rows[7 * INT8_K + 3] = -127;
  rows[7 * INT8_K + 4] = 127;
}

static void check_integers(const yk_weight_view *found, const float *rows, const int32_t *outputs, int64_t k_begin,
                           int64_t n_begin)
{
  for (int64_t i = 0; i < found->n; i++) {
    const float *row = rows + (outputs ? outputs[i] : n_begin + i) * INT8_K + k_begin;
    float largest = 0, scale;
    for (int64_t k = 0; k < found->k; k++) largest = fmaxf(largest, fabsf(row[k]));
    scale = ((const float *)found->scales)[i];
    assert_true(scale == largest / 127.0f);
    for (int64_t k = 0; k < found->k; k++) {
      const int q = ((const int8_t *)found->qweight)[i * found->k + k];
      const double exact = scale > 0 ? (double)row[k] / (double)scale : 0.0;
      assert_in_range(q + 127, 0, 254);
      if (scale >= FLT_MIN || scale == 0.0f) assert_true(fabs(q - exact) <= 0.5 + 1e-5);
      if (fabs(exact - trunc(exact)) == 0.5) assert_int_equal(q % 2, 0); /* a tie goes to the even integer */
    }
  }
}

/* Whole, in slices of inputs and outputs, reordered, transposed, and from 16 bits: by the definition. */
static void floats_become_integers(void **state)
{
  fixture *f = *state;
  float rows[INT8_N * INT8_K], transposed[INT8_K * INT8_N];
  int32_t outputs[INT8_N - 4];
  fill_rows(rows);
  for (int i = 0; i < INT8_N * INT8_K; i++) transposed[i % INT8_K * INT8_N + i / INT8_K] = rows[i];
  for (int i = 0; i < INT8_N - 4; i++) outputs[i] = (i * 5 + 2) % INT8_N;
  for (int i = 0; i < 4 * N_POOLS; i++) {
    const int way = i % 4;
    const yk_range k = {way == 1 ? 30 : 0, way == 1 ? 190 : INT8_K}, n = {way == 2 ? 0 : 4, way == 2 ? 33 : INT8_N};
    yk_linear_spec repacked, spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = 1, .f32_output = true};
    yk_rank_buffer buffer = {0};
    yk_err err = YK_ERR_INIT;
    spec.parts[0] = (yk_linear_part){.weight = {.format = YK_WEIGHT_PLAIN, .k = INT8_K, .n = INT8_N, .dtype = YK_F32},
                                     .k = k,
                                     .n = n,
                                     .as_int8 = true,
                                     .n_order = way == 2 ? outputs : NULL};
    spec.parts[0].weight.plain = way == 3 ? transposed : rows;
    spec.parts[0].weight.plain_stride = way == 3 ? INT8_N : 0;
    assert_true(yk_repack_keeps_int8(&f->keeps, &spec, 0));
    assert_false(yk_repack_keeps_int8(&f->keeps_not, &spec, 0));
    assert_int_equal(yk_repack_layer(&f->keeps, &spec, f->pools[i / 4], &buffer, &repacked, &err), YK_OK);
    const yk_linear_part *part = &repacked.parts[0];
    assert_int_equal(part->weight.format, YK_WEIGHT_INT8);
    assert_int_equal(part->group_local, yk_range_size(k));
    assert_int_equal(part->weight.n, yk_range_size(n));
    assert_false(part->as_int8);
    check_integers(&part->weight, rows, way == 2 ? outputs : NULL, k.begin, n.begin);
    assert_int_equal(yk_repack_bytes(&f->keeps, &spec), yk_cpu_linear_bytes(&repacked));
    free(buffer.memory);
  }
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static void check_error(const fixture *f, const yk_model_device *dev, const yk_linear_spec *spec, const char *words)
{
  for (int i = 0; i < N_POOLS; i++) {
    yk_rank_buffer buffer = {0};
    yk_linear_spec repacked;
    yk_err err = YK_ERR_INIT;
    yk_status status = yk_repack_layer(dev, spec, f->pools[i], &buffer, &repacked, &err);
    free(buffer.memory);
    if (status != YK_E_FORMAT || !strstr(err.message, words))
      fail_msg("%d threads: expected \"%s\", found status %d: %s", n_threads[i], words, (int)status, err.message);
  }
}

/* Two NaN scales: the first in the order of repacking is named, whichever thread finds it. */
static void the_first_bad_scale_is_named(void **state)
{
  fixture *f = *state;
  static const struct {
    int packing;
    int64_t first, second; /* of the scales in the file */
    const char *by_kept, *by_floats;
  } cases[] = {
      {2, 3 * N + 900, 20 * N + 50, "group 3, output 900", "group 20, output 50"},               /* GPTQ: by group */
      {3, 900 * N_GROUPS + 3, 50 * N_GROUPS + 20, "group 3, output 900", "group 20, output 50"}, /* by group too */
      {4, 3 * N + 900, 20 * N + 50, "group 20, output 50", "group 20, output 50"},               /* bytes: by output */
      {7, 900 * N_GROUPS + 3, 50 * N_GROUPS + 20, "group 20, output 50", "group 20, output 50"}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    uint16_t *scales = f->t.scales, first = scales[cases[i].first], second = scales[cases[i].second];
    yk_linear_spec spec = make_spec(f, cases[i].packing, false, false);
    scales[cases[i].first] = scales[cases[i].second] = nan_f16;
    check_error(f, &f->keeps, &spec, cases[i].by_kept);
    spec.parts[0].as_16_bits = true;
    if (packings[cases[i].packing].format != YK_WEIGHT_AWQ) check_error(f, &f->keeps_not, &spec, cases[i].by_floats);
    scales[cases[i].first] = first;
    scales[cases[i].second] = second;
  }
}

static void the_first_bad_weight_is_named(void **state)
{
  fixture *f = *state;
  yk_linear_spec spec = make_spec(f, 7, false, false);
  uint8_t *first = &f->t.weight[130 * K + 700], *second = &f->t.weight[700 * K + 1], whole[] = {*first, *second};
  *first = *second = 0x7F;
  check_error(f, &f->keeps, &spec, "row 130, column 700");
  check_error(f, &f->keeps_not, &spec, "row 130, column 700");
  *first = whole[0], *second = whole[1];
}

static void the_first_unsound_float_is_named(void **state)
{
  fixture *f = *state;
  float rows[INT8_N * INT8_K];
  fill_rows(rows);
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = 1};
  spec.parts[0] = (yk_linear_part){
      .weight = {.format = YK_WEIGHT_PLAIN, .k = INT8_K, .n = INT8_N, .dtype = YK_F32, .plain = rows, .tensor = "head"},
      .k = {10, INT8_K},
      .n = {0, INT8_N},
      .as_int8 = true};
  rows[30 * INT8_K + 11] = INFINITY;
  rows[9 * INT8_K + 40] = NAN;
  check_error(f, &f->keeps, &spec, "head: output 9, input 40: expected a finite number, to be rounded to 8 bits");
}

static void the_first_bad_bias_is_named(void **state)
{
  fixture *f = *state;
  yk_linear_spec spec = make_spec(f, 6, false, false);
  yk_weight_view *weight = &spec.parts[0].weight;
  weight->folds_bias = true;
  weight->x_offset = f->t.x_offset;
  weight->x_offset_dtype = YK_F16;
  f->t.bias[300] = f->t.bias[999] = nan_f16;
  check_error(f, &f->keeps, &spec, "output 300");
  f->t.bias[300] = f->t.bias[999] = 0;
}

/* For several parts, the error of the first. */
static void the_first_bad_part_is_named(void **state)
{
  fixture *f = *state;
  yk_linear_spec spec = make_spec(f, 2, false, false);
  uint16_t *scales = malloc(sizeof f->t.scales);
  spec.n_parts = 3;
  spec.parts[1] = spec.parts[2] = spec.parts[0];
  for (int i = 0; i < 3; i++) spec.parts[i].weight.tensor = (const char *[]){"first", "second", "third"}[i];
  memcpy(scales, f->t.scales, sizeof f->t.scales);
  scales[N_GROUPS / 2 * N + 500] = nan_f16;
  spec.parts[1].weight.scales = spec.parts[2].weight.scales = scales;
  check_error(f, &f->keeps, &spec, "second: its scale of group 12, output 500");
  free(scales);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* The buffer has the size for the largest layer, however many layers follow. */
static void memory_is_that_of_the_largest_layer(void **state)
{
  fixture *f = *state;
  yk_rank_buffer buffer = {0};
  yk_linear_spec repacked;
  yk_err err = YK_ERR_INIT;
  for (int layer = 0; layer < 24; layer++) {
    yk_linear_spec spec = make_spec(f, layer % (N_PACKINGS - 1), false, false);
    spec.parts[0].as_16_bits = layer % 3 == 0 && spec.parts[0].weight.format != YK_WEIGHT_AWQ;
    assert_int_equal(yk_repack_layer(&f->keeps, &spec, f->pools[2], &buffer, &repacked, &err), YK_OK);
    assert_true(buffer.n_bytes <= 2 * K * N + 4096);
  }
  assert_true(buffer.n_bytes >= 2 * K * (N - 64));
  free(buffer.memory);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_do_not_change_bytes),   cmocka_unit_test(the_first_bad_scale_is_named),
      cmocka_unit_test(the_first_bad_weight_is_named), cmocka_unit_test(the_first_bad_bias_is_named),
      cmocka_unit_test(the_first_bad_part_is_named),   cmocka_unit_test(memory_is_that_of_the_largest_layer),
      cmocka_unit_test(floats_become_integers),        cmocka_unit_test(the_first_unsound_float_is_named)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
