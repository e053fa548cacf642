/* model_options.h - the options of every subcommand that opens a model: which one, on what, and how large. */
#ifndef YK_CLI_MODEL_OPTIONS_H
#define YK_CLI_MODEL_OPTIONS_H

#include "cli/options/device_ids.h"
#include "cli/options/named_model.h"
#include "cli/options/options.h"
#include "yoke/yoke.h"

enum { YK_MODEL_OPTIONS = 25 };

typedef struct yk_model_options {
  yk_named_model checkpoint, tokenizer;
  const char *hf_overrides, *generation_overrides, *generation_config; /* as of yk_engine_options */
  int32_t n_ranks;
  bool ranks_given, seqs_given;
  int device, dtype, weights, kv_cache_dtype, log_level;
  yk_device_ids devices;
  int32_t max_model_tokens, max_seqs, max_batched_tokens, n_threads;
  double gpu_memory_utilization, step_timeout_s;
  int64_t kv_cache_bytes;
  uint64_t seed;
  bool expert_parallel, no_prefix_reuse;
  yk_option table[YK_MODEL_OPTIONS];
} yk_model_options;

/* yk_log_level_names - the values of --log-level, in the order of yk_log_level; NULL behind the last. */
extern const char *const yk_log_level_names[];

/* yk_model_options_init - the engine's defaults, and a table that stores into *options, which must not move. Free with
 *   yk_model_options_free. */
void yk_model_options_init(yk_model_options *options);
void yk_model_options_free(yk_model_options *options);

/* yk_model_options_copy - the same values with a table that stores into *out, which must not move. Its device_ids
 *   and paths stay those of options: the copy must not parse --devices, and is not freed. */
void yk_model_options_copy(const yk_model_options *options, yk_model_options *out);

/* yk_model_options_group - the table for yk_command.groups. */
yk_option_group yk_model_options_group(const yk_model_options *options);

/* yk_model_options_find - look up what --model and --tokenizer name: a path, or a name in Hugging Face's cache. Call it
 *   once, behind parsing and ahead of everything below. needs_weights: as of yk_named_model_find, of which the errors
 *   are. */
yk_status yk_model_options_find(yk_model_options *options, bool needs_weights, yk_err *err);

/* yk_model_options_hash - hash, and with it what changes the configuration that the checkpoint's files have. */
uint32_t yk_model_options_hash(const yk_model_options *options, uint32_t hash);

/* yk_model_options_tokenizer - where tokenizer and chat template are looked for: --tokenizer, else --model. */
const char *yk_model_options_tokenizer(const yk_model_options *options);

/* yk_model_options_apply - what was parsed, checked and put into *engine, which points into *options afterwards. Before
 *   yk_model_options_find the engine's model_dir stays NULL.
 *   Errors: YK_E_INVAL where no model is given, or --devices and --tensor-parallel-size disagree. */
yk_status yk_model_options_apply(const yk_model_options *options, yk_engine_options *engine, yk_err *err);

#endif
