#include "engine/profiler.h"

#include "base/checked.h"
#include "base/struct_size.h"

static yk_timed_step timed_step_of(const yk_engine *e)
{
  yk_timed_step step = {.n_ranks = e->settings.world.n_ranks,
                        .n_stages = e->settings.world.n_stages,
                        .n_processes = e->info.n_processes,
                        .hosts = e->cluster ? e->info.rank_hosts : NULL,
                        .has_one_clock = e->has_one_clock};
  step.ranks[0] = yk_ranks_profile(e->ranks, 0);
  for (int r = 1; r < step.n_ranks; r++) step.ranks[r] = yk_ranks_profile(e->ranks, r);
  return step;
}

static bool is_whole(const yk_timed_step *step)
{
  for (int r = 0; r < step->n_ranks; r++)
    if (!step->ranks[r]->is_whole) return false;
  return true;
}

/* The time that reading the stamps added to the step. */
static int64_t reading_ns(const yk_timed_step *step)
{
  int64_t forward_end_ns = INT64_MIN, read_end_ns = INT64_MIN;
  for (int r = 0; r < step->n_ranks; r++) {
    forward_end_ns = yk_max_i64(forward_end_ns, step->ranks[r]->forward_end_ns);
    read_end_ns = yk_max_i64(read_end_ns, step->ranks[r]->read_end_ns);
  }
  return read_end_ns - forward_end_ns;
}

/* ---- The cost of a stamp ----------------------------------------------------------------------------------------- */

/* The rank's stamps that take time. */
static int32_t count_stamps(const yk_step_profile *rank)
{
  int32_t n = 0;
  for (int32_t i = 0; i < rank->n; i++) n += !rank->operations[i].is_internal;
  return n;
}

/* Other delays can lengthen a step, so a difference counts only within limits around the chain's cost. */
static void compare(yk_profiler *p, const yk_profiled_step *plain, const yk_profiled_step *timed, int32_t n_stamps)
{
  const double widest = 4 * p->stamp_ns;
  if (!plain->is_comparable || !timed->is_comparable || plain->is_timed || plain->times.n_rows != timed->times.n_rows ||
      plain->n_wanted != timed->n_wanted)
    return;
  double ns = (timed->ranks_ns - plain->ranks_ns) / n_stamps - p->stamp_ns;
  ns = p->stamp_ns + (ns < -widest ? -widest : ns > widest ? widest : ns);
  p->cost_ns += ns * n_stamps;
  p->n_cost_stamps += n_stamps;
}

static double stamp_cost_ns(const yk_profiler *p)
{
  enum { ENOUGH_STAMPS = 1000 };
  double ns = p->n_cost_stamps < ENOUGH_STAMPS ? p->stamp_ns : p->cost_ns / p->n_cost_stamps;
  return ns > 0 ? ns : 0;
}

/* ---- A step's life ----------------------------------------------------------------------------------------------- */

/* n: number of the step since the profile was set, from 1. If every step is to be timed, some steps stay plain so that
 * the cost of stamps can be measured. */
static bool is_due(uint64_t n, uint64_t every)
{
  const uint64_t plain_in = 16;
  return every == 1 ? n % plain_in != 0 : every > 0 && n % every == 0;
}

bool yk_profiler_step_begin(yk_engine *e, int64_t now_ns, yk_profiled_step *out)
{
  yk_profiler *p = &e->profiler;
  pthread_mutex_lock(&e->mutex);
  uint64_t every = (uint64_t)p->every;
  unsigned epoch = p->epoch;
  bool is_traced = p->trace && yk_trace_wants(p->trace);
  pthread_mutex_unlock(&e->mutex);
  if (epoch != p->seen_epoch) p->n_steps = 0;
  p->seen_epoch = epoch;
  *out = (yk_profiled_step){.epoch = epoch, .times = {.begin_ns = now_ns}};
  out->is_counted = is_due(++p->n_steps, every) && !p->is_timing;
  out->is_timed = out->is_counted || (is_traced && !p->is_timing);
  p->is_timing |= out->is_timed;
  return out->is_timed;
}

static void report_clock(yk_engine *e, const yk_timed_step *step)
{
  yk_profiler *p = &e->profiler;
  if (p->has_reported) return;
  p->has_reported = true;
  for (int r = 0; r < step->n_ranks; r++)
    yk_log_write(&e->log, YK_LOG_INFO, "rank %d: clock in steps of %lld ns; a timestamp takes %.0f ns in a chain", r,
                 (long long)step->ranks[r]->resolution_ns, step->ranks[r]->stamp_ns);
}

static bool has_stages(const yk_engine *e)
{
  return e->settings.world.n_stages > 1;
}

void yk_profiler_step_ran(yk_engine *e, const yk_step *step, const yk_profiled_step *ran)
{
  yk_profiler *p = &e->profiler;
  yk_profiled_step *now = &p->step;
  const yk_engine_times *times = &ran->times;
  p->before = p->step;
  *now = *ran;
  now->times.n_rows = step->counts.n_tokens;
  now->n_wanted = step->counts.n_wanted;
  now->ranks_ns = (double)(times->hand_out_ns - times->ranks_ns);
  now->is_comparable = !times->is_prefill && !has_stages(e);
  if (!now->is_timed) return;
  p->is_timing = false;
  yk_timed_step measured = timed_step_of(e);
  report_clock(e, &measured);
  now->is_pending = is_whole(&measured);
  now->is_comparable &= now->is_pending;
  now->ranks_ns -= (double)reading_ns(&measured);
}

void yk_profiler_step_handed_out(yk_engine *e, int64_t now_ns)
{
  e->profiler.step.times.handed_out_ns = now_ns;
  if (has_stages(e)) yk_profiler_step_end(e, now_ns);
}

/* Under the mutex. */
static void count(yk_profiler *p, const yk_timed_step *measured)
{
  p->stamp_ns = 0;
  p->resolution_ns = 0;
  for (int r = 0; r < measured->n_ranks; r++) {
    p->stamp_ns += measured->ranks[r]->stamp_ns / measured->n_ranks;
    p->resolution_ns = yk_max_i64(p->resolution_ns, measured->ranks[r]->resolution_ns);
  }
  compare(p, &p->before, &p->step, count_stamps(measured->ranks[0]));
  yk_step_sums_add(p->step.times.is_prefill ? &p->prefill : &p->decode, measured);
}

void yk_profiler_step_end(yk_engine *e, int64_t now_ns)
{
  yk_profiler *p = &e->profiler;
  if (!p->step.is_pending) return;
  p->step.is_pending = false;
  p->step.times.end_ns = now_ns;
  yk_timed_step measured = timed_step_of(e);
  measured.period_ns = now_ns - p->step.times.begin_ns - reading_ns(&measured);
  pthread_mutex_lock(&e->mutex);
  if (p->step.is_counted && p->step.epoch == p->epoch) count(p, &measured);
  if (p->trace && yk_trace_wants(p->trace)) yk_step_trace(p->trace, &measured, &p->step.times);
  pthread_mutex_unlock(&e->mutex);
}

/* ---- For callers ------------------------------------------------------------------------------------------------- */

yk_status yk_engine_set_profile(yk_engine *engine, int32_t every, yk_err *err)
{
  yk_profiler *p = &engine->profiler;
  if (every < 0) return yk_err_set(err, YK_E_INVAL, "every: expected 0, which times no step, or more, found %d", every);
  pthread_mutex_lock(&engine->mutex);
  p->every = every;
  p->epoch++;
  p->prefill = p->decode = (yk_step_sums){0};
  p->cost_ns = p->n_cost_stamps = 0;
  pthread_mutex_unlock(&engine->mutex);
  return YK_OK;
}

void yk_engine_get_profile_sized(yk_engine *engine, yk_profile *out, size_t struct_size)
{
  const yk_profiler *p = &engine->profiler;
  int n_ranks = engine->settings.world.n_ranks;
  pthread_mutex_lock(&engine->mutex);
  double stamp_ns = stamp_cost_ns(p);
  yk_profile profile = {.n_ranks = n_ranks, .clock_resolution_s = (double)p->resolution_ns * 1e-9};
  yk_step_sums_correct(&p->prefill, n_ranks, stamp_ns, &profile.prefill);
  yk_step_sums_correct(&p->decode, n_ranks, stamp_ns, &profile.decode);
  pthread_mutex_unlock(&engine->mutex);
  yk_struct_write(out, struct_size, &profile, sizeof profile);
}

void yk_engine_set_trace(yk_engine *engine, yk_trace *trace)
{
  pthread_mutex_lock(&engine->mutex);
  engine->profiler.trace = trace;
  pthread_mutex_unlock(&engine->mutex);
}
