/* answer_messages.c - Anthropic's messages: a list of content blocks, each with its events. */
#include <string.h>

#include "base/json_write.h"
#include "openai/answer_blocks.h"
#include "openai/messages_error.h"
#include "openai/parse/json_scan.h"

static void append(yk_strbuf *out, const char *text)
{
  yk_strbuf_append_str(out, text);
}

static void append_buffer(yk_strbuf *out, const yk_strbuf *text)
{
  yk_strbuf_append(out, text->data, text->length);
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

/* Clients drop thoughts without a signature; the signature is the answer's id and is never verified. */
static void append_signature(const yk_openai_answer *answer, yk_strbuf *out)
{
  append(out, ",\"signature\":");
  append_buffer(out, &answer->id);
}

/* Arguments that are no object, since the output was cut or malformed, become an empty one. */
static void append_input(const yk_answer_blocks *b, yk_strbuf *out)
{
  const yk_strbuf *text = &b->arguments;
  bool is_object = text->length && text->data[0] == '{' && yk_json_scan_is_value(text->data, text->length);
  append(out, ",\"input\":");
  if (is_object)
    append_buffer(out, text);
  else
    append(out, "{}");
}

/* is_done: with its contents; else as the block is when it begins. */
static void append_block(const yk_openai_answer *answer, bool is_done, yk_strbuf *out)
{
  const yk_answer_blocks *b = &answer->blocks;
  if (b->kind == YK_BLOCK_CALL) {
    append(out, "{\"type\":\"tool_use\",\"id\":\"");
    append_buffer(out, &b->call_id);
    append(out, "\",\"name\":\"");
    append_buffer(out, &b->name);
    append(out, "\"");
    if (is_done)
      append_input(b, out);
    else
      append(out, ",\"input\":{}");
    append(out, "}");
    return;
  }
  bool is_text = b->kind == YK_BLOCK_TEXT;
  append(out, is_text ? "{\"type\":\"text\",\"text\":\"" : "{\"type\":\"thinking\",\"thinking\":\"");
  if (is_done) append_buffer(out, &b->text);
  append(out, "\"");
  if (!is_text && is_done) append_signature(answer, out);
  if (!is_text && !is_done) append(out, ",\"signature\":\"\"");
  append(out, "}");
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

static yk_strbuf *begin_event(yk_openai_answer *answer, const char *type)
{
  yk_strbuf_append_fmt(&answer->blocks.events, "event: %s\ndata: {\"type\":\"%s\"", type, type);
  return &answer->blocks.events;
}

static yk_strbuf *begin_block_event(yk_openai_answer *answer, const char *type)
{
  yk_strbuf *out = begin_event(answer, type);
  yk_strbuf_append_fmt(out, ",\"index\":%d", answer->blocks.index);
  return out;
}

static void open_block(yk_openai_answer *answer)
{
  yk_strbuf *out = begin_block_event(answer, "content_block_start");
  append(out, ",\"content_block\":");
  append_block(answer, false, out);
  append(out, "}\n\n");
}

static void write_piece(yk_openai_answer *answer)
{
  static const char *const deltas[] = {[YK_BLOCK_TEXT] = "{\"type\":\"text_delta\",\"text\":\"",
                                       [YK_BLOCK_REASONING] = "{\"type\":\"thinking_delta\",\"thinking\":\"",
                                       [YK_BLOCK_CALL] = "{\"type\":\"input_json_delta\",\"partial_json\":\""};
  size_t n_bytes;
  const char *text = yk_answer_blocks_piece(&answer->blocks, &n_bytes);
  yk_strbuf *out = begin_block_event(answer, "content_block_delta");
  append(out, ",\"delta\":");
  append(out, deltas[answer->blocks.kind]);
  yk_strbuf_append(out, text, n_bytes);
  append(out, "\"}}\n\n");
}

static void close_block(yk_openai_answer *answer)
{
  yk_answer_blocks *b = &answer->blocks;
  if (!answer->request->stream) {
    if (b->items.length) append(&b->items, ",");
    append_block(answer, true, &b->items);
    return;
  }
  if (b->kind == YK_BLOCK_REASONING) {
    yk_strbuf *out = begin_block_event(answer, "content_block_delta");
    append(out, ",\"delta\":{\"type\":\"signature_delta\"");
    append_signature(answer, out);
    append(out, "}}\n\n");
  }
  append(begin_block_event(answer, "content_block_stop"), "}\n\n");
}

static const yk_block_writer blocks = {.open = open_block, .piece = write_piece, .close = close_block};

/* ---- The message ------------------------------------------------------------------------------------------------- */

/* Tokens of the prompt that were computed for earlier requests count apart. */
static void append_usage(const yk_openai_answer *answer, yk_strbuf *out)
{
  yk_answer_usage n = yk_answer_total_usage(answer);
  yk_strbuf_append_fmt(out,
                       "\"usage\":{\"input_tokens\":%lld,\"cache_creation_input_tokens\":0,"
                       "\"cache_read_input_tokens\":%lld,\"output_tokens\":%lld,"
                       "\"output_tokens_details\":{\"thinking_tokens\":%lld}}",
                       (long long)(n.n_prompt - n.n_cached), (long long)n.n_cached, (long long)n.n_output,
                       (long long)n.n_reasoning);
}

static void append_stop(const yk_answer_choice *c, yk_strbuf *out)
{
  bool is_string = c->stop_reason.length && c->stop_reason.data[0] == '"';
  const char *reason = "end_turn";
  if (c->finish == YK_FINISH_LENGTH)
    reason = c->n_output < c->answer->request->sampling.max_tokens ? "model_context_window_exceeded" : "max_tokens";
  else if (is_string)
    reason = "stop_sequence";
  else if (c->parser && yk_answer_parser_has_calls(c->parser))
    reason = "tool_use";
  yk_strbuf_append_fmt(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
  if (is_string)
    append_buffer(out, &c->stop_reason);
  else
    append(out, "null");
}

static void append_message(const yk_openai_answer *answer, bool is_done, yk_strbuf *out)
{
  append(out, "{\"id\":");
  append_buffer(out, &answer->id);
  append(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
  append_buffer(out, &answer->model);
  append(out, ",\"content\":[");
  append_buffer(out, &answer->blocks.items);
  append(out, "],");
  if (is_done)
    append_stop(&answer->choices[0], out);
  else
    append(out, "\"stop_reason\":null,\"stop_sequence\":null");
  append(out, ",");
  append_usage(answer, out);
  append(out, "}");
}

/* ---- The writer -------------------------------------------------------------------------------------------------- */

static void take(void *choice, const yk_answer_event *event)
{
  yk_answer_blocks_take(&blocks, choice, event);
}

static yk_status begin(yk_answer_choice *c, yk_strbuf *out, yk_err *err)
{
  (void)out;
  (void)err;
  if (!c->answer->request->stream) return YK_OK;
  yk_strbuf *events = begin_event(c->answer, "message_start");
  append(events, ",\"message\":");
  append_message(c->answer, false, events);
  append(events, "}\n\n");
  append(begin_event(c->answer, "ping"), "}\n\n");
  return YK_OK;
}

static void write(yk_answer_choice *c, yk_strbuf *out)
{
  yk_answer_blocks_write(&blocks, c->answer, out);
}

static void finish(yk_openai_answer *answer, yk_strbuf *out)
{
  yk_answer_blocks_end(&blocks, answer);
  if (!answer->request->stream) {
    append_message(answer, true, out);
    return;
  }
  yk_strbuf *events = begin_event(answer, "message_delta");
  append(events, ",\"delta\":{");
  append_stop(&answer->choices[0], events);
  append(events, "},");
  append_usage(answer, events);
  append(events, "}\n\n");
  append(begin_event(answer, "message_stop"), "}\n\n");
  yk_answer_blocks_write(&blocks, answer, out);
}

static void fail(yk_openai_answer *answer, const yk_openai_error *error, yk_strbuf *out)
{
  yk_answer_blocks_write(&blocks, answer, out);
  append(out, "event: error\ndata: ");
  yk_messages_error_append(error, out);
  append(out, "\n\n");
}

const yk_answer_writer yk_answer_writer_messages = {
    .call_prefix = "toolu", .take = take, .begin = begin, .write = write, .finish = finish, .fail = fail};
