/* test_op_cuda_w4a8.c - 4-bit weights with inputs in 8-bit floats on a GPU of compute capability 9.0, by the cases of
 * every device; few rows, which stay in 16 bits. */
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/w4a8/w4a8.h"
#include "op/op_cases_w4a8.h"
#include "op/op_cuda_target.h"

/* Sums of a group have about 13 bits of their largest term. Set before the first run on a GPU. */
static const double sums_error = 2e-3;

/* Rounds inputs from 64 rows on, however small the layer. */
static yk_device *rounding_device(yk_dtype dtype)
{
  yk_device *dev = op_device_new(&cuda_target, dtype, 2, 16);
  yk_cuda_device_of(dev)->w4a8_least_products = 0;
  return dev;
}

/* Small first: one tile of each size, then rows that fill none. */
static void test_many_rows(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {64, 65, 127, 128, 200, 300, 600};
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    yk_device *dev = rounding_device(gpu_dtypes[d]);
    check_w4a8_table(dev, token_counts, gpu_is_small() ? 2 : 7, sums_error);
    dev->ops->destroy(dev);
  }
}

/* Fewer rows than a tile, and fewer products than pay. */
static void test_few_rows_stay_in_16_bits(void **state)
{
  (void)state;
  yk_device *dev = rounding_device(YK_F16);
  const double tolerance = 4.0 * op_unit_roundoff(YK_F16);
  assert_true(w4a8_error(dev, &w4a8_cases[1], 63, false, OP_RIGHT) < tolerance);
  assert_true(w4a8_error(dev, &w4a8_cases[1], 64, false, OP_RIGHT) > 4e-3);
  yk_cuda_device_of(dev)->w4a8_least_products = YK_W4A8_LEAST_PRODUCTS;
  assert_true(w4a8_error(dev, &w4a8_cases[1], 64, false, OP_RIGHT) < tolerance);
  yk_cuda_device_of(dev)->w4a8_least_products = INT64_C(512) * 256 * 100;
  assert_true(w4a8_error(dev, &w4a8_cases[1], 99, false, OP_RIGHT) < tolerance);
  assert_true(w4a8_error(dev, &w4a8_cases[1], 100, false, OP_RIGHT) > 4e-3);
  dev->ops->destroy(dev);
}

static void test_rows_that_are_not_finite(void **state)
{
  (void)state;
  yk_device *dev = rounding_device(YK_BF16);
  check_w4a8_not_finite(dev, 100);
  dev->ops->destroy(dev);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  yk_device *dev = rounding_device(YK_F16);
  check_w4a8_faults(dev, 100, sums_error);
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
      cmocka_unit_test(test_rows_that_are_not_finite),
      cmocka_unit_test(test_planted_faults_are_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
