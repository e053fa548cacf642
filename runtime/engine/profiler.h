/* profiler.h - selects the steps to time, and sums their times.
 *
 * A timed step is counted at its end: when the next step begins, or when the engine runs out of work. With pipeline
 * stages a step ends with its results, and of the steps in flight at most one is timed. Steps in which a graph was
 * recorded are not counted. The cost of a stamp is the difference between consecutive timed and plain decode steps with
 * equal numbers of rows; until such pairs exist, the cost measured in a chain of stamps.
 *
 * Owner: the engine. Thread: the engine's; the engine's mutex guards the fields that callers see. */
#ifndef YK_ENGINE_PROFILER_H
#define YK_ENGINE_PROFILER_H

#include "engine/engine_internal.h"

/* yk_profiler_step_begin - a step begins now; fills *out. Returns whether the step is to be timed. */
bool yk_profiler_step_begin(yk_engine *e, int64_t now_ns, yk_profiled_step *out);

/* yk_profiler_step_ran - the ranks have run the step. ran->times: from ranks_ns to hand_out_ns, and is_prefill. */
void yk_profiler_step_ran(yk_engine *e, const yk_step *step, const yk_profiled_step *ran);

/* yk_profiler_step_handed_out - the step's results are handed out. */
void yk_profiler_step_handed_out(yk_engine *e, int64_t now_ns);

/* yk_profiler_step_end - the previous step has ended, at the latest now. No effect without a step to count. */
void yk_profiler_step_end(yk_engine *e, int64_t now_ns);

#endif
