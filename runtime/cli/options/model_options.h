/* model_options.h - options of every subcommand that opens a model: the model, its devices and its limits. */
#ifndef YK_CLI_MODEL_OPTIONS_H
#define YK_CLI_MODEL_OPTIONS_H

#include "cli/options/adapter_options.h"
#include "cli/options/device_ids.h"
#include "cli/options/named_model.h"
#include "cli/options/options.h"
#include "cli/options/process_options.h"
#include "yoke/yoke.h"

enum { YK_MODEL_OPTIONS = 37 + YK_ADAPTER_OPTIONS + YK_PROCESS_OPTIONS };

typedef struct yk_model_options {
  yk_named_model checkpoint, tokenizer;
  const char *hf_overrides, *generation_overrides, *generation_config; /* as in yk_engine_options */
  const char *grammar_library;                                         /* the same */
  int32_t n_ranks, n_stages;                                           /* ranks of each stage, and stages */
  bool ranks_given, seqs_given;
  int device, dtype, weights, kv_cache_dtype, log_level;
  yk_device_ids devices;
  int32_t max_model_tokens, max_seqs, max_batched_tokens, n_threads;
  int32_t long_prompt_rows;
  double gpu_memory_utilization, step_timeout_s, grammar_time_limit_s;
  int64_t kv_cache_bytes, state_cache_bytes, grammar_memory_bytes, grammar_cache_bytes;
  uint64_t seed;
  int lm_head, activations;
  bool expert_parallel, disable_custom_all_reduce, batch_invariant, no_prefix_reuse, dense_attention_beyond_index;
  yk_adapter_options adapters;
  yk_process_options processes;
  yk_option table[YK_MODEL_OPTIONS];
} yk_model_options;

/* yk_log_level_names - the values of --log-level, in the order of yk_log_level; NULL-terminated. */
extern const char *const yk_log_level_names[];

/* yk_model_options_init - the engine's defaults, and a table that stores into *options, which must not move. Free with
 *   yk_model_options_free. */
void yk_model_options_init(yk_model_options *options);
void yk_model_options_free(yk_model_options *options);

/* yk_model_options_copy - the same values with a table that stores into *out, which must not move. device_ids and paths
 *   still belong to options: the copy must not parse --devices, and is not freed. */
void yk_model_options_copy(const yk_model_options *options, yk_model_options *out);

/* yk_model_options_group - the table for yk_command.groups. */
yk_option_group yk_model_options_group(const yk_model_options *options);

/* yk_model_options_find - resolve --model and --tokenizer: a path, or a name in Hugging Face's cache. Call once, after
 *   parsing and before all functions below. needs_weights: as in yk_named_model_find, which also defines the errors. */
yk_status yk_model_options_find(yk_model_options *options, bool needs_weights, yk_err *err);

/* yk_model_options_hash - continue hash with the options that change the configuration of the checkpoint's files, and
 *   those that name adapters. */
uint32_t yk_model_options_hash(const yk_model_options *options, uint32_t hash);

/* yk_model_options_tokenizer - path of tokenizer and chat template: --tokenizer, else --model. */
const char *yk_model_options_tokenizer(const yk_model_options *options);

/* yk_model_options_apply - check the parsed options and store them in *engine, which then points into *options. Before
 *   yk_model_options_find the engine's model_dir stays NULL.
 *   Errors: YK_E_INVAL if no model is given, if --devices and --tensor-parallel-size disagree, or those of
 *   yk_process_options_apply. */
yk_status yk_model_options_apply(const yk_model_options *options, yk_engine_options *engine, yk_err *err);

#endif
