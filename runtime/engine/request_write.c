/* request_write.c - the engine thread's side of a request: tokens, their text, and the end. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "engine/request_queue.h"

/* As torch.nn.functional.normalize, which sentence-transformers uses: a length below 1e-12 counts as 1e-12. */
void yk_request_embed(yk_request *request, const float *hidden, bool normalises)
{
  double sum = 0, length = 1;
  for (int32_t i = 0; i < request->n_embedding; i++) sum += (double)hidden[i] * (double)hidden[i];
  if (normalises) length = fmax(sqrt(sum), 1e-12);
  for (int32_t i = 0; i < request->n_embedding; i++) request->embedding[i] = (float)((double)hidden[i] / length);
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
  yk_request_record r = {.time_ns = now_ns,
                         .is_prompt = is_prompt,
                         .token_id = result->token_id,
                         .logprob = result->logprob,
                         .n_top = n_top,
                         .n_listed = n_listed,
                         .text_bytes = (uint32_t)request->piece.length,
                         .special_bytes = (uint32_t)request->piece_special.length};
  size_t length_before = queue->length;
  bool was_empty = length_before == 0;
  static const char zeros[YK_RECORD_ALIGNMENT];
  yk_strbuf_append(queue, &r, sizeof r);
  yk_strbuf_append(queue, request->piece_special.data, request->piece_special.length);
  yk_strbuf_append(queue, result->top_ids, (size_t)n_top * sizeof result->top_ids[0]);
  yk_strbuf_append(queue, result->top_logprobs, (size_t)n_top * sizeof result->top_logprobs[0]);
  yk_strbuf_append(queue, request->listed_logprobs, (size_t)n_listed * sizeof *request->listed_logprobs);
  yk_strbuf_append(queue, request->piece.data, request->piece.length);
  yk_strbuf_append(queue, zeros, yk_record_n_zeros(queue->length));
  if (queue->failed) queue->length = length_before;
  request->lost_output |= queue->failed || has_lost_text(request);
  if (was_empty && announces && !queue->failed) announce(request);
}

/* Computed relative to the best logit, whose log-probability is close to zero, so that rounding loses no precision. */
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
  yk_request_release(request);
}
