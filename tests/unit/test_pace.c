/* Long prompts take as many rows as keep a step within the wanted multiple of a step of decodes alone, also while the
 * cost of either changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/loop/pace.h"

enum { MOST = 2048 };
static const double decode_s = 0.005, row_s = 24e-6;

static void no_limit(void **state)
{
  (void)state;
  yk_pace pace = {0};
  assert_int_equal(yk_pace_rows(&pace, MOST), MOST);
  yk_pace_observe(&pace, 4, 0, decode_s);
  yk_pace_observe(&pace, 4, MOST, decode_s + MOST * row_s);
  assert_int_equal(yk_pace_rows(&pace, MOST), MOST);
}

static void decodes_run_alone_first(void **state)
{
  (void)state;
  yk_pace pace = {.factor = 2};
  yk_pace_observe(&pace, 0, MOST, 0.05); /* no decodes: measures nothing */
  assert_int_equal(yk_pace_rows(&pace, MOST), 0);
  yk_pace_observe(&pace, 4, 0, decode_s);
  assert_int_equal(yk_pace_rows(&pace, MOST), 256);
  assert_int_equal(yk_pace_rows(&pace, 100), 100);
}

/* 5 ms and 24 us a row: 208 rows fit, 192 as whole tiles. */
static void a_step_lasts_the_multiple(void **state)
{
  (void)state;
  yk_pace pace = {.factor = 2};
  yk_pace_observe(&pace, 64, 0, decode_s);
  for (int i = 0; i < 20; i++) {
    const int32_t rows = yk_pace_rows(&pace, MOST);
    yk_pace_observe(&pace, 64, rows, decode_s + rows * row_s);
  }
  assert_int_equal(yk_pace_rows(&pace, MOST), 192);
  pace.factor = 3;
  assert_int_equal(yk_pace_rows(&pace, MOST), 384);
  pace.factor = 1000;
  assert_int_equal(yk_pace_rows(&pace, MOST), MOST);
  pace.factor = 1.01; /* a prompt progresses all the same */
  assert_int_equal(yk_pace_rows(&pace, MOST), 128);
}

/* Decodes that become slower while prompts never leave them a step alone would seem to be the prompts' cost. */
static void decodes_are_measured_again(void **state)
{
  (void)state;
  yk_pace pace = {.factor = 2};
  int n_alone = 0;
  yk_pace_observe(&pace, 1, 0, decode_s);
  for (int i = 0; i < 1000; i++) {
    const int32_t rows = yk_pace_rows(&pace, MOST);
    n_alone += rows == 0;
    yk_pace_observe(&pace, 64, rows, 2 * decode_s + rows * row_s);
  }
  assert_in_range(n_alone, 10, 20);
  assert_in_range(yk_pace_rows(&pace, MOST), 384, 448); /* 10 ms and 24 us */
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_limit), cmocka_unit_test(decodes_run_alone_first),
                                     cmocka_unit_test(a_step_lasts_the_multiple),
                                     cmocka_unit_test(decodes_are_measured_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
