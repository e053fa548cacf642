#include "openai/protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openai/answer_write.h"
#include "openai/messages_error.h"
#include "openai/messages_request.h"
#include "openai/responses_request.h"

const yk_protocol yk_protocol_completions = {.id_prefix = "cmpl-",
                                             .form = YK_FORM_COMPLETION,
                                             .writer = &yk_answer_writer_choices,
                                             .append_error = yk_openai_error_append};

const yk_protocol yk_protocol_chat = {.id_prefix = "chatcmpl-",
                                      .form = YK_FORM_CHAT,
                                      .writer = &yk_answer_writer_choices,
                                      .append_error = yk_openai_error_append};

static const yk_field_name responses_names[] = {
    {"previous_response_id", "previous_response_id", "previous_response_not_found"},
    {"max_tokens", "max_output_tokens", NULL},
    {"response_format", "text.format", NULL},
    {"reasoning_effort", "reasoning.effort", NULL},
    {"messages", "input", NULL},
    {"prompt", "input", NULL},
    {NULL, NULL, NULL}};

static const yk_field_name embeddings_names[] = {
    {"prompt", "input", NULL}, {"embedding_size", "dimensions", NULL}, {"embeds", "model", NULL}, {NULL, NULL, NULL}};

static const yk_field_name messages_names[] = {{"stop", "stop_sequences", NULL},
                                               {"response_format", "output_config.format", NULL},
                                               {"reasoning_effort", "output_config.effort", NULL},
                                               {NULL, NULL, NULL}};

const yk_protocol yk_protocol_responses = {.id_prefix = "resp_",
                                           .form = YK_FORM_CHAT,
                                           .writer = &yk_answer_writer_responses,
                                           .append_error = yk_openai_error_append,
                                           .translate = yk_responses_translate,
                                           .keeps = yk_responses_keeps,
                                           .names = responses_names};

const yk_protocol yk_protocol_embeddings = {.id_prefix = "embd-",
                                            .form = YK_FORM_EMBEDDING,
                                            .writer = &yk_answer_writer_embeddings,
                                            .append_error = yk_openai_error_append,
                                            .names = embeddings_names};

const yk_protocol yk_protocol_messages = {.id_prefix = "msg_",
                                          .form = YK_FORM_CHAT,
                                          .writer = &yk_answer_writer_messages,
                                          .append_error = yk_messages_error_append,
                                          .id_header = "request-id",
                                          .translate = yk_messages_translate,
                                          .keeps = yk_messages_keeps,
                                          .names = messages_names,
                                          .shows_excess = true};

const yk_protocol yk_protocol_messages_count = {.id_prefix = "msg_",
                                                .form = YK_FORM_CHAT,
                                                .writer = &yk_answer_writer_messages,
                                                .append_error = yk_messages_error_append,
                                                .id_header = "request-id",
                                                .translate = yk_messages_translate_count,
                                                .keeps = yk_messages_keeps,
                                                .names = messages_names,
                                                .shows_excess = true};

/* ---- Names of fields --------------------------------------------------------------------------------------------- */

/* Whether the text begins with this name of a field, alone or before ":", " ", "[" or ".". */
static bool begins_with_name(const char *text, const char *name)
{
  size_t length = strlen(name);
  return strncmp(text, name, length) == 0 && (!text[length] || strchr(": [.", text[length]));
}

/* Clients recognise this message, read both numbers and shorten the conversation. */
static void show_excess(char *text, size_t n_most)
{
  long long most, found;
  int n_read = sscanf(text, "prompt: expected at most %lld tokens, found %lld", &most, &found);
  if (n_read == 2)
    snprintf(text, n_most, "prompt is too long: %lld tokens > %lld maximum", found, most);
  else if (n_read == 1) /* the text was given up before its end */
    snprintf(text, n_most, "prompt is too long: more than %lld tokens > %lld maximum", most, most);
}

void yk_protocol_rename(const yk_protocol *protocol, char *text, size_t n_most)
{
  char renamed[YK_ERR_MESSAGE_BYTES];
  for (const yk_field_name *name = protocol->names; name && name->chat; name++) {
    if (!begins_with_name(text, name->chat)) continue;
    snprintf(renamed, sizeof renamed, "%s%s", name->own, text + strlen(name->chat));
    snprintf(text, n_most, "%s", renamed);
    return;
  }
}

void yk_protocol_error_of(const yk_protocol *protocol, const yk_err *err, const char *param, yk_openai_error *out)
{
  yk_openai_error_of(err, param, out);
  for (const yk_field_name *name = protocol->names; name && name->chat; name++)
    if (name->code && err->code == YK_E_INVAL && strcmp(out->param, name->chat) == 0) out->code = name->code;
  if (err->code == YK_E_CAPACITY && protocol->shows_excess) show_excess(out->message, sizeof out->message);
  yk_protocol_rename(protocol, out->message, sizeof out->message);
  yk_protocol_rename(protocol, out->param, sizeof out->param);
}

/* ---- Bodies ------------------------------------------------------------------------------------------------------ */

/* The translated body is parsed like one of a client, but for its size, which the client's body bounds. */
static yk_status parse_translated(yk_translation *translation, const yk_openai_defaults *given, yk_openai_request *out,
                                  yk_err *err)
{
  yk_openai_defaults defaults = *given;
  defaults.tool_places = translation->tool_places.data;
  enum { MORE_DEPTH = 8 }; /* of tools and schemas */
  const yk_json_rules rules = {.max_depth = YK_OPENAI_MAX_DEPTH + MORE_DEPTH};
  yk_json_doc *document;
  const yk_strbuf *text = &translation->body;
  YK_TRY(yk_json_parse("body", text->data, text->length, &rules, &document, err));
  YK_TRY(yk_openai_request_parse(document, yk_json_root(document), YK_FORM_CHAT, &defaults, out, err));
  out->repeated = translation->echo.data;
  translation->echo = YK_STRBUF_INIT;
  out->message_places = translation->message_places.data;
  translation->message_places = YK_STRBUF_INIT;
  out->encrypts_reasoning = translation->encrypts_reasoning;
  out->bounds_max_tokens = true;
  if (translation->hides_reasoning) out->include_reasoning = false;
  return YK_OK;
}

static yk_status translate(const yk_protocol *protocol, yk_json body, const yk_openai_defaults *defaults,
                           yk_openai_request *out, yk_err *err)
{
  yk_translation translation;
  yk_translation_begin(&translation, defaults);
  yk_status status = protocol->translate(&translation, body, err);
  if (err && yk_translation_failed(&translation)) yk_err_clear(err);
  if (status == YK_OK || yk_translation_failed(&translation)) status = yk_translation_end(&translation, err);
  if (status != YK_OK) memcpy(out->param, translation.param, sizeof out->param);
  if (status == YK_OK) status = parse_translated(&translation, defaults, out, err);
  out->is_empty = status == YK_OK && translation.is_empty;
  yk_translation_free(&translation);
  return status;
}

yk_status yk_protocol_read(const yk_protocol *protocol, yk_json_doc *document, yk_json body,
                           const yk_openai_defaults *defaults, yk_openai_request *out, yk_err *err)
{
  yk_status status;
  *out = (yk_openai_request){0};
  if (protocol->translate) {
    status = translate(protocol, body, defaults, out, err);
    yk_json_free(document);
  } else {
    status = yk_openai_request_parse(document, body, protocol->form, defaults, out, err);
  }
  out->protocol = protocol;
  return status;
}

yk_status yk_protocol_parse(const yk_protocol *protocol, const char *body, size_t n_bytes, size_t max_bytes,
                            const yk_openai_defaults *defaults, yk_openai_request *out, yk_err *err)
{
  yk_json_rules rules = yk_openai_body_rules(protocol->form, max_bytes);
  yk_json_doc *document;
  *out = (yk_openai_request){.protocol = protocol};
  if (protocol->translate) rules.keeps = protocol->keeps;
  YK_TRY(yk_json_parse("body", body, n_bytes, &rules, &document, err));
  return yk_protocol_read(protocol, document, yk_json_root(document), defaults, out, err);
}
