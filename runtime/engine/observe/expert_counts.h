/* expert_counts.h - what expert_load.c keeps in the engine. */
#ifndef YK_ENGINE_OBSERVE_EXPERT_COUNTS_H
#define YK_ENGINE_OBSERVE_EXPERT_COUNTS_H

#include "yoke/yoke.h"

/* The engine's own; zero for a model without experts. */
typedef struct yk_expert_counts {
  yk_expert_load load; /* all but rows are fixed once created; those are under the mutex; no shares */
  /* The engine thread's. */
  int64_t *fresh; /* as rows */
  int64_t read_ns;
  bool is_stale; /* steps have run since */
} yk_expert_counts;

#endif
