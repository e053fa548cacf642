#include "openai/responses_request.h"

#include <stdio.h>
#include <string.h>

static const yk_translated_field fields[] = {
    {"model", YK_FIELD_COPY},
    {"stream", YK_FIELD_COPY},
    {"temperature", YK_FIELD_COPY},
    {"top_p", YK_FIELD_COPY},
    {"parallel_tool_calls", YK_FIELD_COPY},
    {"input", YK_FIELD_READ},
    {"instructions", YK_FIELD_READ},
    {"previous_response_id", YK_FIELD_READ},
    {"max_output_tokens", YK_FIELD_READ},
    {"text", YK_FIELD_READ},
    {"reasoning", YK_FIELD_READ},
    {"tools", YK_FIELD_READ},
    {"tool_choice", YK_FIELD_READ},
    {"include", YK_FIELD_READ},
    {"truncation", YK_FIELD_READ},
    {"top_logprobs", YK_FIELD_READ},
    {"user", YK_FIELD_PASSED_TEXT},
    {"metadata", YK_FIELD_PASSED_OBJECT},
    {"store", YK_FIELD_PASSED_FLAG},
    {"service_tier", YK_FIELD_PASSED_TEXT},
    {"safety_identifier", YK_FIELD_PASSED_TEXT},
    {"prompt_cache_key", YK_FIELD_PASSED_TEXT},
    {"prompt_cache_retention", YK_FIELD_PASSED_TEXT},
    {"max_tool_calls", YK_FIELD_PASSED_NUMBER}, /* of tools that a server runs itself */
    {"stream_options", YK_FIELD_PASSED_OBJECT},
    {"client_metadata", YK_FIELD_PASSED_OBJECT},
    {"prompt_cache_options", YK_FIELD_PASSED_OBJECT},
    {"access_programs", YK_FIELD_PASSED_OBJECT},
    {"background", YK_FIELD_OFF},
    {"background_options", YK_FIELD_OFF},
    {"conversation", YK_FIELD_OFF},
    {"prompt", YK_FIELD_OFF},
    {"context_management", YK_FIELD_OFF},
    {"moderation", YK_FIELD_OFF},
    /* further fields of chat completions */
    {"top_k", YK_FIELD_COPY},
    {"min_p", YK_FIELD_COPY},
    {"seed", YK_FIELD_COPY},
    {"stop", YK_FIELD_COPY},
    {"stop_token_ids", YK_FIELD_COPY},
    {"frequency_penalty", YK_FIELD_COPY},
    {"presence_penalty", YK_FIELD_COPY},
    {"repetition_penalty", YK_FIELD_COPY},
    {"min_tokens", YK_FIELD_COPY},
    {"ignore_eos", YK_FIELD_COPY},
    {"logit_bias", YK_FIELD_COPY},
    {"bad_words", YK_FIELD_COPY},
    {"allowed_token_ids", YK_FIELD_COPY},
    {"structured_outputs", YK_FIELD_COPY},
    {"include_stop_str_in_output", YK_FIELD_COPY},
    {"skip_special_tokens", YK_FIELD_COPY},
    {"include_reasoning", YK_FIELD_COPY},
    {"thinking_token_budget", YK_FIELD_COPY},
    {"chat_template_kwargs", YK_FIELD_COPY},
    {"cache_salt", YK_FIELD_COPY},
    {"request_id", YK_FIELD_COPY},
    {"priority", YK_FIELD_COPY},
    {"stream_interval", YK_FIELD_COPY},
};

enum { N_FIELDS = sizeof fields / sizeof *fields };

bool yk_responses_keeps(const char *key)
{
  return yk_translation_has_field(fields, N_FIELDS, key);
}

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

static yk_status read_previous(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json id = yk_translation_take(t, body, "previous_response_id");
  if (!id.doc) return YK_OK;
  if (!yk_json_is(id, YK_JSON_STRING)) return yk_translation_wrong(t, "a string", id, err);
  return yk_err_set(err, YK_E_INVAL,
                    "Previous response with id '%.100s' not found: responses are not stored here; send the whole "
                    "conversation as input",
                    yk_json_text(id));
}

static yk_status read_max_tokens(yk_translation *t, yk_json body, yk_err *err)
{
  int32_t n_tokens;
  yk_json value = yk_translation_take(t, body, "max_output_tokens");
  if (!value.doc) return YK_OK;
  YK_TRY(yk_json_read_i32(value, NULL, t->param, 1, INT32_MAX, &n_tokens, err));
  yk_strbuf_append_fmt(yk_translation_field(t, "max_tokens"), "%d", n_tokens);
  return YK_OK;
}

/* The schema of "text.format" is checked like that of "response_format". */
static yk_status read_format(yk_translation *t, yk_json format, yk_err *err)
{
  yk_json type = yk_json_get(format, "type"), schema = yk_json_get(format, "schema");
  yk_translation_at(t, "text.format");
  if (!yk_json_is(type, YK_JSON_STRING)) return yk_translation_wrong(t, "an object with a \"type\"", format, err);
  if (yk_json_equals(type, "text")) return YK_OK;
  bool is_schema = yk_json_equals(type, "json_schema");
  if (!is_schema && !yk_json_equals(type, "json_object"))
    return yk_translation_refuse(t, YK_E_INVAL, err,
                                 "expected the type \"text\", \"json_object\" or \"json_schema\", found \"%.40s\"",
                                 yk_json_text(type));
  YK_TRY(yk_translation_check_strict(t, format, err));
  yk_strbuf *out = yk_translation_field(t, "response_format");
  if (!is_schema) {
    yk_strbuf_append_str(out, "{\"type\":\"json_object\"}");
    return YK_OK;
  }
  yk_translation_at(t, "text.format.schema");
  if (!yk_json_is(schema, YK_JSON_OBJECT)) return yk_translation_wrong(t, "an object", schema, err);
  yk_strbuf_append_str(out, "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":");
  yk_json_append(out, schema, 0);
  yk_strbuf_append_str(out, "}}");
  return YK_OK;
}

/* The settings in force: those of the body, or of the last item that changes settings of this name. */
static yk_json take_settings(yk_translation *t, yk_json body, const char *name)
{
  yk_json settings = yk_translation_take(t, body, name);
  YK_JSON_EACH(item, yk_json_get(body, "input"))
  {
    bool is_update = yk_json_equals(yk_json_get(item, "type"), "configuration_update");
    yk_json update = yk_json_get(item, name);
    if (is_update && yk_json_is_given(update)) settings = update;
  }
  return settings;
}

static yk_status read_text(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json text = take_settings(t, body, "text"), format = yk_json_get(text, "format");
  if (text.doc && !yk_json_is(text, YK_JSON_OBJECT)) return yk_translation_wrong(t, "an object", text, err);
  return yk_json_is_given(format) ? read_format(t, format, err) : YK_OK;
}

/* A summary, which only another model could write, is not made; answers have the reasoning itself. */
static yk_status read_reasoning(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json reasoning = take_settings(t, body, "reasoning"), effort = yk_json_get(reasoning, "effort");
  if (!reasoning.doc) return YK_OK;
  if (!yk_json_is(reasoning, YK_JSON_OBJECT)) return yk_translation_wrong(t, "an object", reasoning, err);
  if (!yk_json_is_given(effort)) return YK_OK;
  yk_translation_at(t, "reasoning.effort");
  if (!yk_json_is(effort, YK_JSON_STRING)) return yk_translation_wrong(t, "a string", effort, err);
  yk_json_append(yk_translation_field(t, "reasoning_effort"), effort, 0);
  return YK_OK;
}

static yk_status read_include(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json include = yk_translation_take(t, body, "include");
  if (!include.doc) return YK_OK;
  if (!yk_json_is(include, YK_JSON_ARRAY)) return yk_translation_wrong(t, "an array of strings", include, err);
  YK_JSON_EACH(name, include)
  {
    if (!yk_json_is(name, YK_JSON_STRING)) return yk_translation_wrong(t, "an array of strings", name, err);
    if (yk_json_equals(name, "message.output_text.logprobs"))
      return yk_translation_refuse(t, YK_E_UNSUPPORTED, err, "\"%s\" is not supported; leave it out",
                                   yk_json_text(name));
    if (yk_json_equals(name, "reasoning.encrypted_content")) t->encrypts_reasoning = true;
  }
  return YK_OK;
}

static yk_status read_others(yk_translation *t, yk_json body, yk_err *err)
{
  int32_t n_top = 0;
  yk_json top = yk_translation_take(t, body, "top_logprobs");
  if (top.doc) YK_TRY(yk_json_read_i32(top, NULL, t->param, 0, INT32_MAX, &n_top, err));
  if (n_top > 0) return yk_translation_refuse(t, YK_E_UNSUPPORTED, err, "not supported; leave it out");
  yk_json truncation = yk_translation_take(t, body, "truncation");
  if (truncation.doc && !yk_json_equals(truncation, "disabled"))
    return yk_translation_refuse(t, YK_E_UNSUPPORTED, err, "expected \"disabled\", or to be left out");
  return YK_OK;
}

/* ---- Tools ------------------------------------------------------------------------------------------------------- */

/* *allowed: the list of a choice of type "allowed_tools". */
static yk_status read_choice(yk_translation *t, yk_json body, yk_json *allowed, yk_err *err)
{
  yk_json choice = yk_translation_take(t, body, "tool_choice"), type = yk_json_get(choice, "type");
  yk_json name = yk_json_get(choice, "name"), mode = yk_json_get(choice, "mode");
  *allowed = YK_JSON_NONE;
  if (!choice.doc) return YK_OK;
  if (yk_json_equals(type, "allowed_tools")) {
    *allowed = yk_json_get(choice, "tools");
    yk_translation_at(t, "tool_choice.tools");
    if (!yk_json_is(*allowed, YK_JSON_ARRAY)) return yk_translation_wrong(t, "an array of tools", *allowed, err);
    choice = yk_json_is_given(mode) ? mode : YK_JSON_NONE;
    yk_translation_at(t, "tool_choice.mode");
  }
  if (yk_json_equals(type, "function") && yk_json_is(name, YK_JSON_STRING)) {
    yk_strbuf *out = yk_translation_field(t, "tool_choice");
    yk_strbuf_append_str(out, "{\"type\":\"function\",\"function\":{\"name\":");
    yk_json_append(out, name, 0);
    yk_strbuf_append_str(out, "}}");
    return YK_OK;
  }
  if (yk_json_equals(type, "function")) {
    yk_translation_at(t, "tool_choice.name");
    return yk_translation_wrong(t, "a string", name, err);
  }
  bool is_known =
      yk_json_equals(choice, "auto") || yk_json_equals(choice, "none") || yk_json_equals(choice, "required");
  static const char expected[] = "\"auto\", \"none\", \"required\", {\"type\": \"function\", \"name\"} or "
                                 "{\"type\": \"allowed_tools\", \"mode\", \"tools\"}";
  yk_json found = yk_json_is(choice, YK_JSON_OBJECT) && yk_json_is(type, YK_JSON_STRING) ? type : choice;
  if (choice.doc && !is_known && yk_json_is(found, YK_JSON_STRING))
    return yk_translation_refuse(t, YK_E_INVAL, err, "expected %s, found \"%.40s\"", expected, yk_json_text(found));
  if (choice.doc && !is_known) return yk_translation_wrong(t, expected, found, err);
  if (choice.doc) yk_json_append(yk_translation_field(t, "tool_choice"), choice, 0);
  return YK_OK;
}

static bool is_allowed(yk_json allowed, yk_json name)
{
  if (!allowed.doc) return true;
  YK_JSON_EACH(tool, allowed)
  if (yk_json_equals(yk_json_get(tool, "name"), yk_json_text(name))) return true;
  return false;
}

static yk_status read_function(yk_translation *t, yk_json tool, yk_json allowed, yk_err *err)
{
  yk_json name = yk_json_get(tool, "name");
  if (!yk_json_is(name, YK_JSON_STRING) || yk_json_length(name) == 0)
    return yk_translation_wrong(t, "a function with a \"name\" that is a string", name, err);
  yk_json description = yk_json_get(tool, "description"), parameters = yk_json_get(tool, "parameters");
  if (yk_json_is_given(description) && !yk_json_is(description, YK_JSON_STRING))
    return yk_translation_wrong(t, "a \"description\" that is a string", description, err);
  if (yk_json_is_given(parameters) && !yk_json_is(parameters, YK_JSON_OBJECT))
    return yk_translation_wrong(t, "\"parameters\" that are an object", parameters, err);
  YK_TRY(yk_translation_check_strict(t, tool, err));
  if (is_allowed(allowed, name))
    yk_translation_tool(t, name, description, parameters, "parameters", yk_json_get(tool, "strict"));
  return YK_OK;
}

yk_status yk_responses_read_tools(yk_translation *t, yk_json tools, yk_json allowed, yk_err *err)
{
  static const char *const refused[] = {"file_search", "code_interpreter", "mcp", "computer", "computer_use_preview"};
  char list[YK_OPENAI_PARAM_BYTES];
  size_t i = 0;
  if (!yk_json_is(tools, YK_JSON_ARRAY)) return yk_translation_wrong(t, "an array of tools", tools, err);
  snprintf(list, sizeof list, "%s", t->param);
  YK_JSON_EACH(tool, tools)
  {
    yk_json type = yk_json_get(tool, "type");
    yk_translation_at(t, "%s[%zu]", list, i++);
    if (!yk_json_is(type, YK_JSON_STRING))
      return yk_translation_wrong(t, "an object with a \"type\"", yk_json_is(tool, YK_JSON_OBJECT) ? type : tool, err);
    for (size_t n = 0; n < sizeof refused / sizeof *refused; n++)
      if (yk_json_equals(type, refused[n]))
        return yk_translation_refuse(t, YK_E_UNSUPPORTED, err, "tools of type \"%s\" are not supported", refused[n]);
    if (!yk_json_equals(type, "function"))
      yk_translation_note(t, "tool type", type);
    else
      YK_TRY(read_function(t, tool, allowed, err));
  }
  return YK_OK;
}

/* ---- The answer's copy of the request ---------------------------------------------------------------------------- */

static void echo_member(yk_translation *t, yk_json object, const char *name, const char *usual)
{
  yk_json value = yk_json_get(object, name);
  yk_strbuf_append_fmt(&t->echo, "\"%s\":", name);
  if (yk_json_is_given(value))
    yk_json_append(&t->echo, value, 0);
  else
    yk_strbuf_append_str(&t->echo, usual);
  yk_strbuf_append_str(&t->echo, ",");
}

static void echo(yk_translation *t, yk_json body)
{
  static const struct {
    const char *name, *usual;
  } members[] = {{"instructions", "null"},
                 {"max_output_tokens", "null"},
                 {"max_tool_calls", "null"},
                 {"metadata", "{}"},
                 {"parallel_tool_calls", "true"},
                 {"prompt_cache_key", "null"},
                 {"reasoning", "{\"effort\":null,\"summary\":null}"},
                 {"safety_identifier", "null"},
                 {"temperature", "null"},
                 {"text", "{\"format\":{\"type\":\"text\"}}"},
                 {"tool_choice", "\"auto\""},
                 {"tools", "[]"},
                 {"top_p", "null"},
                 {"user", "null"}};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) echo_member(t, body, members[i].name, members[i].usual);
  yk_strbuf_append_str(&t->echo, "\"background\":false,\"previous_response_id\":null,\"service_tier\":\"default\","
                                 "\"store\":false,\"top_logprobs\":0,\"truncation\":\"disabled\"");
}

/* ---- The conversation -------------------------------------------------------------------------------------------- */

/* An empty list of items is a client's probe. */
static yk_status read_input(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json instructions = yk_translation_take(t, body, "instructions");
  if (instructions.doc && !yk_json_is(instructions, YK_JSON_STRING))
    return yk_translation_wrong(t, "a string", instructions, err);
  if (instructions.doc && yk_json_length(instructions) > 0) {
    yk_translation_message(t, "system");
    yk_translation_text(t, yk_json_text(instructions), yk_json_length(instructions));
  }
  yk_json input = yk_translation_take(t, body, "input");
  if (!input.doc) return yk_translation_refuse(t, YK_E_INVAL, err, "expected a string or an array of items");
  t->is_empty = yk_json_is(input, YK_JSON_ARRAY) && yk_json_size(input) == 0;
  if (yk_json_is(input, YK_JSON_ARRAY) && !t->is_empty) return yk_responses_read_items(t, input, err);
  if (!t->is_empty && !yk_json_is(input, YK_JSON_STRING))
    return yk_translation_wrong(t, "a string or an array of items", input, err);
  yk_translation_message(t, "user");
  if (!t->is_empty) yk_translation_text(t, yk_json_text(input), yk_json_length(input));
  return YK_OK;
}

yk_status yk_responses_translate(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json allowed;
  YK_TRY(yk_translation_fields(t, body, fields, N_FIELDS, err));
  YK_TRY(read_previous(t, body, err));
  YK_TRY(read_max_tokens(t, body, err));
  YK_TRY(read_text(t, body, err));
  YK_TRY(read_reasoning(t, body, err));
  YK_TRY(read_include(t, body, err));
  YK_TRY(read_others(t, body, err));
  YK_TRY(read_choice(t, body, &allowed, err));
  yk_json tools = yk_translation_take(t, body, "tools");
  if (tools.doc) YK_TRY(yk_responses_read_tools(t, tools, allowed, err));
  YK_TRY(read_input(t, body, err));
  echo(t, body);
  return YK_OK;
}
