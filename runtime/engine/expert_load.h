/* expert_load.h - how many rows chose each expert, as counted by rank 0's device.
 *
 * The engine thread reads the counts between steps: at most once a second while requests run, when the work runs out,
 * and for waiting callers. The engine's mutex guards the last reading. */
#ifndef YK_ENGINE_EXPERT_LOAD_H
#define YK_ENGINE_EXPERT_LOAD_H

#include "engine/machine/settings.h"
#include "engine/observe/expert_counts.h"

/* yk_expert_counts_create - counts for a model of this configuration on these ranks. After an error too, call
 *   yk_expert_counts_destroy. Errors: YK_E_NOMEM. */
yk_status yk_expert_counts_create(const yk_model_config *config, const yk_settings *settings, yk_expert_counts *out,
                                  yk_err *err);
void yk_expert_counts_destroy(yk_expert_counts *counts);

/* yk_expert_counts_step - a step has run. Engine thread, between steps. Errors: those of the ranks. */
yk_status yk_expert_counts_step(yk_engine *e, yk_err *err);

/* yk_expert_counts_idle - no work is left. Engine thread, between steps. Errors: those of the ranks. */
yk_status yk_expert_counts_idle(yk_engine *e, yk_err *err);

#endif
