/* test_op_cpu_activation.c - activations of linear layers on the CPU device, every instruction set. */
#include "op/op_cases_activation.h"
#include "op/op_cpu_target.h"

/* A gate and an up each have the error of a sum. */
static double tolerance_of(yk_dtype dtype, const linear_case *shape)
{
  const double sum = linear_tolerance(YK_F32, yk_range_size(shape->parts[0].k_slice));
  return op_unit_roundoff(dtype) + 4.0 * sum;
}

static void check(const op_target *target)
{
  for (int d = 0; d < 3; d++) check_activations(target, op_dtypes[d], tolerance_of);
}

static void test_every_activation(void **state)
{
  (void)state;
  for_each_cpu_target(check);
}

static void check_differ(const op_target *target)
{
  check_activations_differ(target, YK_F32);
}

static void test_another_activation_is_seen(void **state)
{
  (void)state;
  for_each_cpu_target(check_differ);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_activation),
                                     cmocka_unit_test(test_another_activation_is_seen)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
