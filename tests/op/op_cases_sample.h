/* op_cases_sample.h - the checks of sampling as tests. */
#ifndef YK_TESTS_OP_CASES_SAMPLE_H
#define YK_TESTS_OP_CASES_SAMPLE_H

#include "op/op_cases_sample_draws.h"
#include "op/op_cases_sample_logits.h"

/* The state of each test is the device's op_target. */
#define SAMPLE_TEST(check)                                                                                             \
  static void test_##check(void **state)                                                                               \
  {                                                                                                                    \
    check_sample_##check(*state);                                                                                      \
  }

SAMPLE_TEST(draws)
SAMPLE_TEST(frequencies)
SAMPLE_TEST(ties)
SAMPLE_TEST(seeds)
SAMPLE_TEST(logprobs)
SAMPLE_TEST(bad_logits)
SAMPLE_TEST(extreme_penalties)
SAMPLE_TEST(penalties)
SAMPLE_TEST(masks)
SAMPLE_TEST(refusals)
SAMPLE_TEST(large)
SAMPLE_TEST(best_logits)

/* Tests for every device, to be put into an array of tests. */
#define SAMPLE_TESTS(target)                                                                                           \
  cmocka_unit_test_prestate(test_draws, target), cmocka_unit_test_prestate(test_frequencies, target),                  \
      cmocka_unit_test_prestate(test_masks, target), cmocka_unit_test_prestate(test_ties, target),                     \
      cmocka_unit_test_prestate(test_seeds, target), cmocka_unit_test_prestate(test_logprobs, target),                 \
      cmocka_unit_test_prestate(test_bad_logits, target), cmocka_unit_test_prestate(test_extreme_penalties, target),   \
      cmocka_unit_test_prestate(test_large, target), cmocka_unit_test_prestate(test_penalties, target),                \
      cmocka_unit_test_prestate(test_refusals, target), cmocka_unit_test_prestate(test_best_logits, target)

#endif
