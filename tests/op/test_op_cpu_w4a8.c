/* test_op_cpu_w4a8.c - 4-bit weights with inputs rounded to 8 bits on the CPU device, every instruction set. */
#include "op/op_cases_w4a8.h"
#include "op/op_cpu_target.h"

static const yk_inputs_kind roundings[] = {YK_INPUTS_FP8, YK_INPUTS_INT8};
static const double sums_error = 2e-5; /* float32 sums of up to 2,048 products */

static void check_table(const op_target *target)
{
  static const int32_t token_counts[] = {3, 40, 65};
  for (size_t d = 0; d < 3; d++) {
    yk_device *dev = op_device_new(target, op_dtypes[d], 2, 16);
    for (int r = 0; r < 2; r++)
      check_w4a8_table(dev, roundings[r], token_counts, TEST_IS_SANITIZED ? 1 : 3, sums_error);
    dev->ops->destroy(dev);
  }
}

static void check_faults(const op_target *target)
{
  yk_device *dev = op_device_new(target, YK_F16, 2, 16);
  for (int r = 0; r < 2; r++) {
    check_w4a8_faults(dev, roundings[r], 9, sums_error);
    check_w4a8_not_finite(dev, roundings[r], 7);
  }
  dev->ops->destroy(dev);
}

static void test_table(void **state)
{
  (void)state;
  for_each_cpu_target(check_table);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for_each_cpu_target(check_faults);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_planted_faults_are_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
