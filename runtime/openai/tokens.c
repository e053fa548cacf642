#include "openai/tokens.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json_write.h"
#include "openai/chat_fields.h"
#include "openai/values.h"

static bool keeps(const char *key)
{
  static const char *const fields[] = {"model",
                                       "prompt",
                                       "messages",
                                       "tokens",
                                       "add_special_tokens",
                                       "return_token_strs",
                                       "add_generation_prompt",
                                       "continue_final_message",
                                       "tools",
                                       "chat_template_kwargs"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (strcmp(key, fields[i]) == 0) return true;
  return false;
}

yk_json_rules yk_tokens_body_rules(size_t max_bytes)
{
  yk_json_rules rules = yk_openai_body_rules(YK_FORM_PLAIN, max_bytes);
  rules.keeps = keeps;
  return rules;
}

/* ---- Tokenize ---------------------------------------------------------------------------------------------------- */

/* The value of a field, or absent; sets param to the field. */
static yk_json take_up(char param[YK_OPENAI_PARAM_BYTES], yk_json root, const char *name)
{
  snprintf(param, YK_OPENAI_PARAM_BYTES, "%s", name);
  yk_json value = yk_json_get(root, name);
  return yk_json_is_given(value) ? value : YK_JSON_NONE;
}

static yk_status read_flag(yk_tokenize_request *request, yk_json root, const char *name, bool *out, yk_err *err)
{
  yk_json value = take_up(request->param, root, name);
  return value.doc ? yk_json_read_bool(value, NULL, name, out, err) : YK_OK;
}

static yk_status read_prompt(yk_tokenize_request *request, yk_json root, yk_err *err)
{
  yk_json messages = take_up(request->param, root, "messages");
  if (messages.doc) YK_TRY(yk_chat_read_messages(&request->chat, messages, err));
  yk_json prompt = take_up(request->param, root, "prompt");
  if (prompt.doc && messages.doc)
    return yk_err_set(err, YK_E_INVAL, "expected one of the keys \"prompt\" and \"messages\", found both");
  if (!prompt.doc && !messages.doc) return yk_err_set(err, YK_E_INVAL, "key \"prompt\": expected, but missing");
  if (!prompt.doc) return YK_OK;
  YK_TRY(yk_json_read_str(prompt, NULL, "prompt", &request->text, err));
  request->n_bytes = yk_json_length(prompt);
  return YK_OK;
}

static yk_status read_chat(yk_tokenize_request *request, yk_json root, yk_err *err)
{
  yk_openai_chat *chat = &request->chat;
  YK_TRY(read_flag(request, root, "add_generation_prompt", &chat->add_generation_prompt, err));
  yk_json tools = take_up(request->param, root, "tools");
  if (tools.doc) YK_TRY(yk_chat_read_tools(chat, tools, err));
  yk_json arguments = take_up(request->param, root, "chat_template_kwargs");
  if (arguments.doc) YK_TRY(yk_chat_read_template_kwargs(chat, arguments, err));
  YK_TRY(read_flag(request, root, "continue_final_message", &chat->continue_final_message, err));
  return yk_chat_check_endings(chat, err);
}

yk_status yk_tokenize_request_parse(yk_json root, yk_tokenize_request *out, yk_err *err)
{
  *out = (yk_tokenize_request){0};
  yk_chat_init(&out->chat);
  if (!yk_json_is(root, YK_JSON_OBJECT)) return yk_json_wrong_type(NULL, "body", "an object", root, err);
  yk_json model = take_up(out->param, root, "model");
  if (model.doc) YK_TRY(yk_json_read_str(model, NULL, "model", &out->model, err));
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

yk_status yk_detokenize_request_parse(yk_json root, yk_detokenize_request *out, yk_err *err)
{
  *out = (yk_detokenize_request){0};
  if (!yk_json_is(root, YK_JSON_OBJECT)) return yk_json_wrong_type(NULL, "body", "an object", root, err);
  yk_json model = take_up(out->param, root, "model");
  if (model.doc) YK_TRY(yk_json_read_str(model, NULL, "model", &out->model, err));
  yk_json tokens = take_up(out->param, root, "tokens");
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

static void append_created_at(int64_t created_s, yk_strbuf *out)
{
  char text[sizeof "YYYY-MM-DDTHH:MM:SSZ"] = "";
  struct tm parts;
  time_t at = (time_t)created_s;
  if (gmtime_r(&at, &parts)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  yk_strbuf_append_fmt(out, ",\"created_at\":\"%s\"", text);
}

void yk_model_append(const char *name, const char *parent, int64_t created_s, int32_t max_model_tokens, yk_strbuf *out)
{
  yk_strbuf_append_str(out, "{\"id\":");
  yk_json_append_string(out, name, strlen(name));
  yk_strbuf_append_str(out, ",\"object\":\"model\",\"created\":");
  yk_json_append_i64(out, created_s);
  yk_strbuf_append_str(out, ",\"owned_by\":\"yoke\",\"root\":");
  yk_json_append_string(out, name, strlen(name));
  yk_strbuf_append_str(out, ",\"parent\":");
  if (parent)
    yk_json_append_string(out, parent, strlen(parent));
  else
    yk_strbuf_append_str(out, "null");
  yk_strbuf_append_fmt(out, ",\"max_model_len\":%d", max_model_tokens);
  yk_strbuf_append_str(out, ",\"type\":\"model\",\"display_name\":");
  yk_json_append_string(out, name, strlen(name));
  append_created_at(created_s, out);
  yk_strbuf_append_fmt(out, ",\"lifecycle\":\"active\",\"max_input_tokens\":%d,\"max_tokens\":%d}", max_model_tokens,
                       max_model_tokens);
}

void yk_models_append(const yk_served_names *names, int64_t created_s, int32_t max_model_tokens, yk_strbuf *out)
{
  yk_strbuf_append_str(out, "{\"object\":\"list\",\"data\":[");
  for (size_t i = 0; i < names->n_models; i++) {
    if (i > 0) yk_strbuf_append_str(out, ",");
    yk_model_append(names->models[i], NULL, created_s, max_model_tokens, out);
  }
  for (size_t i = 0; i < names->n_adapters; i++) {
    yk_strbuf_append_str(out, ",");
    yk_model_append(names->adapters[i].text, names->models[0], created_s, max_model_tokens, out);
  }
  const char *last =
      names->n_adapters ? names->adapters[names->n_adapters - 1].text : names->models[names->n_models - 1];
  yk_strbuf_append_str(out, "],\"has_more\":false,\"first_id\":");
  yk_json_append_string(out, names->models[0], strlen(names->models[0]));
  yk_strbuf_append_str(out, ",\"last_id\":");
  yk_json_append_string(out, last, strlen(last));
  yk_strbuf_append_str(out, ",\"models\":[]}");
}
