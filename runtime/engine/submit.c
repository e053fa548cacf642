/* submit.c - submit requests: check every parameter, then queue the request. Any thread. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arguments.h"
#include "base/checked.h"
#include "base/rng.h"
#include "base/struct_size.h"
#include "engine/engine_internal.h"
#include "engine/request_owner.h"

static yk_request_options defaults_of(const yk_engine *engine)
{
  const yk_generation_defaults *g = &engine->generation;
  return (yk_request_options){.struct_size = sizeof(yk_request_options),
                              .add_special_tokens = true,
                              .sampling = {.temperature = g->temperature,
                                           .top_p = g->top_p,
                                           .min_p = g->min_p,
                                           .top_k = g->top_k,
                                           .repetition_penalty = g->repetition_penalty,
                                           .max_tokens = -1,
                                           .skip_special_tokens = true,
                                           .n_logprobs = -1,
                                           .n_prompt_logprobs = -1,
                                           .max_reasoning_tokens = -1}};
}

void yk_request_options_init_sized(const yk_engine *engine, yk_request_options *options, size_t struct_size)
{
  const yk_request_options defaults = defaults_of(engine);
  yk_struct_write(options, struct_size, &defaults, sizeof defaults);
}

static yk_status check_f32(const char *name, float value, bool legal, const char *range, yk_err *err)
{
  if (legal && !isnan(value)) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "%s: expected %s, found %g", name, range, (double)value);
}

static yk_status check_ids(const char *name, const int32_t *ids, size_t n, int32_t vocab, yk_err *err)
{
  YK_TRY(yk_check_array(name, ids, n, err));
  for (size_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= vocab)
      return yk_err_set(err, YK_E_INVAL, "%s: token id %d at index %zu is outside the vocabulary (0 to %d)", name,
                        ids[i], i, vocab - 1);
  return YK_OK;
}

static yk_status check_biases(const yk_engine *e, const yk_sampling *s, yk_err *err)
{
  YK_TRY(yk_check_array("logit_bias", s->biases, s->n_biases, err));
  for (size_t i = 0; i < s->n_biases; i++) {
    const yk_logit_bias *bias = &s->biases[i];
    YK_TRY(check_ids("logit_bias", &bias->token_id, 1, e->info.vocab_size, err));
    YK_TRY(check_f32("logit_bias", bias->bias, fabsf(bias->bias) <= 100, "-100 to 100", err));
    for (size_t j = 0; j < i; j++)
      if (s->biases[j].token_id == bias->token_id)
        return yk_err_set(err, YK_E_INVAL, "logit_bias: expected each token id once, found %d twice", bias->token_id);
  }
  return YK_OK;
}

static yk_status check_bad_words(const yk_engine *e, const yk_sampling *s, yk_err *err)
{
  YK_TRY(yk_check_array("bad_words", s->bad_words, s->n_bad_words, err));
  for (size_t i = 0; i < s->n_bad_words; i++) {
    const yk_token_ids *word = &s->bad_words[i];
    if (word->n_ids == 0) return yk_err_set(err, YK_E_INVAL, "bad_words: expected at least one token in each");
    YK_TRY(check_ids("bad_words", word->ids, word->n_ids, e->info.vocab_size, err));
  }
  return YK_OK;
}

static yk_status check_penalties(const yk_sampling *s, yk_err *err)
{
  YK_TRY(check_f32("repetition_penalty", s->repetition_penalty,
                   s->repetition_penalty > 0 && s->repetition_penalty <= 10, "more than 0 and at most 10", err));
  YK_TRY(check_f32("frequency_penalty", s->frequency_penalty, fabsf(s->frequency_penalty) <= 2, "-2 to 2", err));
  return check_f32("presence_penalty", s->presence_penalty, fabsf(s->presence_penalty) <= 2, "-2 to 2", err);
}

static yk_status check_count(const char *name, size_t n, size_t most, yk_err *err)
{
  if (n <= most) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "number of %s: expected 0 to %zu, found %zu", name, most, n);
}

static yk_status check_constraint(const yk_sampling *s, yk_err *err)
{
  enum { MAX_BYTES = 16 << 20 };
  YK_TRY(yk_check_enum("constraint_kind", (int)s->constraint_kind, YK_CONSTRAINT_STRUCTURAL_TAG, err));
  YK_TRY(yk_check_array("constraint", s->constraint, s->constraint_bytes, err));
  if (s->constraint_bytes > MAX_BYTES)
    return yk_err_set(err, YK_E_INVAL, "constraint: expected at most %d bytes, found %zu", MAX_BYTES,
                      s->constraint_bytes);
  if (s->reasoning_tags && (!s->reasoning_tags->close || (!s->reasoning_tags->open && !s->reasoning_is_open)))
    return yk_err_set(err, YK_E_INVAL, "reasoning_tags: expected an open and a close tag, found NULL");
  return yk_check_i64("max_reasoning_tokens", s->max_reasoning_tokens, -1, INT32_MAX, err);
}

static yk_status check_sampling(const yk_engine *e, const yk_sampling *s, yk_err *err)
{
  enum { MAX_BIASES = 1024, MAX_STOPS = 256, MAX_BAD_WORDS = 1024 };
  int32_t vocab = e->info.vocab_size, most_logprobs = (int32_t)yk_min_i64(YK_MAX_LOGPROBS, vocab);
  YK_TRY(check_f32("temperature", s->temperature, s->temperature >= 0 && s->temperature <= 100, "0 to 100", err));
  YK_TRY(check_f32("top_p", s->top_p, s->top_p > 0 && s->top_p <= 1, "more than 0 and at most 1", err));
  YK_TRY(check_f32("min_p", s->min_p, s->min_p >= 0 && s->min_p <= 1, "0 to 1", err));
  YK_TRY(yk_check_i64("top_k", s->top_k, -1, INT32_MAX, err));
  YK_TRY(yk_check_i64("sample_index", s->sample_index, 0, INT32_MAX, err));
  YK_TRY(yk_check_i64("logprobs", s->n_logprobs, -1, most_logprobs, err));
  YK_TRY(yk_check_i64("prompt_logprobs", s->n_prompt_logprobs, -1, most_logprobs, err));
  YK_TRY(check_count("logit_bias entries", s->n_biases, MAX_BIASES, err));
  YK_TRY(check_count("bad_words", s->n_bad_words, MAX_BAD_WORDS, err));
  YK_TRY(check_bad_words(e, s, err));
  YK_TRY(check_count("logprob_token_ids", s->n_logprob_ids, YK_MAX_LOGPROB_IDS, err));
  YK_TRY(check_ids("logprob_token_ids", s->logprob_ids, s->n_logprob_ids, vocab, err));
  YK_TRY(check_count("stop ids", s->n_stop_ids, MAX_STOPS, err));
  YK_TRY(check_count("stop strings", s->n_stop_strings, MAX_STOPS, err));
  YK_TRY(yk_check_array("stop strings", s->stop_strings, s->n_stop_strings, err));
  if (s->n_stop_strings > 0 && !e->tokenizer)
    return yk_err_set(err, YK_E_UNSUPPORTED, "stop strings: %s; use stop ids", e->no_tokenizer);
  YK_TRY(check_penalties(s, err));
  YK_TRY(check_ids("allowed_token_ids", s->allowed_ids, s->n_allowed_ids, vocab, err));
  YK_TRY(check_constraint(s, err));
  YK_TRY(check_biases(e, s, err));
  return check_ids("stop ids", s->stop_ids, s->n_stop_ids, vocab, err);
}

static yk_status check_salt(const yk_request_options *options, yk_err *err)
{
  if (!options->cache_salt) return YK_OK;
  return yk_check_i64("bytes of cache_salt", (int64_t)options->cache_salt_bytes, 1, YK_MAX_CACHE_SALT_BYTES, err);
}

/* Capacity for prompt and output together, from the prompt's length, max_tokens and the context. */
static yk_status choose_capacity(const yk_engine *e, const yk_sampling *s, bool embeds, size_t n_prompt,
                                 int32_t *capacity, yk_err *err)
{
  int32_t context = e->info.max_model_tokens;
  bool scores_only = s->max_tokens == 0 && (s->n_prompt_logprobs >= 0 || embeds);
  if (n_prompt == 0) return yk_err_set(err, YK_E_INVAL, "prompt: expected at least one token, found none");
  if (n_prompt > (size_t)(context - !scores_only))
    return yk_err_set(err, YK_E_CAPACITY, /* client programs match OpenAI's wording */
                      "prompt: expected at most %d tokens, found %zu: this model's maximum context length is %d%s",
                      context - !scores_only, n_prompt, context, scores_only ? "" : ", one kept for output");
  int32_t left = context - (int32_t)n_prompt;
  if (s->max_tokens != -1 && !scores_only)
    YK_TRY(yk_check_i64("max_tokens (with this prompt)", s->max_tokens, 1, left, err));
  int32_t n_output = s->max_tokens == -1 ? left : s->max_tokens;
  YK_TRY(yk_check_i64("min_tokens", s->min_tokens, 0, n_output, err));
  *capacity = (int32_t)n_prompt + n_output;
  return YK_OK;
}

/* The ids that end an output: the model's end-of-sequence ids unless ignored, and the request's own ids, without
 * duplicates. */
static size_t collect_end_ids(const yk_engine *e, const yk_sampling *s, int32_t *out, size_t *n_eos)
{
  size_t n = 0;
  bool has_eos = !s->ignore_eos || s->constraint_kind != YK_CONSTRAINT_NONE;
  for (int32_t i = 0; has_eos && i < e->n_eos_ids; i++)
    if (!yk_ids_contain(out, n, e->eos_ids[i])) out[n++] = e->eos_ids[i];
  *n_eos = n;
  for (size_t i = 0; i < s->n_stop_ids; i++)
    if (!yk_ids_contain(out, n, s->stop_ids[i])) out[n++] = s->stop_ids[i];
  return n;
}

/* Queue the request with its adapter, unless the engine has failed or is stopping. */
static yk_status enqueue(yk_engine *e, yk_request *request, const char *adapter, yk_err *err)
{
  yk_adapter_use use = {0};
  pthread_mutex_lock(&e->mutex);
  yk_err refused = e->failure;
  if (e->stopping) yk_err_set(&refused, YK_E_CANCELLED, "the engine is stopping");
  if (refused.code == YK_OK) yk_adapters_acquire(&e->adapters, adapter, &use, &refused);
  request->seq.adapter = use.number;
  request->adapter_id = use.id;
  if (refused.code == YK_OK) {
    *e->inbox_end = request;
    e->inbox_end = &request->next_submitted;
    pthread_cond_signal(&e->cv_work);
  }
  pthread_mutex_unlock(&e->mutex);
  if (refused.code != YK_OK && err && err->code == YK_OK) *err = refused;
  return refused.code;
}

static uint64_t seed_of_request(yk_engine *e)
{
  uint32_t counter[4] = {atomic_fetch_add(&e->n_requests, 1), 0, 0, 1}; /* 1: a counter that sampling does not use */
  yk_philox(counter, (uint32_t)e->seed, (uint32_t)(e->seed >> 32));
  return (uint64_t)counter[1] << 32 | counter[0];
}

/* Checks that the model supports the request's kind of output: an embedding, or tokens. */
static yk_status check_kind(const yk_engine *e, const yk_request_options *options, yk_err *err)
{
  if (!options->embeds && e->info.only_embeds)
    return yk_err_set(err, YK_E_UNSUPPORTED, "prompt: this model has no lm_head: it only makes embeddings");
  if (!options->embeds) return YK_OK;
  if (!e->pooling.takes_last_token)
    return yk_err_set(err, YK_E_UNSUPPORTED, "embeds: this model makes no embeddings: %s",
                      e->pooling.refused[0] ? e->pooling.refused : "its folder has no modules.json to define them");
  return options->embedding_size == 0
             ? YK_OK
             : yk_check_i64("embedding_size", options->embedding_size, 1, e->info.embedding_size, err);
}

/* An embedding uses nothing of sampling. */
static yk_sampling sampling_of(const yk_engine *e, const yk_request_options *options)
{
  if (!options->embeds) return options->sampling;
  yk_sampling sampling = defaults_of(e).sampling;
  sampling.max_tokens = 0;
  return sampling;
}

static yk_status submit_ids(yk_engine *e, const int32_t *ids, size_t n_ids, const yk_request_options *options,
                            yk_request **out, yk_err *err)
{
  yk_sampling sampling = sampling_of(e, options);
  yk_request *request;
  int32_t capacity;
  YK_TRY(check_kind(e, options, err));
  YK_TRY(check_sampling(e, &sampling, err));
  YK_TRY(choose_capacity(e, &sampling, options->embeds, n_ids, &capacity, err));
  YK_TRY(check_ids("prompt", ids, n_ids, e->info.vocab_size, err));
  YK_TRY(check_salt(options, err));
  if (sampling.top_k > e->info.vocab_size) sampling.top_k = 0; /* 0: no limit */
  if (!sampling.has_seed) sampling.seed = seed_of_request(e);
  int32_t *end_ids = malloc((YK_MAX_EOS_IDS + 1 + sampling.n_stop_ids) * sizeof *end_ids);
  if (!end_ids) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu stop ids", sampling.n_stop_ids);
  size_t n_eos, n_end_ids = collect_end_ids(e, &sampling, end_ids, &n_eos);
  yk_request_constraint constraint;
  const yk_constrained_model model = {e->grammars, e->tokenizer, e->no_tokenizer, e->info.vocab_size};
  yk_status constrained = yk_request_constraint_init(&constraint, &model, &sampling, end_ids, n_end_ids, err);
  if (constrained != YK_OK) {
    free(end_ids);
    return constrained;
  }
  yk_status created = yk_request_create(&yk_request_owner, ids, (int32_t)n_ids, capacity, &sampling, end_ids, n_end_ids,
                                        e->tokenizer, &e->n_cancels, &request, err);
  free(end_ids);
  if (created != YK_OK) {
    yk_request_constraint_end(&constraint);
    return created;
  }
  yk_request_set_constraint(request, &constraint, n_eos, e->info.vocab_size);
  yk_request_set_waiter(request, options->waiter, options->user);
  yk_status status = YK_OK;
  if (options->cache_salt)
    status = yk_request_set_cache_salt(request, options->cache_salt, options->cache_salt_bytes, err);
  if (status == YK_OK && sampling.n_logprob_ids > 0) status = yk_request_set_logprob_ids(request, &sampling, err);
  if (status == YK_OK && options->embeds)
    status = yk_request_set_embedding(
        request, options->embedding_size > 0 ? options->embedding_size : e->info.embedding_size, err);
  if (status == YK_OK) status = enqueue(e, request, options->adapter, err);
  if (status != YK_OK) {
    yk_request_set_waiter(request, NULL, NULL); /* the caller has no handle, so a waiter must not report the request */
    yk_request_finish(request, YK_FINISH_CANCELLED, NULL);
    yk_request_free(request);
    return status;
  }
  *out = request;
  return YK_OK;
}

static yk_status submit(yk_engine *engine, const yk_request_options *options, yk_request **out, yk_err *err)
{
  if (!options->text) return submit_ids(engine, options->ids, options->n_ids, options, out, err);
  int32_t *ids;
  size_t n_ids, n_bytes = options->text_bytes ? options->text_bytes : strlen(options->text);
  YK_TRY(yk_engine_tokenize(engine, options->text, n_bytes, options->add_special_tokens, &ids, &n_ids, err));
  yk_status status = submit_ids(engine, ids, n_ids, options, out, err);
  free(ids);
  return status;
}

yk_status yk_engine_submit(yk_engine *engine, const yk_request_options *options, yk_request **out, yk_err *err)
{
  yk_request_options own = defaults_of(engine);
  *out = NULL;
  YK_TRY(yk_struct_read("yk_request_options", options, YK_STRUCT_END(yk_request_options, user), &own, sizeof own, err));
  return submit(engine, &own, out, err);
}
