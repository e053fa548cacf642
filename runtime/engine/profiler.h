/* profiler.h - which steps are timed, and the sums over them.
 *
 * A timed step is counted when the next one begins or the engine has nothing more to do, which is its end. Steps in
 * which a graph was recorded are not counted. What a stamp costs is taken from timed and plain decode steps that follow
 * each other with as many rows; until there are some, from a chain of stamps.
 *
 * Owner: the engine. Thread: the engine's; what callers see is under the engine's mutex. */
#ifndef YK_ENGINE_PROFILER_H
#define YK_ENGINE_PROFILER_H

#include "engine/engine_internal.h"

/* yk_profiler_step_begin - a step begins now. Returns whether the step is to be timed. */
bool yk_profiler_step_begin(yk_engine *e, int64_t now_ns);

/* yk_profiler_step_ran - the ranks have run it. times: from ranks_ns to hand_out_ns, and is_prefill. */
void yk_profiler_step_ran(yk_engine *e, const yk_step *step, const yk_engine_times *times);

/* yk_profiler_step_handed_out - its results are handed out. */
void yk_profiler_step_handed_out(yk_engine *e, int64_t now_ns);

/* yk_profiler_step_end - the step before has ended, at the latest now; nothing where there is none to count. */
void yk_profiler_step_end(yk_engine *e, int64_t now_ns);

#endif
