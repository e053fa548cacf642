/* The time after which a client should retry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/end_rate.h"

static const int64_t SECOND_NS = 1000000000, START_NS = 5000000000000;

static void before_anything_has_ended(void **state)
{
  yk_end_rate rate;
  (void)state;
  yk_end_rate_init(&rate);
  yk_end_rate_begin(&rate, START_NS);
  assert_int_equal(yk_end_rate_wait_s(&rate, 1000, START_NS), 1); /* nothing is known */
  assert_int_equal(yk_end_rate_wait_s(&rate, 1, START_NS + 4 * SECOND_NS), 4);
  assert_int_equal(yk_end_rate_wait_s(&rate, 3, START_NS + 4 * SECOND_NS), 12);
  assert_int_equal(yk_end_rate_wait_s(&rate, 30, START_NS + 4 * SECOND_NS), YK_WAIT_MAX_S);
  assert_int_equal(yk_end_rate_wait_s(&rate, 1, START_NS - SECOND_NS), 1); /* another thread read the clock before */
  yk_end_rate_free(&rate);
}

/* Four a second, one by one and in bunches, after a short and a long time. */
static void a_steady_rate(void **state)
{
  (void)state;
  for (int n_seconds = 20; n_seconds <= 500; n_seconds *= 5)
    for (int bunch = 1; bunch <= 4; bunch *= 4) {
      yk_end_rate rate;
      yk_end_rate_init(&rate);
      yk_end_rate_begin(&rate, START_NS);
      int64_t now_ns = START_NS;
      for (int i = 0; i < 4 * n_seconds / bunch; i++) {
        now_ns += SECOND_NS / 4 * bunch;
        yk_end_rate_add(&rate, bunch, now_ns);
      }
      assert_int_equal(yk_end_rate_wait_s(&rate, 1, now_ns), 1);
      assert_in_range(yk_end_rate_wait_s(&rate, 80, now_ns), 18, 20);
      assert_int_equal(yk_end_rate_wait_s(&rate, 4000, now_ns), YK_WAIT_MAX_S);
      int later_s = yk_end_rate_wait_s(&rate, 80, now_ns + 20 * SECOND_NS); /* during which nothing has ended */
      assert_true(later_s > 30);
      yk_end_rate_free(&rate);
    }
}

/* Idle time does not count as slowness. */
static void after_a_break(void **state)
{
  yk_end_rate rate;
  (void)state;
  yk_end_rate_init(&rate);
  yk_end_rate_begin(&rate, START_NS);
  yk_end_rate_add(&rate, 1, START_NS + SECOND_NS);
  int64_t again_ns = START_NS + 3600 * SECOND_NS;
  yk_end_rate_begin(&rate, again_ns);
  for (int i = 1; i <= 10; i++) yk_end_rate_add(&rate, 10, again_ns + i * SECOND_NS / 10);
  assert_int_equal(yk_end_rate_wait_s(&rate, 500, again_ns + SECOND_NS), 5);
  yk_end_rate_free(&rate);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(before_anything_has_ended), cmocka_unit_test(a_steady_rate),
                                     cmocka_unit_test(after_a_break)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
