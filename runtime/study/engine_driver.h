/* engine_driver.h - implements a study's driver with yoke.h and the runs of runtime/bench. */
#ifndef YK_STUDY_ENGINE_DRIVER_H
#define YK_STUDY_ENGINE_DRIVER_H

#include "bench/gpus.h"
#include "study/driver.h"
#include "study/plan.h"

/* The caller sets options, grid, log and the progress of loading; the rest is private and zero. */
typedef struct yk_study_engine {
  const yk_study_grid *grid;
  const yk_study_options *options;
  yk_process_group *group; /* the processes of the study, not owned; NULL: one */
  yk_log log;
  void (*progress)(void *user, int64_t done_bytes, int64_t total_bytes);
  void *progress_user;
  yk_engine *engine;
  yk_engine_info info;      /* of the engine */
  yk_bench_gpus *gpus;      /* of the engine; NULL: CPU, or the GPUs cannot be queried */
  yk_bench_warnings others; /* GPUs that other processes used at the engine's start */
  int32_t n_runs;           /* on this engine: each run has its own prompts */
  bool *is_warm;            /* [n_points] the point has run on this engine; owned */
  bool is_stuck;            /* an engine could not be freed: see yk_engine_destroy */
} yk_study_engine;

/* yk_study_engine_driver - the driver; engine must outlive it and is freed by yk_study_engine_free. A short run of the
 *   same size, which is not measured, precedes each point's first run on an engine: it includes work that an engine
 *   does once for a size, such as recording graphs. */
yk_study_driver yk_study_engine_driver(yk_study_engine *engine);
void yk_study_engine_free(yk_study_engine *engine);

#endif
