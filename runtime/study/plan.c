#include "study/plan.h"

#include <stdio.h>

#include "base/checked.h"

yk_bench_load yk_study_point_load(const yk_study_grid *grid, size_t i, const yk_bench_load *common)
{
  const yk_study_point *point = &grid->points[i];
  yk_bench_load load = *common;
  load.batch = grid->sweep->load == YK_SWEEP_BATCH ? (int32_t)point->load : 0;
  load.n_clients = grid->sweep->load == YK_SWEEP_CLIENTS ? (int32_t)point->load : 0;
  load.request_rate = grid->sweep->load == YK_SWEEP_REQUEST_RATE ? point->load : 0;
  load.input = (yk_bench_lengths){point->input_len, point->input_len};
  load.output = (yk_bench_lengths){point->output_len, point->output_len};
  return load;
}

/* If a configuration is impossible as a whole, *reason is set. */
static yk_status plan_config(const yk_study_options *options, size_t config, yk_bench_limits *limits, yk_err *reason,
                             yk_err *err)
{
  yk_engine_options engine;
  yk_plan plan;
  yk_status status = options->get(options->user, config, &engine, reason);
  if (status == YK_OK) status = yk_plan_make(&engine, 0, &plan, reason);
  if (status == YK_E_IO || status == YK_E_FORMAT || status == YK_E_NOMEM)
    return yk_err_set(err, status, "%s", reason->message);
  if (status != YK_OK) return YK_OK;
  if (!plan.fits) {
    yk_err_set(reason, YK_E_CAPACITY, "%s", plan.reason);
    return YK_OK;
  }
  *limits = (yk_bench_limits){.max_seqs = (int32_t)yk_min_i64(engine.max_seqs, engine.max_batched_tokens),
                              .max_model_tokens = engine.max_model_tokens,
                              .kv_tokens = plan.kv_tokens};
  return YK_OK;
}

yk_status yk_study_plan(yk_study_grid *grid, const yk_study_options *options, int64_t longest_tokens, yk_err *err)
{
  for (size_t config = 0; config < grid->n_configs; config++) {
    yk_bench_limits limits = {0};
    yk_err reason = YK_ERR_INIT;
    YK_TRY(plan_config(options, config, &limits, &reason, err));
    if (limits.max_model_tokens == 0) limits.max_model_tokens = (int32_t)yk_min_i64(longest_tokens, INT32_MAX);
    for (size_t i = 0; i < grid->n_points; i++) {
      if (grid->points[i].config != config) continue;
      yk_err why = reason;
      yk_bench_load load = yk_study_point_load(grid, i, options->load);
      if (why.code == YK_OK) yk_bench_load_check(&load, &limits, &why);
      snprintf(grid->points[i].reason, sizeof grid->points[i].reason, "%s", why.message);
    }
  }
  return YK_OK;
}
