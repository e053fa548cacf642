/* test_op_cuda_linear_fused.c - linear layers with a norm of their inputs, or with a sum into their outputs, on a GPU,
 * or on one with less of something (op_cuda_paths.h), which the first argument names. */
#include "op/op_cases_linear_fused.h"
#include "op/op_cuda_paths.h"

/* A GPU of 9.0 fuses most forwards of one and two rows; with the kernels of mma.sync all are run apart. */
static void check_format(const op_target *target, large_format format)
{
  yk_device *dev = op_device_new(target, YK_F16, 1, 16);
  const bool has_wgmma = yk_cuda_device_of(dev)->wna16.path == YK_GEMM_WGMMA;
  dev->ops->destroy(dev);
  const fused_count count = check_fused_linears(target, format, INT64_MAX);
  printf("%d norms and %d sums in the layer\n", count.norms, count.sums);
  if (has_wgmma)
    assert_true(count.norms >= 8 && count.sums >= 8);
  else
    assert_true(count.norms == 0 && count.sums == 0);
}

static void test_int4(void **state)
{
  check_format(*state, LARGE_INT4);
}

static void test_int8(void **state)
{
  check_format(*state, LARGE_INT8);
}

static void test_fp8(void **state)
{
  check_format(*state, LARGE_FP8);
}

static void test_fp4(void **state)
{
  check_format(*state, LARGE_FP4);
}

int main(int argc, char **argv)
{
  const op_target *target = cuda_target_of(argc, argv);
  int gate = gpu_gate(1);
  if (!target || gate != GPU_GO) return target ? gate : GPU_FAIL;
  const struct CMUnitTest tests[] = {ON_TARGET(test_int4, target), ON_TARGET(test_int8, target),
                                     ON_TARGET(test_fp8, target), ON_TARGET(test_fp4, target)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
