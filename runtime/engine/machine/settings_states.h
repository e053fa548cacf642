/* settings_states.h - the part of the memory plan that belongs to layers with recurrent states. */
#ifndef YK_ENGINE_MACHINE_SETTINGS_STATES_H
#define YK_ENGINE_MACHINE_SETTINGS_STATES_H

#include "engine/machine/settings.h"
#include "model/model.h"
#include "parallel/cluster/cluster.h"

/* Bytes of a rank of this process. */
typedef struct yk_memory_bounds {
  int64_t total;
  int64_t kv_max;        /* of them for KV */
  int64_t states_max;    /* of them for the states of running sequences */
  int64_t snapshots_max; /* of all ranks, for snapshots that no option sizes */
} yk_memory_bounds;

/* yk_settings_choose_seqs - lower limits.step.max_seqs to the number of sequences whose states fit on every rank of
 *   every process, at least 1: into states_max, and into half of the memory besides weights and workspace, since a
 *   sequence needs KV too. No effect without states. memory [n_ranks]: results of yk_model_measure. cluster: as in
 *   yk_settings_resolve. Errors: YK_E_COMM. */
yk_status yk_settings_choose_seqs(const yk_model_memory *memory, const yk_memory_bounds *bounds, yk_cluster *cluster,
                                  yk_settings *settings, yk_err *err);

/* yk_settings_choose_snapshots - set limits.n_state_entries, and the rules, to the number of snapshots within
 *   state_cache_bytes, the same in every process. 0 without states, or if prefixes are not reused; without snapshots
 *   models with states reuse none.
 *   Errors: YK_E_INVAL if the bytes are fewer than a snapshot has, or more than the ranks have; YK_E_COMM. */
yk_status yk_settings_choose_snapshots(const yk_engine_options *options, const yk_model_memory *memory,
                                       const yk_memory_bounds *bounds, yk_cluster *cluster, yk_settings *settings,
                                       yk_err *err);

/* yk_settings_limit_snapshots - limits the snapshots to the number of snapshot positions in the KV blocks. */
void yk_settings_limit_snapshots(yk_settings *settings);

#endif
