#include "study/engine_driver.h"

#include <stdlib.h>
#include <string.h>

#include "bench/point.h"
#include "bench/times.h"

enum { WARM_UP_TOKENS = 8, WARM_UP_REQUESTS = 8 };

static yk_status no_memory(yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "no memory for the figures of a run");
}

static int count_hosts(const yk_engine_info *info)
{
  int n = info->rank_hosts[0] ? 0 : 1;
  for (int rank = 0; rank < info->n_ranks && info->rank_hosts[0]; rank++) {
    int before = 0;
    while (before < rank && strcmp(info->rank_hosts[before], info->rank_hosts[rank]) != 0) before++;
    n += before == rank;
  }
  return n;
}

/* The engine's properties that summaries need. */
static json_t *info_json(const yk_engine_info *engine, const yk_engine_options *options)
{
  const yk_engine_info info = *engine;
  int64_t weight_bytes = 0;
  for (int rank = 0; rank < info.n_ranks; rank++) weight_bytes += info.memory[rank].weight_bytes;
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:i, s:i}",
                   "device", info.device, "family", info.family, "dtype", info.dtype, "kv_cache_dtype",
                   info.kv_cache_dtype, "weights", options->weights == YK_WEIGHTS_F16 ? "f16" : "auto", "lm_head",
                   info.lm_head, "activations", info.activations, "expert_parallel", options->expert_parallel,
                   "vocab_size", (int)info.vocab_size, "n_layers", (int)info.n_layers, "hidden_size",
                   (int)info.hidden_size, "max_model_tokens", (int)info.max_model_tokens, "max_seqs",
                   (int)info.max_seqs, "max_batched_tokens", (int)info.max_batched_tokens, "kv_capacity_tokens",
                   (json_int_t)info.kv_capacity_tokens, "weight_bytes", (json_int_t)weight_bytes, "load_s", info.load_s,
                   "processes", info.n_processes, "hosts", count_hosts(engine));
}

/* Opens the GPUs of the next engine, and finds other processes that use them. */
static yk_status open_gpus(yk_study_engine *self, const yk_engine_options *options, yk_err *err)
{
  int ids[YK_MAX_RANKS];
  yk_device_info devices[2]; /* the CPU, then the first GPU */
  int n_devices;
  self->others = (yk_bench_warnings){0};
  YK_TRY(yk_device_list(devices, 2, &n_devices, err));
  if (options->device == YK_DEVICE_CPU || n_devices < 2) return YK_OK;
  const int n_local = options->n_processes > 1 ? options->n_ranks / options->n_processes : options->n_ranks;
  for (int i = 0; i < n_local && i < YK_MAX_RANKS; i++) ids[i] = options->device_ids ? options->device_ids[i] : i;
  YK_TRY(yk_bench_gpus_open(ids, n_local, &self->log, &self->gpus, err));
  yk_bench_gpus_find_others(self->gpus, &self->others);
  for (int i = 0; i < self->others.n; i++) yk_log_write(&self->log, YK_LOG_WARN, "%s", self->others.text[i]);
  return YK_OK;
}

static void stop(void *user)
{
  yk_study_engine *self = user;
  if (self->engine && !yk_engine_destroy(self->engine)) self->is_stuck = true;
  yk_bench_gpus_close(self->gpus);
  self->engine = NULL;
  self->gpus = NULL;
}

static yk_status start(void *user, size_t config, json_t **info, yk_err *err)
{
  yk_study_engine *self = user;
  yk_engine_options options;
  YK_TRY(self->options->get(self->options->user, config, &options, err));
  free(self->is_warm);
  self->is_warm = calloc(self->grid->n_points, sizeof *self->is_warm);
  self->n_runs = 0;
  if (!self->is_warm) return no_memory(err);
  options.log = self->log;
  options.progress = self->progress;
  options.progress_user = self->progress_user;
  yk_status status = open_gpus(self, &options, err);
  if (status == YK_OK && self->group)
    status = yk_process_group_create_engine(self->group, (int64_t)config, &options, &self->engine, err);
  else if (status == YK_OK)
    status = yk_engine_create(&options, &self->engine, err);
  if (status == YK_OK) yk_engine_get_info(self->engine, &self->info);
  if (status == YK_OK && !(*info = info_json(&self->info, &options))) status = no_memory(err);
  if (status != YK_OK) stop(self);
  return status;
}

static yk_status check(void *user, yk_err *err)
{
  const yk_study_engine *self = user;
  if (self->group) YK_TRY(yk_process_group_check(self->group, err));
  return yk_engine_check(self->engine, err);
}

static yk_status measure(yk_study_engine *self, yk_bench_load *load, yk_bench_figures *figures, yk_err *err)
{
  YK_TRY(check(self, err)); /* a process that waits may have ended */
  load->gpus = self->gpus;
  load->run = self->n_runs++;
  return yk_bench_run(self->engine, load, figures, err);
}

static yk_status warm_up(yk_study_engine *self, size_t point, yk_err *err)
{
  yk_bench_figures figures;
  yk_bench_load load = yk_study_point_load(self->grid, point, self->options->load);
  if (self->is_warm[point]) return YK_OK;
  if (load.output.max > WARM_UP_TOKENS) load.output = (yk_bench_lengths){WARM_UP_TOKENS, WARM_UP_TOKENS};
  if (load.n_requests > WARM_UP_REQUESTS) load.n_requests = WARM_UP_REQUESTS;
  if (load.n_clients > load.n_requests) load.n_requests = load.n_clients;
  YK_TRY(measure(self, &load, &figures, err));
  self->is_warm[point] = true;
  return YK_OK;
}

static int add_warnings(json_t *figures, const yk_bench_warnings *warnings)
{
  int failed = 0;
  json_t *all = json_object_get(figures, "warnings");
  for (int i = 0; i < warnings->n; i++) failed |= json_array_append_new(all, json_string(warnings->text[i]));
  return failed;
}

static yk_status run(void *user, size_t point, json_t **out, yk_err *err)
{
  yk_study_engine *self = user;
  yk_bench_figures figures;
  yk_bench_load load = yk_study_point_load(self->grid, point, self->options->load);
  YK_TRY(warm_up(self, point, err));
  YK_TRY(measure(self, &load, &figures, err));
  json_t *object = json_object();
  yk_status status = object ? yk_bench_figures_json(&figures, object, err) : no_memory(err);
  if (status == YK_OK && add_warnings(object, &self->others) != 0) status = no_memory(err);
  if (status == YK_OK)
    *out = object;
  else
    json_decref(object);
  return status;
}

static yk_status profile(void *user, size_t point, json_t **out, yk_err *err)
{
  yk_study_engine *self = user;
  yk_bench_figures figures;
  yk_profile times;
  yk_bench_load load = yk_study_point_load(self->grid, point, self->options->load);
  YK_TRY(warm_up(self, point, err));
  YK_TRY(yk_engine_set_profile(self->engine, 1, err));
  yk_status status = measure(self, &load, &figures, err);
  yk_engine_get_profile(self->engine, &times);
  yk_status off = yk_engine_set_profile(self->engine, 0, status == YK_OK ? err : NULL);
  if (status == YK_OK) status = off;
  if (status == YK_OK && !(*out = yk_bench_times_json(&times, &self->info))) status = no_memory(err);
  return status;
}

yk_study_driver yk_study_engine_driver(yk_study_engine *engine)
{
  return (yk_study_driver){
      .user = engine, .start = start, .run = run, .profile = profile, .check = check, .stop = stop};
}

void yk_study_engine_free(yk_study_engine *engine)
{
  stop(engine);
  free(engine->is_warm);
  engine->is_warm = NULL;
}
