/* cpu_pool.h - the host threads of one rank: a loop over items is split into contiguous ranges, one per thread.
 *
 * The caller takes part as thread 0. Owner: the creator. Thread: one caller at a time. With a NULL pool the caller runs
 * the whole loop. */
#ifndef YK_BASE_CPU_POOL_H
#define YK_BASE_CPU_POOL_H

#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_cpu_pool yk_cpu_pool;

/* Process items [begin, end) of the loop. thread, in 0 .. n_threads - 1, selects per-thread scratch. */
typedef void (*yk_cpu_task)(void *context, int thread, int64_t begin, int64_t end);

/* yk_cpu_pool_create - n_threads >= 1 threads, including the caller: with 1 no thread is started.
 *   Errors: YK_E_NOMEM if memory or a thread is refused (all threads started so far are joined). */
yk_status yk_cpu_pool_create(int n_threads, yk_cpu_pool **out, yk_err *err);
void yk_cpu_pool_destroy(yk_cpu_pool *pool);

/* yk_cpu_pool_run - run task over [0, n_items), at least min_items per thread so that short loops stay on the caller.
 *   Returns when all items are done; the threads' writes are then visible to the caller. */
void yk_cpu_pool_run(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_task task, void *context);

/* yk_cpu_pool_deal - as yk_cpu_pool_run, but with more and shorter ranges of at least min_items, which threads take one
 *   after another: for work so long that other processes may need a core meanwhile. A thread calls task several times,
 *   for increasing ranges. */
void yk_cpu_pool_deal(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_task task, void *context);

/* Process items [begin, end) in increasing order; the first failure ends the range. */
typedef yk_status (*yk_cpu_attempt)(void *context, int64_t begin, int64_t end, yk_err *err);

/* yk_cpu_pool_try - yk_cpu_pool_deal of a task that can fail. Among several errors, returns the error of the lowest
 *   item, for any number of threads. Later items may or may not have been processed. */
yk_status yk_cpu_pool_try(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_attempt task, void *context,
                          yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
