/* op_threads.h - loops of references over every processor. */
#ifndef YK_TESTS_OP_THREADS_H
#define YK_TESTS_OP_THREADS_H

#include <stdlib.h>
#include <unistd.h>

#include "base/cpu_pool.h"

enum { OP_MOST_THREADS = 16, OP_WORTH_THREADS = 1 << 18 /* values or products */ };

/* Runs task over [0, n_items), on several threads if the loop's work (values or products) is worth their creation. The
 * task may not fail an assertion: cmocka leaves a test by longjmp of the test's own thread. */
static inline void op_for_each(int64_t n_items, double work, yk_cpu_task task, void *context)
{
  long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
  int n_threads = n_processors > OP_MOST_THREADS ? OP_MOST_THREADS : n_processors < 1 ? 1 : (int)n_processors;
  yk_cpu_pool *pool = NULL;
  if (work < OP_WORTH_THREADS || n_items < 2 || yk_cpu_pool_create(n_threads, &pool, NULL) != YK_OK) {
    task(context, 0, 0, n_items);
    return;
  }
  yk_cpu_pool_deal(pool, n_items, 1, task, context);
  yk_cpu_pool_destroy(pool);
}

#endif
