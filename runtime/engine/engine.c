#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/model_path.h"
#include "base/struct_size.h"
#include "base/units.h"
#include "engine/call.h"
#include "engine/engine_internal.h"
#include "engine/engine_loop.h"
#include "engine/expert_load.h"
#include "engine/machine/processes.h"
#include "engine/machine/roll_call.h"
#include "engine/machine/settings_resolve.h"
#include "engine/process_group.h"
#include "loader/safetensors/dir.h"

enum { MOST_MASK_THREADS = 16 };

const char *yk_version(void)
{
  return YOKE_VERSION;
}

void yk_engine_options_init_sized(yk_engine_options *options, size_t struct_size)
{
  const yk_engine_options defaults = yk_engine_options_defaults();
  yk_struct_write(options, struct_size, &defaults, sizeof defaults);
}

/* A checkpoint may lack a readable tokenizer. Requests with token ids still work; text is refused with the cause. */
static yk_status load_tokenizer(yk_engine *e, const yk_engine_options *options, yk_err *err)
{
  char dir[YK_MODEL_PATH_BYTES];
  yk_err cause = YK_ERR_INIT;
  if (options->tokenizer) return yk_tokenizer_load(options->tokenizer, &e->tokenizer, err); /* the caller's choice */
  YK_TRY(yk_model_path_dir(options->model_dir, dir, err));
  if (yk_tokenizer_load(dir, &e->tokenizer, &cause) == YK_OK) return YK_OK;
  if (cause.code == YK_E_NOMEM) return yk_err_set(err, cause.code, "%s", cause.message);
  bool is_there = yk_dir_has(dir, "tokenizer.json") || yk_dir_has(dir, "tokenizer.model");
  snprintf(e->no_tokenizer, sizeof e->no_tokenizer, "%s",
           is_there ? cause.message : "the checkpoint has no tokenizer.json");
  yk_log_write(&e->log, is_there ? YK_LOG_WARN : YK_LOG_INFO, "text is not available, only token ids: %s",
               e->no_tokenizer);
  return YK_OK;
}

static void fill_info(yk_engine *e, const yk_model_config *config, const yk_plan *plan)
{
  const yk_settings *s = &e->settings;
  e->info = (yk_engine_info){.device = s->device == YK_DEVICE_CUDA ? "cuda" : "cpu",
                             .family = yk_model_family_name(config->family),
                             .dtype = yk_dtype_name(s->dtype),
                             .kv_cache_dtype = yk_settings_kv_cache_dtype(s),
                             .n_ranks = s->world.n_ranks,
                             .vocab_size = config->vocab_size,
                             .n_layers = config->n_layers,
                             .hidden_size = config->hidden_size,
                             .max_model_tokens = s->limits.step.max_model_tokens,
                             .max_seqs = s->limits.step.max_seqs,
                             .max_batched_tokens = s->limits.step.max_tokens,
                             .default_max_tokens = config->generation.max_new_tokens,
                             .kv_capacity_tokens = plan->kv_tokens,
                             .kv_block_tokens = YK_KV_BLOCK_TOKENS,
                             .n_processes = e->cluster ? yk_cluster_n_processes(e->cluster) : 1,
                             .has_tokenizer = e->tokenizer != NULL,
                             .embedding_size = s->embedding_size,
                             .only_embeds = config->lacks_head,
                             .max_adapters = s->limits.n_adapters,
                             .lm_head = s->limits.lm_head_as_int8 ? "int8" : "auto",
                             .activations = yk_settings_activations(s, &config->quant)};
  e->config = *config;
  e->config.quant.rules = NULL; /* the checkpoint's */
  e->info.n_stages = s->world.n_stages;
  memcpy(e->info.memory, plan->memory, sizeof e->info.memory);
  memcpy(e->info.state_bytes, plan->state_bytes, sizeof e->info.state_bytes);
  memcpy(e->info.state_cache_bytes, plan->state_cache_bytes, sizeof e->info.state_cache_bytes);
  for (int rank = 0; rank < s->world.n_ranks && e->cluster; rank++)
    e->info.rank_hosts[rank] = yk_cluster_host(e->cluster, yk_cluster_process_of(e->cluster, rank));
  e->generation = config->generation;
  e->pooling = config->pooling;
  e->n_eos_ids = config->n_eos_ids;
  memcpy(e->eos_ids, config->eos_ids, sizeof config->eos_ids);
  int32_t eos_id = e->tokenizer ? yk_tokenizer_eos_id(e->tokenizer) : -1;
  bool is_new = eos_id >= 0 && eos_id < config->vocab_size && !yk_ids_contain(e->eos_ids, e->n_eos_ids, eos_id);
  if (is_new) e->eos_ids[e->n_eos_ids++] = eos_id;
  e->info.eos_ids = e->eos_ids;
  e->info.n_eos_ids = (size_t)e->n_eos_ids;
}

static yk_status create_grammars(yk_engine *e, const yk_engine_options *options, yk_err *err)
{
  const yk_grammars_options of_grammars = {.tokenizer = e->tokenizer,
                                           .n_ids = e->info.vocab_size,
                                           .end_ids = e->eos_ids,
                                           .n_end_ids = (size_t)e->n_eos_ids,
                                           .library_dir = options->grammar_library,
                                           .python = options->python,
                                           .time_limit_s = options->grammar_time_limit_s,
                                           .memory_limit_bytes = options->grammar_memory_bytes,
                                           .cache_bytes = options->grammar_cache_bytes};
  return e->tokenizer ? yk_grammars_create(&of_grammars, &e->grammars, err) : YK_OK;
}

static void log_plan(const yk_engine *e, const yk_plan *plan)
{
  char weights[YK_BYTES_TEXT], kv[YK_BYTES_TEXT], states[YK_BYTES_TEXT], workspace[YK_BYTES_TEXT];
  for (int rank = 0; rank < plan->n_ranks; rank++) {
    const yk_rank_memory *memory = &plan->memory[rank];
    bool is_quantised = e->settings.limits.kv_format != YK_KV_ACT;
    yk_log_write(&e->log, YK_LOG_INFO, "rank %d: weights %s, KV %s%s%s%s%s, workspace %s", rank,
                 yk_bytes_format(memory->weight_bytes, weights), yk_bytes_format(memory->kv_bytes, kv),
                 is_quantised ? " of " : "", is_quantised ? plan->kv_cache_dtype : "",
                 plan->state_bytes[rank] ? ", states " : "",
                 plan->state_bytes[rank] ? yk_bytes_format(plan->state_bytes[rank], states) : "",
                 yk_bytes_format(memory->workspace_bytes, workspace));
  }
  if (plan->reason[0]) yk_log_write(&e->log, YK_LOG_WARN, "%s", plan->reason);
}

/* Loading counts bytes over all ranks; the caller's callback also gets the total. */
typedef struct load_progress {
  const yk_engine_options *options;
  int64_t total_bytes;
} load_progress;

static void report_progress(void *user, int64_t done_bytes)
{
  const load_progress *p = user;
  if (done_bytes < p->total_bytes) p->options->progress(p->options->progress_user, done_bytes, p->total_bytes);
}

/* more_bytes: device bytes beyond the plan. */
static void log_loading(yk_engine *e, double open_s, int64_t more_bytes)
{
  char more[YK_BYTES_TEXT];
  const yk_engine_info *info = &e->info;
  yk_log_write(&e->log, YK_LOG_INFO, "opened devices in %.2f s; loaded %.2f GB of weights in %.2f s, %.1f GB/s", open_s,
               (double)info->checkpoint_bytes / 1e9, info->weights_s,
               (double)info->checkpoint_bytes / 1e9 / fmax(info->weights_s, 1e-9));
  if (more_bytes > 0) /* the only size that depends on the data */
    yk_log_write(&e->log, YK_LOG_WARN,
                 "weights take %s more than planned: gate and up of different act orders are 16 bits",
                 yk_bytes_format(more_bytes, more));
}

static yk_status load_ranks(yk_engine *e, const yk_engine_options *options, const yk_checkpoint *checkpoint,
                            const yk_plan *plan, yk_err *err)
{
  load_progress progress = {options, 0};
  for (int rank = 0; rank < e->settings.world.n_local; rank++) progress.total_bytes += plan->memory[rank].weight_bytes;
  int64_t start_ns = yk_clock_now_ns();
  YK_TRY(yk_ranks_create(&e->settings, e->cluster, &e->ranks, err));
  int64_t created_ns = yk_clock_now_ns();
  yk_open_adapters adapters;
  yk_status status = yk_open_adapters_open(options, yk_checkpoint_config(checkpoint), &adapters, err);
  if (status == YK_OK)
    status = yk_ranks_load(e->ranks, checkpoint, &adapters, options->progress ? report_progress : NULL, &progress, err);
  yk_open_adapters_close(&adapters);
  YK_TRY(status);
  e->info.weights_s = yk_clock_seconds_since(created_ns);
  log_loading(e, (double)(created_ns - start_ns) / 1e9, yk_ranks_loaded_bytes(e->ranks) - progress.total_bytes);
  if (options->progress) options->progress(options->progress_user, progress.total_bytes, progress.total_bytes);
  return YK_OK;
}

/* A mask takes 0.1 ms, at the beginning of a bounded string 0.6 ms, and a step of GPUs with 64 rows 4 ms: one thread
 * cannot fill the masks in that time. A quarter of the processors that the ranks' threads leave is for other threads.
 * CPU ranks use all cores for computation. */
static yk_status start_mask_threads(yk_engine *e, yk_err *err)
{
  const int64_t n_free = sysconf(_SC_NPROCESSORS_ONLN) - e->settings.world.n_local;
  const int64_t n_threads = yk_min_i64(MOST_MASK_THREADS, n_free * 3 / 4);
  if (!e->grammars || e->settings.device == YK_DEVICE_CPU || n_threads < 2) return YK_OK;
  return yk_cpu_pool_create((int)n_threads, &e->mask_threads, err);
}

static void limit_long_prompts(yk_engine *e)
{
  const int32_t most = e->settings.long_prompt_rows, fewest = e->settings.rules.has_states ? YK_STATE_STEP_ROWS : 1;
  const int32_t of_device = e->settings.device == YK_DEVICE_CPU ? YK_PACE_FEWEST_CPU_ROWS : YK_PACE_FEWEST_ROWS;
  if (most == YK_LONG_PROMPT_PACED)
    yk_scheduler_pace_long_prompts(e->scheduler, (int32_t)yk_max_i64(of_device, fewest));
  else if (most > 0)
    yk_scheduler_limit_long_prompts(e->scheduler, (int32_t)yk_max_i64(most, fewest));
}

static yk_status start_thread(yk_engine *e, yk_err *err)
{
  const yk_model_limits *l = &e->settings.limits;
  YK_TRY(yk_memory_pool_create(l->n_kv_blocks, l->step.max_seqs, &e->settings.rules, &e->pool, err));
  YK_TRY(yk_scheduler_create(&l->step, e->settings.world.n_stages, e->pool, &e->scheduler, err));
  limit_long_prompts(e);
  YK_TRY(yk_step_builder_create(&l->step, e->settings.embedding_size, e->settings.world.n_stages, &e->builder, err));
  YK_TRY(start_mask_threads(e, err));
  e->stats.kv_blocks_total = e->stats.kv_blocks_free = l->n_kv_blocks;
  int failed = pthread_create(&e->thread, NULL, yk_engine_loop, e);
  if (failed) return yk_err_set(err, YK_E_DEVICE, "cannot start the engine thread: %s", strerror(failed));
  e->thread_started = true;
  return YK_OK;
}

static yk_status start_from_checkpoint(yk_engine *e, const yk_engine_options *options, const yk_checkpoint *checkpoint,
                                       yk_err *err)
{
  yk_plan plan;
  YK_TRY(yk_settings_resolve(options, checkpoint, 0, e->cluster, &e->settings, &plan, err));
  e->settings.wires = yk_mpi_run_wires(e->mpi, e->cluster);
  e->has_one_clock = e->settings.device == YK_DEVICE_CPU && yk_processes_share_host(e->cluster);
  YK_TRY(load_tokenizer(e, options, err));
  fill_info(e, yk_checkpoint_config(checkpoint), &plan);
  YK_TRY(create_grammars(e, options, err));
  e->info.checkpoint_bytes = yk_checkpoint_bytes(checkpoint);
  log_plan(e, &plan);
  YK_TRY(yk_checkpoint_settle(checkpoint, load_ranks(e, options, checkpoint, &plan, err), err));
  YK_TRY(yk_adapters_create(options, &e->adapters, err));
  YK_TRY(yk_expert_counts_create(yk_checkpoint_config(checkpoint), &e->settings, &e->experts, err));
  return start_thread(e, err);
}

static yk_status open_and_start(yk_engine *e, const yk_engine_options *options, yk_err *err)
{
  yk_checkpoint *checkpoint;
  const yk_config_changes changes = yk_settings_config_changes(options);
  YK_TRY(yk_checkpoint_open_changed(options->model_dir, &changes, &options->log, &checkpoint, err));
  yk_status status = start_from_checkpoint(e, options, checkpoint, err);
  yk_checkpoint_close(checkpoint);
  return status;
}

static yk_status start(yk_engine *e, const yk_engine_options *options, const yk_listener *listener, yk_err *err)
{
  int64_t start_ns = yk_clock_now_ns();
  yk_err failure = YK_ERR_INIT;
  if (!options->model_dir)
    return yk_err_set(err, YK_E_INVAL, "model_dir: expected a checkpoint directory, found nothing");
  if (options->n_processes > 1 && options->process != 0)
    return yk_err_set(err, YK_E_INVAL, "process: expected 0, which has the engine, found %d: it calls yk_engine_follow",
                      options->process);
  YK_TRY(yk_roll_call_hold(options, listener, &e->log, NULL, &e->cluster, err));
  yk_status status = yk_processes_fail(e->cluster, open_and_start(e, options, &failure), &failure);
  if (status != YK_OK && err && err->code == YK_OK) *err = failure;
  e->info.load_s = yk_clock_seconds_since(start_ns);
  return status;
}

/* place: in a group of processes, or NULL. */
static yk_status connect(yk_engine *e, yk_engine_options *own, yk_group_place *place, yk_err *err)
{
  if (!place) {
    YK_TRY(yk_mpi_run_start(own, &e->mpi, err));
    return start(e, own, yk_mpi_run_listener(e->mpi), err);
  }
  e->group = place->group;
  e->mpi = yk_process_group_mpi(place->group);
  YK_TRY(yk_process_group_begin(place, own, err));
  return start(e, own, own->n_processes > 1 ? &place->listener : NULL, err);
}

yk_status yk_engine_create(const yk_engine_options *options, yk_engine **out, yk_err *err)
{
  return yk_engine_create_at(options, NULL, out, err);
}

yk_status yk_engine_create_at(const yk_engine_options *options, yk_group_place *place, yk_engine **out, yk_err *err)
{
  *out = NULL;
  yk_engine_options own;
  YK_TRY(yk_engine_options_read(options, &own, err));
  yk_engine *e = calloc(1, sizeof *e);
  if (!e) return yk_err_set(err, YK_E_NOMEM, "no memory for an engine");
  e->log = own.log;
  e->seed = own.seed;
  e->failure = YK_ERR_INIT;
  e->inbox_end = &e->inbox;
  e->calls_end = &e->calls;
  pthread_mutex_init(&e->mutex, NULL);
  pthread_cond_init(&e->cv_work, NULL);
  pthread_cond_init(&e->cv_call, NULL);
  yk_status status = connect(e, &own, place, err);
  if (status != YK_OK) {
    yk_engine_destroy(e);
    return status;
  }
  *out = e;
  return YK_OK;
}

bool yk_engine_destroy(yk_engine *engine)
{
  if (!engine) return true;
  pthread_mutex_lock(&engine->mutex);
  engine->stopping = true;
  pthread_cond_signal(&engine->cv_work);
  pthread_mutex_unlock(&engine->mutex);
  if (engine->thread_started) pthread_join(engine->thread, NULL);
  const bool in_order = engine->thread_started && yk_engine_check(engine, NULL) == YK_OK;
  bool all_freed = yk_ranks_destroy(engine->ranks);
  if (all_freed) yk_processes_leave(engine->cluster);
  if (all_freed && engine->group) yk_process_group_end(engine->group);
  if (all_freed && !engine->group) yk_mpi_run_end(engine->mpi, in_order); /* otherwise a rank may still use it */
  if (all_freed) yk_step_builder_destroy(engine->builder);                /* otherwise a rank may still read a step */
  yk_cpu_pool_destroy(engine->mask_threads);
  yk_scheduler_destroy(engine->scheduler);
  yk_cache_salts_free(&engine->salts);
  yk_adapters_destroy(&engine->adapters);
  yk_memory_pool_destroy(engine->pool);
  yk_grammars_free(engine->grammars);
  yk_tokenizer_free(engine->tokenizer);
  if (all_freed) yk_expert_counts_destroy(&engine->experts); /* otherwise rank 0 may still write there */
  pthread_cond_destroy(&engine->cv_work);
  pthread_cond_destroy(&engine->cv_call);
  pthread_mutex_destroy(&engine->mutex);
  free(engine);
  return all_freed;
}

void yk_engine_get_info_sized(const yk_engine *engine, yk_engine_info *out, size_t struct_size)
{
  yk_struct_write(out, struct_size, &engine->info, sizeof engine->info);
}

yk_status yk_engine_check(yk_engine *engine, yk_err *err)
{
  pthread_mutex_lock(&engine->mutex);
  yk_err failure = engine->failure;
  pthread_mutex_unlock(&engine->mutex);
  if (failure.code == YK_OK) return yk_ranks_check(engine->ranks, err);
  if (err && err->code == YK_OK) *err = failure;
  return failure.code;
}

static void run_reset(yk_engine *e, yk_call *call)
{
  yk_kv_blocks_forget(yk_memory_pool_blocks(e->pool));
  yk_call_answer(e, call, NULL);
}

yk_status yk_engine_reset_prefixes(yk_engine *engine, yk_err *err)
{
  yk_call call = {.run = run_reset};
  return yk_call_run(engine, &call, err);
}
