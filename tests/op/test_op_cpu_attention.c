/* test_op_cpu_attention.c - rotary embedding, cache and attention on the CPU device, every instruction set. */
#include "op/op_cases_attention_options.h"
#include "op/op_cpu_target.h"

static void check_random(const op_target *target)
{
  check_attention_random(target, TEST_IS_SANITIZED ? 12 : 60);
}

static void test_table(void **state)
{
  (void)state;
  for_each_cpu_target(check_attention_table);
}

static void test_gates(void **state)
{
  (void)state;
  for_each_cpu_target(check_attention_gates);
}

static void test_rotations(void **state)
{
  (void)state;
  for_each_cpu_target(check_rotations);
}

static void test_kv_columns(void **state)
{
  (void)state;
  for_each_cpu_target(check_kv_columns);
}

static void test_sinks(void **state)
{
  (void)state;
  for_each_cpu_target(check_attention_sinks);
}

static void test_chunks(void **state)
{
  (void)state;
  for_each_cpu_target(check_attention_chunks);
}

static void test_score_growth(void **state)
{
  (void)state;
  for_each_cpu_target(check_score_growth);
}

static void test_random_scenes(void **state)
{
  (void)state;
  for_each_cpu_target(check_random);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for_each_cpu_target(check_attention_faults);
}

static void test_rows_do_not_depend_on_their_batch(void **state)
{
  (void)state;
  for_each_cpu_target(check_attention_batch_invariance);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_gates),
      cmocka_unit_test(test_kv_columns),
      cmocka_unit_test(test_sinks),
      cmocka_unit_test(test_chunks),
      cmocka_unit_test(test_score_growth),
      cmocka_unit_test(test_rotations),
      cmocka_unit_test(test_random_scenes),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_rows_do_not_depend_on_their_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
