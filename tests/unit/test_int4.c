/* 4-bit packings: every slice of a weight, repacked, equals the input of packers that are written from each format's
 * definition, one nibble at a time; values that cannot be kept exactly are refused. */
#include <math.h>

#include "op/awq_values.h"
#include "unit/loader_fixture.h"

#include "base/checked.h"
#include "each_case.h"
#include "loader/integers/dequantise.h"
#include "loader/integers/int4.h"

enum { K = 192, N = 40, GROUP = 32, MAX_GROUPS = K / 16, PADDED_GROUPS = 32 };

/* The file's numbers; a weight is scale * (q - zero). */
typedef struct numbers {
  int64_t k, n, group;
  uint8_t q[K][N];
  uint8_t zero[MAX_GROUPS][N]; /* 0 .. 16 */
  float scale[MAX_GROUPS][N];  /* float16 numbers */
} numbers;

static numbers draw(int64_t k, int64_t n, int64_t group)
{
  static uint32_t state = 1;
  numbers x = {.k = k, .n = n, .group = group};
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < n; j++) x.q[i][j] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 28);
  for (int64_t i = 0; i < k / group; i++)
    for (int64_t j = 0; j < n; j++) {
      x.zero[i][j] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 28);
      x.scale[i][j] = (float)(1 + ((state >> 8) & 1023)) / 1024.0f;
    }
  return x;
}

/* Tensors in their position in a file: one byte after alignment. */
typedef struct tensors {
  uint8_t weight[1 + K * N], zeros[1 + 4 * PADDED_GROUPS * N], scales[1 + 2 * PADDED_GROUPS * N];
  yk_weight_view view;
} tensors;

static void put_nibble(uint8_t *bytes, int64_t nibble, unsigned value)
{
  bytes[nibble / 2] |= (uint8_t)(value << 4 * (nibble % 2));
}

static void put_half(uint8_t *halves, int64_t i, float value)
{
  uint16_t half = yk_f32_to_f16(value);
  memcpy(halves + 2 * i, &half, 2);
}

static tensors begin(const numbers *x, yk_packing packing)
{
  tensors t = {.view = {.format = YK_WEIGHT_AWQ,
                        .k = x->k,
                        .n = x->n,
                        .group = x->group,
                        .dtype = YK_F16,
                        .packing = packing,
                        .tensor = "layer.weight"}};
  return t;
}

/* Eight columns to a word, in AutoAWQ's order. */
static void pack_gemm(const numbers *x, tensors *t)
{
  static const int column_of[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  for (int64_t c = 0; c < x->n; c += 8)
    for (int i = 0; i < 8; i++) {
      for (int64_t k = 0; k < x->k; k++) put_nibble(t->weight + 1, k * x->n + c + i, x->q[k][c + column_of[i]]);
      for (int64_t g = 0; g < x->k / x->group; g++)
        put_nibble(t->zeros + 1, g * x->n + c + i, x->zero[g][c + column_of[i]]);
    }
}

static void put_scales_by_group(const numbers *x, tensors *t)
{
  for (int64_t g = 0; g < x->k / x->group; g++)
    for (int64_t n = 0; n < x->n; n++) put_half(t->scales + 1, g * x->n + n, x->scale[g][n]);
}

static void pack_gptq(const numbers *x, tensors *t)
{
  t->view.zeros_less_one = true;
  for (int64_t n = 0; n < x->n; n++) {
    for (int64_t k = 0; k < x->k; k++) put_nibble(t->weight + 1, (k / 8 * x->n + n) * 8 + k % 8, x->q[k][n]);
    for (int64_t g = 0; g < x->k / x->group; g++) put_nibble(t->zeros + 1, g * x->n + n, x->zero[g][n] - 1u);
  }
}

static void pack_compressed(const numbers *x, tensors *t)
{
  int64_t groups = x->k / x->group, words = yk_ceil_div_i64(x->k, 8);
  for (int64_t n = 0; n < x->n; n++) {
    for (int64_t k = 0; k < x->k; k++) put_nibble(t->weight + 1, n * words * 8 + k, x->q[k][n]);
    for (int64_t g = 0; g < groups; g++) {
      put_nibble(t->zeros + 1, (n / 8 * groups + g) * 8 + n % 8, x->zero[g][n]);
      put_half(t->scales + 1, n * groups + g, x->scale[g][n]);
    }
  }
}

static void pack_bytes(const numbers *x, tensors *t)
{
  for (int64_t n = 0; n < x->n; n++) {
    for (int64_t k = 0; k < x->k; k++) t->weight[1 + n * x->k + k] = (uint8_t)(x->q[k][n] - 8);
    for (int64_t g = 0; g < x->k / x->group; g++) put_half(t->scales + 1, n * (x->k / x->group) + g, x->scale[g][n]);
  }
}

/* Words of zeros are padded to 4 for groups of 32. */
static void pack_gemv(const numbers *x, tensors *t)
{
  int64_t padded = 8 * yk_round_up_i64(yk_ceil_div_i64(x->k / x->group, 8), 4);
  for (int64_t n = 0; n < x->n; n++) {
    for (int64_t k = 0; k < x->k; k++) put_nibble(t->weight + 1, n * x->k + k, x->q[k][n]);
    for (int64_t g = 0; g < x->k / x->group; g++) {
      put_nibble(t->zeros + 1, n * padded + g, x->zero[g][n]);
      put_half(t->scales + 1, n * padded + g, x->scale[g][n]);
    }
  }
}

/* pack_intweight(interleave 4, kstride 64) of AutoAWQ, step by step on one 4 x 64 tile. */
static void pack_gemv_fast(const numbers *x, tensors *t)
{
  for (int64_t n0 = 0; n0 < x->n; n0 += 4)
    for (int64_t k0 = 0; k0 < x->k; k0 += 64) {
      uint8_t tile[256];
      for (int row = 0; row < 4; row++)
        for (int k1 = 0; k1 < 64; k1 += 32) {
          uint8_t pairs[32];
          for (int a = 0; a < 4; a++)
            for (int b = 0; b < 4; b++)
              for (int c = 0; c < 2; c++) pairs[b * 8 + a * 2 + c] = x->q[k0 + k1 + a * 8 + b * 2 + c][n0 + row];
          for (int e = 0; e < 32; e += 8)
            for (int a = 0; a < 4; a++)
              for (int c = 0; c < 2; c++) tile[row * 64 + k1 + e + c * 4 + a] = pairs[e + a * 2 + c];
        }
      int64_t first = (n0 / 4 * (x->k / 64) + k0 / 64) * 256; /* nibbles */
      for (int i = 0; i < 256; i++) put_nibble(t->weight + 1, first + i, tile[i]);
    }
  put_scales_by_group(x, t);
  for (int64_t g = 0; g < x->k / x->group; g++)
    for (int64_t n = 0; n < x->n; n++) put_half(t->zeros + 1, g * x->n + n, -x->scale[g][n] * (float)x->zero[g][n]);
}

static tensors pack(const numbers *x, yk_packing packing)
{
  tensors t = begin(x, packing);
  switch (packing) {
  case YK_PACKING_AWQ_GEMM: pack_gemm(x, &t); break;
  case YK_PACKING_GPTQ: pack_gptq(x, &t); break;
  case YK_PACKING_COMPRESSED: pack_compressed(x, &t); break;
  case YK_PACKING_BYTES: pack_bytes(x, &t); break;
  case YK_PACKING_AWQ_GEMV: pack_gemv(x, &t); break;
  default: pack_gemv_fast(x, &t); break;
  }
  if (packing == YK_PACKING_AWQ_GEMM || packing == YK_PACKING_GPTQ) put_scales_by_group(x, &t);
  return t;
}

/* The views point into t, which must not move. */
static void point(tensors *t, bool has_zeros)
{
  t->view.qweight = t->weight + 1;
  t->view.qzeros = has_zeros ? t->zeros + 1 : NULL;
  t->view.scales = t->scales + 1;
}

static yk_status repack(const tensors *t, const yk_weight_slice *slice, void **buffer, yk_int4_repacked *out,
                        yk_err *err)
{
  size_t n_bytes = (size_t)yk_round_up_i64((int64_t)yk_int4_repacked_bytes(&t->view, slice, NULL), 64);
  *buffer = aligned_alloc(64, n_bytes);
  assert_non_null(*buffer);
  memset(*buffer, 0xEE, n_bytes);
  return yk_int4_repack(&t->view, slice, NULL, NULL, *buffer, out, err);
}

static void check_slice(const numbers *x, const tensors *t, const yk_weight_slice *slice, bool has_zeros)
{
  void *buffer;
  yk_int4_repacked r;
  yk_err err = YK_ERR_INIT;
  expect_ok("repack", repack(t, slice, &buffer, &r, &err), &err);
  assert_int_equal(r.weight.packing, YK_PACKING_AWQ_GEMM);
  assert_int_equal(r.weight.n % 8, 0);
  assert_int_equal(r.weight.k % r.weight.group, 0);
  for (int64_t k = slice->k_begin; k < slice->k_end; k++)
    for (int64_t n = slice->n_begin; n < slice->n_end; n++) {
      int64_t local_k = k - r.first_k, local_n = n - r.first_n, local_group = local_k / r.weight.group;
      int zero = has_zeros ? x->zero[k / x->group][n] : 8;
      int q = awq_value(r.weight.qweight, r.weight.n, local_k, local_n);
      int found_zero = awq_value(r.weight.qzeros, r.weight.n, local_group, local_n);
      uint16_t scale;
      memcpy(&scale, (const char *)r.weight.scales + 2 * (local_group * r.weight.n + local_n), 2);
      if (q - found_zero != x->q[k][n] - zero)
        fail_msg("packing %d, k %d, n %d: expected %d - %d, found %d - %d", (int)t->view.packing, (int)k, (int)n,
                 x->q[k][n], zero, q, found_zero);
      assert_float_equal(yk_f16_to_f32(scale), x->scale[k / x->group][n], 0);
    }
  free(buffer);
}

static void check_all_slices(const numbers *x, const tensors *t, bool has_zeros)
{
  static const int64_t k_cuts[] = {0, 8, 16, 20, 40, 64, 72, 100, 128, 160, 192};
  static const int64_t n_cuts[] = {0, 1, 8, 13, 16, 29, 32, 37, 40};
  for (size_t i = 0; each_case(i, i < sizeof k_cuts / sizeof *k_cuts); i++)
    for (size_t j = i + 1; each_case(j, j < sizeof k_cuts / sizeof *k_cuts && k_cuts[j] <= x->k); j++)
      for (size_t a = 0; each_case(a, a < sizeof n_cuts / sizeof *n_cuts); a++)
        for (size_t b = a + 1; each_case(b, b < sizeof n_cuts / sizeof *n_cuts && n_cuts[b] <= x->n); b++) {
          const yk_weight_slice slice = {k_cuts[i], k_cuts[j], n_cuts[a], n_cuts[b]};
          check_slice(x, t, &slice, has_zeros);
        }
}

/* Inputs at any position, any groups, and some of the outputs. A weight then follows from g_idx. */
static void check_order(const numbers *x, tensors *t, bool sorts_inputs, bool sorts_outputs, int64_t group)
{
  enum { PLACES = 128 };
  int32_t inputs[PLACES], groups[PLACES], outputs[N];
  char g_idx[1 + 4 * K];
  static uint32_t state = 7;
  for (int i = 0; i < PLACES; i++) {
    inputs[i] = (int32_t)((i * 37 + 5) % x->k);
    if ((state = state * 1664525u + 1013904223u) >> 30 == 0) inputs[i] = -1;
    groups[i] = (int32_t)((state >> 10) % (uint32_t)(x->k / x->group));
  }
  for (int i = 0; i < N; i++) outputs[i] = (int32_t)((i * 11 + 3) % x->n);
  const yk_slice_order order = {.inputs = sorts_inputs ? inputs : NULL,
                                .groups = groups,
                                .group = group,
                                .outputs = sorts_outputs ? outputs : NULL};
  const yk_weight_slice slice = {0, sorts_inputs ? PLACES : x->k, 0, 29};
  size_t n_bytes = (size_t)yk_round_up_i64((int64_t)yk_int4_repacked_bytes(&t->view, &slice, &order), 64);
  char *buffer = aligned_alloc(64, n_bytes + 64);
  assert_non_null(buffer);
  memset(buffer, 0xEE, n_bytes + 64);
  yk_int4_repacked r;
  yk_err err = YK_ERR_INIT;
  expect_ok("repack", yk_int4_repack(&t->view, &slice, &order, NULL, buffer, &r, &err), &err);
  assert_true(r.first_k == 0 && r.first_n == 0 && !r.weight.act_order && !r.weight.g_idx);
  for (int64_t k = 0; k < slice.k_end; k++)
    for (int64_t n = 0; n < slice.n_end; n++) {
      int64_t input = sorts_inputs ? inputs[k] : k, output = sorts_outputs ? outputs[n] : n;
      int64_t from = sorts_inputs ? groups[k / group] : k / x->group, local = k / r.weight.group;
      int q = awq_value(r.weight.qweight, r.weight.n, k, n), zero = awq_value(r.weight.qzeros, r.weight.n, local, n);
      uint16_t scale;
      memcpy(&scale, (const char *)r.weight.scales + 2 * (local * r.weight.n + n), 2);
      assert_float_equal(yk_f16_to_f32(scale), x->scale[from][output], 0);
      if (input >= 0) assert_int_equal(q - zero, x->q[input][output] - x->zero[from][output]);
    }
  for (size_t i = n_bytes; i < n_bytes + 64; i++) assert_int_equal((uint8_t)buffer[i], 0xEE);
  free(buffer);

  enum { STRIDE = K + 1 };
  static float floats[N * STRIDE];
  const yk_weight_slice inner = {20, 150, 3, 37};
  int32_t group_of[K];
  for (int64_t k = 0; k < x->k; k++) group_of[k] = (int32_t)((k * 7 + k / 16) % (x->k / x->group));
  memcpy(g_idx + 1, group_of, sizeof group_of);
  t->view.act_order = sorts_inputs;
  t->view.g_idx = sorts_inputs ? g_idx + 1 : NULL;
  expect_ok("floats", yk_dequantise(&t->view, &inner, floats, STRIDE, &err), &err);
  for (int64_t k = inner.k_begin; k < inner.k_end; k++)
    for (int64_t n = inner.n_begin; n < inner.n_end; n++) {
      int64_t from = sorts_inputs ? group_of[k] : k / x->group;
      float w = x->scale[from][n] * (float)(x->q[k][n] - x->zero[from][n]);
      assert_float_equal(floats[(n - inner.n_begin) * STRIDE + k - inner.k_begin], w, 0);
    }
  t->view.act_order = false;
  t->view.g_idx = NULL;
}

static void every_packing_and_order(void **state)
{
  (void)state;
  for (yk_packing packing = 0; packing < YK_PACKING_ROWS; packing++) {
    numbers x = draw(K, N, GROUP);
    for (int64_t g = 0; g < K / GROUP; g++)
      for (int64_t n = 0; n < N; n++)
        if (packing == YK_PACKING_GPTQ && x.zero[g][n] == 0) x.zero[g][n] = 16;
    for (int64_t k = 0; k < K && packing == YK_PACKING_GPTQ; k++)
      for (int64_t n = 0; n < N; n++)
        if (x.q[k][n] == 0) x.q[k][n] = 1;
    tensors t = pack(&x, packing);
    point(&t, true);
    check_order(&x, &t, true, false, 16);
    check_order(&x, &t, true, true, 32);
    check_order(&x, &t, false, true, GROUP);
  }
}

static void every_packing_and_slice(void **state)
{
  (void)state;
  static const int64_t groups[] = {GROUP, 64, K};
  for (yk_packing packing = 0; packing < YK_PACKING_ROWS; packing++)
    for (int i = 0; i < 3; i++) {
      if (packing == YK_PACKING_AWQ_GEMV && groups[i] != GROUP) continue; /* padding is drawn for 32 */
      numbers x = draw(K, N, groups[i]);
      for (int64_t g = 0; g < K / groups[i]; g++) /* version 1 has no zero of 0 */
        for (int64_t n = 0; n < N; n++)
          if (packing == YK_PACKING_GPTQ && x.zero[g][n] == 0) x.zero[g][n] = 1;
      tensors t = pack(&x, packing);
      point(&t, true);
      check_all_slices(&x, &t, true);
    }
}

static void without_zeros_each_is_8(void **state)
{
  (void)state;
  static const yk_packing packings[] = {YK_PACKING_AWQ_GEMM, YK_PACKING_AWQ_GEMV, YK_PACKING_COMPRESSED,
                                        YK_PACKING_BYTES};
  for (size_t i = 0; i < sizeof packings / sizeof *packings; i++) {
    const numbers x = draw(K, N, GROUP);
    tensors t = pack(&x, packings[i]);
    point(&t, false);
    assert_false(yk_int4_is_ready(&t.view));
    check_all_slices(&x, &t, false);
  }
}

static void odd_sizes_of_compressed_tensors(void **state)
{
  (void)state;
  const numbers x = draw(100, 37, 100);
  tensors t = pack(&x, YK_PACKING_COMPRESSED);
  point(&t, true);
  check_all_slices(&x, &t, true);
  t = pack(&x, YK_PACKING_BYTES);
  point(&t, false);
  check_all_slices(&x, &t, false);
}

/* Outputs and inputs outside a slice are not checked. */
static void bytes_of_more_than_4_bits_are_refused(void **state)
{
  (void)state;
  static const uint8_t bad[] = {8, 0xF7 /* -9 */, 127, 0x80};
  static const char *const found[] = {"found 8", "found -9", "found 127", "found -128"};
  const yk_weight_slice all = {0, K, 0, N}, other_inputs = {0, 64, 0, N}, other_outputs = {0, K, 8, N};
  const numbers x = draw(K, N, GROUP);
  for (int i = 0; each_case(i, i < 4); i++) {
    static float floats[N * K];
    void *buffer;
    yk_int4_repacked r;
    yk_err err = YK_ERR_INIT;
    tensors t = pack(&x, YK_PACKING_BYTES);
    point(&t, false);
    t.weight[1 + 5 * K + 70] = bad[i];
    expect_error("repack", YK_E_FORMAT, "row 5, column 70: expected an integer of 4 bits, -8 to 7",
                 repack(&t, &all, &buffer, &r, &err), &err);
    free(buffer);
    expect_error("floats", YK_E_FORMAT, found[i], yk_dequantise(&t.view, &all, floats, K, &err), &err);
    expect_ok("other inputs", repack(&t, &other_inputs, &buffer, &r, &err), &err);
    free(buffer);
    expect_ok("other outputs", repack(&t, &other_outputs, &buffer, &r, &err), &err);
    free(buffer);
  }
}

static void a_zero_of_16(void **state)
{
  (void)state;
  const yk_weight_slice all = {0, K, 0, N}, second_group = {GROUP, K, 0, N};
  numbers x = draw(K, N, GROUP);
  for (int64_t g = 0; g < K / GROUP; g++)
    for (int64_t n = 0; n < N; n++)
      if (x.zero[g][n] == 0) x.zero[g][n] = 16;
  x.zero[0][7] = 16;
  for (int64_t k = 0; k < K; k++)
    for (int64_t n = 0; n < N; n++)
      if (x.zero[k / GROUP][n] == 16 && x.q[k][n] == 0) x.q[k][n] = 1;
  tensors t = pack(&x, YK_PACKING_GPTQ);
  point(&t, true);
  check_all_slices(&x, &t, true);

  x.q[5][7] = 0;
  t = pack(&x, YK_PACKING_GPTQ);
  point(&t, true);
  void *buffer;
  yk_int4_repacked r;
  yk_err err = YK_ERR_INIT;
  expect_error("16 beside 0", YK_E_UNSUPPORTED, "layer.weight|group 0, output 7|zero point 16|input 5",
               repack(&t, &all, &buffer, &r, &err), &err);
  free(buffer);
  check_slice(&x, &t, &second_group, true);
}

static void scales_that_are_not_finite_are_refused(void **state)
{
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  const yk_weight_slice all = {0, K, 0, N}, others = {0, K, 0, 16};
  const numbers x = draw(K, N, GROUP);
  yk_err err = YK_ERR_INIT;
  for (yk_packing packing = 0; packing < YK_PACKING_ROWS; packing++)
    for (int i = 0; i < 3; i++) {
      numbers broken = x;
      broken.scale[3][21] = bad[i];
      for (int64_t g = 0; g < K / GROUP; g++)
        for (int64_t n = 0; n < N; n++) broken.zero[g][n] = 8;
      tensors t = pack(&broken, packing);
      point(&t, true);
      void *buffer;
      yk_int4_repacked r;
      expect_error("repack", YK_E_FORMAT, "layer.weight|scale of group 3, output 21|finite",
                   repack(&t, &all, &buffer, &r, &err), &err);
      free(buffer);
      expect_error("check", YK_E_FORMAT, "layer.weight|scale of group 3, output 21|finite",
                   yk_int4_check_scales(&t.view, &all, NULL, &err), &err);
      expect_ok("other outputs", yk_int4_check_scales(&t.view, &others, NULL, &err), &err);
    }
}

static void scaled_zeros_must_be_whole(void **state)
{
  (void)state;
  const yk_weight_slice all = {0, K, 0, N};
  static const float bad[] = {NAN, 1.0f, -100.0f, -0.3f};
  numbers x = draw(K, N, GROUP);
  x.scale[1][2] = 0.5f;
  x.scale[2][3] = 0.0f; /* for any zero: the weight is 0 */
  for (int i = 0; i < 5; i++) {
    tensors t = pack(&x, YK_PACKING_AWQ_GEMV_FAST);
    point(&t, true);
    void *buffer;
    yk_int4_repacked r;
    yk_err err = YK_ERR_INIT;
    if (i < 4) put_half(t.zeros + 1, 1 * N + 2, bad[i]);
    yk_status status = repack(&t, &all, &buffer, &r, &err);
    if (i < 4)
      expect_error("zero", YK_E_FORMAT, "layer.weight|zero point of group 1, output 2|whole number", status, &err);
    else
      expect_ok("zero", status, &err);
    free(buffer);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_packing_and_slice),
                                     cmocka_unit_test(every_packing_and_order),
                                     cmocka_unit_test(without_zeros_each_is_8),
                                     cmocka_unit_test(odd_sizes_of_compressed_tensors),
                                     cmocka_unit_test(bytes_of_more_than_4_bits_are_refused),
                                     cmocka_unit_test(a_zero_of_16),
                                     cmocka_unit_test(scales_that_are_not_finite_are_refused),
                                     cmocka_unit_test(scaled_zeros_must_be_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
