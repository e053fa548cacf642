/* profiler_state.h - the engine's fields for profiler.c. */
#ifndef YK_ENGINE_OBSERVE_PROFILER_STATE_H
#define YK_ENGINE_OBSERVE_PROFILER_STATE_H

#include "engine/observe/step_trace.h"

typedef struct yk_profiled_step {
  bool is_timed;                  /* for the sums, the trace or both */
  bool is_counted;                /* added to the sums */
  bool is_pending, is_comparable; /* complete; complete or plain, and a decode step */
  unsigned epoch;
  int32_t n_wanted;
  yk_engine_times times;
  double ranks_ns; /* the ranks' time, without the reading of stamps */
} yk_profiled_step;

typedef struct yk_profiler {
  /* Guarded by the engine's mutex. */
  int32_t every;
  yk_trace *trace; /* or NULL; not owned */
  unsigned epoch;  /* grows when a caller restarts the profile */
  yk_step_sums prefill, decode;
  double cost_ns, n_cost_stamps; /* sums over comparable steps: timed less plain time, and stamps */
  double stamp_ns;               /* measured in a chain */
  int64_t resolution_ns;

  /* Engine thread only. */
  yk_profiled_step step, before; /* the two that ran last */
  bool is_timing;                /* a timed step is in flight: ranks keep the stamps of one step */
  uint64_t n_steps;              /* since the epoch began */
  unsigned seen_epoch;
  bool has_reported; /* the log has the resolution of the clock */
} yk_profiler;

#endif
