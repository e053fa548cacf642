/* expert_counts.h - the engine's fields for expert_load.c. */
#ifndef YK_ENGINE_OBSERVE_EXPERT_COUNTS_H
#define YK_ENGINE_OBSERVE_EXPERT_COUNTS_H

#include "yoke/yoke.h"

/* Zero for a model without experts. */
typedef struct yk_expert_counts {
  yk_expert_load load; /* fixed once created, except rows, which the mutex guards; no shares */
  /* Engine thread only. */
  int64_t *fresh; /* same layout as rows */
  int64_t read_ns;
  bool is_stale; /* steps have run since the last reading */
} yk_expert_counts;

#endif
