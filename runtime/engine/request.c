#include "engine/request.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/struct_size.h"
#include "base/wait.h"

/* One queued token. special_bytes of yk_text_span, n_top ids, n_top log-probabilities, n_listed more log-probabilities
 * and text_bytes of text follow in the queue, then 1 to 8 zeros up to a multiple of the record's alignment, so that all
 * data can be read in place. */
typedef struct record {
  int64_t time_ns; /* when the token was queued */
  bool is_prompt;
  int32_t token_id;
  float logprob;
  int32_t n_top, n_listed;
  uint32_t text_bytes, special_bytes;
} record;

enum { RECORD_ALIGNMENT = 8 };
_Static_assert(sizeof(record) % RECORD_ALIGNMENT == 0 && sizeof(yk_text_span) % RECORD_ALIGNMENT == 0,
               "what follows a record, and the next one, are aligned");

static size_t n_zeros_at(size_t end_of_text)
{
  return RECORD_ALIGNMENT - end_of_text % RECORD_ALIGNMENT;
}

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
  request->biases = malloc(n_most * sizeof *request->biases);
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

/* Copy words of several tokens, with capacity for the bans that they add to a row. */
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

/* As torch.nn.functional.normalize, which sentence-transformers uses: a length below 1e-12 counts as 1e-12. */
void yk_request_embed(yk_request *request, const float *hidden, bool normalises)
{
  double sum = 0, length = 1;
  for (int32_t i = 0; i < request->n_embedding; i++) sum += (double)hidden[i] * (double)hidden[i];
  if (normalises) length = fmax(sqrt(sum), 1e-12);
  for (int32_t i = 0; i < request->n_embedding; i++) request->embedding[i] = (float)((double)hidden[i] / length);
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

/* Called with the mutex held, which it releases. */
static void release(yk_request *request)
{
  bool last = --request->n_owners == 0;
  pthread_mutex_unlock(&request->mutex);
  if (last) destroy(request);
}

void yk_request_mark_scheduled(yk_request *request, int32_t n_reused)
{
  if (request->scheduled_ns) return; /* only this thread writes scheduled_ns and may read it without the lock */
  pthread_mutex_lock(&request->mutex);
  request->scheduled_ns = yk_clock_now_ns();
  request->n_reused = n_reused;
  pthread_mutex_unlock(&request->mutex);
}

/* Under the mutex: wake readers that wait for this request or for any request. */
static void announce(yk_request *request)
{
  pthread_cond_signal(&request->cv_output);
  if (request->waiter) yk_waiter_push(request->waiter, &request->ready);
}

static bool has_lost_text(const yk_request *request)
{
  return request->decoded.failed || request->piece.failed || request->special.failed || request->piece_special.failed;
}

/* Under the mutex: append a token to the queue, whole or not at all. announces: wake readers if the queue was empty
 * before. */
static void enqueue(yk_request *request, const yk_sampled *result, bool is_prompt, bool announces, int64_t now_ns)
{
  yk_strbuf *queue = &request->queue;
  /* Rows with listed ids report their best logit even if no top log-probabilities were requested. */
  int32_t n_requested = is_prompt ? request->sampling.n_prompt_logprobs : request->sampling.n_logprobs;
  int32_t n_top = result->n_top < n_requested ? result->n_top : n_requested < 0 ? 0 : n_requested;
  int32_t n_listed = is_prompt ? 0 : (int32_t)request->sampling.n_logprob_ids;
  record r = {.time_ns = now_ns,
              .is_prompt = is_prompt,
              .token_id = result->token_id,
              .logprob = result->logprob,
              .n_top = n_top,
              .n_listed = n_listed,
              .text_bytes = (uint32_t)request->piece.length,
              .special_bytes = (uint32_t)request->piece_special.length};
  size_t length_before = queue->length;
  bool was_empty = length_before == 0;
  static const char zeros[RECORD_ALIGNMENT];
  yk_strbuf_append(queue, &r, sizeof r);
  yk_strbuf_append(queue, request->piece_special.data, request->piece_special.length);
  yk_strbuf_append(queue, result->top_ids, (size_t)n_top * sizeof result->top_ids[0]);
  yk_strbuf_append(queue, result->top_logprobs, (size_t)n_top * sizeof result->top_logprobs[0]);
  yk_strbuf_append(queue, request->listed_logprobs, (size_t)n_listed * sizeof *request->listed_logprobs);
  yk_strbuf_append(queue, request->piece.data, request->piece.length);
  yk_strbuf_append(queue, zeros, n_zeros_at(queue->length));
  if (queue->failed) queue->length = length_before;
  request->lost_output |= queue->failed || has_lost_text(request);
  if (was_empty && announces && !queue->failed) announce(request);
}

/* Computed relative to the best logit, whose log-probability is close to zero, so that rounding loses nothing. */
void yk_request_list_logprobs(yk_request *request, const yk_sampled *result, const float *logits)
{
  for (size_t i = 0; i < request->sampling.n_logprob_ids; i++) {
    double below_best = (double)logits[request->logprob_ids[i]] - (double)logits[result->top_ids[0]];
    request->listed_logprobs[i] = (float)(below_best + (double)result->top_logprobs[0]);
  }
}

void yk_request_push_prompt_token(yk_request *request, const yk_sampled *result)
{
  pthread_mutex_lock(&request->mutex);
  enqueue(request, result, true, true, yk_clock_now_ns());
  pthread_mutex_unlock(&request->mutex);
}

/* Record the span of a special token's text, at the end of the text decoded last. */
static void note_special(yk_request *request, int32_t token_id, size_t n_decoded)
{
  size_t n_bytes = yk_detokenizer_special_bytes(request->detokenizer, token_id);
  request->decoded_bytes += n_decoded;
  if (n_bytes == 0) return;
  size_t end = request->decoded_bytes, begin = end - (n_bytes < n_decoded ? n_bytes : n_decoded);
  yk_strbuf_append(&request->special, &(yk_text_span){begin, end}, sizeof(yk_text_span));
}

/* Set piece_special: the spans of special tokens within the piece that is about to be returned. */
static void find_special(yk_request *request)
{
  yk_strbuf *special = &request->special;
  size_t begin = request->given_bytes, end = begin + request->piece.length, n_done = 0;
  request->given_bytes = end;
  yk_strbuf_clear(&request->piece_special);
  for (size_t at = 0; at < special->length; at += sizeof(yk_text_span)) {
    yk_text_span span;
    memcpy(&span, special->data + at, sizeof span);
    if (span.begin >= end) break;
    if (span.end <= end) n_done = at + sizeof span;
    if (span.end > end) span.end = end;
    if (span.begin < begin) span.begin = begin;
    span.begin -= begin;
    span.end -= begin;
    if (span.begin < span.end) yk_strbuf_append(&request->piece_special, &span, sizeof span);
  }
  if (n_done == 0) return;
  memmove(special->data, special->data + n_done, special->length - n_done);
  special->length -= n_done;
}

/* Decode one more token; piece gets the text that may be returned. Returns whether a stop string is complete. */
static bool decode_token(yk_request *request, int32_t token_id)
{
  bool is_cut_off = !request->sampling.include_stop && yk_ids_contain(request->end_ids, request->n_end_ids, token_id);
  yk_strbuf_clear(&request->decoded);
  yk_strbuf_clear(&request->piece);
  if (!request->detokenizer || is_cut_off) return false;
  yk_strbuf *out = request->stops ? &request->decoded : &request->piece;
  if (yk_detokenizer_push(request->detokenizer, token_id, out, NULL) == YK_E_NOMEM) out->failed = true;
  note_special(request, token_id, out->length);
  if (!request->stops) return false;
  bool armed = request->n_output + 1 >= request->sampling.min_tokens;
  return yk_stop_strings_push(request->stops, out->data, out->length, armed, &request->piece);
}

bool yk_request_push_token(yk_request *request, const yk_sampled *result, bool is_last)
{
  request->stopped_by_string = decode_token(request, result->token_id);
  find_special(request);
  int64_t now_ns = yk_clock_now_ns();
  pthread_mutex_lock(&request->mutex);
  enqueue(request, result, false, !is_last && !request->stopped_by_string, now_ns);
  request->n_output++;
  if (!request->first_token_ns) request->first_token_ns = now_ns;
  pthread_mutex_unlock(&request->mutex);
  return request->stopped_by_string;
}

bool yk_request_is_cancelled(yk_request *request)
{
  pthread_mutex_lock(&request->mutex);
  bool cancelled = request->cancelled;
  pthread_mutex_unlock(&request->mutex);
  return cancelled;
}

/* Move the held-back text into piece. After a complete stop string piece stays empty: text after a stop string is
 * dropped. */
static void flush_text(yk_request *request)
{
  yk_strbuf_clear(&request->decoded);
  yk_strbuf_clear(&request->piece);
  if (!request->detokenizer || request->stopped_by_string) return;
  yk_strbuf *out = request->stops ? &request->decoded : &request->piece;
  if (yk_detokenizer_finish(request->detokenizer, out, NULL) != YK_OK) out->failed = true;
  if (!request->stops) return;
  if (!yk_stop_strings_push(request->stops, request->decoded.data, request->decoded.length, true, &request->piece))
    yk_stop_strings_flush(request->stops, &request->piece);
}

void yk_request_finish(yk_request *request, yk_finish_reason reason, const yk_err *error)
{
  flush_text(request);
  find_special(request);
  yk_request_constraint_end(&request->constraint); /* while the engine lives */
  pthread_mutex_lock(&request->mutex);
  /* Lost output ends the request with an error, not as a normal end. */
  if (request->lost_output || has_lost_text(request)) {
    reason = YK_FINISH_ERROR;
    yk_err_set(&request->error, YK_E_NOMEM, "no memory for the request's output");
  }
  if (error) request->error = *error;
  request->finish = reason;
  request->finished_ns = yk_clock_now_ns();
  announce(request);
  release(request);
}

static bool has_news(const yk_request *request)
{
  return request->queue.length > 0 || request->finish != YK_FINISH_NONE;
}

/* Under the mutex: wait for news. Returns false after the time limit. */
static bool wait_news(yk_request *request, double timeout_s)
{
  if (timeout_s == 0) return has_news(request);
  bool forever = timeout_s < 0 || timeout_s > 1e9;
  struct timespec deadline = forever ? (struct timespec){0} : yk_wait_deadline(timeout_s);
  while (!has_news(request)) {
    if (forever)
      pthread_cond_wait(&request->cv_output, &request->mutex);
    else if (pthread_cond_timedwait(&request->cv_output, &request->mutex, &deadline) == ETIMEDOUT)
      return has_news(request);
  }
  return true;
}

/* The next n_bytes of taken; NULL if n_bytes is 0. */
static const void *take(yk_request *request, size_t n_bytes)
{
  const char *at = request->taken.data + request->read_bytes;
  request->read_bytes += n_bytes;
  return n_bytes ? at : NULL;
}

static void read_token(yk_request *request, yk_output *output)
{
  const record *r = take(request, sizeof *r);
  *output = (yk_output){.has_token = true,
                        .is_prompt = r->is_prompt,
                        .token_id = r->token_id,
                        .logprob = r->logprob,
                        .n_top = r->n_top,
                        .time_ns = r->time_ns,
                        .n_listed = (size_t)r->n_listed,
                        .listed_ids = request->logprob_ids,
                        .n_special = r->special_bytes / sizeof *output->special,
                        .text_bytes = r->text_bytes};
  output->special = take(request, r->special_bytes);
  output->top_ids = take(request, (size_t)r->n_top * sizeof *output->top_ids);
  output->top_logprobs = take(request, (size_t)r->n_top * sizeof *output->top_logprobs);
  output->listed_logprobs = take(request, (size_t)r->n_listed * sizeof *output->listed_logprobs);
  output->text = r->text_bytes ? take(request, r->text_bytes) : "";
  request->read_bytes += n_zeros_at(request->read_bytes);
}

/* The engine no longer uses piece. The text is returned once. */
static void read_end(yk_request *request, yk_output *output)
{
  *output = (yk_output){.finish = request->finish, .text = ""};
  if (request->embedding && request->finish == YK_FINISH_STOP) {
    output->embedding = request->embedding;
    output->n_embedding = (size_t)request->n_embedding;
  }
  if (request->finish == YK_FINISH_STOP && request->stops) output->stop_string = yk_stop_strings_found(request->stops);
  if (request->end_delivered) return;
  request->end_delivered = true;
  if (request->piece.length) output->text = request->piece.data;
  output->text_bytes = request->piece.length;
  output->special = (const yk_text_span *)(const void *)request->piece_special.data;
  output->n_special = request->piece_special.length / sizeof *output->special;
}

/* Move the queue to the reader. Errors: YK_E_AGAIN: the queue is empty and the request continues; the request's own
 * error. */
static yk_status take_queue(yk_request *request, double timeout_s, yk_err *err)
{
  pthread_mutex_lock(&request->mutex);
  bool is_ready = wait_news(request, timeout_s), has_failed = false;
  if (request->queue.length > 0) {
    yk_strbuf empty = request->taken;
    yk_strbuf_clear(&empty);
    request->taken = request->queue;
    request->queue = empty;
    request->read_bytes = 0;
  } else {
    has_failed = request->finish == YK_FINISH_ERROR;
  }
  pthread_mutex_unlock(&request->mutex);
  if (!is_ready) return YK_E_AGAIN;
  if (has_failed && err) *err = request->error;
  return has_failed ? request->error.code : YK_OK;
}

yk_status yk_request_next(yk_request *request, double timeout_s, const yk_output **out, yk_err *err)
{
  *out = NULL;
  if (isnan(timeout_s)) return yk_err_set(err, YK_E_INVAL, "timeout_s: expected a number, found nan");
  if (request->read_bytes == request->taken.length) YK_TRY(take_queue(request, timeout_s, err));
  if (request->read_bytes < request->taken.length)
    read_token(request, &request->output);
  else
    read_end(request, &request->output);
  *out = &request->output;
  return YK_OK;
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
  release(request);
}

const char *yk_finish_reason_name(yk_finish_reason reason)
{
  static const char *const names[] = {"", "stop", "length", "cancelled", "error"};
  size_t index = (size_t)reason;
  return index < sizeof names / sizeof names[0] ? names[index] : "unknown";
}
