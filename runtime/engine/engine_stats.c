/* engine_stats.c - the engine's counters, and the snapshot for callers. */
#include "engine/engine_stats.h"

#include "base/checked.h"
#include "base/struct_size.h"

void yk_engine_refresh_gauges(yk_engine *e)
{
  e->stats.waiting = yk_scheduler_n_waiting(e->scheduler);
  e->stats.waiting_tokens = yk_scheduler_waiting_tokens(e->scheduler);
  e->stats.running = yk_scheduler_n_running(e->scheduler);
  yk_scheduler_counts counts = yk_scheduler_count(e->scheduler);
  e->stats.preemptions = counts.preemptions;
  e->stats.prefix_tokens = counts.admitted_tokens;
  e->stats.prefix_reused_tokens = counts.reused_tokens;
  yk_state_counts states = yk_memory_pool_count_states(e->pool);
  e->stats.states_total = states.snapshots.n_entries;
  e->stats.states_used = states.snapshots.n_used;
  e->stats.states_saved = states.snapshots.saved;
  e->stats.states_evicted = states.snapshots.evicted;
  e->stats.state_hits = states.hits;
  e->stats.state_misses = states.misses;
  e->stats.kv_blocks_free = yk_kv_blocks_free_count(yk_memory_pool_blocks(e->pool));
}

static int32_t prompt_rows(const yk_scheduled *item)
{
  int64_t left = (int64_t)item->seq->n_prompt - item->seq->memory.n_computed;
  return (int32_t)yk_min_i64(yk_max_i64(left, 0), item->n_rows);
}

int32_t yk_engine_prompt_rows(const yk_scheduled *items, int32_t n_items)
{
  int32_t n = 0;
  for (int32_t i = 0; i < n_items; i++) n += prompt_rows(&items[i]);
  return n;
}

static int32_t n_drawn(const yk_step *step)
{
  int32_t n = 0;
  for (int32_t i = 0; i < step->counts.n_wanted; i++)
    n += !yk_step_sampling(step)[i].is_forced && step->answer.sampled[i].state == YK_ROW_SAMPLED;
  return n;
}

static int size_class(int32_t n_rows)
{
  int i = 0;
  while (i < YK_STEP_SIZES - 1 && n_rows > 1 << i) i++;
  return i;
}

void yk_engine_count_step(yk_engine *e, const yk_step *step, int32_t n_prompt, double seconds)
{
  pthread_mutex_lock(&e->mutex);
  yk_engine_stats *s = &e->stats;
  s->steps++;
  s->steps_by_rows[size_class(step->counts.n_tokens)]++;
  s->prompt_tokens += (uint64_t)n_prompt;
  s->output_tokens += (uint64_t)n_drawn(step);
  if (n_prompt > 0) {
    s->prefill_s += seconds;
    s->prefill_step_tokens += (uint64_t)step->counts.n_tokens;
  } else {
    s->decode_s += seconds;
    s->decode_step_tokens += (uint64_t)step->counts.n_tokens;
  }
  yk_engine_refresh_gauges(e);
  pthread_mutex_unlock(&e->mutex);
}

void yk_engine_count_masks(yk_engine *e, const yk_step *step, double seconds)
{
  if (step->counts.n_mask_words == 0) return;
  pthread_mutex_lock(&e->mutex);
  e->stats.masks += (uint64_t)(step->counts.n_mask_words / yk_mask_words(e->settings.limits.step.vocab));
  e->stats.masked_steps++;
  e->stats.mask_s += seconds;
  pthread_mutex_unlock(&e->mutex);
}

void yk_engine_count_own_time(yk_engine *e, int64_t scheduling_ns, int64_t hand_out_ns)
{
  pthread_mutex_lock(&e->mutex);
  e->stats.scheduling_s += (double)scheduling_ns * 1e-9;
  e->stats.hand_out_s += (double)hand_out_ns * 1e-9;
  pthread_mutex_unlock(&e->mutex);
}

void yk_engine_get_stats_sized(yk_engine *engine, yk_engine_stats *out, size_t struct_size)
{
  pthread_mutex_lock(&engine->mutex);
  yk_struct_write(out, struct_size, &engine->stats, sizeof engine->stats);
  pthread_mutex_unlock(&engine->mutex);
}
