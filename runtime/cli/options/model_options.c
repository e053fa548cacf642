#include "cli/options/model_options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/options/json_option.h"

const char *const yk_log_level_names[] = {"error", "warn", "info", "debug", NULL};

/* In the order of the enums in yoke/engine.h. */
static const char *const dtype_names[] = {"auto", "float16", "bfloat16", "float32", NULL};
static const char *const dtype_aliases[] = {"half", "float16", "float", "float32", NULL};
static const char *const weights_names[] = {"auto", "f16", NULL};
static const char *const activations_names[] = {"auto", "fp8", "dtype", "int8", NULL};
static const char *const lm_head_names[] = {"auto", "int8", NULL};
static const char *const kv_cache_names[] = {
    "auto", "float16", "bfloat16", "float32", "int8", "fp8", "int8_per_token_head", "fp8_per_token_head", NULL};
static const char *const kv_cache_aliases[] = {"fp8_e4m3", "fp8", NULL};

/* Checks that the text is a JSON object. */
static yk_status parse_object(void *value, const char *text, yk_err *err)
{
  yk_json_doc *object;
  YK_TRY(yk_json_option_read(text, &object, err));
  yk_json_free(object);
  *(const char **)value = text;
  return YK_OK;
}

enum { N_FILE_OPTIONS = 5, N_DEVICE_OPTIONS = 13, N_ENGINE_OPTIONS = 16 };
static_assert(YK_NAMED_MODEL_OPTIONS + N_FILE_OPTIONS + N_DEVICE_OPTIONS + N_ENGINE_OPTIONS + YK_ADAPTER_OPTIONS +
                      YK_PROCESS_OPTIONS <=
                  (int)YK_MODEL_OPTIONS,
              "YK_MODEL_OPTIONS is too small");

static void fill_file_options(yk_model_options *options, yk_option out[N_FILE_OPTIONS])
{
  const yk_option table[] = {
      {"tokenizer", NULL, YK_OPTION_STRING, &options->tokenizer.name, "PATH",
       .help = "tokenizer.json, or a directory or ORG/NAME with it and the chat template", .fallback = "the model"},
      {"tokenizer-revision", NULL, YK_OPTION_STRING, &options->tokenizer.revision, "REV",
       .help = "of ORG/NAME of --tokenizer", .fallback = "main"},
      {"hf-overrides", NULL, YK_OPTION_CALL, &options->hf_overrides, "JSON",
       .help = "members in place of config.json's, as '{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}}'",
       .parse = parse_object},
      {"override-generation-config", NULL, YK_OPTION_CALL, &options->generation_overrides, "JSON",
       .help = "the same for generation_config.json", .parse = parse_object},
      {"generation-config", NULL, YK_OPTION_STRING, &options->generation_config, "DIR",
       .help = "directory of generation_config.json; vllm: none of its sampling", .fallback = "auto: the model's"},
  };
  static_assert(sizeof table == N_FILE_OPTIONS * sizeof *table, "N_FILE_OPTIONS is the number of rows");
  memcpy(out, table, sizeof table);
}

static void fill_device_options(yk_model_options *options, yk_option out[N_DEVICE_OPTIONS])
{
  const yk_option table[] = {
      {"device", NULL, YK_OPTION_CHOICE, &options->device, NULL, .help = "auto: GPUs where there are any",
       .choices = yk_device_names, .heading = "Devices"},
      {"devices", NULL, YK_OPTION_CALL, &options->devices, "LIST", .help = "GPUs of the ranks, as 0,2,3",
       .fallback = "0 to N - 1", .parse = yk_device_ids_parse},
      {"tensor-parallel-size", "tp", YK_OPTION_INT, &options->n_ranks, "N",
       .help = "ranks that each layer is split over, 1 to 64", .min = 1, .max = YK_MAX_RANKS,
       .given = &options->ranks_given},
      {"pipeline-parallel-size", "pp", YK_OPTION_INT, &options->n_stages, "N",
       .help = "stages, each with a range of the layers and ranks of its own; on CPUs", .min = 1, .max = YK_MAX_RANKS},
      {"enable-expert-parallel", "ep", YK_OPTION_FLAG, &options->expert_parallel,
       .help = "ranks hold whole experts, not a share of each"},
      {"disable-custom-all-reduce", NULL, YK_OPTION_FLAG, &options->disable_custom_all_reduce,
       .help = "GPUs: all-reduces by NCCL alone, not by stores into peers' memory"},
      {"batch-invariant", NULL, YK_OPTION_FLAG, &options->batch_invariant,
       .help = "the same logits for any other requests, and on 1, 2, 4 or 8 ranks; slower"},
      {"dtype", NULL, YK_OPTION_CHOICE, &options->dtype, "TYPE",
       .help = "type of activations: auto (the checkpoint's), float16 or half, bfloat16, float32 or float",
       .choices = dtype_names, .aliases = dtype_aliases},
      {"weights", NULL, YK_OPTION_CHOICE, &options->weights, NULL, .help = "f16: dequantise to 16 bits at load",
       .choices = weights_names},
      {"activations", NULL, YK_OPTION_CHOICE, &options->activations, NULL,
       .help = "inputs of weights in 4-bit integers: fp8, int8: rounded to 8-bit floats or integers (GPUs must have "
               "compute capability 9.0), dtype: never rounded, auto: as the checkpoint requests",
       .choices = activations_names},
      {"lm-head", NULL, YK_OPTION_CHOICE, &options->lm_head, NULL,
       .help = "int8: an lm_head of floats becomes 8-bit integers at load", .choices = lm_head_names},
      {"kv-cache-dtype", NULL, YK_OPTION_CHOICE, &options->kv_cache_dtype, "TYPE",
       .help = "type of K and V: auto, float16, bfloat16, float32; int8, fp8 or fp8_e4m3: with the checkpoint's static "
               "scales, else with one for each token and head; int8_per_token_head, fp8_per_token_head: always with "
               "the latter",
       .choices = kv_cache_names, .aliases = kv_cache_aliases},
      {"threads", "t", YK_OPTION_INT, &options->n_threads, "N", .help = "CPU threads of all ranks",
       .fallback = "every core", .min = 1, .max = 4096},
  };
  static_assert(sizeof table == N_DEVICE_OPTIONS * sizeof *table, "N_DEVICE_OPTIONS is the number of rows");
  memcpy(out, table, sizeof table);
}

static void fill_engine_options(yk_model_options *options, yk_option out[N_ENGINE_OPTIONS])
{
  const yk_option table[] = {
      {"max-model-len", NULL, YK_OPTION_TOKENS, &options->max_model_tokens, "N",
       .help = "longest prompt and output; 32k is 32,000, 32K is 32,768; auto or -1: the model's own",
       .fallback = "the model's own, or less where KV does not fit", .min = 1, .max = INT32_MAX, .takes_auto = true,
       .heading = "Engine"},
      {"dense-attention-beyond-index", NULL, YK_OPTION_FLAG, &options->dense_attention_beyond_index,
       .help = "sparse attention: contexts of more than index_topk tokens, with dense attention"},
      {"max-num-seqs", NULL, YK_OPTION_INT, &options->max_seqs, "N", .help = "requests that run at once", .min = 1,
       .max = 65536, .given = &options->seqs_given},
      {"max-num-batched-tokens", NULL, YK_OPTION_TOKENS, &options->max_batched_tokens, "N", .help = "tokens of a step",
       .min = 1, .max = 1 << 20},
      {"long-prefill-token-threshold", NULL, YK_OPTION_TOKENS, &options->long_prompt_rows, "N",
       .help =
           "most tokens of a step that a single long prompt gets beside decodes, from 32; 0: all; -1: as many as let "
           "a step take twice the time of decodes",
       .min = YK_LONG_PROMPT_PACED, .max = 1 << 20},
      {"gpu-memory-utilization", NULL, YK_OPTION_NUMBER, &options->gpu_memory_utilization, "SHARE",
       .help = "share of a device's memory to use", .max = 1, .above_min = true},
      {"kv-cache-bytes", NULL, YK_OPTION_BYTES, &options->kv_cache_bytes, "SIZE",
       .help = "KV memory of a rank, as 4GiB",
       .fallback = "from the share above; on CPUs at most 4 GiB and a quarter of memory"},
      {"state-cache-bytes", NULL, YK_OPTION_BYTES, &options->state_cache_bytes, "SIZE",
       .help = "memory of all ranks for snapshots of recurrent states, from which prompts with the same beginning "
               "continue; 0: none",
       .fallback = "a quarter of the memory without weights and states; on CPUs at most 4 GiB and an eighth of memory"},
      {"seed", NULL, YK_OPTION_SEED, &options->seed, "N", .help = "of sampling, below 2^64; -1: as if not given"},
      {"step-timeout", NULL, YK_OPTION_NUMBER, &options->step_timeout_s, "SECONDS",
       .help = "a longer step fails and names the stalled ranks", .fallback = "60 on GPUs, none on CPUs", .max = 86400,
       .above_min = true},
      {"no-prefix-reuse", NULL, YK_OPTION_FLAG, &options->no_prefix_reuse,
       .help = "compute every prompt from its start"},
      {"grammar-library", NULL, YK_OPTION_STRING, &options->grammar_library, "DIR",
       .help = "folder of xgrammar, for constrained output",
       .fallback = "$YOKE_GRAMMAR_LIBRARY, else the installation's"},
      {"grammar-time-limit", NULL, YK_OPTION_NUMBER, &options->grammar_time_limit_s, "SECONDS",
       .help = "a constraint that takes longer to compile is refused", .min = 0.01, .max = 3600},
      {"grammar-memory", NULL, YK_OPTION_BYTES, &options->grammar_memory_bytes, "SIZE",
       .help = "of the process that compiles constraints, at least 256MiB"},
      {"grammar-cache", NULL, YK_OPTION_BYTES, &options->grammar_cache_bytes, "SIZE",
       .help = "of compiled constraints that no request uses"},
      {"log-level", NULL, YK_OPTION_CHOICE, &options->log_level, "LEVEL",
       .help = "error, warn, info (with progress) or debug", .choices = yk_log_level_names},
  };
  static_assert(sizeof table == N_ENGINE_OPTIONS * sizeof *table, "N_ENGINE_OPTIONS is the number of rows");
  memcpy(out, table, sizeof table);
}

static void fill_table(yk_model_options *options)
{
  yk_option *row = options->table;
  yk_named_model_options(
      &options->checkpoint,
      "checkpoint directory, KuiperLLama .bin, or ORG/NAME in Hugging Face's cache; required, here or as the "
      "first argument",
      row);
  fill_file_options(options, row += YK_NAMED_MODEL_OPTIONS);
  fill_device_options(options, row += N_FILE_OPTIONS);
  fill_engine_options(options, row += N_DEVICE_OPTIONS);
  yk_adapter_options_fill(&options->adapters, row += N_ENGINE_OPTIONS);
  yk_process_options_fill(&options->processes, row + YK_ADAPTER_OPTIONS);
}

void yk_model_options_init(yk_model_options *options)
{
  yk_engine_options engine;
  yk_engine_options_init(&engine);
  memset(options, 0, sizeof *options);
  options->n_ranks = engine.n_ranks;
  options->n_stages = 1;
  options->device = (int)engine.device;
  options->dtype = (int)engine.dtype;
  options->weights = (int)engine.weights;
  options->activations = (int)engine.activations;
  options->lm_head = (int)engine.lm_head;
  options->kv_cache_dtype = (int)engine.kv_cache_dtype;
  options->log_level = YK_LOG_INFO;
  options->max_seqs = engine.max_seqs;
  options->max_batched_tokens = engine.max_batched_tokens;
  options->long_prompt_rows = engine.long_prompt_rows;
  options->gpu_memory_utilization = engine.gpu_memory_utilization;
  options->step_timeout_s = engine.step_timeout_s;
  options->grammar_time_limit_s = engine.grammar_time_limit_s;
  options->grammar_memory_bytes = engine.grammar_memory_bytes;
  options->grammar_cache_bytes = engine.grammar_cache_bytes;
  options->state_cache_bytes = engine.state_cache_bytes;
  options->seed = engine.seed;
  yk_adapter_options_init(&options->adapters);
  yk_process_options_init(&options->processes);
  fill_table(options);
}

void yk_model_options_copy(const yk_model_options *options, yk_model_options *out)
{
  *out = *options;
  fill_table(out);
}

void yk_model_options_free(yk_model_options *options)
{
  free(options->devices.ids);
  yk_adapter_options_free(&options->adapters);
  yk_process_options_free(&options->processes);
  yk_named_model_free(&options->checkpoint);
  yk_named_model_free(&options->tokenizer);
}

yk_option_group yk_model_options_group(const yk_model_options *options)
{
  size_t n = 0;
  while (n < YK_MODEL_OPTIONS && options->table[n].name) n++;
  return (yk_option_group){"Model", options->table, n};
}

uint32_t yk_model_options_hash(const yk_model_options *options, uint32_t hash)
{
  const char *const texts[] = {options->hf_overrides, options->generation_overrides, options->generation_config};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i]) hash = yk_hash(yk_hash(hash, &i, sizeof i), texts[i], strlen(texts[i]) + 1);
  for (size_t i = 0; i < options->adapters.n; i++) {
    const yk_adapter_path *adapter = &options->adapters.items[i];
    hash = yk_hash(yk_hash(hash, adapter->name, strlen(adapter->name) + 1), adapter->path, strlen(adapter->path) + 1);
  }
  return hash;
}

const char *yk_model_options_tokenizer(const yk_model_options *options)
{
  return options->tokenizer.path ? options->tokenizer.path : options->checkpoint.path;
}

yk_status yk_model_options_find(yk_model_options *options, bool needs_weights, yk_err *err)
{
  YK_TRY(yk_named_model_find(&options->checkpoint, needs_weights, err));
  options->tokenizer.cache = options->checkpoint.cache;
  yk_status status = yk_named_model_find(&options->tokenizer, false, err);
  if (status != YK_OK) yk_err_prefix(err, "--tokenizer");
  return status;
}

/* --devices lists the ranks' GPUs in order. With several processes it lists those of a host: each process takes the
 * GPUs of its ranks, in the order of the host's processes. A list with only this process's number of ranks is used
 * unchanged. */
static yk_status choose_devices(const yk_model_options *options, yk_engine_options *engine, yk_err *err)
{
  const yk_device_ids *devices = &options->devices;
  int n_ranks = options->n_ranks * options->n_stages;
  if (n_ranks > YK_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL,
                      "--tensor-parallel-size times --pipeline-parallel-size: expected at most %d ranks, found %d",
                      YK_MAX_RANKS, n_ranks);
  engine->n_ranks = n_ranks;
  engine->device = (yk_device_kind)options->device;
  if (engine->n_processes > 1) {
    size_t n_local = (size_t)(n_ranks / engine->n_processes);
    size_t first = devices->n == n_local ? 0 : n_local * (size_t)engine->local_process;
    if (devices->n && first + n_local > devices->n)
      return yk_err_set(err, YK_E_INVAL,
                        "--devices: process %d of this host needs number %zu of the list, which has %zu",
                        engine->local_process, first + n_local, devices->n);
    if (devices->n) engine->device_ids = devices->ids + first;
    return yk_device_ids_check(devices, options->device, 0, "", err);
  }
  if (devices->n) engine->n_ranks = (int)devices->n;
  if (devices->n) engine->device_ids = devices->ids;
  return yk_device_ids_check(
      devices, options->device, options->ranks_given ? n_ranks : 0,
      options->n_stages > 1 ? "--tensor-parallel-size times --pipeline-parallel-size" : "--tensor-parallel-size", err);
}

yk_status yk_model_options_apply(const yk_model_options *options, yk_engine_options *engine, yk_err *err)
{
  YK_TRY(yk_named_model_check(&options->checkpoint, err));
  yk_engine_options_init(engine);
  YK_TRY(yk_process_options_apply(&options->processes, engine, err));
  YK_TRY(yk_adapter_options_apply(&options->adapters, engine, err));
  YK_TRY(choose_devices(options, engine, err));
  engine->model_dir = options->checkpoint.path;
  engine->tokenizer = options->tokenizer.path;
  engine->hf_overrides = options->hf_overrides;
  engine->override_generation_config = options->generation_overrides;
  engine->generation_config = options->generation_config;
  engine->grammar_library = options->grammar_library;
  engine->grammar_time_limit_s = options->grammar_time_limit_s;
  engine->grammar_memory_bytes = options->grammar_memory_bytes;
  engine->grammar_cache_bytes = options->grammar_cache_bytes;
  engine->n_stages = options->n_stages;
  engine->dtype = (yk_dtype_choice)options->dtype;
  engine->weights = (yk_weights_choice)options->weights;
  engine->activations = (yk_activations_choice)options->activations;
  engine->lm_head = (yk_lm_head_choice)options->lm_head;
  engine->kv_cache_dtype = (yk_kv_cache_choice)options->kv_cache_dtype;
  engine->max_model_tokens = options->max_model_tokens;
  engine->max_seqs = options->max_seqs;
  engine->max_batched_tokens = options->max_batched_tokens;
  engine->long_prompt_rows = options->long_prompt_rows;
  engine->gpu_memory_utilization = options->gpu_memory_utilization;
  engine->kv_cache_bytes = options->kv_cache_bytes;
  engine->state_cache_bytes = options->state_cache_bytes;
  engine->n_cpu_threads = options->n_threads;
  engine->step_timeout_s = options->step_timeout_s;
  engine->seed = options->seed;
  engine->expert_parallel = options->expert_parallel;
  engine->disable_custom_all_reduce = options->disable_custom_all_reduce;
  engine->batch_invariant = options->batch_invariant;
  engine->no_prefix_reuse = options->no_prefix_reuse;
  engine->dense_attention_beyond_index = options->dense_attention_beyond_index;
  return YK_OK;
}
