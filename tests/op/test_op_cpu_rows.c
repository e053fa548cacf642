/* test_op_cpu_rows.c - memory, embedding, norms and gather on the CPU device, every instruction set. */
#include "op/op_cases_rows.h"
#include "op/op_cpu_target.h"

static void test_memory(void **state)
{
  (void)state;
  for_each_cpu_target(check_memory);
}

static void test_rows(void **state)
{
  (void)state;
  for_each_cpu_target(check_rows);
}

static void test_gains_and_caps(void **state)
{
  (void)state;
  for_each_cpu_target(check_residual_gain);
  for_each_cpu_target(check_result_norms);
  for_each_cpu_target(check_logit_cap);
  for_each_cpu_target(check_layer_inputs);
}

static void test_row_norms(void **state)
{
  (void)state;
  for_each_cpu_target(check_row_norms);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for_each_cpu_target(check_row_faults);
}

static void test_bad_limits_are_refused(void **state)
{
  (void)state;
  yk_device_limits good = {.max_tokens = 1, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1}, bad = good;
  bad.vocab = 0;
  yk_device *dev = NULL;
  yk_err refusal = YK_ERR_INIT;
  assert_int_equal(yk_cpu_device_create(YK_F16, 1, &bad, &dev, &refusal), YK_E_INVAL);
  assert_int_equal(yk_cpu_device_create(YK_F16, 0, &good, &dev, NULL), YK_E_INVAL);
  assert_int_equal(yk_cpu_device_create((yk_dtype)9, 1, &good, &dev, NULL), YK_E_INVAL);
  assert_non_null(strstr(refusal.message, "vocab"));
  assert_null(dev);
  op_ok(yk_cpu_device_create(YK_F16, 1, &good, &dev, &err));
  assert_string_equal(dev->ops->name, "cpu");
  dev->ops->destroy(dev);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_gains_and_caps),
      cmocka_unit_test(test_row_norms),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_bad_limits_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
