/* request.c - the life of a request, until its last owner frees it. */
#include "engine/request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/struct_size.h"
#include "base/wait.h"

static void destroy(yk_request *request)
{
  yk_sequence_destroy(&request->seq);
  yk_request_constraint_end(&request->constraint);
  yk_detokenizer_free(request->detokenizer);
  yk_stop_strings_free(request->stops);
  free(request->end_ids);
  free(request->cache_salt);
  free(request->biases);
  free(request->early_biases);
  free(request->bad_words);
  free(request->bad_ids);
  free(request->logprob_ids);
  free(request->listed_logprobs);
  free(request->row_biases);
  free(request->embedding);
  yk_strbuf_free(&request->decoded);
  yk_strbuf_free(&request->piece);
  yk_strbuf_free(&request->special);
  yk_strbuf_free(&request->piece_special);
  yk_strbuf_free(&request->queue);
  yk_strbuf_free(&request->taken);
  pthread_cond_destroy(&request->cv_output);
  pthread_mutex_destroy(&request->mutex);
  free(request);
}

int32_t yk_request_ban(yk_logit_bias *biases, int32_t n, int32_t id)
{
  int32_t i = 0;
  while (i < n && biases[i].token_id != id) i++;
  biases[i] = (yk_logit_bias){id, -INFINITY};
  return i == n ? n + 1 : n;
}

/* Build the two lists of biases. A ban replaces a bias of the same id. */
static bool copy_biases(yk_request *request, const yk_sampling *s, const int32_t *end_ids, size_t n_end_ids)
{
  /* With a constraint the mask excludes end ids where something else may follow. */
  bool has_bans = s->min_tokens > 0 && s->constraint_kind == YK_CONSTRAINT_NONE;
  size_t n_bans = has_bans ? n_end_ids : 0, n_most = s->n_biases + n_bans + s->n_bad_words;
  if (n_most == 0) return true;
  request->biases = calloc(n_most, sizeof *request->biases);
  request->early_biases = malloc(n_most * sizeof *request->early_biases);
  if (!request->biases || !request->early_biases) return false;
  for (size_t i = 0; i < s->n_biases; i++) request->biases[request->n_biases++] = s->biases[i];
  for (size_t i = 0; i < s->n_bad_words; i++)
    if (s->bad_words[i].n_ids == 1)
      request->n_biases = yk_request_ban(request->biases, request->n_biases, s->bad_words[i].ids[0]);
  request->n_early_biases = request->n_biases;
  memcpy(request->early_biases, request->biases, (size_t)request->n_biases * sizeof *request->biases);
  for (size_t i = 0; i < n_bans; i++)
    request->n_early_biases = yk_request_ban(request->early_biases, request->n_early_biases, end_ids[i]);
  return true;
}

/* Copies words of several tokens, and reserves capacity for the bans that they add to a row. */
static bool copy_bad_words(yk_request *request, const yk_sampling *s)
{
  size_t n_ids = 0, at = 0, n_most = s->n_bad_words + (size_t)request->n_early_biases;
  for (size_t i = 0; i < s->n_bad_words; i++) n_ids += s->bad_words[i].n_ids;
  if (n_ids == s->n_bad_words) return true;
  request->bad_words = malloc(s->n_bad_words * sizeof *request->bad_words);
  request->bad_ids = malloc(n_ids * sizeof *request->bad_ids);
  request->row_biases = malloc(n_most * sizeof *request->row_biases);
  if (!request->bad_words || !request->bad_ids || !request->row_biases) return false;
  for (size_t i = 0; i < s->n_bad_words; i++) {
    const yk_token_ids *word = &s->bad_words[i];
    if (word->n_ids == 1) continue;
    memcpy(request->bad_ids + at, word->ids, word->n_ids * sizeof *word->ids);
    request->bad_words[request->n_bad_words++] = (yk_token_ids){request->bad_ids + at, word->n_ids};
    at += word->n_ids;
  }
  return true;
}

/* Copy the arrays that the caller's parameters point to. */
static yk_status copy_sampling(yk_request *request, const yk_sampling *s, const int32_t *end_ids, size_t n_end_ids,
                               yk_err *err)
{
  request->sampling = *s;
  request->sampling.stop_ids = NULL;
  request->sampling.stop_strings = NULL;
  request->sampling.biases = NULL;
  request->sampling.bad_words = NULL;
  request->sampling.logprob_ids = NULL;
  request->sampling.constraint = NULL;
  request->sampling.constraint_name = NULL;
  request->sampling.reasoning_tags = NULL;
  request->sampling.allowed_ids = NULL;
  bool ok = copy_biases(request, s, end_ids, n_end_ids) && copy_bad_words(request, s);
  if (ok && n_end_ids > 0) {
    request->end_ids = malloc(n_end_ids * sizeof *end_ids);
    ok = request->end_ids != NULL;
    if (ok) memcpy(request->end_ids, end_ids, n_end_ids * sizeof *end_ids);
  }
  request->n_end_ids = n_end_ids;
  if (!ok) return yk_err_set(err, YK_E_NOMEM, "no memory for the sampling parameters of a request");
  if (s->n_stop_strings == 0) return YK_OK;
  YK_TRY(yk_stop_strings_create(s->stop_strings, s->n_stop_strings, &request->stops, err));
  if (s->include_stop) yk_stop_strings_include(request->stops);
  return YK_OK;
}

yk_status yk_request_create(const yk_sequence_owner *owner, const int32_t *prompt, int32_t n_prompt, int32_t capacity,
                            const yk_sampling *sampling, const int32_t *end_ids, size_t n_end_ids,
                            const yk_tokenizer *tokenizer, atomic_uint *n_cancels, yk_request **out, yk_err *err)
{
  yk_request *request = calloc(1, sizeof *request);
  if (!request) return yk_err_set(err, YK_E_NOMEM, "no memory for a request");
  pthread_mutex_init(&request->mutex, NULL);
  yk_cond_init(&request->cv_output);
  request->n_cancels = n_cancels;
  request->error = YK_ERR_INIT;
  request->n_owners = 2;
  request->submitted_ns = yk_clock_now_ns();
  yk_status status = yk_sequence_init(&request->seq, owner, prompt, n_prompt, capacity, err);
  if (status == YK_OK) status = copy_sampling(request, sampling, end_ids, n_end_ids, err);
  if (status == YK_OK && tokenizer)
    status = yk_detokenizer_create(tokenizer, sampling->skip_special_tokens, &request->detokenizer, err);
  if (status == YK_OK && tokenizer)
    status = yk_detokenizer_continue(request->detokenizer, prompt, (size_t)n_prompt, err);
  if (status != YK_OK) {
    destroy(request);
    return status;
  }
  if (sampling->n_prompt_logprobs >= 0) request->seq.wanted_from = 0;
  request->seq.extras.n_biases = request->n_early_biases + (int64_t)request->n_bad_words;
  if (yk_request_has_penalties(request)) request->seq.extras.n_penalty_tokens = capacity;
  *out = request;
  return YK_OK;
}

yk_status yk_request_set_cache_salt(yk_request *request, const char *salt, size_t n_bytes, yk_err *err)
{
  request->cache_salt = malloc(n_bytes + 1);
  if (!request->cache_salt) return yk_err_set(err, YK_E_NOMEM, "no memory for a cache salt");
  memcpy(request->cache_salt, salt, n_bytes);
  request->cache_salt_bytes = n_bytes;
  return YK_OK;
}

void yk_request_set_constraint(yk_request *request, const yk_request_constraint *constraint, size_t n_eos_ids,
                               int32_t n_ids)
{
  request->constraint = *constraint;
  request->n_eos_ids = n_eos_ids;
  if (yk_request_constraint_masks(constraint, INT32_MAX)) request->seq.extras.n_mask_words = yk_mask_words(n_ids);
}

yk_status yk_request_set_logprob_ids(yk_request *request, const yk_sampling *sampling, yk_err *err)
{
  size_t n = sampling->n_logprob_ids;
  request->logprob_ids = malloc(n * sizeof *request->logprob_ids);
  request->listed_logprobs = malloc(n * sizeof *request->listed_logprobs);
  if (!request->logprob_ids || !request->listed_logprobs)
    return yk_err_set(err, YK_E_NOMEM, "logprob_token_ids: no memory for %zu", n);
  request->seq.extras.n_logits = 1;
  memcpy(request->logprob_ids, sampling->logprob_ids, n * sizeof *request->logprob_ids);
  return YK_OK;
}

yk_status yk_request_set_embedding(yk_request *request, int32_t n, yk_err *err)
{
  request->embedding = calloc((size_t)n, sizeof *request->embedding);
  if (!request->embedding) return yk_err_set(err, YK_E_NOMEM, "no memory for an embedding of %d numbers", n);
  request->n_embedding = n;
  request->seq.returns_hidden = true;
  return YK_OK;
}

void yk_request_set_waiter(yk_request *request, yk_waiter *waiter, void *user)
{
  if (waiter) yk_waiter_share(waiter);
  pthread_mutex_lock(&request->mutex);
  yk_waiter *before = request->waiter;
  if (before) yk_waiter_remove(before, &request->ready);
  request->waiter = waiter;
  request->ready.request = request;
  request->ready.user = user;
  pthread_mutex_unlock(&request->mutex);
  yk_waiter_free(before);
}

void yk_request_release(yk_request *request)
{
  bool last = --request->n_owners == 0;
  pthread_mutex_unlock(&request->mutex);
  if (last) destroy(request);
}

void yk_request_cancel(yk_request *request)
{
  pthread_mutex_lock(&request->mutex);
  if (request->finish == YK_FINISH_NONE && !request->cancelled) {
    request->cancelled = true;
    atomic_fetch_add(request->n_cancels, 1);
  }
  pthread_mutex_unlock(&request->mutex);
}

void yk_request_get_usage_sized(yk_request *request, yk_request_usage *out, size_t struct_size)
{
  pthread_mutex_lock(&request->mutex);
  int64_t now = request->finished_ns ? request->finished_ns : yk_clock_now_ns();
  int64_t scheduled = request->scheduled_ns ? request->scheduled_ns : now;
  int64_t first = request->first_token_ns ? request->first_token_ns : now;
  const yk_request_usage usage = {.prompt_tokens = request->seq.n_prompt,
                                  .output_tokens = request->n_output,
                                  .reused_tokens = request->n_reused,
                                  .queue_s = (double)(scheduled - request->submitted_ns) * 1e-9,
                                  .ttft_s = (double)(first - request->submitted_ns) * 1e-9,
                                  .decode_s = (double)(now - first) * 1e-9};
  pthread_mutex_unlock(&request->mutex);
  yk_struct_write(out, struct_size, &usage, sizeof usage);
}

void yk_request_free(yk_request *request)
{
  if (!request) return;
  yk_request_cancel(request);
  yk_request_set_waiter(request, NULL, NULL);
  pthread_mutex_lock(&request->mutex);
  yk_request_release(request);
}

const char *yk_finish_reason_name(yk_finish_reason reason)
{
  static const char *const names[] = {"", "stop", "length", "cancelled", "error"};
  size_t index = (size_t)reason;
  return index < sizeof names / sizeof names[0] ? names[index] : "unknown";
}
