/* engine_driver.h - a study's driver over yoke.h and runs of runtime/bench. */
#ifndef YK_STUDY_ENGINE_DRIVER_H
#define YK_STUDY_ENGINE_DRIVER_H

#include "bench/gpus.h"
#include "study/driver.h"
#include "study/plan.h"

/* Set options, grid, log and the progress of loading; the rest is the driver's own and zero. */
typedef struct yk_study_engine {
  const yk_study_grid *grid;
  const yk_study_options *options;
  yk_log log;
  void (*progress)(void *user, int64_t done_bytes, int64_t total_bytes);
  void *progress_user;
  yk_engine *engine;
  yk_bench_gpus *gpus;      /* of the engine; NULL: on CPU, or they cannot be asked */
  yk_bench_warnings others; /* GPUs that other processes used when the engine was started */
  int32_t n_runs;           /* on this engine: each has prompts of its own */
  bool *is_warm;            /* [n_points] has run on this engine; owned */
  bool is_stuck;            /* an engine could not be freed: see yk_engine_destroy */
} yk_study_engine;

/* yk_study_engine_driver - the driver; engine must outlive it and is freed by yk_study_engine_free. Each point's first
 *   run on an engine follows a short one of the same size, which is not measured: it pays for what an engine does once
 *   for a size, as recording graphs. */
yk_study_driver yk_study_engine_driver(yk_study_engine *engine);
void yk_study_engine_free(yk_study_engine *engine);

#endif
