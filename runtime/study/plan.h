/* plan.h - which points of a study are impossible, found out before anything runs. */
#ifndef YK_STUDY_PLAN_H
#define YK_STUDY_PLAN_H

#include "bench/load.h"
#include "study/sweep.h"
#include "yoke/yoke.h"

/* Where engine options come from. */
typedef struct yk_study_options {
  /* The options of a configuration; what they point to is user's. Errors: YK_E_INVAL, which makes the configuration
   * impossible. */
  yk_status (*get)(void *user, size_t config, yk_engine_options *out, yk_err *err);
  void *user;
  const yk_bench_load *load; /* what all points have in common */
} yk_study_options;

/* yk_study_point_load - what a point asks of an engine. */
yk_bench_load yk_study_point_load(const yk_study_grid *grid, size_t point, const yk_bench_load *common);

/* yk_study_plan - give each point that cannot be measured its reason: more ranks than devices, a model that does not
 *   fit beside workspace, more tokens than KV holds or than a request may have, a batch above max_seqs.
 *   longest_tokens: of a request, by the model's configuration; 0: not known.
 *   Errors: YK_E_IO, YK_E_FORMAT, YK_E_NOMEM of reading the model. */
yk_status yk_study_plan(yk_study_grid *grid, const yk_study_options *options, int64_t longest_tokens, yk_err *err);

#endif
