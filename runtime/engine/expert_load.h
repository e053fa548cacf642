/* expert_load.h - how many rows chose each expert, as rank 0's device counts them.
 *
 * The engine thread reads the counts between steps: at most once a second while requests run, when it runs out of work,
 * and for callers that wait. What it read last is under the engine's mutex. */
#ifndef YK_ENGINE_EXPERT_LOAD_H
#define YK_ENGINE_EXPERT_LOAD_H

#include "engine/observe/expert_counts.h"
#include "engine/machine/settings.h"

/* yk_expert_counts_create - for a model of this configuration on these ranks. Errors: YK_E_NOMEM; what was made is for
 *   yk_expert_counts_destroy. */
yk_status yk_expert_counts_create(const yk_model_config *config, const yk_settings *settings, yk_expert_counts *out,
                                  yk_err *err);
void yk_expert_counts_destroy(yk_expert_counts *counts);

/* yk_expert_counts_step - a step has run. Engine thread, between steps. Errors: those of the ranks. */
yk_status yk_expert_counts_step(yk_engine *e, yk_err *err);

/* yk_expert_counts_idle - there is no more work. Engine thread, between steps. Errors: those of the ranks. */
yk_status yk_expert_counts_idle(yk_engine *e, yk_err *err);

#endif
