/* profiler_state.h - the engine's fields for profiler.c. */
#ifndef YK_ENGINE_OBSERVE_PROFILER_STATE_H
#define YK_ENGINE_OBSERVE_PROFILER_STATE_H

#include "engine/observe/step_trace.h"

typedef struct yk_profiler {
  /* The engine's mutex guards the following fields. */
  int32_t every;
  yk_trace *trace; /* or NULL; not owned */
  unsigned epoch;  /* grows when a caller restarts the profile */
  yk_step_sums prefill, decode;
  double cost_ns, n_cost_stamps; /* sum of the differences between timed and plain decode steps, and of the stamps that
                                  * caused them */
  double stamp_ns;               /* measured in a chain */
  int64_t resolution_ns;

  /* The following fields belong to the engine thread. */
  struct yk_profiled_step {
    bool is_timed;                  /* for the sums, the trace or both */
    bool is_counted;                /* added to the sums */
    bool is_pending, is_comparable; /* pending: complete; comparable: complete or plain, and a decode step */
    unsigned epoch;
    int32_t n_wanted;
    yk_engine_times times;
    double ranks_ns; /* the ranks' time, without the reading of stamps */
  } step, before;
  uint64_t n_steps; /* since the epoch began */
  unsigned seen_epoch;
  bool has_told; /* the log has the resolution of the clock */
} yk_profiler;

#endif
