/* test_op_cuda_w4a8.c - 4-bit weights with inputs of 8 bits on a GPU of compute capability 9.0, by the cases of
 * every device; few rows, which stay in 16 bits. */
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/w4a8/w4a8.h"
#include "op/op_cases_w4a8_large.h"
#include "op/op_cuda_target.h"

/* Errors of sums, set before the first run on a GPU: with 8-bit floats those of a group have about 13 bits of their
 * largest term; integers are added exactly in a group, and groups in float32. */
static const struct rounding {
  yk_inputs_kind kind;
  double sums_error;
} roundings[] = {{YK_INPUTS_FP8, 2e-3}, {YK_INPUTS_INT8, 2e-5}};
enum { N_ROUNDINGS = sizeof roundings / sizeof *roundings };

/* Rounds inputs from 128 rows on, however small the layer. */
static yk_device *rounding_device(yk_dtype dtype)
{
  yk_device *dev = op_device_new(&cuda_target, dtype, 2, 16);
  yk_cuda_device_of(dev)->w4a8_least_results = 0;
  return dev;
}

/* Small first: whole tiles, then rows that fill none. */
static void test_many_rows(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {128, 129, 200, 300, 600};
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    yk_device *dev = rounding_device(gpu_dtypes[d]);
    for (int r = 0; r < N_ROUNDINGS; r++)
      check_w4a8_table(dev, roundings[r].kind, token_counts, gpu_is_small() ? 2 : 5, roundings[r].sums_error);
    dev->ops->destroy(dev);
  }
}

/* Too few rows, and fewer results than pay. */
static void check_few_rows(yk_device *dev, yk_inputs_kind rounding)
{
  const double tolerance = 4.0 * op_unit_roundoff(YK_F16);
  yk_cuda_device_of(dev)->w4a8_least_results = 0;
  assert_true(w4a8_error(dev, &w4a8_cases[1], rounding, 127, false, OP_RIGHT) < tolerance);
  assert_true(w4a8_error(dev, &w4a8_cases[1], rounding, 128, false, OP_RIGHT) > 4e-3);
  yk_cuda_device_of(dev)->w4a8_least_results = YK_W4A8_LEAST_RESULTS;
  assert_true(w4a8_error(dev, &w4a8_cases[1], rounding, 128, false, OP_RIGHT) < tolerance);
  yk_cuda_device_of(dev)->w4a8_least_results = INT64_C(256) * 150;
  assert_true(w4a8_error(dev, &w4a8_cases[1], rounding, 149, false, OP_RIGHT) < tolerance);
  assert_true(w4a8_error(dev, &w4a8_cases[1], rounding, 150, false, OP_RIGHT) > 4e-3);
}

static void test_few_rows_stay_in_16_bits(void **state)
{
  (void)state;
  yk_device *dev = rounding_device(YK_F16);
  for (int r = 0; r < N_ROUNDINGS; r++) check_few_rows(dev, roundings[r].kind);
  dev->ops->destroy(dev);
}

/* Shapes of served models, odd ones, and several ranges of K, both types alternately. */
static void test_large_shapes(void **state)
{
  (void)state;
  for (int c = 0; each_case(c, c < N_LARGE_LINEARS); c++) {
    const int64_t group = large_linears[c].group_local;
    if (group != 32 && group != 64 && group != 128) continue;
    const linear_case shape = large_linear_case(&large_linears[c], LARGE_INT4, c);
    yk_device *dev = rounding_device(gpu_dtypes[c % N_GPU_DTYPES]);
    for (int r = 0; r < N_ROUNDINGS; r++)
      check_large_w4a8(dev, &shape, roundings[r].kind, 800 + (uint32_t)c, roundings[r].sums_error);
    dev->ops->destroy(dev);
  }
}

static void test_rows_that_are_not_finite(void **state)
{
  (void)state;
  yk_device *dev = rounding_device(YK_BF16);
  for (int r = 0; r < N_ROUNDINGS; r++) check_w4a8_not_finite(dev, roundings[r].kind, 150);
  dev->ops->destroy(dev);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  yk_device *dev = rounding_device(YK_F16);
  for (int r = 0; r < N_ROUNDINGS; r++) check_w4a8_faults(dev, roundings[r].kind, 150, roundings[r].sums_error);
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
      cmocka_unit_test(test_large_shapes),
      cmocka_unit_test(test_few_rows_stay_in_16_bits),
      cmocka_unit_test(test_rows_that_are_not_finite),
      cmocka_unit_test(test_planted_faults_are_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
