#include "server/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "openai/protocol.h"
#include "server/engine_state.h"
#include "server/suspension.h"

/* ---- Ending ------------------------------------------------------------------------------------------------------ */

/* Frees every use of the engine by the exchange. */
static void let_go(yk_exchange *x)
{
  yk_generation *g = x->generation;
  if (!g || !x->engine) return;
  for (size_t i = 0; i < g->n_choices; i++) yk_request_free(g->requests[i]);
  free(g->requests);
  g->requests = NULL;
  yk_openai_answer_free(g->answer);
  g->answer = NULL;
  yk_end_rate_add(&x->server->ends, (int)g->n_choices, yk_clock_now_ns());
  atomic_fetch_sub(&x->server->n_open, (int)g->n_choices);
  yk_exchange_return_engine(x);
}

void yk_generation_cancel(yk_exchange *x)
{
  yk_generation *g = x->generation;
  if (!g || !x->engine) return;
  for (size_t i = 0; i < g->n_running; i++) x->server->metrics.finished[YK_FINISH_CANCELLED]++;
  g->has_ended = true; /* may be on the list of ready nodes, with news that are not to be read */
  let_go(x);
}

void yk_generation_leave(yk_exchange *x)
{
  atomic_store(&x->is_gone, true);
  if (x->state == YK_RUNNING) yk_generation_cancel(x);
  yk_exchange_resume(x);
}

void yk_generation_free(yk_generation *g)
{
  if (!g) return;
  free(g->requests);
  free(g->token_ns);
  free(g->n_tokens);
  yk_openai_request_free(&g->request);
  yk_strbuf_free(&g->out);
  free(g);
}

void yk_generation_fail(yk_exchange *x, const yk_openai_error *error)
{
  yk_generation *g = x->generation;
  if (x->state != YK_RUNNING || g->has_ended) return;
  if (g->has_begun && g->answer) yk_openai_answer_fail(g->answer, error, &g->out);
  snprintf(x->reply.why, sizeof x->reply.why, "%s", error->message);
  if (!g->has_begun) yk_reply_error(&x->reply, error);
  g->has_ended = true;
  let_go(x);
  if (!g->has_begun) x->state = YK_ANSWERED;
  yk_exchange_resume(x);
}

static void count_longest(const yk_generation *g, yk_metrics *metrics)
{
  size_t n_samples = (size_t)g->request.n_samples;
  for (size_t prompt = 0; prompt < g->n_choices; prompt += n_samples) {
    int32_t n_most = 0;
    for (size_t i = prompt; i < prompt + n_samples; i++)
      if (g->n_tokens[i] > n_most) n_most = g->n_tokens[i];
    yk_metrics_longest(metrics, n_most);
  }
}

/* Called when every choice has ended. */
static void end(yk_exchange *x)
{
  yk_generation *g = x->generation;
  yk_err err = YK_ERR_INIT;
  if (yk_openai_answer_finish(g->answer, &g->out, &err) != YK_OK || g->out.failed) {
    yk_openai_error error;
    yk_openai_error_http(&error, 500, NULL, NULL, "out of memory");
    yk_generation_fail(x, &error);
    return;
  }
  g->has_ended = true;
  count_longest(g, &x->server->metrics);
  let_go(x);
  if (g->request.stream) return;
  x->reply.body = g->out;
  g->out = YK_STRBUF_INIT;
  yk_reply_json(&x->reply);
  x->state = YK_ANSWERED;
}

/* ---- Reading from the engine ------------------------------------------------------------------------------------- */

/* usage: of the choice, for its first token. */
static void count_token(yk_exchange *x, size_t choice, const yk_request_usage *usage)
{
  yk_generation *g = x->generation;
  int64_t now_ns = yk_clock_now_ns(), before_ns = g->token_ns[choice];
  if (before_ns) {
    yk_metrics_next_token(&x->server->metrics, (double)(now_ns - before_ns) * 1e-9);
  } else {
    yk_metrics_prompt(&x->server->metrics, usage);
    yk_metrics_first_token(&x->server->metrics, (double)(now_ns - x->began_ns) * 1e-9);
  }
  g->token_ns[choice] = now_ns;
  g->n_output_tokens++;
}

static void end_choice(yk_exchange *x, size_t choice, yk_finish_reason finish, const yk_request_usage *usage)
{
  yk_generation *g = x->generation;
  yk_choice_metrics ended = {.finish = finish,
                             .e2e_s = yk_clock_seconds_since(x->began_ns),
                             .usage = *usage,
                             .max_tokens = g->request.sampling.max_tokens};
  if (!g->token_ns[choice]) yk_metrics_prompt(&x->server->metrics, usage);
  yk_metrics_choice(&x->server->metrics, &ended);
  g->n_tokens[choice] = usage->output_tokens;
  yk_request_free(g->requests[choice]);
  g->requests[choice] = NULL;
  g->n_running--;
}

/* Reads all present output of a choice. Errors: the failure that ended the choice. */
static yk_status read_choice(yk_exchange *x, size_t choice, bool joins, yk_err *err)
{
  yk_generation *g = x->generation;
  yk_request_usage usage;
  for (bool has_ended = false; !has_ended;) {
    const yk_output *output;
    yk_status status = yk_request_next(g->requests[choice], 0, &output, err);
    if (status == YK_E_AGAIN) break;
    if (status != YK_OK) return status;
    if (output->finish == YK_FINISH_CANCELLED) return yk_err_set(err, YK_E_CANCELLED, "the request was cancelled");
    has_ended = output->finish != YK_FINISH_NONE;
    bool is_counted = output->has_token && !output->is_prompt, is_known = has_ended || !g->token_ns[choice];
    if (is_known) yk_request_get_usage(g->requests[choice], &usage);
    if (is_counted) count_token(x, choice, &usage);
    YK_TRY(yk_openai_answer_push(g->answer, choice, output, is_known ? &usage : NULL, joins, &g->out, err));
    if (has_ended) end_choice(x, choice, output->finish, &usage);
  }
  return yk_openai_answer_flush(g->answer, choice, &g->out, err);
}

static void read_all(yk_exchange *x, bool joins)
{
  yk_generation *g = x->generation;
  yk_err err = YK_ERR_INIT;
  for (size_t i = 0; i < g->n_choices && err.code == YK_OK; i++)
    if (g->requests[i]) read_choice(x, i, joins, &err);
  if (err.code == YK_OK) return;
  yk_openai_error error;
  yk_protocol_error_of(g->request.protocol, &err, NULL, &error);
  x->server->metrics.finished[YK_FINISH_ERROR] += g->n_running;
  yk_generation_fail(x, &error);
  yk_server_check_engine(x->server);
}

/* Called when the stream has begun. */
static void write_events(yk_exchange *x)
{
  yk_generation *g = x->generation;
  bool is_written = yk_connection_write_chunk(x->connection, g->out.data, g->out.length);
  yk_strbuf_clear(&g->out);
  /* bytes of the stream are lost: cut the stream rather than end it as if complete */
  if (!is_written) yk_generation_leave(x);
}

/* Whether the client has not accepted the previous output yet. */
static bool is_blocked(const yk_exchange *x)
{
  const yk_generation *g = x->generation;
  if (!g->request.stream) return false;
  return g->is_direct ? yk_connection_is_blocked(x->connection) : g->out.length > 0;
}

void yk_generation_pump(yk_exchange *x)
{
  yk_generation *g = x->generation;
  if (g->has_ended || !x->engine) return; /* no engine: cancelled, and about to be closed */
  /* A slow client's tokens stay in the engine, unless the engine has failed. */
  if (is_blocked(x) && !x->server->has_failed) {
    g->has_news = true;
    yk_server_check_engine(x->server); /* the news may be the engine's failure */
    return;
  }
  bool joins = g->has_news;
  g->has_news = false;
  read_all(x, joins);
  if (!g->has_ended && g->n_running == 0) end(x);
  if (g->out.failed)
    yk_generation_leave(x);
  else if (g->is_direct)
    write_events(x);
  if (g->has_ended || (g->request.stream && g->out.length)) yk_exchange_resume(x);
}

/* ---- The stream -------------------------------------------------------------------------------------------------- */

ssize_t yk_generation_take(void *exchange, uint64_t position, char *buffer, size_t max_bytes)
{
  (void)position;
  (void)buffer;
  (void)max_bytes;
  yk_exchange *x = exchange;
  yk_generation *g = x->generation;
  if (!atomic_load(&x->is_gone)) {
    g->is_direct = true;
    write_events(x);
    if (g->has_news) yk_generation_pump(x);
  }
  if (atomic_load(&x->is_gone)) return MHD_CONTENT_READER_END_WITH_ERROR;
  if (g->has_ended) return MHD_CONTENT_READER_END_OF_STREAM;
  yk_exchange_suspend(x);
  return 0;
}
