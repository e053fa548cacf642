/* plan_fill.h - what a plan tells of settings: bytes and tokens of each rank, and in words what a caller may not
 * expect. Any thread. */
#ifndef YK_ENGINE_MACHINE_PLAN_FILL_H
#define YK_ENGINE_MACHINE_PLAN_FILL_H

#include "engine/machine/settings.h"
#include "model/model.h"

/* yk_plan_fill - the plan of settings whose KV blocks have been chosen. memory [n_ranks]: what yk_model_measure says of
 *   each rank. Replaces all of *plan. */
void yk_plan_fill(const yk_model_memory *memory, const yk_settings *settings, yk_plan *plan);

/* yk_plan_fill_experts - what of a rank's weights are experts; stays 0 for a model without any. */
void yk_plan_fill_experts(const yk_model_memory *memory, const yk_settings *settings, const yk_experts_config *experts,
                          yk_plan *plan);

/* yk_plan_note - add to the reason of a plan that fits: ranks without heads, weights and inputs that devices keep
 *   otherwise than the checkpoint means. */
void yk_plan_note(const yk_model_config *config, const yk_model_memory *memory, yk_plan *plan);

/* yk_plan_say_no_room - the reason where not one block of KV fits: into what was asked for, or into total_bytes beside
 *   what the rank that needs most takes. */
void yk_plan_say_no_room(const yk_engine_options *options, const yk_model_memory *memory, int64_t total_bytes,
                         yk_plan *plan);

#endif
