/* engine_loop.c - the engine thread: take submitted requests, plan a step, run the step and take its results. Readers
 * get their tokens while the ranks compute the next step. With pipeline stages further steps begin, of other sequences,
 * before the results of the oldest are taken. */
#include "engine/engine_loop.h"

#include "base/checked.h"
#include "base/clock.h"
#include "engine/call.h"
#include "engine/engine_stats.h"
#include "engine/expert_load.h"
#include "engine/hand_out.h"
#include "engine/profiler.h"
#include "engine/request_owner.h"

static bool has_work(const yk_engine *e)
{
  return yk_scheduler_n_running(e->scheduler) + yk_scheduler_n_waiting(e->scheduler) > 0;
}

static void add_request(yk_engine *e, yk_request *request)
{
  yk_sequence *seq = &request->seq;
  yk_err error = YK_ERR_INIT;
  const yk_salt salt = {request->adapter_id, request->cache_salt, request->cache_salt_bytes};
  if (request->cache_salt || request->adapter_id)
    yk_sequence_memory_begin_at(&seq->memory, yk_cache_salts_start(&e->salts, yk_memory_pool_blocks(e->pool), &salt));
  if (yk_step_builder_reserve(e->builder, &seq->extras, &error) == YK_OK) {
    yk_scheduler_add(e->scheduler, seq);
    return;
  }
  seq->extras = (yk_step_extras){0}; /* nothing was reserved, so nothing is released */
  seq->owner->finish(e, seq, YK_FINISH_ERROR, &error);
}

/* Move the inbox to the scheduler and run pending calls. Without work, sleep until a request or call arrives. Returns
 * false to stop. */
static bool take_inbox(yk_engine *e)
{
  pthread_mutex_lock(&e->mutex);
  while (!e->inbox && !e->calls && !e->stopping && !has_work(e)) pthread_cond_wait(&e->cv_work, &e->mutex);
  yk_request *request = e->inbox;
  yk_call *call = e->calls;
  e->inbox = NULL;
  e->inbox_end = &e->inbox;
  e->calls = NULL;
  e->calls_end = &e->calls;
  bool go_on = !e->stopping;
  pthread_mutex_unlock(&e->mutex);
  while (request) {
    yk_request *next = request->next_submitted; /* read first: an added request may finish and be freed */
    add_request(e, request);
    request = next;
  }
  while (call) {
    yk_call *next = call->next; /* read first: an answered call is gone */
    call->run(e, call);
    call = next;
  }
  return go_on;
}

typedef struct cancelled_search {
  yk_sequence *found;
  bool has_later; /* a cancelled sequence is in flight, to be dropped after its step */
} cancelled_search;

static void look_for_cancelled(void *context, yk_sequence *seq)
{
  cancelled_search *search = context;
  if (search->found || !seq->owner->is_cancelled(seq)) return;
  if (seq->is_in_flight)
    search->has_later = true;
  else
    search->found = seq;
}

/* n_cancels: read before the inbox was taken, so the scheduler has every request that was counted. Requests in flight
 * are dropped after their step. */
static void drop_cancelled(yk_engine *e, unsigned n_cancels, unsigned *seen)
{
  if (n_cancels == *seen) return;
  *seen = n_cancels;
  yk_requests_deliver(e);
  for (;;) {
    cancelled_search search = {0};
    yk_scheduler_for_each(e->scheduler, look_for_cancelled, &search);
    if (search.has_later) *seen = n_cancels - 1;
    if (!search.found) return;
    search.found->owner->finish(e, search.found, YK_FINISH_CANCELLED, NULL);
  }
}

/* Plan a step of sequences that are not in flight and start it on the ranks. Returns false if there are none. */
static bool begin_step(yk_engine *e)
{
  const yk_scheduled *items;
  yk_profiler_step_end(e, yk_clock_now_ns());
  int64_t planning_ns = yk_clock_now_ns();
  int32_t n_items = yk_scheduler_plan(e->scheduler, &items);
  if (n_items == 0) return false;
  for (int32_t i = 0; i < n_items; i++)
    if (items[i].enters) items[i].seq->owner->scheduled(items[i].seq);
  yk_flight *flight = &e->flights[e->n_begun++ % YK_MAX_RANKS];
  *flight = (yk_flight){.items = items, .n_items = n_items};
  bool is_timed = yk_profiler_step_begin(e, planning_ns, &flight->profiled);
  flight->step = yk_step_builder_build(e->builder, items, n_items, e->pool, is_timed);
  yk_engine_times *times = &flight->profiled.times;
  times->ranks_ns = yk_clock_now_ns();
  yk_ranks_begin(e->ranks, flight->step);
  yk_step_builder_fill_late(e->builder, e->mask_threads);
  yk_ranks_send_late(e->ranks, flight->step);
  times->deliver_ns = yk_clock_now_ns();
  yk_engine_count_masks(e, flight->step, (double)(times->deliver_ns - times->ranks_ns) * 1e-9);
  yk_requests_deliver(e);
  flight->n_prompt = yk_engine_prompt_rows(items, n_items);
  times->delivered_ns = yk_clock_now_ns();
  return true;
}

/* Wait for the oldest step in flight, and hand out its results. */
static void complete_step(yk_engine *e, yk_err *err)
{
  yk_flight *flight = &e->flights[e->n_completed % YK_MAX_RANKS];
  yk_engine_times *times = &flight->profiled.times;
  yk_requests_deliver(e);
  if (yk_ranks_wait(e->ranks, e->settings.step_timeout_s, err) != YK_OK) return;
  e->n_completed++;
  times->hand_out_ns = yk_clock_now_ns();
  times->is_prefill = flight->n_prompt > 0;
  int64_t alone_ns = times->hand_out_ns - yk_max_i64(times->ranks_ns, e->completed_ns);
  yk_engine_count_step(e, flight->step, flight->n_prompt, (double)alone_ns * 1e-9);
  yk_profiler_step_ran(e, flight->step, &flight->profiled);
  yk_scheduler_time_step(e->scheduler, alone_ns);
  yk_scheduler_commit(e->scheduler);
  yk_hand_out(e, flight->items, flight->n_items, flight->step);
  e->completed_ns = yk_clock_now_ns();
  yk_profiler_step_handed_out(e, e->completed_ns);
  if (yk_expert_counts_step(e, err) != YK_OK) return;
  yk_engine_count_own_time(e, times->ranks_ns - times->begin_ns + e->completed_ns - times->hand_out_ns,
                           times->delivered_ns - times->deliver_ns);
}

/* Keep every pipeline stage busy: as many steps in flight as stages, if there are sequences for them. */
static void run_steps(yk_engine *e, yk_err *err)
{
  while (e->n_begun - e->n_completed < (uint64_t)e->settings.world.n_stages && begin_step(e)) continue;
  if (e->n_begun > e->n_completed) complete_step(e, err);
}

static void fail_all(yk_engine *e, const yk_err *error)
{
  yk_scheduler_drop_steps(e->scheduler);
  e->n_completed = e->n_begun;
  yk_requests_deliver(e);
  for (yk_sequence *seq; (seq = yk_scheduler_any(e->scheduler));) seq->owner->finish(e, seq, YK_FINISH_ERROR, error);
}

static void record_failure(yk_engine *e, const yk_err *error)
{
  yk_log_write(&e->log, YK_LOG_ERROR, "%s", error->message);
  pthread_mutex_lock(&e->mutex);
  e->failure = *error;
  pthread_mutex_unlock(&e->mutex);
}

/* Counts the last step when no work is left. A failure is recorded: later requests end with it. */
static void end_work(yk_engine *e, yk_err *error)
{
  yk_profiler_step_end(e, yk_clock_now_ns());
  if (error->code == YK_OK && yk_expert_counts_idle(e, error) != YK_OK) record_failure(e, error);
}

void *yk_engine_loop(void *engine)
{
  yk_engine *e = engine;
  yk_err error = YK_ERR_INIT;
  unsigned seen_cancels = 0;
  for (;;) {
    unsigned n_cancels = atomic_load(&e->n_cancels);
    if (!has_work(e)) end_work(e, &error);
    if (!take_inbox(e)) break;
    if (error.code != YK_OK) {
      fail_all(e, &error); /* submitted before submit could see the failure */
      continue;
    }
    drop_cancelled(e, n_cancels, &seen_cancels);
    run_steps(e, &error);
    if (error.code != YK_OK) {
      record_failure(e, &error);
      fail_all(e, &error);
    }
  }
  while (e->n_begun > e->n_completed && error.code == YK_OK) complete_step(e, &error);
  yk_err stopped = YK_ERR_INIT;
  yk_err_set(&stopped, YK_E_CANCELLED, "the engine was stopped before the request was finished");
  fail_all(e, &stopped);
  return NULL;
}
