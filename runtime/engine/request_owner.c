#include "engine/request_owner.h"

#include <string.h>

#include "engine/engine_internal.h"
#include "engine/engine_stats.h"

static const yk_request *const_request_of(const yk_sequence *seq)
{
  return (const yk_request *)seq;
}

static yk_request *request_of(yk_sequence *seq)
{
  return (yk_request *)seq;
}

static bool needs_counts(const yk_sequence *seq)
{
  return yk_request_has_penalties(const_request_of(seq));
}

/* The biases plus a ban of each id that would complete a bad word, as in vLLM: the output ends with the word's other
 * ids. */
static const yk_logit_bias *ban_bad_words(const yk_request *request, const yk_logit_bias *without, yk_sample_row *row)
{
  const yk_sequence *seq = &request->seq;
  size_t n_output = (size_t)(seq->n_tokens - seq->n_prompt);
  yk_logit_bias *biases = request->row_biases;
  if (row->n_biases) memcpy(biases, without, (size_t)row->n_biases * sizeof *biases);
  for (size_t i = 0; i < request->n_bad_words; i++) {
    const yk_token_ids *word = &request->bad_words[i];
    size_t n_before = word->n_ids - 1;
    if (n_before > n_output) continue;
    const int32_t *end = seq->tokens + seq->n_tokens - (int32_t)n_before;
    if (memcmp(end, word->ids, n_before * sizeof *end) != 0) continue;
    row->n_biases = yk_request_ban(biases, row->n_biases, word->ids[n_before]);
  }
  return biases;
}

/* Every field is named, so that the compiler does not clear the struct first: a step has a row per sequence. */
static const yk_logit_bias *describe_draw(const yk_sequence *seq, yk_sample_row *row)
{
  const yk_request *request = const_request_of(seq);
  const yk_sampling *s = &request->sampling;
  int32_t n_output = seq->n_tokens - seq->n_prompt;
  bool early = n_output < s->min_tokens;
  const yk_logit_bias *biases = early ? request->early_biases : request->biases;
  *row = (yk_sample_row){.temperature = s->temperature,
                         .top_p = s->top_p,
                         .min_p = s->min_p,
                         .top_k = s->top_k,
                         .seed = s->seed,
                         .stream = (uint32_t)s->sample_index,
                         .position = (uint32_t)n_output,
                         .n_top_logprobs = s->n_logprobs > 0 ? s->n_logprobs : s->n_logprob_ids > 0,
                         .want_logprob = s->n_logprobs >= 0,
                         .is_forced = false,
                         .forced_id = 0,
                         .has_penalties = needs_counts(seq),
                         .repetition_penalty = s->repetition_penalty,
                         .frequency_penalty = s->frequency_penalty,
                         .presence_penalty = s->presence_penalty,
                         .penalty_slot = seq->slot,
                         .n_biases = early ? request->n_early_biases : request->n_biases,
                         .first_bias = 0,
                         .has_mask = yk_request_constraint_masks(&request->constraint, n_output),
                         .first_mask = 0,
                         .returns_logits = s->n_logprob_ids > 0,
                         .logits_row = 0};
  return request->n_bad_words ? ban_bad_words(request, biases, row) : biases;
}

static const yk_logit_bias *describe_hidden(yk_sample_row *row)
{
  *row = (yk_sample_row){.top_p = 1, .is_forced = true};
  return NULL;
}

/* A row before the last token reports the log-probability of the next prompt token; the last row draws a token. */
static const yk_logit_bias *describe_row(const yk_sequence *seq, int32_t position, yk_sample_row *row)
{
  const yk_sampling *s = &const_request_of(seq)->sampling;
  if (seq->returns_hidden) return describe_hidden(row);
  if (position == seq->n_tokens - 1 && s->max_tokens != 0) return describe_draw(seq, row);
  *row = (yk_sample_row){.top_p = 1,
                         .n_top_logprobs = s->n_prompt_logprobs > 0 ? s->n_prompt_logprobs : 0,
                         .want_logprob = s->n_prompt_logprobs >= 0,
                         .is_forced = true,
                         .forced_id = position + 1 < seq->n_tokens ? seq->tokens[position + 1] : 0};
  return NULL;
}

static void fill_mask(yk_sequence *seq, uint32_t *words, int64_t n_words)
{
  yk_request *request = request_of(seq);
  const yk_sampling *s = &request->sampling;
  yk_constrained_output output = {.ids = seq->tokens + seq->n_prompt,
                                  .n = seq->n_tokens - seq->n_prompt,
                                  .end_ids = request->end_ids,
                                  .n_end_ids = request->n_end_ids,
                                  .n_eos_ids = request->n_eos_ids,
                                  .n_unwanted = s->ignore_eos ? request->n_eos_ids : 0};
  if (output.n < s->min_tokens) output.n_unwanted = request->n_end_ids;
  yk_request_constraint_fill(&request->constraint, &output, words, n_words);
}

static bool is_cancelled(yk_sequence *seq)
{
  return yk_request_is_cancelled(request_of(seq));
}

static void scheduled(yk_sequence *seq)
{
  yk_request_mark_scheduled(request_of(seq), seq->memory.n_computed);
}

static void deliver_later(yk_engine *e, yk_request *request, const yk_sampled *result)
{
  request->undelivered = result;
  request->next_undelivered = e->undelivered;
  e->undelivered = request;
}

void yk_requests_deliver(yk_engine *engine)
{
  for (yk_request *request = engine->undelivered; request; request = request->next_undelivered)
    yk_request_push_token(request, request->undelivered, false);
  engine->undelivered = NULL;
}

/* A token was drawn. Only the text shows whether the token completes a stop string. Other requests that continue pass
 * the token to the reader after the next step is planned. */
static yk_finish_reason append_token(yk_engine *e, yk_request *request, const yk_step *step, int32_t row)
{
  yk_sequence *seq = &request->seq;
  const yk_sampled *result = &step->answer.sampled[row];
  const yk_request_constraint *constraint = &request->constraint;
  if (constraint->has_ended) return YK_FINISH_STOP;
  if (constraint->error.code != YK_OK) return YK_FINISH_ERROR;
  seq->tokens[seq->n_tokens++] = result->token_id;
  yk_request_list_logprobs(request, result, yk_step_logits(step, row, e->info.vocab_size));
  bool is_end = yk_ids_contain(request->end_ids, request->n_end_ids, result->token_id);
  bool is_full = seq->n_tokens == seq->capacity;
  if (!is_end && !is_full && !request->stops) {
    deliver_later(e, request, result);
    return YK_FINISH_NONE;
  }
  if (yk_request_push_token(request, result, is_end || is_full) || is_end) return YK_FINISH_STOP;
  return is_full ? YK_FINISH_LENGTH : YK_FINISH_NONE;
}

static yk_finish_reason take_results(yk_engine *e, yk_sequence *seq, int32_t position, const yk_row_results *results)
{
  yk_request *request = request_of(seq);
  if (seq->returns_hidden && results->n > 0) {
    const float *hidden = yk_step_hidden(results->step, results->first, e->info.hidden_size);
    yk_request_embed(request, hidden, e->pooling.normalises);
    return YK_FINISH_STOP;
  }
  for (int32_t i = 0; i < results->n; i++) {
    int32_t row = results->first + i;
    seq->wanted_from = position + i + 1;
    if (position + i + 1 < seq->n_tokens)
      yk_request_push_prompt_token(request, &results->step->answer.sampled[row]);
    else if (request->sampling.max_tokens == 0) /* only log-probabilities of the prompt were requested */
      return YK_FINISH_LENGTH;
    else
      return append_token(e, request, results->step, row);
  }
  return YK_FINISH_NONE;
}

/* Statistics are updated before the reader is woken, so that the reader finds the request counted. */
static void finish(yk_engine *e, yk_sequence *seq, yk_finish_reason reason, const yk_err *error)
{
  const yk_err own = request_of(seq)->constraint.error;
  if (reason == YK_FINISH_ERROR && !error) error = &own;
  yk_scheduler_remove(e->scheduler, seq);
  yk_step_builder_release(e->builder, &seq->extras);
  pthread_mutex_lock(&e->mutex);
  yk_adapters_release(&e->adapters, seq->adapter);
  if (reason == YK_FINISH_ERROR)
    e->stats.requests_failed++;
  else
    e->stats.requests_finished++;
  yk_engine_refresh_gauges(e);
  pthread_mutex_unlock(&e->mutex);
  yk_request_finish(request_of(seq), reason, error);
}

const yk_sequence_owner yk_request_owner = {.describe_row = describe_row,
                                            .fill_mask = fill_mask,
                                            .needs_counts = needs_counts,
                                            .is_cancelled = is_cancelled,
                                            .scheduled = scheduled,
                                            .take_results = take_results,
                                            .finish = finish};
