/* plan_fill.h - fill a plan from settings: bytes and tokens of each rank, and remarks on deviations from the caller's
 * expectation. Any thread. */
#ifndef YK_ENGINE_MACHINE_PLAN_FILL_H
#define YK_ENGINE_MACHINE_PLAN_FILL_H

#include "engine/machine/settings.h"
#include "model/model.h"

/* yk_plan_fill - the plan of settings whose KV blocks have been chosen. memory [n_ranks]: results of yk_model_measure.
 *   Replaces all of *plan. */
void yk_plan_fill(const yk_model_memory *memory, const yk_settings *settings, yk_plan *plan);

/* yk_plan_fill_experts - the experts' part of each rank's weights; stays 0 for a model without experts. */
void yk_plan_fill_experts(const yk_model_memory *memory, const yk_settings *settings, const yk_experts_config *experts,
                          yk_plan *plan);

/* yk_plan_note - add remarks to the reason of a plan that fits: fewer sequences than wanted, ranks without heads,
 *   weights and inputs whose form on the device differs from the checkpoint's. */
void yk_plan_note(const yk_model_config *config, const yk_model_memory *memory, int32_t wanted_seqs, yk_plan *plan);

/* yk_plan_report_too_little_memory - set the reason if not one block of KV fits: either into the requested size, or
 *   into total_bytes with the memory of the largest rank. */
void yk_plan_report_too_little_memory(const yk_engine_options *options, const yk_model_memory *memory,
                                      int64_t total_bytes, yk_plan *plan);

#endif
