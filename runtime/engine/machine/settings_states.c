#include "engine/machine/settings_states.h"

#include "base/checked.h"
#include "base/units.h"
#include "engine/machine/processes.h"

static int64_t seqs_that_fit(const yk_model_memory *memory, const yk_memory_bounds *bounds, const yk_settings *s)
{
  int64_t n = s->limits.step.max_seqs;
  for (int rank = s->world.first_rank; rank < s->world.first_rank + s->world.n_local; rank++) {
    const yk_model_memory *m = &memory[rank];
    int64_t half = (bounds->total - m->weight_bytes - m->workspace_bytes) / 2;
    if (m->state_bytes_per_seq) n = yk_min_i64(n, yk_min_i64(half, bounds->states_max) / m->state_bytes_per_seq);
  }
  return yk_max_i64(n, 1);
}

yk_status yk_settings_choose_seqs(const yk_model_memory *memory, const yk_memory_bounds *bounds, yk_cluster *cluster,
                                  yk_settings *settings, yk_err *err)
{
  int64_t n;
  int process;
  if (!settings->rules.has_states) return YK_OK;
  YK_TRY(yk_processes_smallest(cluster, seqs_that_fit(memory, bounds, settings), &n, &process, err));
  settings->limits.step.max_seqs = (int32_t)n;
  return YK_OK;
}

static void set_entries(yk_settings *s, int64_t n)
{
  s->limits.n_state_entries = s->rules.n_state_entries = (int32_t)n;
  if (s->rules.has_states && n == 0) s->rules.reuses_prefixes = false;
}

/* Snapshots are in the memory that KV is in, of which KV keeps the larger part. */
static int64_t default_budget(const yk_model_memory *memory, const yk_memory_bounds *bounds, const yk_settings *s,
                              int64_t snapshot_bytes)
{
  int64_t n = bounds->snapshots_max / snapshot_bytes;
  for (int rank = s->world.first_rank; rank < s->world.first_rank + s->world.n_local; rank++) {
    const yk_model_memory *m = &memory[rank];
    int64_t left = bounds->total - m->weight_bytes - m->workspace_bytes;
    if (!m->state_bytes_per_seq) continue;
    left = yk_max_i64(left - m->state_bytes_per_seq * s->limits.step.max_seqs, 0) / 4;
    n = yk_min_i64(n, left / m->state_bytes_per_seq);
  }
  return n * snapshot_bytes;
}

yk_status yk_settings_choose_snapshots(const yk_engine_options *o, const yk_model_memory *memory,
                                       const yk_memory_bounds *bounds, yk_cluster *cluster, yk_settings *settings,
                                       yk_err *err)
{
  const int64_t of_ranks = bounds->total * settings->world.n_ranks;
  int64_t snapshot = 0, budget = o->state_cache_bytes, n;
  char needed[YK_BYTES_TEXT], found[YK_BYTES_TEXT];
  int process;
  if (budget > of_ranks)
    return yk_err_set(err, YK_E_INVAL, "state_cache_bytes: expected at most %s, the memory of all ranks, found %s",
                      yk_bytes_format(of_ranks, needed), yk_bytes_format(budget, found));
  if (!settings->rules.has_states) return YK_OK;
  for (int rank = 0; rank < settings->world.n_ranks; rank++) snapshot += memory[rank].state_bytes_per_seq;
  if (budget > 0 && budget < snapshot)
    return yk_err_set(err, YK_E_INVAL,
                      "state_cache_bytes: expected 0, or at least %s, a snapshot of all ranks, found %s",
                      yk_bytes_format(snapshot, needed), yk_bytes_format(budget, found));
  if (budget < 0) budget = default_budget(memory, bounds, settings, snapshot);
  YK_TRY(yk_processes_smallest(cluster, budget, &budget, &process, err));
  n = settings->rules.reuses_prefixes ? budget / snapshot : 0;
  set_entries(settings, yk_min_i64(n, INT32_MAX / YK_STATE_SAVE_TOKENS));
  return YK_OK;
}

void yk_settings_limit_snapshots(yk_settings *settings)
{
  int64_t places = (int64_t)settings->limits.n_kv_blocks * YK_KV_BLOCK_TOKENS / YK_STATE_SAVE_TOKENS;
  set_entries(settings, yk_min_i64(settings->limits.n_state_entries, places));
}
