#include "openai/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "base/utf8.h"

/* The type depends only on the HTTP status, as clients expect. */
static const char *type_of(int http_status)
{
  switch (http_status) {
  case 401: return "authentication_error";
  case 429: return "rate_limit_error";
  default: return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

static const char *usual_code(int http_status)
{
  switch (http_status) {
  case 401: return "invalid_api_key";
  case 429: return "rate_limit_exceeded";
  default: return NULL;
  }
}

static int http_status_of(yk_status code)
{
  switch (code) {
  case YK_E_INVAL:
  case YK_E_FORMAT:
  case YK_E_UNSUPPORTED:
  case YK_E_CAPACITY: return 400;
  case YK_E_CANCELLED: return 503;
  default: return 500;
  }
}

/* Beginnings of the engine's messages that name a field differently from requests, and messages that replace the
 * engine's if the model has no tokenizer, since the cause may name files. */
static const struct {
  const char *beginning, *param, *without_tokenizer;
} engine_names[] = {
    {"text:", "prompt", "prompt: the model has no tokenizer; give token ids"},
    {"stop strings:", "stop", "stop: the model has no tokenizer; use stop_token_ids"},
    {"stop ids:", "stop_token_ids", NULL},
    {"number of stop ids", "stop_token_ids", NULL},
    {"chat template:", "messages", NULL},
    {"template arguments:", "chat_template_kwargs", NULL},
    {"number of stop strings", "stop", NULL},
    {"number of logit_bias entries", "logit_bias", NULL},
    {"number of bad_words", "bad_words", NULL},
    {"number of logprob_token_ids", "logprob_token_ids", NULL},
};

enum { N_ENGINE_NAMES = sizeof engine_names / sizeof engine_names[0] };

/* Fields with the same name in the engine and in requests: the message begins with the name and a colon or a space. */
static const char *const shared_names[] = {"prompt",
                                           "temperature",
                                           "top_p",
                                           "min_p",
                                           "top_k",
                                           "logprobs",
                                           "max_tokens",
                                           "repetition_penalty",
                                           "prompt_logprobs",
                                           "logit_bias",
                                           "min_tokens",
                                           "frequency_penalty",
                                           "presence_penalty",
                                           "truncate_prompt_tokens",
                                           "bad_words",
                                           "logprob_token_ids",
                                           "response_format",
                                           "structured_outputs",
                                           "guided_json",
                                           "guided_regex",
                                           "guided_choice",
                                           "guided_grammar",
                                           "structural_tag",
                                           "allowed_token_ids",
                                           "tool_choice",
                                           "tools",
                                           "messages",
                                           "documents",
                                           "embedding_size",
                                           "embeds"};

/* Index in engine_names; N_ENGINE_NAMES for none. */
static size_t find_engine_name(const char *message)
{
  size_t i = 0;
  while (i < N_ENGINE_NAMES && strncmp(message, engine_names[i].beginning, strlen(engine_names[i].beginning)) != 0) i++;
  return i;
}

static const char *param_of(const char *message)
{
  size_t found = find_engine_name(message);
  if (found < N_ENGINE_NAMES) return engine_names[found].param;
  for (size_t i = 0; i < sizeof shared_names / sizeof *shared_names; i++) {
    size_t length = strlen(shared_names[i]);
    if (strncmp(message, shared_names[i], length) == 0 && message[length] && strchr(": [.", message[length]))
      return shared_names[i];
  }
  return NULL;
}

/* A path into the body at the beginning of a message: "tools[0].function.parameters". */
static bool take_path(const char *message, char *out, size_t n_most)
{
  static const char *const names[] = {"messages[", "tools[", "input[", "system["};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strncmp(message, names[i], strlen(names[i])) != 0) continue;
    snprintf(out, n_most, "%.*s", (int)strcspn(message, ":/ "), message);
    return true;
  }
  return false;
}

static void set_param(yk_openai_error *error, const char *param)
{
  snprintf(error->param, sizeof error->param, "%s", param ? param : "");
}

/* The message without names of files, and without the field that enforces calls before the place of a tool's schema. */
static const char *message_of(const yk_err *err)
{
  static const char *const enforcing[] = {"tool_choice: ", "tools: ", "response_format: "};
  for (size_t i = 0; i < sizeof enforcing / sizeof *enforcing; i++) {
    size_t n = strlen(enforcing[i]);
    bool is_place = strncmp(err->message + n, "tools[", 6) == 0 || strncmp(err->message + n, "input[", 6) == 0;
    if (strncmp(err->message, enforcing[i], n) == 0 && is_place) return err->message + n;
  }
  size_t found = find_engine_name(err->message);
  if (err->code == YK_E_IO || err->code == YK_E_INTERNAL || err->code == YK_E_NOMEM) return yk_status_name(err->code);
  if (err->code == YK_E_UNSUPPORTED && found < N_ENGINE_NAMES && engine_names[found].without_tokenizer)
    return engine_names[found].without_tokenizer;
  return err->message;
}

void yk_openai_error_of(const yk_err *err, const char *param, yk_openai_error *out)
{
  int http_status = http_status_of(err->code);
  *out = (yk_openai_error){.http_status = http_status, .type = type_of(http_status)};
  if (err->code == YK_E_CAPACITY) out->code = "context_length_exceeded";
  const char *message = message_of(err);
  snprintf(out->message, sizeof out->message, "%s", message);
  if (http_status != 400) return;
  if ((!param || !param[0]) && take_path(message, out->param, sizeof out->param)) return;
  set_param(out, param && param[0] ? param : param_of(err->message));
}

void yk_openai_error_http(yk_openai_error *out, int http_status, const char *code, const char *param, const char *fmt,
                          ...)
{
  *out = (yk_openai_error){
      .http_status = http_status, .type = type_of(http_status), .code = code ? code : usual_code(http_status)};
  set_param(out, param);
  va_list args;
  va_start(args, fmt);
  vsnprintf(out->message, sizeof out->message, fmt, args);
  va_end(args);
}

void yk_openai_error_append_text(const char *text, yk_strbuf *out)
{
  char ascii[YK_ERR_MESSAGE_BYTES];
  size_t length = strlen(text);
  if (yk_utf8_valid_bytes(text, length) != length) {
    snprintf(ascii, sizeof ascii, "%s", text);
    for (char *c = ascii; *c; c++)
      if ((unsigned char)*c >= 0x80) *c = '?';
    text = ascii;
  }
  yk_json_append_string(out, text, strlen(text));
}

static void append_or_null(yk_strbuf *out, const char *text)
{
  if (text)
    yk_openai_error_append_text(text, out);
  else
    yk_strbuf_append_str(out, "null");
}

void yk_openai_error_append(const yk_openai_error *error, yk_strbuf *out)
{
  yk_strbuf_append_str(out, "{\"error\":{\"message\":");
  yk_openai_error_append_text(error->message, out);
  yk_strbuf_append_str(out, ",\"type\":");
  yk_openai_error_append_text(error->type, out);
  yk_strbuf_append_str(out, ",\"param\":");
  append_or_null(out, error->param[0] ? error->param : NULL);
  yk_strbuf_append_str(out, ",\"code\":");
  append_or_null(out, error->code);
  yk_strbuf_append_str(out, "}}");
}
