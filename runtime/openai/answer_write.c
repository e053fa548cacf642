#include "openai/answer_write.h"

#include <string.h>

#include "base/hash.h"
#include "base/json_write.h"

static void append(yk_strbuf *out, const char *text)
{
  yk_strbuf_append_str(out, text);
}

/* ---- Tool calls -------------------------------------------------------------------------------------------------- */

static void close_call(yk_answer_choice *c)
{
  if (c->open_call >= 0) append(&c->calls, "\"}}");
  c->open_call = -1;
}

/* In a stream each event names the index of its call. */
static void open_call(yk_answer_choice *c, int32_t call)
{
  if (c->calls.length) append(&c->calls, ",");
  append(&c->calls, "{");
  if (c->answer->request->stream) yk_strbuf_append_fmt(&c->calls, "\"index\":%d,", call);
  c->open_call = call;
}

/* Mistral's templates accept only ids of nine letters and digits. */
static void append_short_id(const yk_answer_choice *c, int32_t call, yk_strbuf *out)
{
  static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  uint64_t hash = yk_hash(YK_HASH_START, c->answer->unique.data, c->answer->unique.length);
  hash = (hash << 32 ^ (c->index << 16) ^ (uint64_t)(call + 1)) * UINT64_C(0x9E3779B97F4A7C15);
  for (int i = 0; i < 9; i++, hash /= sizeof digits - 1) yk_strbuf_append(out, &digits[hash % (sizeof digits - 1)], 1);
}

void yk_answer_append_call_id(const yk_answer_choice *c, const yk_answer_event *event, yk_strbuf *out)
{
  if (event->id)
    yk_json_append_escaped(out, event->id, event->n_id_bytes);
  else if (c->answer->request->tools == YK_TOOLS_MISTRAL)
    append_short_id(c, event->call, out);
  else
    yk_strbuf_append_fmt(out, "%s_%s_%zu_%d", c->answer->writer->call_prefix, c->answer->unique.data, c->index,
                         event->call);
}

static void begin_call(yk_answer_choice *c, const yk_answer_event *event)
{
  open_call(c, event->call);
  append(&c->calls, "\"id\":\"");
  yk_answer_append_call_id(c, event, &c->calls);
  append(&c->calls, "\",\"type\":\"function\",\"function\":{\"name\":");
  yk_json_append_string(&c->calls, event->text, event->n_bytes);
  append(&c->calls, ",\"arguments\":\"");
}

static void add_arguments(yk_answer_choice *c, const yk_answer_event *event)
{
  if (c->open_call != event->call) {
    open_call(c, event->call);
    append(&c->calls, "\"function\":{\"arguments\":\"");
  }
  yk_json_append_escaped(&c->calls, event->text, event->n_bytes);
}

static void take_event(void *user, const yk_answer_event *event)
{
  yk_answer_choice *c = user;
  switch (event->kind) {
  case YK_EVENT_CONTENT: yk_json_append_escaped(&c->text, event->text, event->n_bytes); break;
  case YK_EVENT_REASONING:
    if (c->answer->request->include_reasoning) yk_json_append_escaped(&c->reasoning, event->text, event->n_bytes);
    break;
  case YK_EVENT_CALL: begin_call(c, event); break;
  case YK_EVENT_ARGUMENTS: add_arguments(c, event); break;
  case YK_EVENT_CALL_END: close_call(c); break;
  }
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static void append_usage(const yk_openai_answer *answer, yk_answer_usage n, yk_strbuf *out)
{
  append(out, "\"usage\":{\"prompt_tokens\":");
  yk_json_append_i64(out, n.n_prompt);
  append(out, ",\"completion_tokens\":");
  yk_json_append_i64(out, n.n_output);
  append(out, ",\"total_tokens\":");
  yk_json_append_i64(out, n.n_prompt + n.n_output);
  if (answer->options.with_cached_tokens) {
    append(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
    yk_json_append_i64(out, n.n_cached);
    append(out, "}");
  }
  if (answer->request->reasoning) {
    append(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":");
    yk_json_append_i64(out, n.n_reasoning);
    append(out, "}");
  }
  append(out, "}");
}

const yk_openai_prompt *yk_answer_prompt_of(const yk_answer_choice *c)
{
  const yk_openai_request *request = c->answer->request;
  return &request->prompts[c->index / (size_t)request->n_samples];
}

yk_answer_usage yk_answer_total_usage(const yk_openai_answer *answer)
{
  yk_answer_usage n = {0};
  for (size_t i = 0; i < answer->n_choices; i++) {
    const yk_answer_choice *c = &answer->choices[i];
    bool is_first = i % (size_t)answer->request->n_samples == 0;
    n.n_output += c->n_output;
    n.n_reasoning += c->n_reasoning;
    n.n_prompt += is_first ? (int64_t)yk_answer_prompt_of(c)->n_ids : 0;
    n.n_cached += is_first ? c->n_cached : 0;
  }
  return n;
}

static void append_quoted(const yk_strbuf *text, yk_strbuf *out)
{
  append(out, "\"");
  yk_strbuf_append(out, text->data, text->length);
  append(out, "\"");
}

/* Text of a model without a tokenizer is null; in a stream it is empty, since clients concatenate the pieces. */
static void append_text(const yk_answer_choice *c, bool is_null, yk_strbuf *out)
{
  if (is_null && !c->answer->request->stream)
    append(out, "null");
  else
    append_quoted(&c->text, out);
}

/* By vLLM's newer name and its older one. */
static void append_reasoning(const yk_answer_choice *c, bool has_more, yk_strbuf *out)
{
  append(out, "\"reasoning\":");
  append_quoted(&c->reasoning, out);
  append(out, ",\"reasoning_content\":");
  append_quoted(&c->reasoning, out);
  if (has_more) append(out, ",");
}

/* Appends the contents of a chat's "delta" or "message". */
static void append_message(const yk_answer_choice *c, yk_strbuf *out)
{
  bool streams = c->answer->request->stream, has_calls = c->calls.length > 0, thinks = c->reasoning.length > 0;
  append(out, streams ? "\"delta\":{" : "\"message\":{\"role\":\"assistant\",");
  bool has_content = !streams || c->text.length || (!has_calls && !thinks && c->finish == YK_FINISH_NONE);
  bool is_null = !c->answer->options.has_text || ((has_calls || c->n_reasoning > 0) && c->text.length == 0);
  if (thinks) append_reasoning(c, has_content || has_calls, out);
  if (has_content) append(out, "\"content\":");
  if (has_content) append_text(c, is_null, out);
  if (has_calls) append(out, has_content ? ",\"tool_calls\":[" : "\"tool_calls\":[");
  if (has_calls) yk_strbuf_append(out, c->calls.data, c->calls.length);
  append(out, has_calls ? "]}" : "}");
}

static void append_finish_reason(const yk_answer_choice *c, yk_strbuf *out)
{
  bool calls = c->finish == YK_FINISH_STOP && c->parser && yk_answer_parser_has_calls(c->parser);
  append(out, ",\"finish_reason\":");
  if (c->finish == YK_FINISH_NONE) {
    append(out, "null");
    return;
  }
  append(out, "\"");
  append(out, calls ? "tool_calls" : yk_finish_reason_name(c->finish));
  append(out, "\",\"stop_reason\":");
  if (c->stop_reason.length)
    yk_strbuf_append(out, c->stop_reason.data, c->stop_reason.length);
  else
    append(out, "null");
}

static void append_logprobs(const yk_answer_choice *c, yk_strbuf *out)
{
  append(out, ",\"logprobs\":");
  if (!yk_answer_has_logprobs(c->answer) || (c->answer->request->stream && c->logprobs.tokens.length == 0))
    append(out, "null");
  else if (yk_answer_is_chat(c->answer))
    yk_logprob_lists_append_chat(&c->logprobs, out);
  else
    yk_logprob_lists_append(&c->logprobs, out);
}

/* Appends the requested details of a choice's prompt, once: for a completion next to its text, for a chat next to the
 * choices. */
static void append_prompt(yk_answer_choice *c, yk_strbuf *out)
{
  const yk_openai_request *request = c->answer->request;
  const yk_openai_prompt *prompt = yk_answer_prompt_of(c);
  if (c->has_written_prompt) return;
  c->has_written_prompt = true;
  if (request->return_token_ids) {
    append(out, ",\"prompt_token_ids\":[");
    for (size_t i = 0; i < prompt->n_ids; i++) {
      if (i) append(out, ",");
      yk_json_append_i64(out, prompt->ids[i]);
    }
    append(out, "]");
  }
  if (request->n_prompt_logprobs >= 0) {
    append(out, ",\"prompt_logprobs\":[null");
    yk_strbuf_append(out, c->prompt_logprobs.data, c->prompt_logprobs.length);
    append(out, "]");
  }
}

/* Appends all pending output as an element of "choices". */
static void append_choice(yk_answer_choice *c, yk_strbuf *out)
{
  const yk_openai_answer *answer = c->answer;
  close_call(c);
  append(out, "{\"index\":");
  yk_json_append_i64(out, (int64_t)c->index);
  append(out, ",");
  if (yk_answer_is_chat(answer)) {
    append_message(c, out);
  } else {
    append(out, "\"text\":");
    append_text(c, !answer->options.has_text, out);
  }
  append_logprobs(c, out);
  append_finish_reason(c, out);
  if (answer->request->return_token_ids || !answer->options.has_text) {
    append(out, ",\"token_ids\":[");
    yk_strbuf_append(out, c->ids.data, c->ids.length);
    append(out, "]");
  }
  if (!yk_answer_is_chat(answer)) append_prompt(c, out);
  append(out, "}");
}

/* Appends the part of an event after the choices. */
static void end_event(yk_answer_choice *c, yk_strbuf *out)
{
  append(out, "]");
  if (yk_answer_is_chat(c->answer)) append_prompt(c, out);
  if (c->answer->request->continuous_usage) {
    append(out, ",");
    yk_answer_usage n = {(int64_t)yk_answer_prompt_of(c)->n_ids, c->n_output, c->n_cached, c->n_reasoning};
    append_usage(c->answer, n, out);
  }
  append(out, "}\n\n");
}

static const char *object_name(const yk_openai_answer *answer)
{
  if (!yk_answer_is_chat(answer)) return "text_completion";
  return answer->request->stream ? "chat.completion.chunk" : "chat.completion";
}

/* The beginning of an event, or of a whole answer, up to the list of choices. */
static void append_head(const yk_openai_answer *answer, yk_strbuf *out)
{
  append(out, answer->request->stream ? "data: {\"id\":" : "{\"id\":");
  yk_strbuf_append(out, answer->id.data, answer->id.length);
  append(out, ",\"object\":\"");
  append(out, object_name(answer));
  append(out, "\",\"created\":");
  yk_json_append_i64(out, answer->options.created_s);
  append(out, ",\"model\":");
  yk_strbuf_append(out, answer->model.data, answer->model.length);
  append(out, ",\"choices\":[");
}

/* There is no event while the parser holds back the beginning of a call, or leaves out reasoning. */
static void write_event(yk_answer_choice *c, yk_strbuf *out)
{
  bool has_output = c->text.length > 0 || c->reasoning.length > 0 || c->calls.length > 0;
  if (c->parser && !has_output && c->finish == YK_FINISH_NONE) return;
  append_head(c->answer, out);
  append_choice(c, out);
  end_event(c, out);
  yk_strbuf_clear(&c->text);
  yk_strbuf_clear(&c->reasoning);
  yk_strbuf_clear(&c->calls);
  yk_strbuf_clear(&c->ids);
  yk_logprob_lists_clear(&c->logprobs);
}

/* ---- Beginning --------------------------------------------------------------------------------------------------- */

bool yk_answer_echoes_logprobs(const yk_openai_answer *answer)
{
  return answer->request->echo && yk_answer_has_logprobs(answer);
}

yk_status yk_answer_begin_prompt(yk_answer_choice *c, yk_err *err)
{
  const yk_openai_prompt *prompt = yk_answer_prompt_of(c);
  if (c->has_prompt || prompt->n_ids == 0) return YK_OK;
  c->has_prompt = true;
  return yk_logprob_lists_add_first(&c->logprobs, &c->walk, prompt->ids[0], err);
}

static yk_status append_echo(yk_answer_choice *c, yk_err *err)
{
  const yk_openai_prompt *prompt = yk_answer_prompt_of(c);
  yk_strbuf decoded = YK_STRBUF_INIT;
  yk_status status = YK_OK;
  if (yk_answer_echoes_logprobs(c->answer)) YK_TRY(yk_answer_begin_prompt(c, err));
  if (!prompt->text)
    status = yk_token_texts_decode(c->answer->options.texts, prompt->ids, prompt->n_ids, &decoded, err);
  if (prompt->text)
    yk_json_append_escaped(&c->text, prompt->text, prompt->n_bytes);
  else
    yk_json_append_escaped(&c->text, decoded.data, decoded.length);
  yk_strbuf_free(&decoded);
  return status;
}

/* Writes the role, or the echoed prompt. */
static yk_status begin(yk_answer_choice *c, yk_strbuf *out, yk_err *err)
{
  const yk_openai_answer *answer = c->answer;
  if (answer->request->echo) {
    YK_TRY(append_echo(c, err));
    if (answer->request->stream) write_event(c, out);
  } else if (yk_answer_is_chat(answer) && answer->request->stream) {
    append_head(answer, out);
    append(out, "{\"index\":");
    yk_json_append_i64(out, (int64_t)c->index);
    append(out, ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}");
    end_event(c, out);
  }
  return YK_OK;
}

/* ---- Ending ------------------------------------------------------------------------------------------------------ */

static void finish_stream(const yk_openai_answer *answer, yk_strbuf *out)
{
  if (answer->request->include_usage) {
    append_head(answer, out);
    append(out, "],");
    append_usage(answer, yk_answer_total_usage(answer), out);
    append(out, "}\n\n");
  }
  append(out, "data: [DONE]\n\n");
}

static void finish(yk_openai_answer *answer, yk_strbuf *out)
{
  if (answer->request->stream) {
    finish_stream(answer, out);
    return;
  }
  append_head(answer, out);
  for (size_t i = 0; i < answer->n_choices; i++) {
    if (i) append(out, ",");
    append_choice(&answer->choices[i], out);
  }
  append(out, "],");
  append_usage(answer, yk_answer_total_usage(answer), out);
  if (yk_answer_is_chat(answer)) append_prompt(&answer->choices[0], out);
  append(out, "}");
}

/* An event with the error. */
static void fail(yk_openai_answer *answer, const yk_openai_error *error, yk_strbuf *out)
{
  (void)answer;
  append(out, "data: ");
  yk_openai_error_append(error, out);
  append(out, "\n\ndata: [DONE]\n\n");
}

const yk_answer_writer yk_answer_writer_choices = {
    .call_prefix = "call", .take = take_event, .begin = begin, .write = write_event, .finish = finish, .fail = fail};
