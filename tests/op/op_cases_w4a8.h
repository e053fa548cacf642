/* op_cases_w4a8.h - 4-bit weights whose inputs are rounded to 8-bit floats or integers, against float64 with inputs
 * rounded by the definition (yk_linear_rounds_inputs). */
#ifndef YK_TESTS_OP_CASES_W4A8_H
#define YK_TESTS_OP_CASES_W4A8_H

#include "op/op_cases_linear.h"

/* k and n of the weight; group; dtype; slices; local group; bias. */
static const linear_case w4a8_cases[] = {
    {.parts = {{128, 128, 128, YK_F16, {0, 128}, {0, 128}, 128, false}}, .n_parts = 1}, /* one K tile, one tile M */
    {.parts = {{512, 256, 128, YK_F16, {0, 512}, {0, 256}, 128, true}}, .n_parts = 1},
    {.parts = {{1024, 136, 64, YK_F16, {0, 1024}, {0, 136}, 64, false}}, .n_parts = 1, .y_pad = 5},
    {.parts = {{1184, 1032, 32, YK_BF16, {0, 1184}, {0, 1032}, 32, true}}, .n_parts = 1}, /* a K tile that ends early */
    {.parts = {{2048, 264, 128, YK_F16, {1024, 2048}, {8, 264}, 128, false}}, .n_parts = 1}, /* row-parallel */
    {.parts = {{768, 64, 128, YK_F16, {32, 736}, {0, 64}, 32, false}}, .n_parts = 1},        /* cut inside groups */
    {.parts = {{512, 256, 128, YK_F16, {0, 512}, {64, 192}, 128, true},                      /* q, k, v */
               {512, 128, 128, YK_F16, {0, 512}, {0, 64}, 128, false},
               {512, 128, 128, YK_F16, {0, 512}, {64, 128}, 128, true}},
     .n_parts = 3},
    {.parts = {{768, 528, 128, YK_F16, {0, 768}, {0, 528}, 128, true},
               {768, 528, 128, YK_F16, {0, 768}, {0, 528}, 128, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
};
enum { N_W4A8_CASES = sizeof w4a8_cases / sizeof *w4a8_cases };

/* The nearest number of e4m3, ties to even, as float32; |x| is at most 448, but for the rounding of x. */
static inline float rounded_to_e4m3(float x)
{
  int exponent;
  const float size = fminf(fabsf(x), 448.0f);
  if (size == 0.0f) return 0.0f;
  frexpf(size, &exponent); /* size in [2^(exponent-1), 2^exponent) */
  const float spacing = ldexpf(1.0f, exponent - 1 < -6 ? -9 : exponent - 4);
  return copysignf(fminf(rintf(size / spacing) * spacing, 448.0f), x);
}

static inline void round_inputs(double *x, int64_t k, yk_inputs_kind rounding)
{
  const bool is_fp8 = rounding == YK_INPUTS_FP8;
  const float largest_code = is_fp8 ? 448.0f : 127.0f;
  float largest = 0;
  for (int64_t i = 0; i < k; i++) largest = fmaxf(largest, fabsf((float)x[i]));
  const float scale = largest / largest_code, reciprocal = largest > 0 ? largest_code / largest : 0;
  for (int64_t i = 0; i < k; i++) {
    const float scaled = (float)x[i] * reciprocal;
    x[i] = (double)scale * (double)(is_fp8 ? rounded_to_e4m3(scaled) : rintf(scaled));
  }
}

/* Row 1 is zeros, and row 2 too small to be rounded: the device takes zeros. Other rows differ in size. */
static inline void scale_rows(yk_device *dev, linear_run *run)
{
  for (int32_t row = 0; row < run->n_tokens; row++)
    for (int64_t i = 0; i < run->k_local; i++)
      run->x.values[row * run->k_local + i] *= row == 1 ? 0.0 : row == 2 ? 0x1p-110 : 0.25 * (1 + row % 7);
  op_array_send(dev, &run->x);
}

/* A case whose layer takes inputs of 8 bits. rounding: FP8 or INT8, here and below. */
static inline linear_run w4a8_run_new(yk_device *dev, const linear_case *shape, yk_inputs_kind rounding,
                                      int32_t n_tokens, uint32_t seed)
{
  linear_run run = linear_run_new(dev, shape, n_tokens, seed);
  dev->ops->linear_destroy(dev, run.linear);
  for (int i = 0; i < run.spec.n_parts; i++) run.spec.parts[i].rounding = rounding;
  op_ok(dev->ops->linear_create(dev, &run.spec, &run.linear, &err));
  return run;
}

/* The largest error of a forward of n_tokens rows against inputs rounded to 8 bits, or (rounds false) as they are. */
static inline double w4a8_error(yk_device *dev, const linear_case *shape, yk_inputs_kind rounding, int32_t n_tokens,
                                bool rounds, op_fault fault)
{
  linear_run run = w4a8_run_new(dev, shape, rounding, n_tokens, 7 + (uint32_t)n_tokens);
  scale_rows(dev, &run);
  op_array y = linear_run_forward(dev, &run, 0, n_tokens);
  double *magnitudes = calloc(y.n + 1, sizeof *magnitudes);
  assert_non_null(magnitudes);
  for (int32_t row = 0; row < n_tokens && rounds; row++)
    round_inputs(run.x.values + row * run.k_local, run.k_local, rounding);
  double *expected = linear_run_expect(&run, fault, magnitudes);
  const double error = linear_run_error(&y, expected, magnitudes, run.k_local);
  free(expected);
  free(magnitudes);
  op_array_free(dev, &y);
  linear_run_free(dev, &run);
  return error;
}

/* sums: the largest error of a device's sums of products. A gate and an up have two sums each. */
static inline double w4a8_tolerance(yk_dtype dtype, const linear_case *shape, double sums)
{
  return (shape->activation.is_gated ? 3.0 : 1.0) * (1.5 * op_unit_roundoff(dtype) + sums);
}

static inline const char *rounding_name(yk_inputs_kind rounding)
{
  return rounding == YK_INPUTS_FP8 ? "fp8" : "int8";
}

static inline void check_w4a8_table(yk_device *dev, yk_inputs_kind rounding, const int32_t *token_counts, int n_counts,
                                    double sums)
{
  for (int c = 0; c < N_W4A8_CASES; c++)
    for (int t = 0; t < n_counts; t++) {
      const double error = w4a8_error(dev, &w4a8_cases[c], rounding, token_counts[t], true, OP_RIGHT);
      if (!(error <= w4a8_tolerance(dev->dtype, &w4a8_cases[c], sums)))
        fail_msg("%s, %s inputs, case %d, %d tokens: error %.3g, expected at most %.3g", yk_dtype_name(dev->dtype),
                 rounding_name(rounding), c, token_counts[t], error, w4a8_tolerance(dev->dtype, &w4a8_cases[c], sums));
    }
}

/* Faults of the weights, and inputs that are not rounded. */
static inline void check_w4a8_faults(yk_device *dev, yk_inputs_kind rounding, int32_t n_tokens, double sums)
{
  static const op_fault faults[] = {OP_NO_SCALE, OP_ZERO_PLUS_ONE, OP_NIBBLE_ORDER};
  const double tolerance = w4a8_tolerance(dev->dtype, &w4a8_cases[1], sums);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    assert_true(w4a8_error(dev, &w4a8_cases[1], rounding, n_tokens, true, faults[i]) > 3.0 * tolerance);
  assert_true(w4a8_error(dev, &w4a8_cases[5], rounding, n_tokens, true, OP_GROUP_SHIFT) > 3.0 * tolerance);
  assert_true(w4a8_error(dev, &w4a8_cases[1], rounding, n_tokens, false, OP_RIGHT) > 3.0 * tolerance);
}

/* A row with an infinity or a NaN gives NaNs, and its neighbours stay as they are. */
static inline void check_w4a8_not_finite(yk_device *dev, yk_inputs_kind rounding, int32_t n_tokens)
{
  const linear_case *shape = &w4a8_cases[1];
  linear_run run = w4a8_run_new(dev, shape, rounding, n_tokens, 5);
  op_array right = linear_run_forward(dev, &run, 0, n_tokens);
  run.x.values[3 * run.k_local + 17] = INFINITY;
  run.x.values[5 * run.k_local + 1] = NAN;
  op_array_send(dev, &run.x);
  op_array y = linear_run_forward(dev, &run, 0, n_tokens);
  for (int32_t row = 0; row < n_tokens; row++)
    for (int64_t i = 0; i < run.n_local; i++) {
      const double value = y.values[row * run.y_stride + i];
      assert_true(row == 3 || row == 5 ? value != value : value == right.values[row * run.y_stride + i]);
    }
  op_array_free(dev, &right);
  op_array_free(dev, &y);
  linear_run_free(dev, &run);
}

#endif
