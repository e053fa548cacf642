#include "engine/machine/settings_states.h"

#include "base/checked.h"
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
