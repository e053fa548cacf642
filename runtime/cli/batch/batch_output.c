#include "cli/batch/batch_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_tree.h"
#include "openai/protocol.h"

/* Nine digits distinguish any two float32 values. */
enum { JSON_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(9) };

/* ---- Objects ----------------------------------------------------------------------------------------------------- */

static json_t *text_of(const yk_result *result, bool has_text)
{
  return has_text ? json_stringn(result->text.length ? result->text.data : "", result->text.length) : json_null();
}

/* Sets the keys of one output in object, which may have others. */
static void set_plain_choice(json_t *object, const yk_result *result, bool has_text)
{
  json_object_set_new(object, "text", text_of(result, has_text));
  json_object_set(object, "token_ids", result->token_ids);
  json_object_set_new(object, "finish_reason", json_string(yk_finish_reason_name(result->finish)));
  if (result->logprobs) json_object_set(object, "logprobs", result->logprobs);
  if (result->prompt_logprobs) json_object_set(object, "prompt_logprobs", result->prompt_logprobs);
}

/* A prompt counts once, for any number of samples. */
static json_t *usage_object(const yk_result *results, size_t n_results, int32_t n_samples)
{
  json_int_t prompt_tokens = 0, output_tokens = 0;
  for (size_t i = 0; i < n_results; i++) {
    if (i % (size_t)n_samples == 0) prompt_tokens += results[i].usage.prompt_tokens;
    output_tokens += results[i].usage.output_tokens;
  }
  return json_pack("{s:I, s:I, s:I}", "prompt_tokens", prompt_tokens, "completion_tokens", output_tokens,
                   "total_tokens", prompt_tokens + output_tokens);
}

/* Writes the line up to its id. */
static void begin(const yk_batch_ticket *ticket, yk_strbuf *out)
{
  long long number = ticket->number;
  yk_strbuf_append_fmt(out, "{\"line\":%lld,", number);
  if (ticket->form == YK_BATCH_OPENAI) yk_strbuf_append_fmt(out, "\"id\":\"batch_req_%lld\",", number);
  yk_strbuf_append_fmt(out, "\"%s\":", ticket->id_key);
  yk_strbuf_append_str(out, ticket->id ? ticket->id : "null");
}

static json_t *response_object(const yk_batch_ticket *ticket, int status_code, json_t *body)
{
  return json_pack("{s:i, s:o, s:o}", "status_code", status_code, "request_id",
                   json_sprintf("req_%lld", (long long)ticket->number), "body", body);
}

/* Writes the rest of the line. Takes ownership of object, which is NULL or incomplete if memory ran out: then finish
 * fails, so that no line lacks its last key. */
static yk_status finish(json_t *object, const yk_batch_ticket *ticket, const char *needed, yk_strbuf *out, yk_err *err)
{
  json_object_set_new(object, "input_hash", json_sprintf("%08x", (unsigned)ticket->hash));
  char *text = json_object_get(object, needed) && json_object_get(object, "input_hash")
                   ? yk_tree_text(object, JSON_FLAGS)
                   : NULL;
  json_decref(object);
  yk_strbuf_append_str(out, ",");
  if (text) yk_strbuf_append_str(out, text + 1); /* after its brace */
  yk_strbuf_append_str(out, "\n");
  bool failed = !text || out->failed;
  free(text);
  return failed ? yk_err_set(err, YK_E_NOMEM, "line %lld: no memory for its result", (long long)ticket->number) : YK_OK;
}

yk_status yk_batch_output_result(const yk_batch_ticket *ticket, bool has_text, const yk_result *results,
                                 size_t n_prompts, int32_t n_samples, yk_strbuf *out, yk_err *err)
{
  size_t n_results = n_prompts * (size_t)n_samples;
  json_t *object = json_object(), *choices = n_results > 1 ? json_array() : NULL;
  begin(ticket, out);
  if (!choices) set_plain_choice(object, &results[0], has_text);
  for (size_t i = 0; choices && i < n_results; i++) {
    json_t *choice = json_pack("{s:I}", "index", (json_int_t)i);
    set_plain_choice(choice, &results[i], has_text);
    json_array_append_new(choices, choice);
  }
  if (choices) json_object_set_new(object, "choices", choices);
  json_object_set_new(object, "usage", usage_object(results, n_results, n_samples));
  return finish(object, ticket, "usage", out, err);
}

yk_status yk_batch_output_answer(const yk_batch_ticket *ticket, yk_openai_answer *answer, yk_strbuf *out, yk_err *err)
{
  long long number = ticket->number;
  begin(ticket, out);
  yk_strbuf_append_fmt(out, ",\"response\":{\"status_code\":200,\"request_id\":\"req_%lld\",\"body\":", number);
  YK_TRY(yk_openai_answer_finish(answer, out, err));
  yk_strbuf_append_fmt(out, "},\"error\":null,\"input_hash\":\"%08x\"}\n", (unsigned)ticket->hash);
  return out->failed ? yk_err_set(err, YK_E_NOMEM, "line %lld: no memory for its result", number) : YK_OK;
}

/* The message may quote input that was cut inside a character, which is not valid UTF-8. */
static json_t *message_string(const char *message)
{
  json_t *text = json_string(message);
  if (text) return text;
  char ascii[YK_ERR_MESSAGE_BYTES];
  snprintf(ascii, sizeof ascii, "%s", message);
  for (char *c = ascii; *c; c++)
    if ((unsigned char)*c >= 0x80) *c = '?';
  return json_string(ascii);
}

/* The body of an error in OpenAI's form. */
static json_t *error_body(const yk_openai_error *error, json_t *message)
{
  return json_pack("{s:{s:O, s:s, s:s?, s:s?}}", "error", "message", message, "type", error->type, "param",
                   error->param[0] ? error->param : NULL, "code", error->code);
}

yk_status yk_batch_output_error(const yk_batch_line *line, const yk_err *failure, yk_strbuf *out, yk_err *err)
{
  const yk_batch_ticket *ticket = &line->ticket;
  const yk_protocol *protocol = line->request.protocol ? line->request.protocol : &yk_protocol_completions;
  yk_err named = *failure;
  yk_openai_error error;
  yk_protocol_error_of(protocol, failure, line->request.param[0] ? line->request.param : NULL, &error);
  yk_protocol_rename(protocol, named.message, sizeof named.message);
  yk_err_prefix(&named, "line %lld", (long long)ticket->number);
  json_t *object = json_object(), *message = message_string(named.message);
  begin(ticket, out);
  if (ticket->form == YK_BATCH_OPENAI)
    json_object_set_new(object, "response", response_object(ticket, error.http_status, error_body(&error, message)));
  json_object_set_new(object, "error",
                      json_pack("{s:s, s:o}", "code", yk_status_name(failure->code), "message", message));
  return finish(object, ticket, "error", out, err);
}

/* ---- Reading back ------------------------------------------------------------------------------------------------ */

yk_status yk_batch_output_parse(const char *text, size_t n_bytes, int64_t *number, uint32_t *hash, bool *failed,
                                yk_err *err)
{
  static const yk_json_rules rules = {.max_depth = YK_JSON_MAX_DEPTH, .is_line = true};
  yk_json_doc *document;
  YK_TRY(yk_json_parse("line", text, n_bytes, &rules, &document, err));
  yk_json object = yk_json_root(document), line = yk_json_get(object, "line");
  const char *hash_text = yk_json_string(yk_json_get(object, "input_hash"));
  char *end = NULL;
  bool is_number = yk_json_to_i64(line, number);
  *hash = hash_text ? (uint32_t)strtoul(hash_text, &end, 16) : 0;
  *failed = yk_json_is_given(yk_json_get(object, "error"));
  bool ok = is_number && hash_text && strlen(hash_text) == 8 && *end == '\0';
  yk_json_free(document);
  return ok ? YK_OK : yk_err_set(err, YK_E_FORMAT, "no line of a batch: it lacks \"line\" or \"input_hash\"");
}

bool yk_batch_output_begins(const char *text, size_t n_bytes)
{
  static const char beginning[] = "{\"line\":";
  size_t n = n_bytes < sizeof beginning - 1 ? n_bytes : sizeof beginning - 1;
  return memcmp(text, beginning, n) == 0;
}
