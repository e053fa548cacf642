/* plan.h - finds the impossible points of a study before anything runs. */
#ifndef YK_STUDY_PLAN_H
#define YK_STUDY_PLAN_H

#include "bench/load.h"
#include "study/sweep.h"
#include "yoke/yoke.h"

/* Source of engine options. */
typedef struct yk_study_options {
  /* Get the options of a configuration; user owns the memory that they point to. Errors: YK_E_INVAL, which makes the
   * configuration impossible. */
  yk_status (*get)(void *user, size_t config, yk_engine_options *out, yk_err *err);
  void *user;
  const yk_bench_load *load; /* shared by all points */
} yk_study_options;

/* yk_study_point_load - the load of a point. */
yk_bench_load yk_study_point_load(const yk_study_grid *grid, size_t point, const yk_bench_load *common);

/* yk_study_plan - set the reason of each point that cannot be measured: more ranks than devices, a model that does not
 *   fit next to its workspace, more tokens than KV holds or than a request may have, a batch above max_seqs.
 *   longest_tokens: longest request by the model's configuration; 0: unknown.
 *   Errors: YK_E_IO, YK_E_FORMAT, YK_E_NOMEM of reading the model. */
yk_status yk_study_plan(yk_study_grid *grid, const yk_study_options *options, int64_t longest_tokens, yk_err *err);

#endif
