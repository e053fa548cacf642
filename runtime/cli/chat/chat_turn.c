#include "cli/chat/chat_turn.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "cli/cli.h"
#include "cli/result.h"

enum { TAIL_TOKENS = 8 }; /* of the prompt's end: enough for <think> and white space after it */

/* Submits the request with stop ids for the end of the template's turn, unless the caller ignores ends. */
static yk_status submit_until_end(yk_chat_session *session, yk_request_options *request, yk_request **out, yk_err *err)
{
  yk_sampling *sampling = &request->sampling;
  int32_t *stop_ids;
  if (sampling->ignore_eos) return yk_engine_submit(session->engine, request, out, err);
  YK_TRY(yk_chat_stop_ids(session->template.renderer, sampling->stop_ids, sampling->n_stop_ids, &stop_ids,
                          &sampling->n_stop_ids, err));
  sampling->stop_ids = stop_ids;
  yk_status status = yk_engine_submit(session->engine, request, out, err);
  free(stop_ids);
  return status;
}

static void print_text(yk_strbuf *text)
{
  if (text->length && !text->failed) fwrite(text->data, 1, text->length, stdout);
  yk_strbuf_free(text);
}

/* The template may have written the <think> that the answer closes. */
static yk_status begin_dimming(const yk_chat_session *session, const int32_t *ids, size_t n_ids,
                               yk_think_dimmer *dimmer, yk_err *err)
{
  char *tail;
  size_t n_bytes, n_tail = n_ids < TAIL_TOKENS ? n_ids : TAIL_TOKENS;
  yk_strbuf shown = YK_STRBUF_INIT;
  YK_TRY(yk_engine_detokenize(session->engine, ids + (n_ids - n_tail), n_tail, false, &tail, &n_bytes, err));
  yk_think_dimmer_begin(dimmer, tail, &shown);
  free(tail);
  print_text(&shown);
  return YK_OK;
}

/* Converts the history to ids, and submits the ids to the engine. */
static yk_status submit(yk_chat_session *session, yk_think_dimmer *dimmer, yk_request **out, yk_err *err)
{
  yk_json_doc *messages;
  yk_request_options request;
  int32_t *ids;
  size_t n_ids;
  YK_TRY(yk_chat_history_document(&session->history, &messages, err));
  const yk_chat_conversation conversation = {
      .messages = yk_json_root(messages), .default_arguments = session->default_kwargs, .add_generation_prompt = true};
  yk_status status = yk_chat_encode(session->template.renderer, &conversation, &ids, &n_ids, err);
  yk_json_free(messages);
  YK_TRY(status);
  yk_request_options_init(session->engine, &request);
  int64_t left_tokens = yk_max_i64(session->info.max_model_tokens - (int64_t)n_ids, 1);
  yk_sampling_options_apply(session->sampling, session->info.default_max_tokens, left_tokens, &request.sampling);
  if (request.sampling.max_tokens > left_tokens) request.sampling.max_tokens = (int32_t)left_tokens;
  request.sampling.seed = yk_sampling_seed(session->seed, session->n_turns++, 0);
  request.sampling.has_seed = true;
  request.ids = ids;
  request.n_ids = n_ids;
  request.adapter = session->adapter;
  status = submit_until_end(session, &request, out, err);
  if (status == YK_OK && dimmer) status = begin_dimming(session, ids, n_ids, dimmer, err);
  free(ids);
  return status;
}

/* Prints the answer while it arrives. A signal that came before the request was watched counts too. */
static yk_status collect(yk_chat_session *session, yk_result *result, yk_err *err)
{
  yk_request *const none = NULL;
  yk_interrupt_watch(session->interrupt, &result->request, 1);
  if (yk_interrupt_caught(session->interrupt)) yk_request_cancel(result->request);
  yk_status status = yk_result_collect(result, YK_STREAM_TEXT, err);
  if (result->dimmer) {
    yk_strbuf shown = YK_STRBUF_INIT;
    yk_think_dimmer_end(result->dimmer, &shown); /* if the answer was interrupted */
    print_text(&shown);
  }
  yk_interrupt_watch(session->interrupt, &none, 0);
  bool failed = status == YK_OK && result->finish == YK_FINISH_ERROR;
  if (result->text.length > 0 || (status == YK_OK && !failed)) putchar('\n');
  if (failed) status = yk_err_set(err, result->err.code, "%s", result->err.message);
  return status;
}

static void note_end(const yk_chat_session *session, const yk_result *result)
{
  const yk_log *log = &session->console->log;
  if (result->finish != YK_FINISH_LENGTH) return;
  if (result->usage.prompt_tokens + result->usage.output_tokens >= session->info.max_model_tokens)
    yk_log_write(log, YK_LOG_WARN, "the context of %d tokens is full, and the answer ends there; /clear begins anew",
                 session->info.max_model_tokens);
  else
    yk_log_write(log, YK_LOG_WARN, "the answer ends after %d tokens, the limit of --max-tokens or of the model",
                 result->usage.output_tokens);
}

static void print_stats(const yk_chat_session *session, const yk_request_usage *usage)
{
  double rate = usage->decode_s > 0 ? (usage->output_tokens - 1) / usage->decode_s : 0;
  yk_log_write(&session->console->log, YK_LOG_INFO,
               "%d tokens, %.1f tokens/s, the first after %.1f ms; prompt of %d tokens, %d found computed",
               usage->output_tokens, rate, 1e3 * usage->ttft_s, usage->prompt_tokens, usage->reused_tokens);
}

/* Adds the answer to the history, unless the turn was stopped before the answer had text. */
static yk_status keep(yk_chat_session *session, const yk_result *result, yk_err *err)
{
  if (result->finish == YK_FINISH_CANCELLED && result->text.length == 0) {
    yk_chat_history_undo(&session->history);
    yk_log_write(&session->console->log, YK_LOG_WARN, "stopped before the answer had text; the message is removed");
    return YK_OK;
  }
  const char *text = result->text.length ? result->text.data : "";
  YK_TRY(yk_chat_history_add(&session->history, "assistant", text, result->text.length, err));
  note_end(session, result);
  if (session->with_stats) print_stats(session, &result->usage);
  return YK_OK;
}

static yk_status answer(yk_chat_session *session, yk_err *err)
{
  yk_result result;
  yk_think_dimmer dimmer;
  yk_status status = yk_result_init(&result, false, false, err);
  if (session->dims) result.dimmer = &dimmer;
  if (status == YK_OK) status = submit(session, result.dimmer, &result.request, err);
  if (status == YK_OK) status = collect(session, &result, err);
  if (status == YK_OK) status = keep(session, &result, err);
  yk_result_free(&result);
  return status;
}

yk_status yk_chat_turn(yk_chat_session *session, const char *text, size_t n_bytes, yk_err *err)
{
  yk_err failure = YK_ERR_INIT;
  yk_status status = yk_chat_history_add(&session->history, "user", text, n_bytes, &failure);
  if (status == YK_OK && (status = answer(session, &failure)) != YK_OK) yk_chat_history_undo(&session->history);
  YK_TRY(yk_cli_flush(err));
  if (status == YK_OK) return YK_OK;
  YK_TRY(yk_engine_check(session->engine, err));
  session->n_failed++;
  yk_log_write(&session->console->log, YK_LOG_ERROR, "%s%s", failure.message,
               status == YK_E_CAPACITY ? "; /clear begins anew, /undo removes the last message and its answer" : "");
  return YK_OK;
}
