/* test_op_cpu_adapters.c - low-rank adapters of linear layers on the CPU device. */
#include "op/op_cases_adapters.h"
#include "op/op_cpu_target.h"

static double tolerance_of(yk_dtype dtype, const linear_case *shape)
{
  const bool is_activated = shape->activation.kind != YK_ACTIVATION_NONE;
  return op_unit_roundoff(dtype) + (is_activated ? 6.0 : 2.0) * linear_tolerance(YK_F32, 2048);
}

static void check_all(const op_target *target)
{
  for (size_t d = 0; each_case(d, d < sizeof op_dtypes / sizeof *op_dtypes); d++) {
    check_adapters(target, op_dtypes[d], 1, true, tolerance_of);
    check_adapters(target, op_dtypes[d], TEST_IS_SANITIZED ? 9 : 60, true, tolerance_of);
    check_adapter_replaced(target, op_dtypes[d]);
    check_adapted_sums(target, op_dtypes[d]);
    check_adapter_refusals(target, op_dtypes[d]);
  }
}

static void test_adapters(void **state)
{
  (void)state;
  for_each_cpu_target(check_all);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_adapters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
