/* test_cpu_pool.c - loops over ranges on any number of threads: each item once, and the first error of several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "base/cpu_pool.h"

enum { MOST_ITEMS = 100, MOST_THREADS = 6, ROUNDS = 2000 };

typedef struct tally {
  int seen[MOST_ITEMS];
  int64_t n_items;
  int n_threads;
} tally;

/* No two threads have an item in common, so counting needs no lock; the thread sanitizer detects shared items. */
static void count(void *context, int thread, int64_t begin, int64_t end)
{
  tally *t = context;
  if (thread >= t->n_threads || begin < 0 || end > t->n_items) abort();
  for (int64_t i = begin; i < end; i++) t->seen[i]++;
}

typedef void (*loop)(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_task task, void *context);

/* Loops of different lengths follow each other at once, so that threads without items in some of them arrive late. */
static void check_rounds(int n_threads, loop run)
{
  yk_cpu_pool *pool = NULL;
  assert_int_equal(yk_cpu_pool_create(n_threads, &pool, NULL), YK_OK);
  for (int round = 0; round < ROUNDS; round++) {
    tally t = {.n_items = round * 7 % (round % 2 ? MOST_ITEMS + 1 : n_threads + 1), .n_threads = n_threads};
    run(pool, t.n_items, 1 + round % 5, count, &t);
    for (int64_t i = 0; i < MOST_ITEMS; i++) assert_int_equal(t.seen[i], i < t.n_items);
  }
  yk_cpu_pool_destroy(pool);
}

static void every_item_once(void **state)
{
  (void)state;
  for (int n_threads = 1; n_threads <= MOST_THREADS; n_threads++) {
    check_rounds(n_threads, yk_cpu_pool_run);
    check_rounds(n_threads, yk_cpu_pool_deal);
  }
}

static void without_a_pool(void **state)
{
  (void)state;
  tally t = {.n_items = MOST_ITEMS, .n_threads = 1};
  yk_cpu_pool_run(NULL, t.n_items, 1, count, &t);
  yk_cpu_pool_deal(NULL, t.n_items, 1, count, &t);
  for (int i = 0; i < MOST_ITEMS; i++) assert_int_equal(t.seen[i], 2);
}

/* Items 13, 31 and 77 fail. */
static yk_status fail_at_some(void *context, int64_t begin, int64_t end, yk_err *err)
{
  (void)context;
  for (int64_t i = begin; i < end; i++)
    if (i == 13 || i == 31 || i == 77) return yk_err_set(err, YK_E_FORMAT, "item %lld", (long long)i);
  return YK_OK;
}

static void the_first_error_wins(void **state)
{
  (void)state;
  for (int n_threads = 1; n_threads <= MOST_THREADS; n_threads++) {
    yk_cpu_pool *pool = NULL;
    assert_int_equal(yk_cpu_pool_create(n_threads, &pool, NULL), YK_OK);
    for (int round = 0; round < 200; round++) {
      yk_err err = YK_ERR_INIT;
      assert_int_equal(yk_cpu_pool_try(pool, MOST_ITEMS, 1, fail_at_some, NULL, &err), YK_E_FORMAT);
      assert_string_equal(err.message, "item 13");
    }
    yk_cpu_pool_destroy(pool);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_item_once), cmocka_unit_test(without_a_pool),
                                     cmocka_unit_test(the_first_error_wins)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
