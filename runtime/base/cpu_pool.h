/* cpu_pool.h - the host threads of one rank: a loop over items is cut into contiguous ranges, one for each thread.
 *
 * The caller takes part as thread 0. Owner: whoever created it. Thread: one caller at a time. Where a pool is NULL, the
 * caller does everything. */
#ifndef YK_BASE_CPU_POOL_H
#define YK_BASE_CPU_POOL_H

#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_cpu_pool yk_cpu_pool;

/* Items [begin, end) of the loop; thread in 0 .. n_threads - 1 picks per-thread scratch. */
typedef void (*yk_cpu_task)(void *context, int thread, int64_t begin, int64_t end);

/* yk_cpu_pool_create - n_threads >= 1 threads, the caller's included: one means that no thread is started.
 *   Errors: YK_E_NOMEM when memory or a thread is refused (none is left behind). */
yk_status yk_cpu_pool_create(int n_threads, yk_cpu_pool **out, yk_err *err);
void yk_cpu_pool_destroy(yk_cpu_pool *pool);

/* yk_cpu_pool_run - task over [0, n_items), at least min_items to a thread so that short loops stay on the caller.
 *   Returns when all of it is done; what the threads wrote is then visible to the caller. */
void yk_cpu_pool_run(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_task task, void *context);

/* yk_cpu_pool_deal - the same in more and shorter ranges, of at least min_items, which threads take as they come: for
 *   work so long that others may want a core meanwhile. A thread calls task several times, for rising ranges. */
void yk_cpu_pool_deal(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_task task, void *context);

/* Items [begin, end) in rising order; the first that fails ends the range. */
typedef yk_status (*yk_cpu_attempt)(void *context, int64_t begin, int64_t end, yk_err *err);

/* yk_cpu_pool_try - yk_cpu_pool_deal of a task that can fail: of several errors, that of the lowest item, however many
 *   threads there are. Items behind it may or may not have been worked on. */
yk_status yk_cpu_pool_try(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_attempt task, void *context,
                          yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
