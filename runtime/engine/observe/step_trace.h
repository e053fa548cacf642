/* step_trace.h - a timed step as slices of a trace. Engine thread. */
#ifndef YK_ENGINE_OBSERVE_STEP_TRACE_H
#define YK_ENGINE_OBSERVE_STEP_TRACE_H

#include "engine/observe/step_times.h"
#include "trace/trace.h"

/* The engine thread's activities, on the host's clock. */
typedef struct yk_engine_times {
  int32_t n_rows;
  bool is_prefill;
  int64_t begin_ns;                   /* planning and building begin */
  int64_t ranks_ns;                   /* the ranks begin to run */
  int64_t deliver_ns, delivered_ns;   /* meanwhile the previous step's tokens go to their readers */
  int64_t hand_out_ns, handed_out_ns; /* handing the results to the sequences */
  int64_t end_ns;                     /* the next step begins, or the work has run out */
} yk_engine_times;

/* yk_step_trace - add the step: one row for the engine, and per rank one row for its thread and one for its device. The
 *   stamps of GPUs are placed so that the pauses before and after the span of rank 0's forward are equal. */
void yk_step_trace(yk_trace *trace, const yk_timed_step *step, const yk_engine_times *times);

#endif
