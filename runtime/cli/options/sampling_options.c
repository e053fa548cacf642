#include "cli/options/sampling_options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/rng.h"
#include "openai/request.h"

static yk_status parse_stop_ids(void *user, const char *text, yk_err *err)
{
  yk_sampling_options *options = user;
  return yk_int_list_parse(text, &options->stop_ids, &options->n_stop_ids, err);
}

static yk_status add_stop_string(void *user, const char *text, yk_err *err)
{
  yk_sampling_options *options = user;
  if (!text[0]) return yk_err_set(err, YK_E_INVAL, "expected a text, found an empty one");
  const char **grown = realloc(options->stop_strings, (options->n_stop_strings + 1) * sizeof *grown);
  if (!grown) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu stop strings", options->n_stop_strings + 1);
  grown[options->n_stop_strings++] = text;
  options->stop_strings = grown;
  return YK_OK;
}

void yk_sampling_options_init(yk_sampling_options *options)
{
  _Static_assert(YK_DEFAULT_MAX_TOKENS == 128, "help says so");
  *options = (yk_sampling_options){
      .n_samples = 1, .max_tokens = YK_DEFAULT_MAX_TOKENS, .n_logprobs = -1, .n_prompt_logprobs = -1};
  const yk_option table[] = {
      {"max-tokens", "n", YK_OPTION_INT, &options->max_tokens, "N", .help = "most tokens to generate; -1: all that fit",
       .fallback = "the model's, else 128", .min = -1, .max = INT32_MAX, .given = &options->max_tokens_given},
      {"n", NULL, YK_OPTION_INT, &options->n_samples, "N", .help = "samples of a prompt, 1 to 128; -n is --max-tokens",
       .min = 1, .max = YK_OPENAI_MAX_SAMPLES},
      {"min-tokens", NULL, YK_OPTION_INT, &options->min_tokens, "N", .help = "tokens before any stop",
       .max = INT32_MAX},
      {"temperature", NULL, YK_OPTION_NUMBER, &options->temperature, "T", .help = "0 selects the most likely token",
       .fallback = "the model's, else 1", .max = 100, .given = &options->temperature_given},
      {"top-k", NULL, YK_OPTION_INT, &options->top_k, "K", .help = "draw from the K likeliest; 0, -1: all",
       .fallback = "the model's", .min = -1, .max = INT32_MAX, .given = &options->top_k_given},
      {"top-p", NULL, YK_OPTION_NUMBER, &options->top_p, "P", .help = "draw from the likeliest that reach P",
       .fallback = "the model's", .max = 1, .above_min = true, .given = &options->top_p_given},
      {"min-p", NULL, YK_OPTION_NUMBER, &options->min_p, "P", .help = "drop those below P times the likeliest",
       .fallback = "the model's", .max = 1, .given = &options->min_p_given},
      {"repetition-penalty", NULL, YK_OPTION_NUMBER, &options->repetition_penalty, "R",
       .help = "above 1: fewer repetitions", .fallback = "the model's", .max = 10, .above_min = true,
       .given = &options->repetition_penalty_given},
      {"frequency-penalty", NULL, YK_OPTION_NUMBER, &options->frequency_penalty, "F",
       .help = "off a logit for each earlier occurrence", .min = -2, .max = 2},
      {"presence-penalty", NULL, YK_OPTION_NUMBER, &options->presence_penalty, "F",
       .help = "off the logit of a generated token", .min = -2, .max = 2},
      {"ignore-eos", NULL, YK_OPTION_FLAG, &options->ignore_eos, .help = "go on after an end-of-sequence token"},
      {"stop", NULL, YK_OPTION_CALL, options, "TEXT", .help = "text that ends the output, cut off; repeatable",
       .parse = add_stop_string},
      {"stop-token-ids", NULL, YK_OPTION_CALL, options, "LIST", .help = "further tokens that end the output",
       .parse = parse_stop_ids},
      {"logprobs", NULL, YK_OPTION_INT, &options->n_logprobs, "N",
       .help = "log-probabilities, and of N likeliest, 0 to 20; with --format json", .fallback = "none",
       .max = YK_MAX_LOGPROBS},
      {"prompt-logprobs", NULL, YK_OPTION_INT, &options->n_prompt_logprobs, "N",
       .help = "the same of the prompt; --max-tokens 0: only that", .fallback = "none", .max = YK_MAX_LOGPROBS},
  };
  static_assert(sizeof table <= sizeof options->table, "YK_SAMPLING_OPTIONS is too small");
  memcpy(options->table, table, sizeof table);
}

void yk_sampling_options_init_for_chat(yk_sampling_options *options)
{
  size_t n = 0;
  yk_sampling_options_init(options);
  options->max_tokens = -1;
  for (size_t i = 0; i < yk_sampling_options_group(options).n_options; i++) {
    yk_option option = options->table[i];
    const void *value = option.value;
    if (value == &options->n_samples || value == &options->n_logprobs || value == &options->n_prompt_logprobs) continue;
    if (value == &options->max_tokens) option.help = "most tokens of an answer; -1: all that fit";
    if (value == &options->max_tokens) option.fallback = "the model's, else -1";
    options->table[n++] = option;
  }
  while (n < YK_SAMPLING_OPTIONS) options->table[n++] = (yk_option){0};
}

void yk_sampling_options_free(yk_sampling_options *options)
{
  free(options->stop_ids);
  free(options->stop_strings);
}

yk_option_group yk_sampling_options_group(const yk_sampling_options *options)
{
  size_t n = 0;
  while (n < YK_SAMPLING_OPTIONS && options->table[n].name) n++;
  return (yk_option_group){"Sampling (the model's: its generation_config.json)", options->table, n};
}

uint64_t yk_sampling_seed(uint64_t seed, uint64_t index, size_t part)
{
  uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)part,
                         1}; /* 1: independent of the draws of sampling */
  yk_philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
  return (uint64_t)counter[1] << 32 | counter[0];
}

static size_t value_bytes(yk_option_kind kind)
{
  switch (kind) {
  case YK_OPTION_FLAG: return sizeof(bool);
  case YK_OPTION_INT: return sizeof(int32_t);
  case YK_OPTION_NUMBER: return sizeof(double);
  default: return 0; /* only options that collect, which are hashed separately */
  }
}

uint32_t yk_sampling_options_hash(const yk_sampling_options *options, uint32_t start)
{
  uint32_t hash = start;
  size_t n_options = yk_sampling_options_group(options).n_options;
  for (const yk_option *option = options->table; option < options->table + n_options; option++) {
    hash = yk_hash(hash, option->value, value_bytes(option->kind));
    if (option->given) hash = yk_hash(hash, option->given, sizeof *option->given);
  }
  hash = yk_hash(hash, options->stop_ids, options->n_stop_ids * sizeof *options->stop_ids);
  for (size_t i = 0; i < options->n_stop_strings; i++)
    hash = yk_hash(hash, options->stop_strings[i], strlen(options->stop_strings[i]) + 1);
  return hash;
}

void yk_sampling_options_apply(const yk_sampling_options *options, int32_t model_max_tokens, int64_t left_tokens,
                               yk_sampling *sampling)
{
  if (options->temperature_given) sampling->temperature = (float)options->temperature;
  if (options->top_k_given) sampling->top_k = options->top_k;
  if (options->top_p_given) sampling->top_p = (float)options->top_p;
  if (options->min_p_given) sampling->min_p = (float)options->min_p;
  if (options->repetition_penalty_given) sampling->repetition_penalty = (float)options->repetition_penalty;
  sampling->frequency_penalty = (float)options->frequency_penalty;
  sampling->presence_penalty = (float)options->presence_penalty;
  sampling->max_tokens = options->max_tokens;
  if (!options->max_tokens_given) {
    int32_t wanted = model_max_tokens > 0 ? model_max_tokens : options->max_tokens;
    sampling->max_tokens = (int32_t)yk_min_i64(wanted, yk_max_i64(left_tokens, 1));
  }
  sampling->min_tokens = options->min_tokens;
  sampling->ignore_eos = options->ignore_eos;
  sampling->stop_ids = options->stop_ids;
  sampling->n_stop_ids = options->n_stop_ids;
  sampling->stop_strings = options->stop_strings;
  sampling->n_stop_strings = options->n_stop_strings;
  sampling->n_logprobs = options->n_logprobs;
  sampling->n_prompt_logprobs = options->n_prompt_logprobs;
}
