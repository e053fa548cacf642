#include "engine/machine/settings_resolve.h"

#include <stdio.h>
#include <unistd.h>

#include "base/arguments.h"
#include "base/checked.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "engine/machine/adapters.h"
#include "engine/machine/gpus.h"
#include "engine/machine/plan_fill.h"
#include "engine/machine/processes.h"
#include "engine/machine/settings_states.h"
#include "kernels/cpu/cpu_device.h"
#include "loader/model/quant_rules.h"
#include "model/model.h"
#include "model/model_device.h"

yk_engine_options yk_engine_options_defaults(void)
{
  return (yk_engine_options){.struct_size = sizeof(yk_engine_options),
                             .n_ranks = 1,
                             .max_seqs = 256,
                             .max_batched_tokens = 2048,
                             .gpu_memory_utilization = 0.9,
                             .python = "python3",
                             .grammar_time_limit_s = 2,
                             .grammar_memory_bytes = INT64_C(2) << 30,
                             .grammar_cache_bytes = 256 << 20,
                             .state_cache_bytes = -1,
                             .max_adapter_rank = 16,
                             .log = {.level = YK_LOG_WARN}};
}

yk_status yk_engine_options_read(const yk_engine_options *options, yk_engine_options *out, yk_err *err)
{
  *out = yk_engine_options_defaults();
  return yk_struct_read("yk_engine_options", options, YK_STRUCT_END(yk_engine_options, progress_user), out, sizeof *out,
                        err);
}

static yk_status check_options(const yk_engine_options *o, yk_err *err)
{
  YK_TRY(yk_check_enum("device", (int)o->device, YK_DEVICE_CUDA, err));
  YK_TRY(yk_check_enum("dtype", (int)o->dtype, YK_DTYPE_F32, err));
  YK_TRY(yk_check_enum("weights", (int)o->weights, YK_WEIGHTS_F16, err));
  YK_TRY(yk_check_enum("kv_cache_dtype", (int)o->kv_cache_dtype, YK_KV_CACHE_FP8_PER_TOKEN_HEAD, err));
  YK_TRY(yk_check_enum("lm_head", (int)o->lm_head, YK_LM_HEAD_INT8, err));
  YK_TRY(yk_check_enum("activations", (int)o->activations, YK_ACTIVATIONS_INT8, err));
  YK_TRY(yk_check_enum("log.level", (int)o->log.level, YK_LOG_DEBUG, err));
  YK_TRY(yk_check_i64("number of ranks", o->n_ranks, 1, YK_MAX_RANKS, err));
  YK_TRY(yk_check_i64("pipeline stages", o->n_stages, 0, YK_MAX_RANKS, err));
  YK_TRY(yk_check_i64("max_model_tokens", o->max_model_tokens, 0, YK_MAX_POSITIONS, err));
  YK_TRY(yk_check_i64("max_seqs", o->max_seqs, 1, 65536, err));
  YK_TRY(yk_check_i64("max_batched_tokens", o->max_batched_tokens, 1, 1 << 20, err));
  YK_TRY(yk_check_i64("kv_cache_bytes", o->kv_cache_bytes, 0, INT64_C(1) << 50, err));
  YK_TRY(yk_check_i64("state_cache_bytes", o->state_cache_bytes, -1, INT64_C(1) << 50, err));
  YK_TRY(yk_check_i64("n_cpu_threads", o->n_cpu_threads, 0, 4096, err));
  if (!(o->gpu_memory_utilization > 0 && o->gpu_memory_utilization <= 1))
    return yk_err_set(err, YK_E_INVAL, "gpu_memory_utilization: expected more than 0 and at most 1, found %g",
                      o->gpu_memory_utilization);
  if (o->long_prompt_rows != 0 && o->long_prompt_rows != YK_LONG_PROMPT_PACED)
    YK_TRY(yk_check_i64("long_prompt_rows", o->long_prompt_rows, 32, 1 << 20, err));
  if (!(o->step_timeout_s >= 0 && o->step_timeout_s <= 1e6))
    return yk_err_set(err, YK_E_INVAL, "step_timeout_s: expected 0 to 1e6, found %g", o->step_timeout_s);
  if (!(o->grammar_time_limit_s >= 0.01 && o->grammar_time_limit_s <= 3600))
    return yk_err_set(err, YK_E_INVAL, "grammar_time_limit_s: expected 0.01 to 3600, found %g",
                      o->grammar_time_limit_s);
  YK_TRY(yk_check_i64("grammar_memory_bytes", o->grammar_memory_bytes, 256 << 20, INT64_C(1) << 40, err));
  YK_TRY(yk_check_i64("grammar_cache_bytes", o->grammar_cache_bytes, 0, INT64_C(1) << 40, err));
  YK_TRY(yk_open_adapters_check(o, err));
  if (!o->python) return yk_err_set(err, YK_E_INVAL, "python: expected a program, found nothing");
  return YK_OK;
}

/* A given memory size means devices of another machine: GPUs, unless the options select the CPU. */
static yk_status choose_kind(const yk_engine_options *o, bool is_elsewhere, yk_device_kind *kind, yk_err *err)
{
  *kind = o->device;
  if (o->device == YK_DEVICE_CPU) return YK_OK;
  *kind = YK_DEVICE_CUDA;
  if (is_elsewhere || yk_gpus_count() > 0) return YK_OK;
  *kind = YK_DEVICE_CPU;
  if (o->device == YK_DEVICE_AUTO && !o->device_ids) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: this %s; use %s", o->device_ids ? "devices" : "device cuda",
                    yk_gpus_are_built() ? "machine has no GPU that the process may use"
                                        : "build runs on CPU ranks only",
                    o->device_ids ? "none" : "cpu or auto");
}

/* The ranks are divided among the processes in order and evenly. */
static yk_status divide_ranks(const yk_engine_options *o, yk_world *world, yk_err *err)
{
  *world = yk_world_of_process(o->n_ranks);
  if (o->n_stages > 0) world->n_stages = o->n_stages;
  YK_TRY(yk_world_check(world, err));
  if (o->n_processes <= 1) return YK_OK;
  if (o->n_ranks % o->n_processes != 0)
    return yk_err_set(err, YK_E_INVAL, "number of ranks: expected a multiple of %d, the number of processes, found %d",
                      o->n_processes, o->n_ranks);
  world->n_local = o->n_ranks / o->n_processes;
  world->first_rank = o->process * world->n_local;
  return YK_OK;
}

/* The GPUs of this process's ranks. By default the processes of a host take its GPUs in order; a process whose launcher
 * has selected GPUs (CUDA_VISIBLE_DEVICES) has no more GPUs than it needs. */
static yk_status choose_gpus(const yk_engine_options *o, bool is_elsewhere, yk_settings *s, yk_err *err)
{
  int n_local = s->world.n_local, first = o->n_processes > 1 ? o->local_process * n_local : 0;
  int n_gpus = is_elsewhere || s->device != YK_DEVICE_CUDA ? YK_MAX_RANKS : yk_gpus_count();
  const bool is_shared = !is_elsewhere && yk_gpus_may_be_shared() && n_gpus > 0;
  if (n_gpus == n_local) first = 0;
  if (o->n_processes > 1 && !o->device_ids && !is_shared && first + n_local > n_gpus)
    return yk_err_set(err, YK_E_CAPACITY,
                      "process %d is number %d on its host and needs GPUs %d to %d: the process may use %d", o->process,
                      o->local_process, first, first + n_local - 1, n_gpus);
  for (int i = 0; i < n_local; i++)
    s->device_ids[s->world.first_rank + i] = o->device_ids ? o->device_ids[i]
                                             : is_shared   ? (first + i) % n_gpus
                                                           : first + i;
  return YK_OK;
}

yk_status yk_settings_devices(const yk_engine_options *o, bool is_elsewhere, yk_settings *s, yk_err *err)
{
  enum { CUDA_STEP_TIMEOUT_S = 60 }; /* a CPU rank has no limit: a large prompt may take longer */
  YK_TRY(check_options(o, err));
  YK_TRY(choose_kind(o, is_elsewhere, &s->device, err));
  YK_TRY(divide_ranks(o, &s->world, err));
  s->step_timeout_s = o->step_timeout_s;
  s->long_prompt_rows = o->long_prompt_rows;
  s->nccl_only = o->disable_custom_all_reduce;
  if (s->step_timeout_s == 0 && s->device == YK_DEVICE_CUDA) s->step_timeout_s = CUDA_STEP_TIMEOUT_S;
  return choose_gpus(o, is_elsewhere, s, err);
}

/* Ranks that share this host's processors and memory. */
static int ranks_on_host(const yk_settings *s, const yk_cluster *cluster)
{
  return s->world.n_local * yk_processes_on_host(cluster);
}

static void choose_threads(const yk_engine_options *o, const yk_cluster *cluster, yk_settings *s)
{
  int64_t threads = o->n_cpu_threads ? o->n_cpu_threads : (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
  s->n_threads_per_rank = (int)yk_max_i64(1, threads / ranks_on_host(s, cluster));
}

/* KV after the window can be released only if no layer looks further back. */
static int32_t widest_window(const yk_model_config *config)
{
  int32_t widest = 0;
  for (int32_t i = 0; i < config->n_layers; i++) {
    if (config->window_tokens[i] == 0) return 0;
    if (config->window_tokens[i] > widest) widest = config->window_tokens[i];
  }
  return widest;
}

static int32_t narrowest_window(const yk_model_config *config)
{
  int32_t narrowest = 0;
  for (int32_t i = 0; i < config->n_layers; i++) {
    int32_t window = config->window_tokens[i];
    if (window > 0 && (narrowest == 0 || window < narrowest)) narrowest = window;
  }
  return narrowest;
}

static yk_dtype choose_dtype(const yk_engine_options *o, const yk_settings *s, const yk_model_config *config)
{
  switch (o->dtype) {
  case YK_DTYPE_F16: return YK_F16;
  case YK_DTYPE_BF16: return YK_BF16;
  case YK_DTYPE_F32: return YK_F32;
  case YK_DTYPE_AUTO: break;
  }
  bool quantised = config->quant.method != YK_QUANT_NONE;
  return config->dtype == YK_F32 && (quantised || s->device == YK_DEVICE_CUDA) ? YK_F16 : config->dtype;
}

/* Choose the format of the KV cache, and the source of its scales. */
static yk_status choose_kv_format(const yk_engine_options *o, const yk_model_config *config, yk_settings *s,
                                  yk_err *err)
{
  static const yk_dtype of_choice[] = {
      [YK_KV_CACHE_F16] = YK_F16, [YK_KV_CACHE_BF16] = YK_BF16, [YK_KV_CACHE_F32] = YK_F32};
  static const char of_8_bits[] = ", int8, fp8, int8_per_token_head, fp8_per_token_head";
  const bool is_latent = config->latent.kv_rank > 0; /* such a cache has no K and V that scales could apply to */
  yk_kv_format of_checkpoint = is_latent ? YK_KV_ACT : config->quant.kv_format, format = YK_KV_ACT;
  bool may_be_static = true;
  switch (o->kv_cache_dtype) {
  case YK_KV_CACHE_AUTO: format = of_checkpoint; break;
  case YK_KV_CACHE_F16:
  case YK_KV_CACHE_BF16:
  case YK_KV_CACHE_F32:
    if (of_choice[o->kv_cache_dtype] == s->dtype) break;
    return yk_err_set(err, YK_E_UNSUPPORTED, "kv_cache_dtype %s: activations are %s; supported: %s, auto%s",
                      yk_dtype_name(of_choice[o->kv_cache_dtype]), yk_dtype_name(s->dtype), yk_dtype_name(s->dtype),
                      is_latent ? "" : of_8_bits);
  case YK_KV_CACHE_INT8: format = YK_KV_INT8; break;
  case YK_KV_CACHE_FP8: format = YK_KV_FP8; break;
  case YK_KV_CACHE_INT8_PER_TOKEN_HEAD:
  case YK_KV_CACHE_FP8_PER_TOKEN_HEAD:
    format = o->kv_cache_dtype == YK_KV_CACHE_INT8_PER_TOKEN_HEAD ? YK_KV_INT8 : YK_KV_FP8;
    may_be_static = false;
    break;
  }
  if (is_latent && format != YK_KV_ACT)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "kv_cache_dtype %s: latent attention keeps its cache in the type of the activations; supported: "
                      "%s, auto",
                      format == YK_KV_INT8 ? "int8" : "fp8", yk_dtype_name(s->dtype));
  s->limits.kv_format = format;
  s->limits.kv_is_static = format != YK_KV_ACT && format == of_checkpoint && may_be_static;
  return YK_OK;
}

/* A context longer than the default changes the rotation of shorter ones. limit: the longest context. */
static int32_t longest_sequence(const yk_engine_options *o, const yk_model_config *config, int32_t limit)
{
  const int32_t exact = config->default_model_tokens;
  if (exact > 0 && o->max_model_tokens == 0)
    yk_log_write(&o->log, YK_LOG_INFO,
                 "the longest context is %d tokens (original_max_position_embeddings): up to there the rotary factors "
                 "of short contexts apply; --max-model-len permits up to %d, with the factors of long contexts for all",
                 exact, config->max_model_tokens);
  else if (exact > 0 && o->max_model_tokens > exact)
    yk_log_write(&o->log, YK_LOG_WARN,
                 "the rotary factors of long contexts apply to all: in contexts of up to %d tokens "
                 "(original_max_position_embeddings) answers differ from the model's",
                 exact);
  if (o->max_model_tokens > 0) return o->max_model_tokens;
  return exact > 0 ? exact : limit;
}

static yk_status choose_lengths(const yk_engine_options *o, const yk_model_config *config, yk_settings *s, yk_err *err)
{
  const int32_t limit = config->max_model_tokens;
  if (o->max_model_tokens > limit)
    return yk_err_set(err, YK_E_INVAL, "max_model_tokens: expected at most %d, the model's own limit, found %d", limit,
                      o->max_model_tokens);
  s->limits.step = (yk_device_limits){.max_tokens = o->max_batched_tokens,
                                      .max_seqs = (int32_t)yk_min_i64(o->max_seqs, o->max_batched_tokens),
                                      .max_model_tokens = longest_sequence(o, config, limit),
                                      .vocab = config->vocab_size,
                                      .n_adapters = o->max_adapters,
                                      .adapter_rank = o->max_adapter_rank};
  return YK_OK;
}

/* CPU ranks share the host's memory; by default their KV together takes at most min(4 GiB, a quarter of RAM), and so do
 * their states. On a GPU, KV takes the remaining memory. */
static yk_status bound_memory(const yk_engine_options *o, const yk_settings *s, int64_t device_memory_bytes,
                              const yk_cluster *cluster, yk_memory_bounds *out, yk_err *err)
{
  if (s->device == YK_DEVICE_CUDA) {
    int64_t total = (int64_t)((double)device_memory_bytes * o->gpu_memory_utilization);
    if (!device_memory_bytes) YK_TRY(yk_gpus_budget(s, o->gpu_memory_utilization, &total, err));
    *out = (yk_memory_bounds){.total = total,
                              .kv_max = o->kv_cache_bytes ? o->kv_cache_bytes : total,
                              .states_max = total,
                              .snapshots_max = INT64_MAX};
    return YK_OK;
  }
  int n_ranks = ranks_on_host(s, cluster);
  int64_t ram = device_memory_bytes ? device_memory_bytes * n_ranks : yk_host_memory_bytes();
  int64_t total = (int64_t)((double)ram * o->gpu_memory_utilization) / n_ranks;
  int64_t most = yk_min_i64(INT64_C(4) << 30, ram / 4) / n_ranks;
  *out = (yk_memory_bounds){.total = total,
                            .kv_max = o->kv_cache_bytes ? o->kv_cache_bytes : most,
                            .states_max = most,
                            .snapshots_max = yk_min_i64(INT64_C(4) << 30, ram / 8)};
  return YK_OK;
}

static yk_status measure_ranks(const yk_checkpoint *checkpoint, const yk_settings *s, yk_model_memory *out, yk_err *err)
{
  const yk_model_device cpu = {.dtype = s->dtype,
                               .abilities = &yk_cpu_abilities,
                               .linear_bytes = yk_cpu_linear_bytes,
                               .linear_keeps = yk_cpu_linear_keeps,
                               .linear_shared_bytes = yk_cpu_linear_shared_bytes,
                               .mixture_scratch_bytes = yk_cpu_mixture_scratch_bytes};
  for (int rank = 0; rank < s->world.n_ranks; rank++) {
    const yk_rank_place place = yk_rank_place_in(&s->world, rank);
    if (s->device == YK_DEVICE_CUDA)
      YK_TRY(yk_gpus_measure(checkpoint, s, rank, &out[rank], err));
    else
      YK_TRY(yk_model_measure(checkpoint, &s->limits, &cpu, &place, &out[rank], err));
  }
  return YK_OK;
}

/* Blocks that every rank of this process can hold; ranks without attention heads hold any number. */
static int64_t blocks_that_fit(const yk_model_memory *memory, const yk_settings *s, const yk_memory_bounds *bounds)
{
  const yk_world *world = &s->world;
  int64_t blocks = INT32_MAX / YK_KV_BLOCK_TOKENS;
  for (int rank = world->first_rank; rank < world->first_rank + world->n_local; rank++) {
    int64_t n_states = (int64_t)s->limits.step.max_seqs + s->limits.n_state_entries;
    int64_t left = bounds->total - memory[rank].weight_bytes - memory[rank].workspace_bytes -
                   memory[rank].state_bytes_per_seq * n_states;
    left = yk_min_i64(bounds->kv_max, left);
    if (memory[rank].kv_bytes_per_block) blocks = yk_min_i64(blocks, left / memory[rank].kv_bytes_per_block);
    if (left < 0) blocks = 0;
  }
  return yk_max_i64(blocks, 0);
}

/* blocks: that every rank of every process can hold. */
static yk_status choose_kv(const yk_engine_options *o, const yk_model_memory *memory, int64_t total, int64_t blocks,
                           yk_settings *s, yk_plan *plan, yk_err *err)
{
  yk_model_limits *limits = &s->limits;
  int64_t most_useful =
      (int64_t)limits->step.max_seqs * yk_ceil_div_i64(limits->step.max_model_tokens, YK_KV_BLOCK_TOKENS);
  int64_t n_blocks = yk_min_i64(blocks, most_useful);
  limits->n_kv_blocks = (int32_t)n_blocks;
  if (n_blocks > 0) yk_settings_limit_snapshots(s);
  yk_plan_fill(memory, s, plan);
  int64_t tokens = plan->kv_tokens;
  if (n_blocks > 0 && (tokens >= limits->step.max_model_tokens || o->max_model_tokens == 0)) {
    if (tokens >= limits->step.max_model_tokens) return YK_OK;
    snprintf(plan->reason, sizeof plan->reason,
             "the longest sequence is lowered from %d to %lld tokens: all that the KV cache holds",
             limits->step.max_model_tokens, (long long)tokens);
    limits->step.max_model_tokens = (int32_t)tokens;
    return YK_OK;
  }
  plan->fits = false;
  if (n_blocks == 0)
    yk_plan_report_too_little_memory(o, memory, total, plan);
  else
    snprintf(plan->reason, sizeof plan->reason,
             "the KV cache holds %lld tokens, fewer than max_model_tokens %d; the largest that fits is %lld",
             (long long)tokens, limits->step.max_model_tokens, (long long)tokens);
  return yk_err_set(err, YK_E_CAPACITY, "%s", plan->reason);
}

yk_config_changes yk_settings_config_changes(const yk_engine_options *options)
{
  const char *where = options->generation_config;
  bool is_auto = !where || strcmp(where, "auto") == 0, is_plain = where && strcmp(where, "vllm") == 0;
  return (yk_config_changes){.config = options->hf_overrides,
                             .generation = options->override_generation_config,
                             .generation_dir = is_auto || is_plain ? NULL : where,
                             .has_plain_sampling = is_plain,
                             .dense_beyond_index = options->dense_attention_beyond_index};
}

/* The checkpoint's own request is followed where it can be. */
static yk_rounding requested_rounding(const yk_engine_options *o, const yk_model_config *config, bool is_elsewhere,
                                      const yk_settings *s)
{
  yk_err problem = YK_ERR_INIT;
  const bool is_fp8 = yk_quant_may_have_inputs(&config->quant, YK_INPUTS_FP8);
  const bool is_int8 = yk_quant_may_have_inputs(&config->quant, YK_INPUTS_INT8);
  if (o->activations == YK_ACTIVATIONS_DTYPE || o->weights == YK_WEIGHTS_F16 || (!is_fp8 && !is_int8))
    return YK_ROUNDING_NONE;
  if (is_elsewhere || s->device == YK_DEVICE_CPU ||
      yk_gpus_check_hopper(s, is_fp8 ? "activations fp8" : "activations int8", "auto", &problem) == YK_OK)
    return YK_ROUNDING_OF_CHECKPOINT;
  yk_log_write(&o->log, YK_LOG_INFO, "inputs of 4-bit weights stay %s, although the checkpoint rounds them: %s",
               yk_dtype_name(s->dtype), problem.message);
  return YK_ROUNDING_NONE;
}

/* 8-bit inputs on request need layers that take them, and GPUs that have the kernels. */
static yk_status choose_activations(const yk_engine_options *o, const yk_model_config *config, bool is_elsewhere,
                                    yk_settings *s, yk_err *err)
{
  const bool is_fp8 = o->activations == YK_ACTIVATIONS_FP8;
  const char *option = is_fp8 ? "activations fp8" : "activations int8";
  if (!is_fp8 && o->activations != YK_ACTIVATIONS_INT8) {
    s->limits.rounding = requested_rounding(o, config, is_elsewhere, s);
    return YK_OK;
  }
  s->limits.rounding = is_fp8 ? YK_ROUNDING_FP8 : YK_ROUNDING_INT8;
  if (o->weights == YK_WEIGHTS_F16)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: expected weights of 4-bit integers, found weights f16; supported: auto", option);
  if (!yk_quant_may_have(&config->quant, YK_WEIGHT_AWQ))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: expected weights of 4-bit integers, which this model does not have; supported: auto",
                      option);
  return is_elsewhere || s->device == YK_DEVICE_CPU ? YK_OK : yk_gpus_check_hopper(s, option, "auto", err);
}

/* Ranks that add in a tree; on GPUs of this process also the kernels of 4-bit weights. */
static yk_status choose_invariance(const yk_engine_options *o, const yk_model_config *config, bool is_elsewhere,
                                   yk_settings *s, yk_err *err)
{
  s->limits.batch_invariant = o->batch_invariant;
  if (!o->batch_invariant || s->device == YK_DEVICE_CPU) return YK_OK;
  if (s->nccl_only && yk_world_group_size(&s->world) > 2)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "batch_invariant: with disable_custom_all_reduce a stage has 1 or 2 ranks, found %d",
                      yk_world_group_size(&s->world));
  if (is_elsewhere || o->weights == YK_WEIGHTS_F16 || !yk_quant_may_have(&config->quant, YK_WEIGHT_AWQ)) return YK_OK;
  return yk_gpus_check_hopper(s, "batch_invariant: 4-bit weights", "weights f16", err);
}

/* The size of the KV cache, and the plan. Every process has the same number of blocks, that of the smallest rank. */
static yk_status choose_memory(const yk_engine_options *options, const yk_checkpoint *checkpoint,
                               int64_t device_memory_bytes, yk_cluster *cluster, yk_settings *settings, yk_plan *plan,
                               yk_err *err)
{
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  yk_model_memory memory[YK_MAX_RANKS];
  yk_memory_bounds bounds;
  int32_t wanted_seqs = settings->limits.step.max_seqs;
  int64_t blocks;
  int smallest;
  YK_TRY(measure_ranks(checkpoint, settings, memory, err));
  YK_TRY(bound_memory(options, settings, device_memory_bytes, cluster, &bounds, err));
  YK_TRY(yk_settings_choose_seqs(memory, &bounds, cluster, settings, err));
  if (settings->limits.step.max_seqs < wanted_seqs) YK_TRY(measure_ranks(checkpoint, settings, memory, err));
  YK_TRY(yk_settings_choose_snapshots(options, memory, &bounds, cluster, settings, err));
  int64_t own_blocks = blocks_that_fit(memory, settings, &bounds);
  YK_TRY(yk_processes_smallest(cluster, own_blocks, &blocks, &smallest, err));
  if (blocks == 0 && own_blocks > 0)
    return yk_err_set(err, YK_E_CAPACITY, "%s has no memory for the KV cache", yk_cluster_name(cluster, smallest));
  yk_status status = choose_kv(options, memory, bounds.total, blocks, settings, plan, err);
  yk_plan_fill_experts(memory, settings, &config->experts, plan);
  YK_TRY(status);
  yk_plan_note(config, memory, wanted_seqs, plan);
  return YK_OK;
}

yk_status yk_settings_resolve(const yk_engine_options *options, const yk_checkpoint *checkpoint,
                              int64_t device_memory_bytes, yk_cluster *cluster, yk_settings *settings, yk_plan *plan,
                              yk_err *err)
{
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  *settings = (yk_settings){0};
  *plan = (yk_plan){.n_ranks = options->n_ranks};
  YK_TRY(yk_settings_devices(options, device_memory_bytes > 0, settings, err));
  choose_threads(options, cluster, settings);
  settings->dtype = choose_dtype(options, settings, config);
  if (settings->device == YK_DEVICE_CUDA && settings->dtype == YK_F32)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "dtype: GPUs run float16 and bfloat16, found float32; device cpu takes it");
  settings->hidden_size = config->hidden_size;
  settings->embedding_size = config->pooling.takes_last_token ? config->hidden_size : 0;
  settings->rules = (yk_memory_rules){.window_tokens = widest_window(config),
                                      .narrowest_window_tokens = narrowest_window(config),
                                      .reuses_prefixes = !options->no_prefix_reuse,
                                      .has_states = yk_model_has_states(config)};
  YK_TRY(choose_lengths(options, config, settings, err));
  YK_TRY(choose_kv_format(options, config, settings, err));
  settings->limits.as_16_bits = options->weights == YK_WEIGHTS_F16;
  YK_TRY(choose_activations(options, config, device_memory_bytes > 0, settings, err));
  settings->limits.lm_head_as_int8 = options->lm_head == YK_LM_HEAD_INT8;
  if (settings->limits.lm_head_as_int8 && config->lacks_head)
    return yk_err_set(err, YK_E_UNSUPPORTED, "lm_head int8: this model has no lm_head; supported: auto");
  settings->limits.expert_parallel = options->expert_parallel;
  YK_TRY(choose_invariance(options, config, device_memory_bytes > 0, settings, err));
  settings->limits.n_adapters = options->max_adapters;
  settings->limits.adapter_rank = options->max_adapter_rank;
  return choose_memory(options, checkpoint, device_memory_bytes, cluster, settings, plan, err);
}
