/* Statistics of studies against scipy's numbers (tests/golden/make_study_stats.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "study/stats.h"
#include "study/student.h"

#include "each_case.h"
#include "golden/study_stats.inc"

static void near(double found, double expected, double relative)
{
  if (!(fabs(found - expected) <= relative * fabs(expected))) fail_msg("expected %.15g, found %.15g", expected, found);
}

static void test_quantiles(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
    near(yk_student_quantile(quantiles[i].confidence, quantiles[i].freedom), quantiles[i].t, 1e-9);
}

static void test_intervals(void **state)
{
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof samples / sizeof *samples); i++) {
    yk_interval found;
    assert_true(yk_stats_interval(samples[i].a, samples[i].n_a, &found));
    near(found.low, samples[i].mean.low, 1e-9);
    near(found.high, samples[i].mean.high, 1e-9);
    assert_true(yk_stats_ratio_interval(samples[i].a, samples[i].n_a, samples[i].b, samples[i].n_b, &found));
    near(found.low, samples[i].ratio.low, 1e-9);
    near(found.high, samples[i].ratio.high, 1e-9);
  }
}

static void test_no_interval(void **state)
{
  (void)state;
  const double one[] = {5}, wide[] = {1, 100}, same[] = {4, 4}, zero[] = {0, 0};
  yk_interval found;
  assert_false(yk_stats_interval(one, 1, &found));
  assert_false(yk_stats_ratio_interval(one, 1, wide, 2, &found));
  assert_false(yk_stats_ratio_interval(same, 2, one, 1, &found));
  assert_false(yk_stats_ratio_interval(same, 2, wide, 2, &found)); /* the divisor may be 0 */
  assert_false(yk_stats_ratio_interval(same, 2, zero, 2, &found));
  assert_true(yk_stats_ratio_interval(same, 2, same, 2, &found));
  assert_true(found.low == 1 && found.high == 1);
  assert_true(yk_stats_interval(wide, 2, &found));
  assert_true(found.low == 0); /* of values that are never negative */
  yk_interval_include(&found, 1e9);
  assert_true(found.high == 1e9);
}

static void test_medians(void **state)
{
  (void)state;
  double values[] = {9, 1, 5, 4, 100, 6, 2}, medians[7], scratch[7], odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
  const int starts[] = {7, 7, 7, 2, 2, 2, 0};
  assert_true(yk_stats_median(odd, 3) == 2);
  assert_true(yk_stats_median(even, 4) == 2.5);
  assert_int_equal(yk_stats_start_medians(values, starts, 7, medians, scratch), 3);
  assert_true(medians[0] == 5 && medians[1] == 6 && medians[2] == 2);
}

/* Among many studies without any difference, about one in twenty has an interval that excludes the truth. */
static void test_coverage(void **state)
{
  (void)state;
  enum { STUDIES = 4000 };
  int n_missed = 0;
  unsigned long long seed = 1;
  for (int i = 0; i < STUDIES; i++) {
    double values[2][3];
    for (int k = 0; k < 6; k++) {
      double sum = 0; /* of twelve even numbers: nearly normal */
      for (int j = 0; j < 12; j++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        sum += (double)(seed >> 11) / 9007199254740992.0;
      }
      values[k / 3][k % 3] = 100 + sum - 6;
    }
    yk_interval found;
    assert_true(yk_stats_ratio_interval(values[0], 3, values[1], 3, &found));
    n_missed += found.low > 1 || found.high < 1;
  }
  assert_in_range(n_missed, STUDIES * 3 / 100, STUDIES * 7 / 100);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantiles), cmocka_unit_test(test_intervals),
                                     cmocka_unit_test(test_no_interval), cmocka_unit_test(test_medians),
                                     cmocka_unit_test(test_coverage)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
