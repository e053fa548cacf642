/* quantize.c - yk_quantize: plan, calibrate where that is asked for, and make the shards that are not there yet. */
#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/arguments.h"
#include "base/cpu_pool.h"
#include "quantize/awq_scales.h"
#include "quantize/shard.h"

void yk_quantize_options_init(yk_quantize_options *options)
{
  *options = (yk_quantize_options){.group_size = 128, .calibration_tokens = YOKE_CALIBRATION_TOKENS};
}

static yk_status check(const yk_quantize_options *o, yk_err *err)
{
  YK_TRY(yk_check_enum("method", (int)o->method, YK_QUANTIZE_AWQ, err));
  YK_TRY(yk_check_enum("log.level", (int)o->log.level, YK_LOG_DEBUG, err));
  YK_TRY(yk_check_i64("n_cpu_threads", o->n_cpu_threads, 0, 4096, err));
  YK_TRY(yk_check_array("keep", o->keep, o->n_keep, err));
  YK_TRY(yk_check_array("calibration", o->calibration, o->calibration_bytes, err));
  if (!o->model_dir || !o->out_dir)
    return yk_err_set(err, YK_E_INVAL, "%s: expected a directory, found NULL", o->model_dir ? "out_dir" : "model_dir");
  if (o->group_size != 32 && o->group_size != 64 && o->group_size != 128 && o->group_size != -1)
    return yk_err_set(err, YK_E_INVAL, "group_size: expected 32, 64, 128 or -1, found %d", (int)o->group_size);
  for (size_t i = 0; i < o->n_keep; i++)
    if (!o->keep[i] || !o->keep[i][0])
      return yk_err_set(err, YK_E_INVAL, "keep: expected a part of a name, found \"\"");
  if (o->method != YK_QUANTIZE_AWQ) return YK_OK;
  if (o->calibration_bytes == 0)
    return yk_err_set(err, YK_E_INVAL, "calibration: expected a text for activation-aware quantising, found none");
  return yk_check_i64("calibration_tokens", o->calibration_tokens, 16, 1 << 20, err);
}

static int64_t bytes_of_file(const yk_quantize_plan *plan, const char *file)
{
  int64_t n_bytes = 0;
  for (size_t i = 0; i < plan->n_tensors; i++)
    if (plan->tensors[i].file == file) n_bytes += (int64_t)plan->tensors[i].source->n_bytes;
  return n_bytes;
}

static yk_status run_shards(yk_quantize_run *run, yk_err *err)
{
  for (size_t i = 0; i < run->plan.n_files; i++) {
    const char *file = run->plan.files[i];
    if (yk_quantize_output_has(&run->output, file)) {
      run->report->n_shards_before++;
      run->report->n_shards_done++;
      run->done_bytes += bytes_of_file(&run->plan, file);
      continue;
    }
    if (run->options->method == YK_QUANTIZE_AWQ && !run->scales) YK_TRY(yk_awq_scales_create(run, &run->scales, err));
    YK_TRY(yk_quantize_shard(run, file, err));
    run->report->n_shards_done++;
  }
  return yk_quantize_output_finish(&run->output, run->options, &run->plan, err);
}

static yk_status run_all(yk_quantize_run *run, yk_err *err)
{
  YK_TRY(yk_quantize_plan_make(run->options, &run->plan, err));
  run->report->n_quantised = run->plan.n_quantised;
  run->report->n_kept = run->plan.n_kept;
  run->report->n_shards = (int32_t)run->plan.n_files;
  YK_TRY(yk_cpu_pool_create(run->n_threads, &run->pool, err));
  YK_TRY(yk_quantize_output_begin(run->options, &run->output, err));
  return run_shards(run, err);
}

yk_status yk_quantize(const yk_quantize_options *options, yk_quantize_report *out, yk_err *err)
{
  int64_t started_ns = yk_clock_now_ns();
  *out = (yk_quantize_report){0};
  YK_TRY(check(options, err));
  yk_quantize_run run = {.options = options, .report = out};
  run.n_threads =
      options->n_cpu_threads ? options->n_cpu_threads : (int)yk_max_i64(1, (int64_t)sysconf(_SC_NPROCESSORS_ONLN));
  yk_status status = run_all(&run, err);
  yk_awq_scales_free(run.scales);
  yk_quantize_plan_free(&run.plan);
  yk_cpu_pool_destroy(run.pool);
  free(run.words.memory);
  out->elapsed_s = yk_clock_seconds_since(started_ns);
  return status;
}
