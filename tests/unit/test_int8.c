/* 8-bit packings: every slice of a weight, repacked or dequantised, equals the input of packers that are written from
 * each format's definition, one byte at a time. */
#include <math.h>

#include "unit/loader_fixture.h"

#include "base/checked.h"
#include "base/dtype.h"
#include "each_case.h"
#include "loader/integers/dequantise.h"
#include "loader/integers/int8.h"

enum { K = 320, N = 148, MAX_GROUPS = K / 16 };

/* The file's numbers; a weight is scale * (q - zero). */
typedef struct numbers {
  int64_t k, n, group;
  int8_t q[K][N];
  int16_t zero[MAX_GROUPS][N]; /* -128 .. 128 */
  float scale[MAX_GROUPS][N];  /* float16 numbers */
} numbers;

static uint32_t draw_u32(void)
{
  static uint32_t state = 1;
  return (state = state * 1664525u + 1013904223u) >> 8;
}

static void draw(int64_t k, int64_t n, int64_t group, numbers *x)
{
  *x = (numbers){.k = k, .n = n, .group = group};
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < n; j++) x->q[i][j] = (int8_t)draw_u32();
  for (int64_t g = 0; g < yk_ceil_div_i64(k, group); g++)
    for (int64_t j = 0; j < n; j++) {
      x->zero[g][j] = (int16_t)(draw_u32() % 256 - 128);
      x->scale[g][j] = (float)(1 + draw_u32() % 1024) / 1024.0f;
    }
}

/* Tensors in their position in a file: one byte after alignment. */
typedef struct tensors {
  uint8_t weight[1 + (K + 4) * (N + 4)], zeros[1 + 4 * MAX_GROUPS * (N + 4)], scales[1 + 4 * MAX_GROUPS * N];
  yk_weight_view view;
} tensors;

static void put_float(yk_dtype dtype, uint8_t *elements, int64_t i, float value)
{
  uint32_t element = 0;
  size_t n_bytes = yk_dtype_bytes(dtype);
  yk_dtype_store(dtype, &element, 0, value);
  memcpy(elements + (size_t)i * n_bytes, &element, n_bytes);
}

static void pack_gptq(const numbers *x, bool less_one, tensors *t)
{
  t->view.zeros_less_one = less_one;
  for (int64_t n = 0; n < x->n; n++) {
    for (int64_t k = 0; k < x->k; k++) t->weight[1 + 4 * (k / 4 * x->n + n) + k % 4] = (uint8_t)(x->q[k][n] + 128);
    for (int64_t g = 0; g < x->k / x->group; g++) {
      assert_true(!less_one || x->zero[g][n] > -128);
      t->zeros[1 + g * x->n + n] = (uint8_t)(x->zero[g][n] + 128 - (less_one ? 1 : 0));
      put_float(t->view.dtype, t->scales + 1, g * x->n + n, x->scale[g][n]);
    }
  }
}

static void pack_compressed(const numbers *x, tensors *t)
{
  int64_t groups = x->k / x->group, words = yk_ceil_div_i64(x->k, 4);
  for (int64_t n = 0; n < x->n; n++) {
    for (int64_t k = 0; k < x->k; k++) t->weight[1 + n * words * 4 + k] = (uint8_t)(x->q[k][n] + 128);
    for (int64_t g = 0; g < groups; g++) {
      t->zeros[1 + (n / 4 * groups + g) * 4 + n % 4] = (uint8_t)(x->zero[g][n] + 128);
      put_float(t->view.dtype, t->scales + 1, n * groups + g, x->scale[g][n]);
    }
  }
}

static void pack_rows(const numbers *x, tensors *t)
{
  int64_t groups = yk_ceil_div_i64(x->k, x->group);
  for (int64_t n = 0; n < x->n; n++) {
    for (int64_t k = 0; k < x->k; k++) t->weight[1 + n * x->k + k] = (uint8_t)x->q[k][n];
    for (int64_t g = 0; g < groups; g++) {
      put_float(t->view.dtype, t->zeros + 1, n * groups + g, (float)x->zero[g][n]);
      put_float(t->view.dtype, t->scales + 1, n * groups + g, x->scale[g][n]);
    }
  }
}

typedef enum packer { GPTQ_V1, GPTQ_V2, COMPRESSED, ROWS, N_PACKERS } packer;

/* The view points into *t, which must not move. */
static void pack(const numbers *x, packer how, yk_dtype dtype, bool has_zeros, tensors *t)
{
  *t = (tensors){.view = {.format = YK_WEIGHT_INT8,
                          .k = x->k,
                          .n = x->n,
                          .group = x->group,
                          .dtype = dtype,
                          .has_zeros = has_zeros,
                          .tensor = "layer.weight"}};
  switch (how) {
  case GPTQ_V1:
  case GPTQ_V2:
    pack_gptq(x, how == GPTQ_V1, t);
    t->view.packing = YK_PACKING_GPTQ;
    break;
  case COMPRESSED:
    pack_compressed(x, t);
    t->view.packing = YK_PACKING_COMPRESSED;
    break;
  default: pack_rows(x, t); t->view.packing = YK_PACKING_ROWS;
  }
  t->view.qweight = t->weight + 1;
  t->view.qzeros = has_zeros ? t->zeros + 1 : NULL;
  t->view.scales = t->scales + 1;
}

/* In the form of parts: shard.h. */
static int64_t local_group(const numbers *x, const yk_weight_slice *slice)
{
  int64_t offset = slice->k_begin % x->group, n_k = slice->k_end - slice->k_begin;
  if (offset + n_k <= x->group) return n_k;
  int64_t a = x->group, b = offset;
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void *repack(const tensors *t, const numbers *x, const yk_weight_slice *slice, yk_weight_view *out)
{
  int64_t group = local_group(x, slice);
  size_t n_bytes = yk_int8_repacked_bytes(&t->view, slice, NULL, group);
  char *buffer = aligned_alloc(64, (size_t)yk_round_up_i64((int64_t)n_bytes + 64, 64));
  yk_err err = YK_ERR_INIT;
  assert_non_null(buffer);
  memset(buffer + n_bytes, 0xEE, 64);
  expect_ok("repack", yk_int8_repack(&t->view, slice, NULL, group, NULL, buffer, out, &err), &err);
  for (int i = 0; i < 64; i++) assert_int_equal((uint8_t)buffer[n_bytes + (size_t)i], 0xEE);
  return buffer;
}

static void check_slice(const numbers *x, const tensors *t, const yk_weight_slice *slice)
{
  enum { STRIDE = K + 3 };
  static float floats[N * STRIDE];
  yk_weight_view r;
  yk_err err = YK_ERR_INIT;
  void *buffer = repack(t, x, slice, &r);
  assert_int_equal(r.packing, YK_PACKING_ROWS);
  assert_int_equal(r.dtype, YK_F32);
  assert_true(r.k == slice->k_end - slice->k_begin && r.n == slice->n_end - slice->n_begin);
  assert_true((r.qzeros != NULL) == t->view.has_zeros);
  expect_ok("dequantise", yk_dequantise(&t->view, slice, floats, STRIDE, &err), &err);
  int64_t n_groups = yk_ceil_div_i64(r.k, r.group);
  const int8_t *q = r.qweight;
  const float *scales = r.scales, *zeros = r.qzeros;
  for (int64_t n = 0; n < r.n; n++)
    for (int64_t k = 0; k < r.k; k++) {
      int64_t group = (slice->k_begin + k) / x->group, column = slice->n_begin + n, at = n * n_groups + k / r.group;
      float zero = t->view.has_zeros ? (float)x->zero[group][column] : 0.0f;
      float w = x->scale[group][column] * ((float)x->q[slice->k_begin + k][column] - zero);
      if (q[n * r.k + k] != x->q[slice->k_begin + k][column] || scales[at] != x->scale[group][column] ||
          (zeros && zeros[at] != zero) || floats[n * STRIDE + k] != w)
        fail_msg("packing %d, k %d, n %d: expected %d, zero %g, scale %g, found %d, %g, %g; as a float %g",
                 (int)t->view.packing, (int)(slice->k_begin + k), (int)column, x->q[slice->k_begin + k][column],
                 (double)zero, (double)x->scale[group][column], q[n * r.k + k], zeros ? (double)zeros[at] : 0,
                 (double)scales[at], (double)floats[n * STRIDE + k]);
    }
  free(buffer);
}

static void check_slices(const numbers *x, const tensors *t)
{
  static const int64_t k_cuts[] = {0, 8, 20, 64, 65, 130, 160, 256, 317, K}, n_cuts[] = {0, 1, 16, 37, 129, N};
  for (size_t i = 0; each_case(i, i < sizeof k_cuts / sizeof *k_cuts); i++)
    for (size_t j = i + 1; each_case(j, j < sizeof k_cuts / sizeof *k_cuts && k_cuts[j] <= x->k); j++)
      for (size_t a = 0; each_case(a, a < sizeof n_cuts / sizeof *n_cuts); a++)
        for (size_t b = a + 1; each_case(b, b < sizeof n_cuts / sizeof *n_cuts && n_cuts[b] <= x->n); b++) {
          if ((i + j + a + b) % 3) continue; /* a third of them still cuts at every position */
          const yk_weight_slice slice = {k_cuts[i], k_cuts[j], n_cuts[a], n_cuts[b]};
          check_slice(x, t, &slice);
        }
}

static numbers x;
static tensors t;

static void every_packing_and_slice(void **state)
{
  (void)state;
  static const int64_t groups[] = {16, 64, K};
  static const yk_dtype dtypes[] = {YK_F16, YK_F32, YK_BF16};
  for (packer how = 0; how < N_PACKERS; how++)
    for (int i = 0; i < 3; i++) {
      draw(K, N, groups[i], &x);
      if (dtypes[i] == YK_BF16)
        for (int64_t n = 0; n < N; n++) x.scale[0][n] = 0.25f;
      for (int64_t g = 0; g < K / groups[i] && how == GPTQ_V1; g++) /* which has no zero of 0, but one of 256 */
        for (int64_t n = 0; n < N; n++) x.zero[g][n]++;
      pack(&x, how, dtypes[i], true, &t);
      check_slices(&x, &t);
    }
}

/* Inputs at any position, any groups, and some of the outputs; and the weight according to g_idx. */
static void check_order(bool sorts_inputs, bool sorts_outputs, int64_t group)
{
  enum { PLACES = 256, TAKEN_N = 100, STRIDE = K + 3 };
  static float floats[N * STRIDE];
  int32_t inputs[PLACES], groups[PLACES], outputs[TAKEN_N], group_of[K];
  for (int i = 0; i < PLACES; i++) {
    inputs[i] = i % 5 == 3 ? -1 : (int32_t)((i * 37 + 5) % (K - 20) + 10);
    groups[i] = (int32_t)((i * 7) % (K / x.group));
  }
  for (int i = 0; i < TAKEN_N; i++) outputs[i] = (int32_t)((i * 11 + 3) % N);
  const yk_slice_order order = {.inputs = sorts_inputs ? inputs : NULL,
                                .groups = groups,
                                .group = group,
                                .outputs = sorts_outputs ? outputs : NULL};
  yk_weight_slice slice = {0, PLACES, 0, TAKEN_N}, all = {0, K, 0, N};
  if (!sorts_inputs) slice.k_end = K;
  size_t n_bytes = yk_int8_repacked_bytes(&t.view, &slice, &order, group);
  char *buffer = aligned_alloc(64, (size_t)yk_round_up_i64((int64_t)n_bytes + 64, 64));
  assert_non_null(buffer);
  memset(buffer + n_bytes, 0xEE, 64);
  yk_weight_view r;
  yk_err err = YK_ERR_INIT;
  expect_ok("repack", yk_int8_repack(&t.view, &slice, &order, group, NULL, buffer, &r, &err), &err);
  for (int i = 0; i < 64; i++) assert_int_equal((uint8_t)buffer[n_bytes + (size_t)i], 0xEE);
  const int8_t *q = r.qweight;
  const float *scales = r.scales, *zeros = r.qzeros;
  for (int64_t n = 0; n < r.n; n++)
    for (int64_t k = 0; k < r.k; k++) {
      int64_t input = sorts_inputs ? inputs[k] : k, output = sorts_outputs ? outputs[n] : n;
      int64_t from = sorts_inputs ? groups[k / group] : k / x.group, at = n * (r.k / group) + k / group;
      assert_int_equal(q[n * r.k + k], input < 0 ? 0 : x.q[input][output]);
      assert_float_equal(scales[at], x.scale[from][output], 0);
      assert_float_equal(zeros[at], (float)x.zero[from][output], 0);
    }
  free(buffer);
  if (!sorts_inputs) return;
  for (int64_t k = 0; k < K; k++) group_of[k] = (int32_t)((k * 7 + k / 16) % (K / x.group));
  t.view.act_order = true;
  t.view.g_idx = group_of;
  expect_ok("floats", yk_dequantise(&t.view, &all, floats, STRIDE, &err), &err);
  for (int64_t k = 0; k < K; k++)
    for (int64_t n = 0; n < N; n++) {
      float w = x.scale[group_of[k]][n] * ((float)x.q[k][n] - (float)x.zero[group_of[k]][n]);
      assert_float_equal(floats[n * STRIDE + k], w, 0);
    }
}

static void every_packing_and_order(void **state)
{
  (void)state;
  for (packer how = 0; how < N_PACKERS; how++) {
    draw(K, N, 32, &x);
    for (int64_t g = 0; g < K / 32; g++)
      for (int64_t n = 0; n < N; n++)
        if (x.zero[g][n] == -128) x.zero[g][n] = 5;
    pack(&x, how, YK_F16, true, &t);
    check_order(true, false, 16);
    check_order(true, true, 32);
    check_order(false, true, 32);
  }
}

static void without_zeros_each_is_0(void **state)
{
  (void)state;
  draw(K, N, 32, &x);
  pack(&x, COMPRESSED, YK_F16, false, &t);
  check_slices(&x, &t);
  pack(&x, ROWS, YK_F16, false, &t);
  check_slices(&x, &t);
}

static void odd_sizes(void **state)
{
  (void)state;
  draw(317, 37, 317, &x);
  pack(&x, COMPRESSED, YK_F16, true, &t);
  check_slices(&x, &t);
  draw(317, 37, 48, &x); /* the last group is short */
  pack(&x, ROWS, YK_F16, true, &t);
  check_slices(&x, &t);
}

static void scales_that_are_not_finite_are_refused(void **state)
{
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  static float floats[N * K];
  const yk_weight_slice all = {0, K, 0, N}, others = {0, K, 22, N};
  char buffer[2 * N * K];
  yk_weight_view out;
  yk_err err = YK_ERR_INIT;
  for (packer how = 0; how < N_PACKERS; how++)
    for (int i = 0; i < 3; i++) {
      draw(K, N, 64, &x);
      x.scale[3][21] = bad[i];
      memset(x.zero, 0, sizeof x.zero);
      pack(&x, how, YK_F16, how != ROWS, &t);
      const char *words = "layer.weight|scale of group 3, output 21|finite";
      expect_error("repack", YK_E_FORMAT, words, yk_int8_repack(&t.view, &all, NULL, 64, NULL, buffer, &out, &err),
                   &err);
      expect_error("floats", YK_E_FORMAT, words, yk_dequantise(&t.view, &all, floats, K, &err), &err);
      expect_ok("others", yk_int8_repack(&t.view, &others, NULL, 64, NULL, buffer, &out, &err), &err);
    }
  draw(K, N, 64, &x);
  pack(&x, ROWS, YK_F16, true, &t);
  put_float(YK_F16, t.zeros + 1, 21 * (K / 64) + 3, NAN);
  expect_error("zero", YK_E_FORMAT, "layer.weight|zero point of group 3, output 21|finite",
               yk_int8_repack(&t.view, &all, NULL, 64, NULL, buffer, &out, &err), &err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_packing_and_slice),
                                     cmocka_unit_test(every_packing_and_order),
                                     cmocka_unit_test(without_zeros_each_is_0), cmocka_unit_test(odd_sizes),
                                     cmocka_unit_test(scales_that_are_not_finite_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
