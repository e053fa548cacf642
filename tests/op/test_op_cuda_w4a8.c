/* test_op_cuda_w4a8.c - 4-bit weights with inputs in 8-bit floats on a GPU of compute capability 9.0, against float64
 * with inputs rounded by the definition (kernels/cuda/w4a8/w4a8.h); few rows, which stay in 16 bits. */
#include "base/float8.h"
#include "each_case.h"
#include "kernels/cuda/device/state.h"
#include "op/op_cases_linear.h"
#include "op/op_cuda_target.h"

/* k and n of the weight; group; dtype; slices; local group; bias. */
static const linear_case cases[] = {
    {.parts = {{128, 128, 128, YK_F16, {0, 128}, {0, 128}, 128, false}}, .n_parts = 1}, /* one K tile, one tile M */
    {.parts = {{512, 256, 128, YK_F16, {0, 512}, {0, 256}, 128, true}}, .n_parts = 1},
    {.parts = {{1024, 136, 64, YK_F16, {0, 1024}, {0, 136}, 64, false}}, .n_parts = 1, .y_pad = 5},
    {.parts = {{1184, 1032, 32, YK_BF16, {0, 1184}, {0, 1032}, 32, true}}, .n_parts = 1}, /* a K tile that ends early */
    {.parts = {{2048, 264, 128, YK_F16, {1024, 2048}, {8, 264}, 128, false}}, .n_parts = 1},
    {.parts = {{512, 256, 128, YK_F16, {0, 512}, {64, 192}, 128, true},
               {512, 128, 128, YK_F16, {0, 512}, {0, 64}, 128, false},
               {512, 128, 128, YK_F16, {0, 512}, {64, 128}, 128, true}},
     .n_parts = 3},
    {.parts = {{768, 528, 128, YK_F16, {0, 768}, {0, 528}, 128, true},
               {768, 528, 128, YK_F16, {0, 768}, {0, 528}, 128, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* The nearest number of e4m3, ties to even, as float32; |x| is at most 448, but for the rounding of x. */
static float rounded_to_e4m3(float x)
{
  int exponent;
  const float size = fminf(fabsf(x), 448.0f);
  if (size == 0.0f) return 0.0f;
  frexpf(size, &exponent); /* size in [2^(exponent-1), 2^exponent) */
  const float spacing = ldexpf(1.0f, exponent - 1 < -6 ? -9 : exponent - 4);
  return copysignf(fminf(rintf(size / spacing) * spacing, 448.0f), x);
}

static void round_row(double *x, int64_t k)
{
  float largest = 0;
  for (int64_t i = 0; i < k; i++) largest = fmaxf(largest, fabsf((float)x[i]));
  const float scale = largest / 448.0f, reciprocal = largest > 0 ? 448.0f / largest : 0;
  for (int64_t i = 0; i < k; i++) x[i] = (double)scale * (double)rounded_to_e4m3((float)x[i] * reciprocal);
}

/* The largest error of a forward of n_tokens rows against inputs rounded to 8 bits, or (rounds false) as they are. */
static double error_of(yk_device *dev, const linear_case *shape, int32_t n_tokens, bool rounds, op_fault fault)
{
  linear_run run = linear_run_new(dev, shape, n_tokens, 7 + (uint32_t)n_tokens);
  dev->ops->linear_destroy(dev, run.linear);
  for (int i = 0; i < run.spec.n_parts; i++) run.spec.parts[i].fp8_inputs = true;
  op_ok(dev->ops->linear_create(dev, &run.spec, &run.linear, &err));
  op_array y = linear_run_forward(dev, &run, 0, n_tokens);
  double *magnitudes = calloc(y.n + 1, sizeof *magnitudes);
  assert_non_null(magnitudes);
  for (int32_t row = 0; row < n_tokens && rounds; row++) round_row(run.x.values + row * run.k_local, run.k_local);
  double *expected = linear_run_expect(&run, fault, magnitudes);
  const double error = linear_run_error(&y, expected, magnitudes, run.k_local);
  free(expected);
  free(magnitudes);
  op_array_free(dev, &y);
  linear_run_free(dev, &run);
  return error;
}

/* Sums of a group have about 13 bits of their largest term; then the result is rounded. A gate and an up have two such
 * sums. Set before the first run on a GPU. */
static double tolerance_of(yk_dtype dtype, const linear_case *shape)
{
  return (shape->activation.is_gated ? 3.0 : 1.0) * (1.5 * op_unit_roundoff(dtype) + 2e-3);
}

static void test_many_rows(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {64, 65, 128, 200, 300, 600};
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    yk_device *dev = op_device_new(&cuda_target, gpu_dtypes[d], 2, 16);
    for (int c = 0; c < N_CASES; c++)
      for (size_t t = 0; t < sizeof token_counts / sizeof *token_counts; t++) {
        const double error = error_of(dev, &cases[c], token_counts[t], true, OP_RIGHT);
        if (!(error <= tolerance_of(dev->dtype, &cases[c])))
          fail_msg("%s case %d, %d tokens: error %.3g", yk_dtype_name(dev->dtype), c, token_counts[t], error);
      }
    dev->ops->destroy(dev);
  }
}

/* Inputs of fewer rows than 64 are not rounded. */
static void test_few_rows_stay_in_16_bits(void **state)
{
  (void)state;
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 2, 16);
  assert_true(error_of(dev, &cases[1], 63, false, OP_RIGHT) < 4.0 * op_unit_roundoff(YK_F16));
  assert_true(error_of(dev, &cases[1], 64, false, OP_RIGHT) > 4e-3);
  dev->ops->destroy(dev);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  static const op_fault faults[] = {OP_NO_SCALE, OP_ZERO_PLUS_ONE, OP_GROUP_SHIFT};
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 2, 16);
  for (size_t i = 0; each_case(i, i < sizeof faults / sizeof *faults); i++)
    assert_true(error_of(dev, &cases[1], 100, true, faults[i]) > 3.0 * tolerance_of(YK_F16, &cases[1]));
  dev->ops->destroy(dev);
}

/* Whether the GPU has the kernels. */
static bool has_wgmma(void)
{
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  const bool has = yk_cuda_device_of(dev)->wna16.path == YK_GEMM_WGMMA;
  dev->ops->destroy(dev);
  return has;
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  if (!has_wgmma()) return GPU_SKIP;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_many_rows),
      cmocka_unit_test(test_few_rows_stay_in_16_bits),
      cmocka_unit_test(test_planted_faults_are_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
