/* sampling_options.h - sampling and stop options of `yoke generate`. The model's own values are the defaults. */
#ifndef YK_CLI_SAMPLING_OPTIONS_H
#define YK_CLI_SAMPLING_OPTIONS_H

#include "cli/options/options.h"
#include "yoke/yoke.h"

enum { YK_SAMPLING_OPTIONS = 16, YK_DEFAULT_MAX_TOKENS = 128 };

typedef struct yk_sampling_options {
  double temperature, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
  int32_t n_samples; /* for each prompt */
  int32_t top_k, max_tokens, min_tokens, n_logprobs, n_prompt_logprobs;
  bool temperature_given, top_p_given, min_p_given, repetition_penalty_given, top_k_given, max_tokens_given;
  bool ignore_eos;
  int32_t *stop_ids; /* [n_stop_ids], owned */
  size_t n_stop_ids;
  const char **stop_strings; /* [n_stop_strings], the array owned, its strings in argv */
  size_t n_stop_strings;
  yk_option table[YK_SAMPLING_OPTIONS];
} yk_sampling_options;

/* yk_sampling_options_init - a table that stores into *options, which must not move. Free with
 *   yk_sampling_options_free. */
void yk_sampling_options_init(yk_sampling_options *options);

/* yk_sampling_options_init_for_chat - the same for one answer at a time that is read as text: without --n, --logprobs
 *   and --prompt-logprobs, and an answer may be as long as the context allows. */
void yk_sampling_options_init_for_chat(yk_sampling_options *options);
void yk_sampling_options_free(yk_sampling_options *options);

/* yk_sampling_options_group - the table for yk_command.groups. */
yk_option_group yk_sampling_options_group(const yk_sampling_options *options);

/* yk_sampling_seed - the seed of a prompt without one: prompt number index, from 0, of a run with this seed. Drawn as
 *   an engine draws the seed of its request number index, but by the prompt's number: it does not depend on earlier
 *   requests, and the samples of a prompt share it. part: distinguishes prompts with the same index, from 0. */
uint64_t yk_sampling_seed(uint64_t seed, uint64_t index, size_t part);

/* yk_sampling_options_hash - continue start with every value, so that runs with other sampling options have other
 *   hashes. */
uint32_t yk_sampling_options_hash(const yk_sampling_options *options, uint32_t start);

/* yk_sampling_options_apply - override the model's values in *sampling by the given options; *sampling then points into
 *   *options. model_max_tokens: the model's default of max_tokens, or 0. left_tokens: tokens of the context after the
 *   prompt; an upper bound of that default. A given value is not bounded here: the engine refuses values outside its
 *   legal range. */
void yk_sampling_options_apply(const yk_sampling_options *options, int32_t model_max_tokens, int64_t left_tokens,
                               yk_sampling *sampling);

#endif
