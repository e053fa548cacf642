/* test_op_cuda_linear_large.c - linear layers of large shapes on a GPU, or on one with less of something
 * (op_cuda_paths.h), which the first argument names. */
#include "op/op_cases_linear_large.h"
#include "op/op_cuda_paths.h"

static void test_int4(void **state)
{
  check_large_linears(*state, LARGE_INT4);
}

static void test_int8(void **state)
{
  check_large_linears(*state, LARGE_INT8);
}

static void test_fp8(void **state)
{
  check_large_linears(*state, LARGE_FP8);
}

static void test_fp4(void **state)
{
  check_large_linears(*state, LARGE_FP4);
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
