/* step_trace.h - a timed step as slices of a trace. Engine thread. */
#ifndef YK_ENGINE_OBSERVE_STEP_TRACE_H
#define YK_ENGINE_OBSERVE_STEP_TRACE_H

#include "engine/observe/step_times.h"
#include "trace/trace.h"

/* When the engine thread did what, on the host's clock. */
typedef struct yk_engine_times {
  int32_t n_rows;
  bool is_prefill;
  int64_t begin_ns;                   /* planning and building */
  int64_t ranks_ns;                   /* the ranks run; */
  int64_t deliver_ns, delivered_ns;   /* meanwhile the tokens of the step before go to their readers */
  int64_t hand_out_ns, handed_out_ns; /* what the results mean for each sequence */
  int64_t end_ns;                     /* the next step, or nothing more to do */
} yk_engine_times;

/* yk_step_trace - add the step: the engine's row, and for each rank one of its thread and one of its device, where the
 *   stamps of GPUs are placed so that the pauses of rank 0's forward before and behind them are alike. */
void yk_step_trace(yk_trace *trace, const yk_timed_step *step, const yk_engine_times *times);

#endif
