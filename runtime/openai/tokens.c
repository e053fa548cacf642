#include "openai/tokens.h"

#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "openai/chat_fields.h"
#include "openai/values.h"

/* ---- Tokenize ---------------------------------------------------------------------------------------------------- */

/* The value of a field that is given, else NULL; from here on it is the field at fault. */
static const json_t *take_up(char param[YK_OPENAI_PARAM_BYTES], const json_t *root, const char *name)
{
  snprintf(param, YK_OPENAI_PARAM_BYTES, "%s", name);
  const json_t *value = json_object_get(root, name);
  return yk_value_is_given(value) ? value : NULL;
}

static yk_status read_flag(yk_tokenize_request *request, const json_t *root, const char *name, bool *out, yk_err *err)
{
  const json_t *value = take_up(request->param, root, name);
  return value ? yk_value_read_flag(name, value, out, err) : YK_OK;
}

static yk_status read_prompt(yk_tokenize_request *request, const json_t *root, yk_err *err)
{
  const json_t *messages = take_up(request->param, root, "messages");
  if (messages) YK_TRY(yk_chat_read_messages(&request->chat, messages, err));
  const json_t *prompt = take_up(request->param, root, "prompt");
  if (prompt && messages)
    return yk_err_set(err, YK_E_INVAL, "expected one of the keys \"prompt\" and \"messages\", found both");
  if (!prompt && !messages) return yk_err_set(err, YK_E_INVAL, "key \"prompt\": expected, but missing");
  if (!prompt) return YK_OK;
  YK_TRY(yk_value_read_string("prompt", prompt, &request->text, err));
  request->n_bytes = json_string_length(prompt);
  return YK_OK;
}

static yk_status read_chat(yk_tokenize_request *request, const json_t *root, yk_err *err)
{
  yk_openai_chat *chat = &request->chat;
  YK_TRY(read_flag(request, root, "add_generation_prompt", &chat->add_generation_prompt, err));
  const json_t *tools = take_up(request->param, root, "tools");
  if (tools) YK_TRY(yk_chat_read_tools(chat, tools, err));
  const json_t *arguments = take_up(request->param, root, "chat_template_kwargs");
  if (arguments) YK_TRY(yk_chat_read_template_kwargs(chat, arguments, err));
  YK_TRY(read_flag(request, root, "continue_final_message", &chat->continue_final_message, err));
  return yk_chat_check_endings(chat, err);
}

yk_status yk_tokenize_request_parse(const yk_openai_document *document, yk_tokenize_request *out, yk_err *err)
{
  const json_t *root = document->root;
  *out = (yk_tokenize_request){0};
  yk_chat_init(&out->chat);
  if (!json_is_object(root)) return yk_value_wrong_type("body", "an object", root, err);
  const json_t *model = take_up(out->param, root, "model");
  if (model) YK_TRY(yk_value_read_string("model", model, &out->model, err));
  YK_TRY(read_prompt(out, root, err));
  out->add_special_tokens = true;
  bool *add_special_tokens = out->text ? &out->add_special_tokens : &out->chat.add_special_tokens;
  YK_TRY(read_flag(out, root, "add_special_tokens", add_special_tokens, err));
  YK_TRY(read_flag(out, root, "return_token_strs", &out->return_token_strs, err));
  if (!out->text) YK_TRY(read_chat(out, root, err));
  out->param[0] = '\0';
  return YK_OK;
}

static yk_status append_strings(const int32_t *ids, size_t n_ids, yk_token_texts *texts, yk_strbuf *out, yk_err *err)
{
  yk_strbuf_append_str(out, ",\"token_strs\":[");
  for (size_t i = 0; i < n_ids; i++) {
    const char *text;
    size_t n_bytes;
    YK_TRY(yk_token_text(texts, ids[i], &text, &n_bytes, err));
    if (i) yk_strbuf_append(out, ",", 1);
    yk_json_append_string(out, text, n_bytes);
  }
  yk_strbuf_append_str(out, "]");
  return YK_OK;
}

yk_status yk_tokenize_answer_append(const int32_t *ids, size_t n_ids, int32_t max_model_tokens, yk_token_texts *texts,
                                    yk_strbuf *out, yk_err *err)
{
  yk_strbuf_append_fmt(out, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":[", n_ids, max_model_tokens);
  for (size_t i = 0; i < n_ids; i++) {
    if (i) yk_strbuf_append(out, ",", 1);
    yk_json_append_i64(out, ids[i]);
  }
  yk_strbuf_append_str(out, "]");
  if (texts) YK_TRY(append_strings(ids, n_ids, texts, out, err));
  yk_strbuf_append_str(out, "}");
  return out->failed ? yk_err_set(err, YK_E_NOMEM, "no memory for %zu token ids", n_ids) : YK_OK;
}

/* ---- Detokenize -------------------------------------------------------------------------------------------------- */

yk_status yk_detokenize_request_parse(const yk_openai_document *document, yk_detokenize_request *out, yk_err *err)
{
  const json_t *root = document->root;
  *out = (yk_detokenize_request){0};
  if (!json_is_object(root)) return yk_value_wrong_type("body", "an object", root, err);
  const json_t *model = take_up(out->param, root, "model");
  if (model) YK_TRY(yk_value_read_string("model", model, &out->model, err));
  const json_t *tokens = take_up(out->param, root, "tokens");
  YK_TRY(yk_value_read_ids("tokens", tokens, &out->ids, &out->n_ids, err));
  out->param[0] = '\0';
  return YK_OK;
}

void yk_detokenize_answer_append(const char *text, size_t n_bytes, yk_strbuf *out)
{
  yk_strbuf_append_str(out, "{\"prompt\":");
  yk_json_append_string(out, text, n_bytes);
  yk_strbuf_append_str(out, "}");
}

/* ---- Models ------------------------------------------------------------------------------------------------------ */

void yk_model_append(const char *name, int64_t created_s, int32_t max_model_tokens, yk_strbuf *out)
{
  yk_strbuf_append_str(out, "{\"id\":");
  yk_json_append_string(out, name, strlen(name));
  yk_strbuf_append_str(out, ",\"object\":\"model\",\"created\":");
  yk_json_append_i64(out, created_s);
  yk_strbuf_append_str(out, ",\"owned_by\":\"yoke\",\"root\":");
  yk_json_append_string(out, name, strlen(name));
  yk_strbuf_append_fmt(out, ",\"parent\":null,\"max_model_len\":%d}", max_model_tokens);
}

void yk_models_append(const char *const *names, size_t n_names, int64_t created_s, int32_t max_model_tokens,
                      yk_strbuf *out)
{
  yk_strbuf_append_str(out, "{\"object\":\"list\",\"data\":[");
  for (size_t i = 0; i < n_names; i++) {
    if (i > 0) yk_strbuf_append_str(out, ",");
    yk_model_append(names[i], created_s, max_model_tokens, out);
  }
  yk_strbuf_append_str(out, "]}");
}
