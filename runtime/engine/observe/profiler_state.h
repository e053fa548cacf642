/* profiler_state.h - what profiler.c keeps in the engine. */
#ifndef YK_ENGINE_OBSERVE_PROFILER_STATE_H
#define YK_ENGINE_OBSERVE_PROFILER_STATE_H

#include "engine/observe/step_trace.h"

typedef struct yk_profiler {
  /* The engine's mutex guards these. */
  int32_t every;
  yk_trace *trace; /* or NULL; not owned */
  unsigned epoch;  /* grows when callers begin anew */
  yk_step_sums prefill, decode;
  double cost_ns, n_cost_stamps; /* timed less plain decode steps, and the stamps in between */
  double stamp_ns;               /* of the chain */
  int64_t resolution_ns;

  /* The engine thread's own. */
  struct yk_profiled_step {
    bool is_timed;                  /* for the sums, the trace or both */
    bool is_counted;                /* in the sums */
    bool is_pending, is_comparable; /* whole; whole or plain, and a decode */
    unsigned epoch;
    int32_t n_wanted;
    yk_engine_times times;
    double ranks_ns; /* the ranks' share, without the reading of stamps */
  } step, before;
  uint64_t n_steps; /* since the epoch began */
  unsigned seen_epoch;
  bool has_told; /* the log has the clock's resolution */
} yk_profiler;

#endif
