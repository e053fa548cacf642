/* cpu_pool.c - fork and join by a counter of rounds. A round is one run of a loop.
 *
 * The caller writes the task, then the next round (release), which contains the number of participating threads. A
 * worker that reads the round (acquire) and takes part may read the task, and the caller waits only for these workers.
 * The other workers read only the round, so that a short task does not wait for threads without work: such a thread may
 * just have lost its core. Workers and caller spin for a while first, because a forward runs thousands of short loops a
 * second and steps follow each other, and then sleep on a condition variable. The thread that begins a round wakes only
 * sleepers: both sides write their own flag before they read the other's (sequentially consistent), so that no sleeper
 * is missed. */
#include "base/cpu_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/spin.h"

enum { SPIN_NS = 500000 }; /* longer than the pause between two steps */

/* A round: its number, and in the low half the number of participating threads, including the caller; 0 stops the
 * workers. */
enum { ROUND_SHIFT = 32 };

typedef struct worker {
  yk_cpu_pool *pool;
  int index;
  pthread_t thread;
} worker;

struct yk_cpu_pool {
  int n_threads, n_started;
  pthread_mutex_t mutex; /* guards sleeping on round and n_busy */
  pthread_cond_t start, done;
  _Atomic uint64_t round;    /* written once the task below is complete */
  atomic_int n_busy;         /* participating workers that have not finished */
  atomic_int n_sleeping;     /* workers that wait on start, or are about to */
  atomic_bool caller_sleeps; /* the caller waits on done, or is about to */
  yk_cpu_task task;
  void *context;
  int64_t n_items;
  int n_parts; /* threads that get a range, all of which take part */
  worker workers[];
};

static void run_part(const yk_cpu_pool *pool, int thread)
{
  int64_t begin = pool->n_items * thread / pool->n_parts;
  int64_t end = pool->n_items * (thread + 1) / pool->n_parts;
  pool->task(pool->context, thread, begin, end);
}

/* The first round seen after `seen`. Rounds without this worker may have passed meanwhile. */
static uint64_t wait_for_round_after(yk_cpu_pool *pool, uint64_t seen)
{
  uint64_t round;
  for (yk_spin spin = {0}; (round = atomic_load_explicit(&pool->round, memory_order_acquire)) == seen;)
    if (!yk_spin_again(&spin, SPIN_NS)) break;
  if (round != seen) return round;
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&pool->n_sleeping, 1);
  while ((round = atomic_load(&pool->round)) == seen) pthread_cond_wait(&pool->start, &pool->mutex);
  atomic_fetch_sub(&pool->n_sleeping, 1);
  pthread_mutex_unlock(&pool->mutex);
  return round;
}

static void *worker_main(void *argument)
{
  worker *self = argument;
  yk_cpu_pool *pool = self->pool;
  for (uint64_t round = 0;;) {
    round = wait_for_round_after(pool, round);
    uint32_t n_parts = (uint32_t)round;
    if (n_parts == 0) return NULL;
    if ((uint32_t)self->index >= n_parts) continue;
    run_part(pool, self->index);
    if (atomic_fetch_sub(&pool->n_busy, 1) == 1 && atomic_load(&pool->caller_sleeps)) {
      pthread_mutex_lock(&pool->mutex); /* the caller may be between its test and its wait */
      pthread_cond_signal(&pool->done);
      pthread_mutex_unlock(&pool->mutex);
    }
  }
}

static void begin_round(yk_cpu_pool *pool, int n_parts)
{
  uint64_t number = (atomic_load_explicit(&pool->round, memory_order_relaxed) >> ROUND_SHIFT) + 1;
  atomic_store_explicit(&pool->n_busy, n_parts - 1, memory_order_relaxed);
  atomic_store(&pool->round, number << ROUND_SHIFT | (uint32_t)n_parts);
  if (atomic_load(&pool->n_sleeping) == 0) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&pool->start);
  pthread_mutex_unlock(&pool->mutex);
}

static void wait_for_workers(yk_cpu_pool *pool)
{
  for (yk_spin spin = {0}; atomic_load_explicit(&pool->n_busy, memory_order_acquire) > 0;)
    if (!yk_spin_again(&spin, SPIN_NS)) break;
  if (atomic_load_explicit(&pool->n_busy, memory_order_acquire) == 0) return;
  pthread_mutex_lock(&pool->mutex);
  atomic_store(&pool->caller_sleeps, true);
  while (atomic_load(&pool->n_busy) > 0) pthread_cond_wait(&pool->done, &pool->mutex);
  atomic_store(&pool->caller_sleeps, false);
  pthread_mutex_unlock(&pool->mutex);
}

void yk_cpu_pool_run(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_task task, void *context)
{
  if (n_items <= 0) return;
  int64_t n_parts = yk_min_i64(pool ? pool->n_threads : 1, yk_ceil_div_i64(n_items, yk_max_i64(min_items, 1)));
  if (n_parts <= 1) {
    task(context, 0, 0, n_items);
    return;
  }
  pool->task = task;
  pool->context = context;
  pool->n_items = n_items;
  pool->n_parts = (int)n_parts;
  begin_round(pool, pool->n_parts);
  run_part(pool, 0);
  wait_for_workers(pool);
}

/* A loop whose ranges go to any thread that requests one. */
typedef struct dealing {
  yk_cpu_task task;
  void *context;
  int64_t n_items, range;
  _Atomic int64_t next; /* the first item not yet taken */
} dealing;

static void take_ranges(void *context, int thread, int64_t begin, int64_t end)
{
  (void)begin, (void)end;
  dealing *d = context;
  for (int64_t first; (first = atomic_fetch_add(&d->next, d->range)) < d->n_items;)
    d->task(d->context, thread, first, yk_min_i64(first + d->range, d->n_items));
}

void yk_cpu_pool_deal(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_task task, void *context)
{
  enum { RANGES_PER_THREAD = 8 }; /* so that a late thread delays the others by only a part of its share */
  int64_t n_threads = pool ? pool->n_threads : 1;
  dealing d = {.task = task, .context = context, .n_items = n_items};
  d.range = yk_max_i64(yk_max_i64(min_items, 1), yk_ceil_div_i64(n_items, n_threads * RANGES_PER_THREAD));
  yk_cpu_pool_run(pool, yk_min_i64(n_threads, yk_ceil_div_i64(n_items, d.range)), 1, take_ranges, &d);
}

/* State shared by the ranges of a task that can fail. */
typedef struct attempts {
  yk_cpu_attempt task;
  void *context;
  pthread_mutex_t mutex; /* guards the next two */
  int64_t first_failed;  /* begin of the first range that has failed; -1: none */
  yk_err err;            /* error of that range */
} attempts;

static void attempt(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  attempts *a = context;
  yk_err err = YK_ERR_INIT;
  yk_status status = a->task(a->context, begin, end, &err);
  if (status == YK_OK) return;
  yk_err_set(&err, status, "%s", yk_status_name(status)); /* used if the task has set no message */
  pthread_mutex_lock(&a->mutex);
  if (a->first_failed < 0 || begin < a->first_failed) {
    a->first_failed = begin;
    a->err = err;
  }
  pthread_mutex_unlock(&a->mutex);
}

yk_status yk_cpu_pool_try(yk_cpu_pool *pool, int64_t n_items, int64_t min_items, yk_cpu_attempt task, void *context,
                          yk_err *err)
{
  attempts a = {.task = task, .context = context, .first_failed = -1};
  pthread_mutex_init(&a.mutex, NULL);
  yk_cpu_pool_deal(pool, n_items, min_items, attempt, &a);
  pthread_mutex_destroy(&a.mutex);
  if (a.first_failed < 0) return YK_OK;
  if (err && err->code == YK_OK) *err = a.err;
  return a.err.code;
}

yk_status yk_cpu_pool_create(int n_threads, yk_cpu_pool **out, yk_err *err)
{
  size_t n_workers = (size_t)n_threads - 1;
  yk_cpu_pool *pool = calloc(1, sizeof *pool + n_workers * sizeof(worker));
  if (!pool) return yk_err_set(err, YK_E_NOMEM, "no memory for a pool of %d threads", n_threads);
  pool->n_threads = n_threads;
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->start, NULL);
  pthread_cond_init(&pool->done, NULL);
  for (size_t i = 0; i < n_workers; i++) {
    pool->workers[i] = (worker){.pool = pool, .index = (int)i + 1};
    int error = pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i]);
    if (error) {
      yk_err_set(err, YK_E_NOMEM, "thread %zu of %d did not start: %s", i + 1, n_threads, strerror(error));
      yk_cpu_pool_destroy(pool);
      return YK_E_NOMEM;
    }
    pool->n_started++;
  }
  *out = pool;
  return YK_OK;
}

void yk_cpu_pool_destroy(yk_cpu_pool *pool)
{
  if (!pool) return;
  begin_round(pool, 0);
  for (int i = 0; i < pool->n_started; i++) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->start);
  pthread_mutex_destroy(&pool->mutex);
  free(pool);
}
