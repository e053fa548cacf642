/* quantize.c - yk_quantize: plan, calibrate if requested, and write the missing shards. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/arguments.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/struct_size.h"
#include "engine/machine/gpus.h"
#include "quantize/awq_scales.h"
#include "quantize/calibration.h"
#include "quantize/shard.h"

static const yk_quantize_options defaults = {
    .struct_size = sizeof defaults, .group_size = 128, .n_ranks = 1, .calibration_tokens = YK_CALIBRATION_TOKENS};

void yk_quantize_options_init_sized(yk_quantize_options *options, size_t struct_size)
{
  yk_struct_write(options, struct_size, &defaults, sizeof defaults);
}

static yk_status check(const yk_quantize_options *o, yk_err *err)
{
  YK_TRY(yk_check_enum("method", (int)o->method, YK_QUANTIZE_AWQ, err));
  YK_TRY(yk_check_enum("log.level", (int)o->log.level, YK_LOG_DEBUG, err));
  YK_TRY(yk_check_enum("device", (int)o->device, YK_DEVICE_CUDA, err));
  YK_TRY(yk_check_i64("n_ranks", o->n_ranks, 1, YK_MAX_RANKS, err));
  if (o->device_ids && o->device != YK_DEVICE_CPU)
    YK_TRY(yk_gpus_check_list("device_ids", o->device_ids, o->n_ranks, err));
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

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

/* The next missing file, or NULL. */
static const char *take_file(yk_quantize_run *run)
{
  const char *file = NULL;
  pthread_mutex_lock(&run->mutex);
  while (!file && run->next_file < run->plan.n_files) {
    file = run->plan.files[run->next_file++];
    if (!yk_quantize_output_has(&run->output, file)) continue;
    run->report->n_shards_before++;
    run->report->n_shards_done++;
    atomic_fetch_add(&run->done_bytes, bytes_of_file(&run->plan, file));
    file = NULL;
  }
  pthread_mutex_unlock(&run->mutex);
  return file;
}

static yk_status make_shards(yk_quantize_rank *rank, yk_err *err)
{
  yk_quantize_run *run = rank->run;
  for (const char *file; (file = take_file(run));) {
    YK_TRY(yk_quantize_reserve(rank, &rank->found, sizeof(yk_awq_found), err));
    if (run->checkpoint && !rank->scales)
      YK_TRY(yk_checkpoint_settle(run->checkpoint, yk_awq_scales_create(rank, &rank->scales, err), err));
    YK_TRY(yk_quantize_shard(rank, file, err));
    pthread_mutex_lock(&run->mutex);
    run->report->n_shards_done++;
    pthread_mutex_unlock(&run->mutex);
  }
  return YK_OK;
}

/* A rank on its thread, and its result. */
typedef struct worker {
  yk_quantize_rank rank;
  pthread_t thread;
  bool is_running;
  _Atomic bool is_done;
  yk_status status;
  yk_err err;
} worker;

static void *work(void *context)
{
  worker *w = context;
  w->status = make_shards(&w->rank, &w->err);
  if (w->status != YK_OK) atomic_store(&w->rank.run->is_stopped, true);
  atomic_store(&w->is_done, true);
  return NULL;
}

/* Rank 0 reports the progress of the other ranks after it has finished its work. */
static void wait_for(worker *workers, int n_ranks)
{
  yk_quantize_run *run = workers[0].rank.run;
  const struct timespec pause = {0, 20000000};
  for (int i = 1; i < n_ranks; i++)
    while (workers[i].is_running && !atomic_load(&workers[i].is_done)) {
      nanosleep(&pause, NULL);
      yk_quantize_progress(&workers[0].rank, "quantising", atomic_load(&run->done_bytes), run->plan.total_bytes, NULL);
    }
  for (int i = 1; i < n_ranks; i++)
    if (workers[i].is_running) pthread_join(workers[i].thread, NULL);
}

/* The first failure; cancellations caused by another rank's failure come last. */
static yk_status status_of(const worker *workers, int n_ranks, yk_err *err)
{
  const worker *first = NULL;
  for (int i = 0; i < n_ranks; i++)
    if (workers[i].status != YK_OK && (!first || first->status == YK_E_CANCELLED)) first = &workers[i];
  if (!first) return YK_OK;
  if (err) *err = first->err;
  return first->status;
}

static yk_status run_ranks(yk_quantize_run *run, yk_device *const *devs, yk_err *err)
{
  int n_ranks = run->options->n_ranks;
  worker workers[YK_MAX_RANKS] = {0};
  for (int i = 0; i < n_ranks; i++) {
    workers[i].rank = (yk_quantize_rank){.run = run, .index = i, .dev = devs[i]};
    workers[i].err = (yk_err)YK_ERR_INIT;
    if (i > 0) workers[i].is_running = pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
  }
  work(&workers[0]); /* rank 0 also does the work of ranks whose threads could not start */
  wait_for(workers, n_ranks);
  for (int i = 0; i < n_ranks; i++) {
    yk_quantize_rank *rank = &workers[i].rank;
    yk_awq_scales_free(rank->scales);
    yk_quantize_release(rank, &rank->weight);
    yk_quantize_release(rank, &rank->words);
    free(rank->rows.memory);
    yk_quantize_release(rank, &rank->found);
  }
  return status_of(workers, n_ranks, err);
}

/* ---- The whole run ----------------------------------------------------------------------------------------------- */

/* Check the options that depend on the machine or the model, before anything is written. */
static yk_status prepare(yk_quantize_run *run, yk_err *err)
{
  const yk_quantize_options *o = run->options;
  run->device = o->device;
  if (o->device == YK_DEVICE_AUTO) run->device = yk_gpus_count() > 0 ? YK_DEVICE_CUDA : YK_DEVICE_CPU;
  if (run->device == YK_DEVICE_CUDA && !yk_gpus_are_built())
    return yk_err_set(err, YK_E_UNSUPPORTED, "device cuda: this build has no CUDA; use cpu or auto");
  YK_TRY(yk_quantize_plan_make(o, &run->plan, err));
  run->report->n_quantised = run->plan.n_quantised;
  run->report->n_kept = run->plan.n_kept;
  run->report->n_shards = (int32_t)run->plan.n_files;
  if (o->method != YK_QUANTIZE_AWQ) return YK_OK;
  YK_TRY(yk_checkpoint_open(o->model_dir, &o->log, &run->checkpoint, err));
  return yk_awq_scales_check(run->checkpoint, o->model_dir, err);
}

/* dtype: the activations of calibration. */
static yk_settings settings_of(const yk_quantize_run *run)
{
  const yk_quantize_options *o = run->options;
  int n_threads = o->n_cpu_threads ? o->n_cpu_threads : (int)yk_max_i64(1, (int64_t)sysconf(_SC_NPROCESSORS_ONLN));
  yk_settings s = {.device = run->device,
                   .dtype = YK_F32,
                   .world = yk_world_of_process(o->n_ranks),
                   .n_threads_per_rank = (int)yk_min_i64(1024, yk_max_i64(1, n_threads / o->n_ranks)),
                   .limits.step = {.max_tokens = 1, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1}};
  if (run->checkpoint) s.limits.step = yk_calibration_limits(run->checkpoint);
  if (run->device == YK_DEVICE_CUDA)
    s.dtype = run->checkpoint && yk_checkpoint_config(run->checkpoint)->dtype == YK_BF16 ? YK_BF16 : YK_F16;
  for (int rank = 0; rank < o->n_ranks; rank++) s.device_ids[rank] = o->device_ids ? o->device_ids[rank] : rank;
  return s;
}

static yk_status open_devices(const yk_settings *s, yk_device **devs, yk_err *err)
{
  if (s->device == YK_DEVICE_CUDA) return yk_gpus_open(s, devs, err);
  for (int rank = 0; rank < s->world.n_ranks; rank++)
    YK_TRY(yk_cpu_device_create(s->dtype, s->n_threads_per_rank, &s->limits.step, &devs[rank], err));
  return YK_OK;
}

static yk_status run_all(yk_quantize_run *run, yk_err *err)
{
  yk_device *devs[YK_MAX_RANKS] = {0};
  YK_TRY(prepare(run, err));
  yk_settings settings = settings_of(run);
  yk_status status = open_devices(&settings, devs, err);
  if (status == YK_OK) status = yk_quantize_output_begin(run->options, run->device, &run->output, err);
  if (status == YK_OK) status = run_ranks(run, devs, err);
  for (int rank = 0; rank < settings.world.n_ranks; rank++)
    if (devs[rank]) devs[rank]->ops->destroy(devs[rank]);
  if (status == YK_OK) status = yk_quantize_output_finish(&run->output, run->options, &run->plan, err);
  yk_quantize_output_end(&run->output);
  return status;
}

static yk_status quantize(const yk_quantize_options *options, yk_quantize_report *report, yk_err *err)
{
  YK_TRY(check(options, err));
  yk_quantize_run run = {
      .options = options, .report = report, .output = {.lock_fd = -1}, .mutex = PTHREAD_MUTEX_INITIALIZER};
  yk_status status = run_all(&run, err);
  yk_checkpoint_close(run.checkpoint);
  yk_quantize_plan_free(&run.plan);
  pthread_mutex_destroy(&run.mutex);
  return status;
}

yk_status yk_quantize_sized(const yk_quantize_options *options, yk_quantize_report *out, size_t struct_size,
                            yk_err *err)
{
  int64_t started_ns = yk_clock_now_ns();
  yk_quantize_options own = defaults;
  yk_quantize_report report = {0};
  yk_status status = yk_struct_read("yk_quantize_options", options, YK_STRUCT_END(yk_quantize_options, progress_user),
                                    &own, sizeof own, err);
  if (status == YK_OK) status = quantize(&own, &report, err);
  report.elapsed_s = yk_clock_seconds_since(started_ns);
  yk_struct_write(out, struct_size, &report, sizeof report);
  return status;
}
