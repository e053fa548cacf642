/* engine_stats.h - the engine's counters. */
#ifndef YK_ENGINE_ENGINE_STATS_H
#define YK_ENGINE_ENGINE_STATS_H

#include "engine/engine_internal.h"

/* yk_engine_refresh_gauges - update the gauges in the engine's stats. Engine thread, under the mutex. */
void yk_engine_refresh_gauges(yk_engine *e);

/* yk_engine_prompt_rows - prompt rows of a step. Engine thread, before the scheduler commits the step, while n_computed
 *   still separates prompt rows from output rows. */
int32_t yk_engine_prompt_rows(const yk_scheduled *items, int32_t n_items);

/* yk_engine_count_step - add a computed step to the statistics. Engine thread. */
void yk_engine_count_step(yk_engine *e, const yk_step *step, int32_t n_prompt, double seconds);

/* yk_engine_count_masks - the masks of a step, if there are any, were filled `seconds` after its start. Engine
 *   thread. */
void yk_engine_count_masks(yk_engine *e, const yk_step *step, double seconds);

/* yk_engine_count_own_time - add the engine thread's own time for a step: scheduling_ns while ranks waited, hand_out_ns
 *   while ranks computed. Engine thread. */
void yk_engine_count_own_time(yk_engine *e, int64_t scheduling_ns, int64_t hand_out_ns);

#endif
