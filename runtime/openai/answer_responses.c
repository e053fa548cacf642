/* answer_responses.c - OpenAI's responses: a list of items, each with its events. */
#include <string.h>

#include "base/json_write.h"
#include "openai/answer_blocks.h"
#include "openai/responses_request.h"

static void append(yk_strbuf *out, const char *text)
{
  yk_strbuf_append_str(out, text);
}

static void append_buffer(yk_strbuf *out, const yk_strbuf *text)
{
  yk_strbuf_append(out, text->data, text->length);
}

/* ---- Items ------------------------------------------------------------------------------------------------------- */

/* The id of the open block: its prefix, the answer's and the block's number. */
static void append_item_id(const yk_openai_answer *answer, yk_strbuf *out)
{
  static const char *const prefixes[] = {[YK_BLOCK_TEXT] = "msg", [YK_BLOCK_REASONING] = "rs", [YK_BLOCK_CALL] = "fc"};
  const yk_answer_blocks *b = &answer->blocks;
  yk_strbuf_append_fmt(out, "\"%s_%s_%d\"", prefixes[b->kind], answer->unique.data, b->index);
}

/* is_done: with the whole text; else the part as it is when it begins. */
static void append_part(const yk_answer_blocks *b, bool is_done, yk_strbuf *out)
{
  append(out, b->kind == YK_BLOCK_TEXT ? "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\""
                                       : "{\"type\":\"reasoning_text\",\"text\":\"");
  if (is_done) append_buffer(out, &b->text);
  append(out, "\"}");
}

static void append_parts(const yk_answer_blocks *b, bool is_done, yk_strbuf *out)
{
  append(out, ",\"content\":[");
  if (is_done) append_part(b, true, out);
  append(out, "]");
}

/* The client returns the sealed text with the next request, even if it does not keep the reasoning itself. */
static void append_sealed(const yk_openai_answer *answer, bool is_done, yk_strbuf *out)
{
  append(out, ",\"summary\":[],\"encrypted_content\":");
  if (!is_done || !answer->request->encrypts_reasoning) {
    append(out, "null");
    return;
  }
  append(out, "\"" YK_REASONING_SEAL);
  append_buffer(out, &answer->blocks.text);
  append(out, "\"");
}

static void append_call(const yk_answer_blocks *b, bool is_done, yk_strbuf *out)
{
  append(out, ",\"call_id\":\"");
  append_buffer(out, &b->call_id);
  append(out, "\",\"name\":\"");
  append_buffer(out, &b->name);
  append(out, "\",\"arguments\":\"");
  if (is_done) append_buffer(out, &b->text);
  append(out, "\"");
}

/* An item that max_output_tokens cut is incomplete. */
static const char *status_of(const yk_openai_answer *answer, bool is_done)
{
  if (!is_done) return "in_progress";
  bool is_cut = answer->choices[0].finish == YK_FINISH_LENGTH;
  return is_cut && !(answer->blocks.kind == YK_BLOCK_CALL && answer->blocks.is_whole) ? "incomplete" : "completed";
}

static void append_item(const yk_openai_answer *answer, bool is_done, yk_strbuf *out)
{
  static const char *const types[] = {
      [YK_BLOCK_TEXT] = "message", [YK_BLOCK_REASONING] = "reasoning", [YK_BLOCK_CALL] = "function_call"};
  const yk_answer_blocks *b = &answer->blocks;
  append(out, "{\"id\":");
  append_item_id(answer, out);
  yk_strbuf_append_fmt(out, ",\"type\":\"%s\",\"status\":\"%s\"", types[b->kind], status_of(answer, is_done));
  if (b->kind == YK_BLOCK_TEXT) append(out, ",\"role\":\"assistant\"");
  if (b->kind == YK_BLOCK_REASONING) append_sealed(answer, is_done, out);
  if (b->kind == YK_BLOCK_CALL)
    append_call(b, is_done, out);
  else
    append_parts(b, is_done, out);
  append(out, "}");
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

static yk_strbuf *begin_event(yk_openai_answer *answer, const char *type)
{
  yk_answer_blocks *b = &answer->blocks;
  yk_strbuf_append_fmt(&b->events, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%lld", type, type,
                       (long long)b->n_events++);
  return &b->events;
}

static void end_event(yk_openai_answer *answer)
{
  append(&answer->blocks.events, "}\n\n");
}

static void item_event(yk_openai_answer *answer, const char *type, bool is_done)
{
  yk_strbuf *out = begin_event(answer, type);
  yk_strbuf_append_fmt(out, ",\"output_index\":%d,\"item\":", answer->blocks.index);
  append_item(answer, is_done, out);
  end_event(answer);
}

/* Begins an event about the open block; a part's index follows the item's, where the block has parts. */
static yk_strbuf *begin_block_event(yk_openai_answer *answer, const char *type)
{
  const yk_answer_blocks *b = &answer->blocks;
  yk_strbuf *out = begin_event(answer, type);
  append(out, ",\"item_id\":");
  append_item_id(answer, out);
  yk_strbuf_append_fmt(out, ",\"output_index\":%d", b->index);
  if (b->kind != YK_BLOCK_CALL) append(out, ",\"content_index\":0");
  return out;
}

static void part_event(yk_openai_answer *answer, const char *type, bool is_done)
{
  yk_strbuf *out = begin_block_event(answer, type);
  append(out, ",\"part\":");
  append_part(&answer->blocks, is_done, out);
  end_event(answer);
}

static void open_block(yk_openai_answer *answer)
{
  item_event(answer, "response.output_item.added", false);
  if (answer->blocks.kind != YK_BLOCK_CALL) part_event(answer, "response.content_part.added", false);
}

static void write_piece(yk_openai_answer *answer)
{
  static const char *const types[] = {[YK_BLOCK_TEXT] = "response.output_text.delta",
                                      [YK_BLOCK_REASONING] = "response.reasoning_text.delta",
                                      [YK_BLOCK_CALL] = "response.function_call_arguments.delta"};
  const yk_answer_blocks *b = &answer->blocks;
  size_t n_bytes;
  const char *text = yk_answer_blocks_piece(b, &n_bytes);
  yk_strbuf *out = begin_block_event(answer, types[b->kind]);
  append(out, ",\"delta\":\"");
  yk_strbuf_append(out, text, n_bytes);
  append(out, b->kind == YK_BLOCK_TEXT ? "\",\"logprobs\":[]" : "\"");
  end_event(answer);
}

static void text_done_event(yk_openai_answer *answer)
{
  const yk_answer_blocks *b = &answer->blocks;
  yk_strbuf *out;
  if (b->kind == YK_BLOCK_CALL) {
    out = begin_block_event(answer, "response.function_call_arguments.done");
    append(out, ",\"name\":\"");
    append_buffer(out, &b->name);
    append(out, "\",\"arguments\":\"");
  } else {
    bool is_text = b->kind == YK_BLOCK_TEXT;
    out = begin_block_event(answer, is_text ? "response.output_text.done" : "response.reasoning_text.done");
    append(out, is_text ? ",\"logprobs\":[],\"text\":\"" : ",\"text\":\"");
  }
  append_buffer(out, &b->text);
  append(out, "\"");
  end_event(answer);
}

static void close_block(yk_openai_answer *answer)
{
  yk_answer_blocks *b = &answer->blocks;
  if (b->items.length) append(&b->items, ",");
  append_item(answer, true, &b->items);
  if (!answer->request->stream) return;
  text_done_event(answer);
  if (b->kind != YK_BLOCK_CALL) part_event(answer, "response.content_part.done", true);
  item_event(answer, "response.output_item.done", true);
}

static const yk_block_writer blocks = {.open = open_block, .piece = write_piece, .close = close_block};

/* ---- The response ------------------------------------------------------------------------------------------------ */

static void append_usage(const yk_openai_answer *answer, yk_strbuf *out)
{
  yk_answer_usage n = yk_answer_total_usage(answer);
  yk_strbuf_append_fmt(
      out,
      "{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":%lld,\"cache_write_tokens\":0},"
      "\"output_tokens\":%lld,"
      "\"output_tokens_details\":{\"reasoning_tokens\":%lld},\"total_tokens\":%lld}",
      (long long)n.n_prompt, (long long)n.n_cached, (long long)n.n_output, (long long)n.n_reasoning,
      (long long)(n.n_prompt + n.n_output));
}

static void append_error(const yk_openai_error *error, yk_strbuf *out)
{
  const char *code = error->code ? error->code : error->http_status == 429 ? "rate_limit_exceeded" : "server_error";
  yk_strbuf_append_fmt(out, "{\"code\":\"%s\",\"message\":", code);
  yk_openai_error_append_text(error->message, out);
  append(out, "}");
}

/* error: of a response that has failed, else NULL. */
static void append_response(const yk_openai_answer *answer, const char *status, const yk_openai_error *error,
                            yk_strbuf *out)
{
  bool has_ended = strcmp(status, "in_progress") != 0;
  append(out, "{\"id\":");
  append_buffer(out, &answer->id);
  append(out, ",\"object\":\"response\",\"created_at\":");
  yk_json_append_i64(out, answer->options.created_s);
  yk_strbuf_append_fmt(out, ",\"status\":\"%s\",\"error\":", status);
  if (error)
    append_error(error, out);
  else
    append(out, "null");
  bool is_cut = answer->choices[0].finish == YK_FINISH_LENGTH;
  append(out, is_cut ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}" : ",\"incomplete_details\":null");
  append(out, ",\"model\":");
  append_buffer(out, &answer->model);
  append(out, ",\"output\":[");
  append_buffer(out, &answer->blocks.items);
  append(out, "],\"usage\":");
  if (has_ended && !error)
    append_usage(answer, out);
  else
    append(out, "null");
  if (answer->request->repeated) append(out, ",");
  if (answer->request->repeated) append(out, answer->request->repeated);
  append(out, "}");
}

static void response_event(yk_openai_answer *answer, const char *type, const char *status, const yk_openai_error *error)
{
  yk_strbuf *out = begin_event(answer, type);
  append(out, ",\"response\":");
  append_response(answer, status, error, out);
  end_event(answer);
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
  c->has_begun = true;
  if (!c->answer->request->stream) return YK_OK;
  response_event(c->answer, "response.created", "in_progress", NULL);
  response_event(c->answer, "response.in_progress", "in_progress", NULL);
  return YK_OK;
}

static void write(yk_answer_choice *c, yk_strbuf *out)
{
  yk_answer_blocks_write(&blocks, c->answer, out);
}

static void finish(yk_openai_answer *answer, yk_strbuf *out)
{
  yk_answer_choice *c = &answer->choices[0];
  bool is_cut = c->finish == YK_FINISH_LENGTH;
  if (!c->has_begun) begin(c, out, NULL);
  yk_answer_blocks_end(&blocks, answer);
  if (!answer->request->stream) {
    append_response(answer, is_cut ? "incomplete" : "completed", NULL, out);
    return;
  }
  response_event(answer, is_cut ? "response.incomplete" : "response.completed", is_cut ? "incomplete" : "completed",
                 NULL);
  yk_answer_blocks_write(&blocks, answer, out);
}

static void fail(yk_openai_answer *answer, const yk_openai_error *error, yk_strbuf *out)
{
  yk_answer_blocks_write(&blocks, answer, out);
  response_event(answer, "response.failed", "failed", error);
  yk_answer_blocks_write(&blocks, answer, out);
}

const yk_answer_writer yk_answer_writer_responses = {
    .call_prefix = "call", .take = take, .begin = begin, .write = write, .finish = finish, .fail = fail};
