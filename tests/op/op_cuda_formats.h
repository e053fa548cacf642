/* op_cuda_formats.h - a program with one test for each format of large layers (op_cases_linear_large.h), on a GPU or on
 * one with less of something (op_cuda_paths.h), which the first argument names. */
#ifndef YK_TESTS_OP_CUDA_FORMATS_H
#define YK_TESTS_OP_CUDA_FORMATS_H

#include "op/op_cases_linear_large.h"
#include "op/op_cuda_paths.h"

typedef struct format_check {
  const op_target *target;
  void (*of_format)(const op_target *target, large_format format);
} format_check;

static void check_format(void **state, large_format format)
{
  const format_check *check = *state;
  check->of_format(check->target, format);
}

static void test_int4(void **state)
{
  check_format(state, LARGE_INT4);
}

static void test_int8(void **state)
{
  check_format(state, LARGE_INT8);
}

static void test_fp8(void **state)
{
  check_format(state, LARGE_FP8);
}

static void test_fp4(void **state)
{
  check_format(state, LARGE_FP4);
}

/* check_formats - runs of_format for each format, on the target that argv names. Returns the result of main. */
static inline int check_formats(int argc, char **argv, void (*of_format)(const op_target *target, large_format format))
{
  format_check check = {cuda_target_of(argc, argv), of_format};
  const int gate = gpu_gate(1);
  if (!check.target || gate != GPU_GO) return check.target ? gate : GPU_FAIL;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(test_int4, &check), cmocka_unit_test_prestate(test_int8, &check),
      cmocka_unit_test_prestate(test_fp8, &check), cmocka_unit_test_prestate(test_fp4, &check)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
