/* request_read.c - the reader's side of a request: waiting for outputs and taking them from the queue. */
#include <errno.h>
#include <math.h>

#include "base/wait.h"
#include "engine/request_queue.h"

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
  const yk_request_record *r = take(request, sizeof *r);
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
  request->read_bytes += yk_record_n_zeros(request->read_bytes);
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
