/* test_op_cpu_sample.c - sampling on the CPU device. The sampler has no code of its own for an instruction set. */
#include "op/op_cases_sample.h"
#include "op/op_cpu_target.h"

static const op_target *cpu_target(op_target *target)
{
  *target = (op_target){.name = "cpu", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  return target;
}

#define SAMPLE_TEST(check)                                                                                             \
  static void test_##check(void **state)                                                                               \
  {                                                                                                                    \
    (void)state;                                                                                                       \
    op_target target;                                                                                                  \
    check_sample_##check(cpu_target(&target));                                                                         \
  }

SAMPLE_TEST(draws)
SAMPLE_TEST(frequencies)
SAMPLE_TEST(ties)
SAMPLE_TEST(seeds)
SAMPLE_TEST(logprobs)
SAMPLE_TEST(bad_logits)
SAMPLE_TEST(extreme_penalties)
SAMPLE_TEST(penalties)
SAMPLE_TEST(refusals)
SAMPLE_TEST(large)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_draws),
      cmocka_unit_test(test_frequencies),
      cmocka_unit_test(test_ties),
      cmocka_unit_test(test_seeds),
      cmocka_unit_test(test_logprobs),
      cmocka_unit_test(test_bad_logits),
      cmocka_unit_test(test_extreme_penalties),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_penalties),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
