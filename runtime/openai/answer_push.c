#include "openai/answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "openai/answer_blocks.h"
#include "openai/protocol.h"

/* ---- Pushing ----------------------------------------------------------------------------------------------------- */

static yk_status push_prompt_token(yk_answer_choice *c, const yk_output *output, yk_err *err)
{
  const yk_openai_answer *answer = c->answer;
  const yk_openai_request *request = answer->request;
  if (request->n_prompt_logprobs >= 0) {
    yk_strbuf_append_str(&c->prompt_logprobs, ",");
    YK_TRY(yk_logprob_append_by_id(&c->prompt_logprobs, &c->prompt_walk, output, request->n_prompt_logprobs, err));
  }
  if (!yk_answer_echoes_logprobs(answer)) return YK_OK;
  YK_TRY(yk_answer_begin_prompt(c, err));
  return yk_logprob_lists_add(&c->logprobs, &c->walk, output, request->sampling.n_logprobs, err);
}

/* is_reasoning: the output before this token ends inside reasoning. */
static yk_status push_token(yk_answer_choice *c, const yk_output *output, bool is_reasoning, yk_err *err)
{
  yk_openai_answer *answer = c->answer;
  c->n_output++;
  c->n_reasoning += is_reasoning || (c->parser && yk_answer_parser_is_reasoning(c->parser));
  c->last_id = output->token_id;
  if (c->ids.length) yk_strbuf_append_str(&c->ids, ",");
  yk_json_append_i64(&c->ids, output->token_id);
  if (!yk_answer_has_logprobs(answer)) return YK_OK;
  if (yk_answer_is_chat(answer)) return yk_logprob_lists_add_chat(&c->logprobs, &c->walk, output, err);
  return yk_logprob_lists_add(&c->logprobs, &c->walk, output, answer->request->sampling.n_logprobs, err);
}

static yk_status push_text(yk_answer_choice *c, const yk_output *output, yk_err *err)
{
  const yk_answer_event content = {.kind = YK_EVENT_CONTENT, .text = output->text, .n_bytes = output->text_bytes};
  if (c->parser) return yk_answer_parser_push(c->parser, output, err);
  c->answer->writer->take(c, &content);
  return YK_OK;
}

/* Records the stop string or stop id of the request that ended the output. */
static void note_stop_reason(yk_answer_choice *c, const yk_output *end)
{
  const yk_sampling *sampling = &c->answer->request->sampling;
  if (end->finish != YK_FINISH_STOP) return;
  if (end->stop_string) {
    yk_json_append_string(&c->stop_reason, end->stop_string, strlen(end->stop_string));
    return;
  }
  for (size_t i = 0; i < sampling->n_stop_ids && c->stop_reason.length == 0; i++)
    if (sampling->stop_ids[i] == c->last_id) yk_json_append_i64(&c->stop_reason, c->last_id);
}

/* An event is due for the first token, and after each group of tokens that the request puts into one event. */
static bool is_event_due(const yk_answer_choice *c)
{
  return c->is_due && (c->n_reported == 0 || c->n_output - c->n_reported >= c->answer->request->stream_interval);
}

static void write_event(yk_answer_choice *c, yk_strbuf *out)
{
  c->is_due = false;
  c->n_reported = c->n_output;
  c->answer->writer->write(c, out);
}

static yk_status check_memory(const yk_answer_choice *c, const yk_strbuf *out, yk_err *err)
{
  bool failed = c->text.failed || c->reasoning.failed || c->calls.failed || c->ids.failed ||
                c->prompt_logprobs.failed || c->stop_reason.failed || yk_logprob_lists_failed(&c->logprobs) ||
                yk_answer_blocks_failed(&c->answer->blocks) || (out && out->failed);
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory for an answer") : YK_OK;
}

yk_status yk_openai_answer_push(yk_openai_answer *answer, size_t choice_index, const yk_output *output,
                                const yk_request_usage *usage, bool joins, yk_strbuf *out, yk_err *err)
{
  yk_answer_choice *c = &answer->choices[choice_index];
  bool streams = answer->request->stream, ends = output->finish != YK_FINISH_NONE;
  if (answer->writer->take_embedding) {
    answer->writer->take_embedding(c, output->embedding, output->n_embedding);
    return check_memory(c, NULL, err);
  }
  if (output->is_prompt) {
    YK_TRY(push_prompt_token(c, output, err));
    return check_memory(c, NULL, err);
  }
  if (streams && is_event_due(c) && !joins && !ends) write_event(c, out);
  if (usage) c->n_cached = usage->reused_tokens;
  if (!c->has_begun) YK_TRY(answer->writer->begin(c, out, err));
  c->has_begun = true;
  c->is_due = true;
  bool is_reasoning = c->parser && yk_answer_parser_is_reasoning(c->parser);
  YK_TRY(push_text(c, output, err));
  if (output->has_token) YK_TRY(push_token(c, output, is_reasoning, err));
  if (ends) {
    c->finish = output->finish;
    note_stop_reason(c, output);
    if (streams) write_event(c, out);
  }
  return check_memory(c, out, err);
}

yk_status yk_openai_answer_flush(yk_openai_answer *answer, size_t choice_index, yk_strbuf *out, yk_err *err)
{
  yk_answer_choice *c = &answer->choices[choice_index];
  if (answer->request->stream && is_event_due(c)) write_event(c, out);
  return check_memory(c, out, err);
}

yk_status yk_openai_answer_read(yk_openai_answer *answer, size_t choice_index, yk_request *request, bool joins,
                                yk_strbuf *out, bool *ended, yk_err *err)
{
  *ended = false;
  do {
    const yk_output *output;
    yk_request_usage usage;
    yk_err failure = YK_ERR_INIT;
    yk_status status = yk_request_next(request, 0, &output, &failure);
    if (status == YK_E_AGAIN) break;
    *ended = status != YK_OK || output->finish != YK_FINISH_NONE;
    if (status != YK_OK) return yk_err_set(err, status, "%s", failure.message);
    if (output->finish == YK_FINISH_CANCELLED) return yk_err_set(err, YK_E_CANCELLED, "the request was cancelled");
    if (*ended) yk_request_get_usage(request, &usage);
    YK_TRY(yk_openai_answer_push(answer, choice_index, output, *ended ? &usage : NULL, joins, out, err));
  } while (!*ended);
  return yk_openai_answer_flush(answer, choice_index, out, err);
}

/* ---- Ending ------------------------------------------------------------------------------------------------------ */

yk_status yk_openai_answer_finish(yk_openai_answer *answer, yk_strbuf *out, yk_err *err)
{
  answer->writer->finish(answer, out);
  for (size_t i = 0; i < answer->n_choices; i++) YK_TRY(check_memory(&answer->choices[i], out, err));
  return YK_OK;
}

void yk_openai_answer_fail(yk_openai_answer *answer, const yk_openai_error *error, yk_strbuf *out)
{
  answer->writer->fail(answer, error, out);
}

/* ---- Creating ---------------------------------------------------------------------------------------------------- */

static yk_status copy_options(yk_openai_answer *answer, const yk_openai_answer_options *options, yk_err *err)
{
  const char *unique = strpbrk(options->id, "-_");
  unique = unique ? unique + 1 : options->id;
  answer->options = *options;
  answer->options.id = answer->options.model = NULL;
  yk_json_append_string(&answer->id, options->id, strlen(options->id));
  yk_json_append_string(&answer->model, options->model, strlen(options->model));
  yk_json_append_escaped(&answer->unique, unique, strlen(unique));
  bool failed = answer->id.failed || answer->model.failed || answer->unique.failed;
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory for an answer") : YK_OK;
}

/* The walk over the output starts after the prompt, with echo at the beginning of the prompt; the walk over the
 * prompt starts after its first token, which has no log-probability. */
static yk_status begin_walks(yk_answer_choice *c, yk_err *err)
{
  const yk_openai_request *request = c->answer->request;
  const yk_openai_prompt *prompt = yk_answer_prompt_of(c);
  yk_token_texts *texts = c->answer->options.texts;
  if (yk_answer_has_logprobs(c->answer))
    YK_TRY(yk_token_walk_begin(&c->walk, texts, prompt->ids, request->echo ? 0 : prompt->n_ids, err));
  if (request->n_prompt_logprobs < 0) return YK_OK;
  return yk_token_walk_begin(&c->prompt_walk, texts, prompt->ids, prompt->n_ids > 0, err);
}

static yk_status begin_choice(yk_openai_answer *answer, size_t index, yk_err *err)
{
  const yk_openai_request *request = answer->request;
  yk_answer_choice *c = &answer->choices[index];
  *c = (yk_answer_choice){
      .answer = answer, .index = index, .open_call = -1, .logprobs = {.names_ids = request->names_token_ids}};
  YK_TRY(begin_walks(c, err));
  if (request->tools == YK_TOOLS_NONE && !request->reasoning) return YK_OK;
  const yk_answer_parser_options parser = {.tools = request->tools,
                                           .reasoning = request->reasoning,
                                           .begins_inside = request->begins_inside,
                                           .only_first = !request->chat.parallel_tool_calls,
                                           .hides_special = request->hides_special,
                                           .schemas = request->schemas,
                                           .take = answer->writer->take,
                                           .user = c};
  return yk_answer_parser_create(&parser, &c->parser, err);
}

yk_status yk_openai_answer_create(const yk_openai_request *request, const yk_openai_answer_options *options,
                                  yk_openai_answer **out, yk_err *err)
{
  size_t n_choices = yk_openai_request_choices(request);
  yk_openai_answer *answer = calloc(1, sizeof *answer + n_choices * sizeof answer->choices[0]);
  *out = NULL;
  if (!answer) return yk_err_set(err, YK_E_NOMEM, "no memory for an answer of %zu choices", n_choices);
  answer->request = request;
  answer->writer = request->protocol ? request->protocol->writer : &yk_answer_writer_choices;
  answer->n_choices = n_choices;
  yk_status status = copy_options(answer, options, err);
  for (size_t i = 0; i < n_choices && status == YK_OK; i++) status = begin_choice(answer, i, err);
  if (status == YK_OK)
    *out = answer;
  else
    yk_openai_answer_free(answer);
  return status;
}

void yk_openai_answer_free(yk_openai_answer *answer)
{
  if (!answer) return;
  for (size_t i = 0; i < answer->n_choices; i++) {
    yk_answer_choice *c = &answer->choices[i];
    yk_strbuf_free(&c->text);
    yk_strbuf_free(&c->reasoning);
    yk_strbuf_free(&c->calls);
    yk_strbuf_free(&c->ids);
    yk_strbuf_free(&c->prompt_logprobs);
    yk_strbuf_free(&c->stop_reason);
    yk_logprob_lists_free(&c->logprobs);
    yk_token_walk_free(&c->walk);
    yk_token_walk_free(&c->prompt_walk);
    yk_answer_parser_free(c->parser);
  }
  yk_answer_blocks_free(&answer->blocks);
  yk_strbuf_free(&answer->id);
  yk_strbuf_free(&answer->model);
  yk_strbuf_free(&answer->unique);
  free(answer);
}
