/* test_op_cpu_pool.c - the CPU device's threads: every item once, on the promised threads, repeatedly. */
#include <stdatomic.h>
#include <time.h>

#include "base/cpu_pool.h"
#include "op/op_harness.h"

enum { MAX_ITEMS = 1000, MAX_THREADS = 9 };

typedef struct tally {
  int visits[MAX_ITEMS]; /* plain: a lost handover is a data race that ThreadSanitizer reports */
  atomic_int calls_of[MAX_THREADS];
} tally;

static void count_items(void *context, int thread, int64_t begin, int64_t end)
{
  tally *t = context;
  atomic_fetch_add(&t->calls_of[thread], 1);
  for (int64_t i = begin; i < end; i++) t->visits[i]++;
}

static void test_every_item_once(void **state)
{
  (void)state;
  for (int n_threads = 1; n_threads <= MAX_THREADS; n_threads += 2) {
    yk_cpu_pool *pool = NULL;
    op_ok(yk_cpu_pool_create(n_threads, &pool, &err));
    tally *t = calloc(1, sizeof *t);
    int expected[MAX_ITEMS] = {0};
    for (int round = 0; round < 600; round++) {
      int n_items = (round * 37) % MAX_ITEMS, min_items = round % 5 == 0 ? 100 : 1;
      if (round % 2)
        yk_cpu_pool_deal(pool, n_items, min_items, count_items, t);
      else
        yk_cpu_pool_run(pool, n_items, min_items, count_items, t);
      for (int i = 0; i < n_items; i++) expected[i]++;
      if (round % 100 == 0) { /* long enough for the workers to fall asleep */
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
      }
    }
    assert_memory_equal(t->visits, expected, sizeof expected);
    for (int i = 0; i < n_threads; i++) assert_true(atomic_load(&t->calls_of[i]) > 0);
    for (int i = n_threads; i < MAX_THREADS; i++) assert_int_equal(atomic_load(&t->calls_of[i]), 0);
    free(t);
    yk_cpu_pool_destroy(pool);
  }
}

static void test_short_loops_stay_on_the_caller(void **state)
{
  (void)state;
  yk_cpu_pool *pool = NULL;
  op_ok(yk_cpu_pool_create(3, &pool, &err));
  tally *t = calloc(1, sizeof *t);
  yk_cpu_pool_run(pool, 0, 1, count_items, t);
  assert_int_equal(atomic_load(&t->calls_of[0]), 0);
  yk_cpu_pool_run(pool, 10, 10, count_items, t);
  assert_int_equal(atomic_load(&t->calls_of[0]), 1);
  assert_int_equal(atomic_load(&t->calls_of[1]) + atomic_load(&t->calls_of[2]), 0);
  yk_cpu_pool_run(pool, 11, 10, count_items, t);
  assert_int_equal(atomic_load(&t->calls_of[1]), 1);
  assert_int_equal(atomic_load(&t->calls_of[2]), 0);
  free(t);
  yk_cpu_pool_destroy(pool);
}

typedef struct failing {
  int64_t first, second; /* items that fail */
} failing;

static yk_status fail_at(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const failing *f = context;
  for (int64_t i = begin; i < end; i++)
    if (i == f->first || i == f->second) return yk_err_set(err, YK_E_FORMAT, "item %lld", (long long)i);
  return YK_OK;
}

static void test_the_lowest_item_that_fails_is_named(void **state)
{
  (void)state;
  for (int n_threads = 0; n_threads <= MAX_THREADS; n_threads += 3) { /* 0: no pool */
    yk_cpu_pool *pool = NULL;
    if (n_threads) op_ok(yk_cpu_pool_create(n_threads, &pool, &err));
    for (int64_t first = 0; first < MAX_ITEMS; first += 37) {
      failing f = {first, MAX_ITEMS - 1};
      yk_err err = YK_ERR_INIT;
      char expected[32];
      snprintf(expected, sizeof expected, "item %d", (int)first);
      assert_int_equal(yk_cpu_pool_try(pool, MAX_ITEMS, 1, fail_at, &f, &err), YK_E_FORMAT);
      assert_string_equal(err.message, expected);
      assert_int_equal(yk_cpu_pool_try(pool, first, 1, fail_at, &f, NULL), YK_OK);
    }
    yk_cpu_pool_destroy(pool);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_item_once),
      cmocka_unit_test(test_short_loops_stay_on_the_caller),
      cmocka_unit_test(test_the_lowest_item_that_fails_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
