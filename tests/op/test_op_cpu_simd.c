/* test_op_cpu_simd.c - the conversions and functions of each instruction set, against scalar conversions and libm. */
#include "each_case.h"
#include "golden/activation_goldens.h"
#include "op/op_cpu_target.h"
#include "op/op_reference.h"

static void check_halves_to_f32(const op_target *target)
{
  const yk_cpu_simd *simd = target->variant;
  enum { N = 1 << 16 };
  uint16_t *halves = calloc(N, sizeof *halves);
  float *floats = calloc(N, sizeof *floats);
  for (int i = 0; i < N; i++) halves[i] = (uint16_t)i;
  for (int d = 0; d < 2; d++) {
    simd->to_f32(floats, op_dtypes[d], halves, N);
    for (size_t i = 0; i < N; i++) {
      float expected = yk_dtype_load(op_dtypes[d], halves, i);
      if (expected != expected)
        assert_true(floats[i] != floats[i]);
      else
        assert_int_equal(yk_f32_bits(floats[i]), yk_f32_bits(expected));
    }
  }
  free(halves);
  free(floats);
}

/* Random bit patterns, and the floats next to the tie between any two halves. */
static void check_f32_to_halves(const op_target *target)
{
  const yk_cpu_simd *simd = target->variant;
  enum { N = 1 << 18 };
  float *floats = calloc(N, sizeof *floats);
  uint16_t *halves = calloc(N, sizeof *halves);
  for (int d = 0; d < 2; d++) {
    for (size_t i = 0; i < N; i++) {
      uint32_t words[4] = {(uint32_t)i, 1, 2, 3};
      yk_philox(words, 7, 7);
      uint32_t bits = words[0];
      if (i % 4 && d == 0) bits = yk_f32_bits(yk_f16_to_f32((uint16_t)bits)) + 0x1000u + (uint32_t)(i % 4) - 2;
      if (i % 4 && d == 1) bits = (bits & 0xFFFF0000u) + 0x8000u + (uint32_t)(i % 4) - 2;
      floats[i] = yk_f32_from_bits(bits);
    }
    simd->from_f32(halves, op_dtypes[d], floats, N);
    for (size_t i = 0; i < N; i++) {
      uint16_t expected = op_dtypes[d] == YK_F16 ? yk_f32_to_f16(floats[i]) : yk_f32_to_bf16(floats[i]);
      if (floats[i] != floats[i]) {
        float back = yk_dtype_load(op_dtypes[d], halves, i);
        assert_true(back != back);
      } else if (halves[i] != expected) {
        fail_msg("%s %s: %a became 0x%04X, expected 0x%04X", simd->name, yk_dtype_name(op_dtypes[d]), (double)floats[i],
                 halves[i], expected);
      }
    }
  }
  free(floats);
  free(halves);
}

/* Every 8-bit float times scales that differ, in each column of a panel, also with groups that end inside vectors. */
static void check_float8(const op_target *target)
{
  enum { N_LINES = 2, K = N_LINES * YK_CPU_CHUNK_K, MIN_GROUP = 8 };
  static const int64_t groups[] = {128, 64, 32, 16, MIN_GROUP};
  static uint8_t bytes[N_LINES][YK_CPU_PANEL][YK_CPU_CHUNK_K];
  static float scales[K / MIN_GROUP][YK_CPU_PANEL], w[K][YK_CPU_STRIP], x[K], y[YK_CPU_PANEL];
  for (int k = 0; k < K; k++)
    for (int c = 0; c < YK_CPU_PANEL; c++) {
      bytes[k / YK_CPU_CHUNK_K][c][k % YK_CPU_CHUNK_K] = (uint8_t)(k + 16 * c);
      scales[k / MIN_GROUP][c] = ldexpf(1.0f + (float)(k / MIN_GROUP) / 64.0f, c - 4);
    }
  for (size_t g = 0; each_case(g, g < sizeof groups / sizeof *groups); g++) {
    const yk_cpu_byte_panel panel = {
        .bytes = bytes[0][0], .scales = scales[0], .n_lines = N_LINES, .n_groups = K / groups[g], .group = groups[g]};
    const yk_cpu_simd *simd = target->variant;
    for (int first = 0; first < YK_CPU_PANEL; first += YK_CPU_STRIP) {
      const float *unpacked = w[0];
      simd->fp8_unpack(w[0], &panel, first, 0, K);
      for (int k = 0; k < K; k++)
        for (int c = 0; c < YK_CPU_STRIP; c++) {
          uint8_t code = (uint8_t)(k + 16 * (first + c));
          if ((code & 0x7F) == 0x7F) continue; /* NaN: excluded here */
          int at = (k / YK_CPU_LANES * YK_CPU_STRIP + c) * YK_CPU_LANES + k % YK_CPU_LANES;
          float expected = scales[k / groups[g]][first + c] * (float)op_float8(code);
          assert_int_equal(yk_f32_bits(unpacked[at]), yk_f32_bits(expected));
          x[k] = 1.0f;
          bool is_done = simd->fp8_row(y, x, &panel);
          assert_int_equal(is_done, groups[g] >= YK_CPU_LANES);
          if (is_done) assert_true(y[first + c] == expected);
          x[k] = 0.0f;
        }
    }
  }
}

/* Units in the last place between a float and the exact value, which must be a normal number. */
static double ulps(float found, double exact)
{
  int exponent;
  frexp(exact, &exponent);
  return fabs((double)found - exact) / ldexp(1.0, exponent - 24);
}

static void check_exp(const op_target *target)
{
  const yk_cpu_simd *simd = target->variant;
  enum { N = 1 << 14 };
  float *x = calloc(N, sizeof *x), *y = calloc(N, sizeof *y);
  float maxima[2] = {1.25f, -INFINITY}; /* larger than all x, and smaller */
  for (int m = 0; m < 2; m++) {
    double exact_sum = 0.0;
    for (int i = 0; i < N; i++) x[i] = y[i] = (float)(85.0 * ((i * 5) % N) / N - 85.0);
    float largest = m == 0 ? maxima[0] : (float)(85.0 * (N - 1) / N - 85.0), sum = simd->softmax(y, N, &maxima[m]);
    assert_true(maxima[m] == largest);
    for (int i = 0; i < N; i++) {
      double exact = exp((double)(x[i] - largest));
      assert_true(ulps(y[i], exact) < 2.0);
      exact_sum += exact;
    }
    assert_true(fabs((double)sum - exact_sum) < 1e-5 * exact_sum);
  }
  for (int i = 0; i < N; i++) x[i] = (float)(-100.0 + 200.0 * i / N), y[i] = 3.0f;
  float *gate = calloc(N, sizeof *gate);
  memcpy(gate, x, N * sizeof *x);
  const yk_activation silu = YK_GATED_SILU;
  simd->activate(&silu, gate, y, N);
  for (int i = 0; i < N; i++) {
    double exact = (double)x[i] / (1.0 + exp(-(double)x[i])) * 3.0;
    assert_true(fabs((double)gate[i] - exact) < 6e-7 * fabs(exact) + 1e-35);
  }
  float special[16] = {NAN, -INFINITY, 0.0f, -200.0f};
  float zero = 0.0f, with_nan = simd->softmax(special, 16, &zero);
  assert_true(special[0] != special[0] && with_nan != with_nan); /* a NaN must not become a number */
  float few[16] = {-INFINITY, 0.0f, -200.0f}, none = -INFINITY;
  for (int i = 3; i < 16; i++) few[i] = -INFINITY;
  assert_true(simd->softmax(few, 16, &none) == 1.0f && none == 0.0f);
  assert_true(few[0] < 1e-37f && few[2] < 1e-37f && few[1] == 1.0f);
  float gates[16] = {NAN, -1000.0f, 0.0f, 1000.0f}, ones[16] = {1, 1, 1, 1};
  simd->activate(&silu, gates, ones, 16);
  assert_true(gates[0] != gates[0]);
  assert_true(fabsf(gates[1]) < 1e-34f && gates[2] == 0.0f && gates[3] == 1000.0f);
  free(x);
  free(y);
  free(gate);
}

/* Against torch and transformers; also checks the float64 reference of the operations' cases. */
static void check_activations(const op_target *target)
{
  const yk_cpu_simd *simd = target->variant;
  for (size_t i = 0; each_case(i, i < sizeof activation_goldens / sizeof *activation_goldens); i++) {
    const activation_golden *golden = &activation_goldens[i];
    const double size = fabs(golden->y);
    float gate[16], up[16];
    for (int j = 0; j < 16; j++) gate[j] = (float)golden->gate, up[j] = (float)golden->up;
    assert_true(fabs(op_activated(&golden->activation, golden->gate, golden->up) - golden->y) <= 1e-12 * size + 1e-14);
    simd->activate(&golden->activation, gate, up, 16);
    for (int j = 0; j < 16; j++) assert_true(fabs((double)gate[j] - golden->y) <= 3e-6 * size + 2e-7);
    if (golden->activation.kind == YK_ACTIVATION_CLAMPED_SWIGLU) continue;
    for (int j = 0; j < 16; j++) gate[j] = (float)golden->gate;
    simd->activate(&golden->activation, gate, NULL, 16);
    for (int j = 0; j < 16; j++) assert_true(fabs((double)gate[j] - golden->y / golden->up) <= 3e-6 * size + 2e-7);
  }
}

static void test_activations(void **state)
{
  (void)state;
  for_each_cpu_target(check_activations);
}

/* A NaN must not become a number, in any lane. */
static void check_nans(const op_target *target)
{
  const yk_cpu_simd *simd = target->variant;
  for (int kind = YK_ACTIVATION_SILU; each_case(kind, kind < YK_N_ACTIVATIONS); kind++) {
    const yk_activation activation = {(yk_activation_kind)kind, true, 1.7f, 7.0f};
    float gate[16], up[16];
    for (int j = 0; j < 16; j++) gate[j] = j % 3 ? 1.0f : NAN, up[j] = j % 3 == 1 ? NAN : 1.0f;
    simd->activate(&activation, gate, up, 16);
    for (int j = 0; j < 16; j++) assert_true(j % 3 == 2 ? isfinite(gate[j]) : isnan(gate[j]));
  }
}

static void test_nans(void **state)
{
  (void)state;
  for_each_cpu_target(check_nans);
}

/* 8-bit integers: the largest in magnitude, of one sign and of both, and random ones. */
static int8_t integer_at(int kind, uint32_t i)
{
  uint32_t words[4] = {i, (uint32_t)kind, 2, 3};
  if (kind == 0) return -128;
  if (kind == 1) return i % 2 ? -128 : 127;
  yk_philox(words, 9, 9);
  return (int8_t)(words[0] & 0xFF);
}

static int32_t integer_product(const int8_t *x, const int8_t *panel, int column, int64_t n_k)
{
  int32_t sum = 0;
  for (int64_t k = 0; k < n_k; k++)
    sum += x[k] * panel[k / YK_CPU_INT8_K * YK_CPU_INT8_K * YK_CPU_PANEL + column * YK_CPU_INT8_K + k % YK_CPU_INT8_K];
  return sum;
}

/* n_rows rows, with a stride larger than their length, times a panel. */
static void check_integers(const yk_cpu_simd *simd, int n_rows, int64_t n_k, int x_kind, int w_kind)
{
  int64_t x_stride = n_k + YK_CPU_INT8_K, y_stride = YK_CPU_PANEL + 3;
  int8_t *x = calloc((size_t)(n_rows * x_stride), 1), *w = calloc((size_t)n_k, YK_CPU_PANEL);
  int32_t *y = calloc((size_t)(n_rows * y_stride), sizeof *y), sums[YK_CPU_PANEL];
  for (int64_t i = 0; i < n_rows * x_stride; i++) x[i] = integer_at(x_kind, (uint32_t)i);
  for (int64_t i = 0; i < n_k * YK_CPU_PANEL; i++) w[i] = integer_at(w_kind, (uint32_t)(i * 3 + 1));
  int8_t *ones = malloc((size_t)n_k);
  memset(ones, 1, (size_t)n_k);
  for (int c = 0; c < YK_CPU_PANEL; c++) sums[c] = integer_product(ones, w, c, n_k);
  yk_cpu_int8_panel panel = {.w = w, .sums = sums, .n_k = n_k};
  simd->multiply_int8(y, y_stride, x, x_stride, n_rows, &panel);
  for (int r = 0; r < n_rows; r++)
    for (int c = 0; c < y_stride; c++) {
      int32_t expected = c < YK_CPU_PANEL ? integer_product(x + r * x_stride, w, c, n_k) : 0;
      if (y[r * y_stride + c] != expected)
        fail_msg("%s: %d rows of %d, kinds %d and %d: row %d, column %d: expected %d, found %d", simd->name, n_rows,
                 (int)n_k, x_kind, w_kind, r, c, expected, y[r * y_stride + c]);
    }
  free(x);
  free(w);
  free(y);
  free(ones);
}

static void test_integers_are_exact(void **state)
{
  (void)state;
  static const char *const names[] = {"portable", "avx2", "avx512", "avx512vnni"};
  static const int row_counts[] = {1, 2, 3, 4, 7};
  for (size_t i = 0; each_case(i, i < sizeof names / sizeof *names); i++) {
    const yk_cpu_simd *simd = yk_cpu_simd_find(names[i]);
    if (!simd) continue;
    for (size_t r = 0; each_case(r, r < sizeof row_counts / sizeof *row_counts); r++)
      for (int kinds = 0; kinds < 9; kinds++) check_integers(simd, row_counts[r], 192, kinds % 3, kinds / 3);
    check_integers(simd, 2, 1 << 16, 0, 0); /* the longest supported rows */
    check_integers(simd, 2, 1 << 16, 1, 0);
  }
}

static void test_conversions(void **state)
{
  (void)state;
  for_each_cpu_target(check_halves_to_f32);
  for_each_cpu_target(check_f32_to_halves);
  for_each_cpu_target(check_float8);
}

static void test_exponential(void **state)
{
  (void)state;
  for_each_cpu_target(check_exp);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conversions), cmocka_unit_test(test_exponential),        cmocka_unit_test(test_activations),
      cmocka_unit_test(test_nans),        cmocka_unit_test(test_integers_are_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
