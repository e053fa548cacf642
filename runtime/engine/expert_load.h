/* expert_load.h - how many rows chose each expert, as rank 0's device counts them.
 *
 * The engine thread reads the counts between steps: at most once a second while requests run, when it runs out of work,
 * and for callers that wait. What it read last is under the engine's mutex. */
#ifndef YK_ENGINE_EXPERT_LOAD_H
#define YK_ENGINE_EXPERT_LOAD_H

#include "loader/model_config.h"
#include "yoke.h"

struct yk_settings;

/* The engine's own; zero for a model without experts. */
typedef struct yk_expert_counts {
  yk_expert_load load; /* all but rows are fixed once created; those are under the mutex; no shares */
  /* The engine thread's. */
  int64_t *fresh; /* as rows */
  int64_t read_ns;
  bool is_stale; /* steps have run since */
} yk_expert_counts;

/* yk_expert_counts_create - for a model of this configuration on these ranks. Errors: YK_E_NOMEM; what was made is for
 *   yk_expert_counts_destroy. */
yk_status yk_expert_counts_create(const yk_model_config *config, const struct yk_settings *settings,
                                  yk_expert_counts *out, yk_err *err);
void yk_expert_counts_destroy(yk_expert_counts *counts);

/* yk_expert_counts_step - a step has run. Engine thread, between steps. Errors: those of the ranks. */
yk_status yk_expert_counts_step(yk_engine *e, yk_err *err);

/* yk_expert_counts_idle - there is no more work. Engine thread, between steps. Errors: those of the ranks. */
yk_status yk_expert_counts_idle(yk_engine *e, yk_err *err);

#endif
