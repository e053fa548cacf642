#include "openai/messages_request.h"

#include <string.h>

static const yk_translated_field fields[] = {
    {"model", YK_FIELD_COPY},
    {"stream", YK_FIELD_COPY},
    {"temperature", YK_FIELD_COPY},
    {"top_p", YK_FIELD_COPY},
    {"top_k", YK_FIELD_COPY},
    {"messages", YK_FIELD_READ},
    {"system", YK_FIELD_READ},
    {"max_tokens", YK_FIELD_READ},
    {"stop_sequences", YK_FIELD_READ},
    {"tools", YK_FIELD_READ},
    {"tool_choice", YK_FIELD_READ},
    {"thinking", YK_FIELD_READ},
    {"output_config", YK_FIELD_READ},
    {"output_format", YK_FIELD_READ},
    {"chat_template_kwargs", YK_FIELD_READ},
    {"metadata", YK_FIELD_PASSED_OBJECT},
    {"service_tier", YK_FIELD_PASSED_TEXT},
    {"cache_control", YK_FIELD_PASSED_OBJECT},
    {"context_management", YK_FIELD_PASSED_OBJECT},
    {"inference_geo", YK_FIELD_PASSED_TEXT},
    {"speed", YK_FIELD_PASSED_TEXT},
    {"diagnostics", YK_FIELD_PASSED_OBJECT},
    {"fallbacks", YK_FIELD_PASSED},
    {"fallback_credit_token", YK_FIELD_PASSED},
    {"billing_policy", YK_FIELD_PASSED_OBJECT},
    {"thread", YK_FIELD_READ},
    {"compaction", YK_FIELD_OFF},
    {"mcp_servers", YK_FIELD_OFF},
    {"container", YK_FIELD_OFF},
    /* further fields of chat completions */
    {"min_p", YK_FIELD_COPY},
    {"seed", YK_FIELD_COPY},
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
    {"skip_special_tokens", YK_FIELD_COPY},
    {"include_reasoning", YK_FIELD_COPY},
    {"thinking_token_budget", YK_FIELD_COPY},
    {"cache_salt", YK_FIELD_COPY},
    {"request_id", YK_FIELD_COPY},
    {"priority", YK_FIELD_COPY},
    {"stream_interval", YK_FIELD_COPY},
};

enum { N_FIELDS = sizeof fields / sizeof *fields };

bool yk_messages_keeps(const char *key)
{
  return yk_translation_has_field(fields, N_FIELDS, key);
}

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

static yk_status read_max_tokens(yk_translation *t, yk_json body, bool is_required, yk_err *err)
{
  int32_t n_tokens;
  yk_json value = yk_translation_take(t, body, "max_tokens");
  if (!value.doc) return is_required ? yk_translation_refuse(t, YK_E_INVAL, err, "expected, but missing") : YK_OK;
  YK_TRY(yk_json_read_i32(value, NULL, t->param, 1, INT32_MAX, &n_tokens, err));
  yk_strbuf_append_fmt(yk_translation_field(t, "max_tokens"), "%d", n_tokens);
  return YK_OK;
}

/* As for chat completions, the texts are not empty and hold no NUL. */
static yk_status read_stop(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json stop = yk_translation_take(t, body, "stop_sequences");
  if (!stop.doc) return YK_OK;
  if (!yk_json_is(stop, YK_JSON_ARRAY)) return yk_translation_wrong(t, "an array of strings", stop, err);
  YK_JSON_EACH(text, stop)
  {
    const char *bytes = yk_json_string(text);
    if (!bytes) return yk_translation_wrong(t, "an array of strings", text, err);
    if (!bytes[0] || strlen(bytes) != yk_json_length(text))
      return yk_translation_refuse(t, YK_E_INVAL, err, "expected texts that are not empty and hold no NUL character");
  }
  if (yk_json_size(stop) > 0) yk_json_append(yk_translation_field(t, "stop"), stop, 0);
  return YK_OK;
}

static yk_status read_format(yk_translation *t, yk_json format, yk_err *err)
{
  yk_json schema = yk_json_get(format, "schema");
  if (!yk_json_equals(yk_json_get(format, "type"), "json_schema"))
    return yk_translation_wrong(t, "an object of the type \"json_schema\"", format, err);
  if (!yk_json_is(schema, YK_JSON_OBJECT))
    return yk_translation_wrong(t, "a \"schema\" that is an object", schema, err);
  YK_TRY(yk_translation_check_strict(t, format, err));
  yk_strbuf *out = yk_translation_field(t, "response_format");
  yk_strbuf_append_str(out, "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":");
  yk_json_append(out, schema, 0);
  yk_strbuf_append_str(out, "}}");
  return YK_OK;
}

/* "output_format" is the older key of the format. */
static yk_status read_output(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json older = yk_translation_take(t, body, "output_format");
  yk_json config = yk_translation_take(t, body, "output_config");
  if (config.doc && !yk_json_is(config, YK_JSON_OBJECT)) return yk_translation_wrong(t, "an object", config, err);
  yk_json format = yk_json_get(config, "format"), effort = yk_json_get(config, "effort");
  yk_translation_at(t, yk_json_is_given(format) ? "output_config.format" : "output_format");
  if (!yk_json_is_given(format)) format = older;
  if (yk_json_is_given(format)) YK_TRY(read_format(t, format, err));
  if (!yk_json_is_given(effort)) return YK_OK;
  yk_translation_at(t, "output_config.effort");
  if (!yk_json_is(effort, YK_JSON_STRING)) return yk_translation_wrong(t, "a string", effort, err);
  yk_json_append(yk_translation_field(t, "reasoning_effort"), effort, 0);
  return YK_OK;
}

/* Writes "chat_template_kwargs" with enable_thinking, unless the client sets that itself. thinks: "true", "false";
 * NULL: neither. */
static yk_status write_kwargs(yk_translation *t, yk_json body, const char *thinks, yk_err *err)
{
  yk_json kwargs = yk_translation_take(t, body, "chat_template_kwargs");
  if (kwargs.doc && !yk_json_is(kwargs, YK_JSON_OBJECT)) return yk_translation_wrong(t, "an object", kwargs, err);
  if (yk_json_get(kwargs, "enable_thinking").doc) thinks = NULL;
  if (!kwargs.doc && !thinks) return YK_OK;
  yk_strbuf *out = yk_translation_field(t, "chat_template_kwargs");
  yk_strbuf_append_str(out, "{");
  bool is_first = true;
  YK_JSON_EACH_KEY(key, kwargs)
  {
    if (!is_first) yk_strbuf_append_str(out, ",");
    is_first = false;
    yk_json_append(out, key, 0);
    yk_strbuf_append_str(out, ":");
    yk_json_append(out, yk_json_member(key), 0);
  }
  if (thinks) yk_strbuf_append_fmt(out, "%s\"enable_thinking\":%s", is_first ? "" : ",", thinks);
  yk_strbuf_append_str(out, "}");
  return YK_OK;
}

/* The budget becomes "thinking_token_budget", unless the client sets that itself. Clients send a budget to every model,
 * so the budget is ignored for a model whose reasoning has no tags, or is a message with a channel. */
static yk_status read_thinking_budget(yk_translation *t, yk_json body, yk_json budget, yk_err *err)
{
  int32_t n_tokens;
  if (!yk_json_is_given(budget)) return YK_OK;
  yk_translation_at(t, "thinking.budget_tokens");
  YK_TRY(yk_json_read_i32(budget, NULL, t->param, 1, INT32_MAX, &n_tokens, err));
  const yk_reasoning *tags = t->defaults->style.reasoning;
  if (!tags || tags->has_channels || yk_json_is_given(yk_json_get(body, "thinking_token_budget"))) return YK_OK;
  yk_strbuf_append_fmt(yk_translation_field(t, "thinking_token_budget"), "%d", n_tokens);
  return YK_OK;
}

/* "adaptive" and "between_tools" leave the choice to the model. */
static yk_status read_thinking(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json thinking = yk_translation_take(t, body, "thinking"), type = yk_json_get(thinking, "type");
  bool is_off = yk_json_equals(type, "disabled"), is_on = yk_json_equals(type, "enabled");
  if (thinking.doc && !yk_json_is(type, YK_JSON_STRING))
    return yk_translation_wrong(t, "an object with a \"type\"", thinking, err);
  bool is_free = yk_json_equals(type, "adaptive") || yk_json_equals(type, "between_tools");
  if (thinking.doc && !is_off && !is_on && !is_free)
    return yk_translation_refuse(
        t, YK_E_INVAL, err,
        "expected the type \"enabled\", \"disabled\", \"adaptive\" or \"between_tools\", found \"%.40s\"",
        yk_json_text(type));
  t->hides_reasoning = is_off;
  if (is_on) YK_TRY(read_thinking_budget(t, body, yk_json_get(thinking, "budget_tokens"), err));
  return write_kwargs(t, body, is_on ? "true" : is_off ? "false" : NULL, err);
}

/* ---- Tools ------------------------------------------------------------------------------------------------------- */

static const char TOOL_SEARCH[] = "tool_search_tool";

/* Tools that Anthropic's servers run themselves: left out here. */
static bool is_of_server(yk_json type)
{
  static const char *const prefixes[] = {"web_search", "web_fetch", "code_execution", TOOL_SEARCH, "advisor"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (strncmp(yk_json_text(type), prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

yk_status yk_messages_read_tool(yk_translation *t, yk_json tool, yk_err *err)
{
  yk_json type = yk_json_get(tool, "type"), name = yk_json_get(tool, "name"),
          schema = yk_json_get(tool, "input_schema");
  yk_json description = yk_json_get(tool, "description");
  if (!yk_json_is(tool, YK_JSON_OBJECT)) return yk_translation_wrong(t, "an object", tool, err);
  if (yk_json_is_given(type) && !yk_json_is(type, YK_JSON_STRING))
    return yk_translation_wrong(t, "a \"type\" that is a string", type, err);
  if (yk_json_is_given(type) && is_of_server(type)) {
    yk_translation_note(t, "tool type", type);
    return YK_OK;
  }
  if (yk_json_is_given(type) && !yk_json_equals(type, "custom"))
    return yk_translation_refuse(t, YK_E_UNSUPPORTED, err, "tools of type \"%.40s\" are not supported",
                                 yk_json_text(type));
  if (!yk_json_is(name, YK_JSON_STRING) || yk_json_length(name) == 0)
    return yk_translation_wrong(t, "a \"name\" that is a string", name, err);
  if (!yk_json_is(schema, YK_JSON_OBJECT))
    return yk_translation_wrong(t, "an \"input_schema\" that is an object", schema, err);
  if (yk_json_is_given(description) && !yk_json_is(description, YK_JSON_STRING))
    return yk_translation_wrong(t, "a \"description\" that is a string", description, err);
  YK_TRY(yk_translation_check_strict(t, tool, err));
  yk_translation_tool(t, name, description, schema, "input_schema", yk_json_get(tool, "strict"));
  return YK_OK;
}

static void add_name(yk_json name, yk_strbuf *names)
{
  if (yk_json_is(name, YK_JSON_STRING)) yk_strbuf_append(names, yk_json_text(name), strlen(yk_json_text(name)) + 1);
}

/* Names of the tools that results, or additions of tools, refer to; each ends with a NUL. */
static void find_references(yk_json messages, yk_strbuf *names)
{
  YK_JSON_EACH(turn, messages)
  YK_JSON_EACH(block, yk_json_get(turn, "content"))
  {
    add_name(yk_json_get(yk_json_get(block, "tool"), "name"), names);
    YK_JSON_EACH(part, yk_json_get(block, "content"))
    add_name(yk_json_get(part, "tool_name"), names);
  }
}

static bool is_among(const yk_strbuf *names, const char *name)
{
  for (size_t at = 0; at < names->length; at += strlen(names->data + at) + 1)
    if (strcmp(names->data + at, name) == 0) return true;
  return false;
}

/* Whether the client waits for a reference before a tool is offered: it finds the references itself. Those that a
 * server's search would find never come, so that every tool is offered then. */
static bool defers(yk_json tools)
{
  bool is_found_by_server = false, has_deferred = false;
  YK_JSON_EACH(tool, tools)
  {
    const char *type = yk_json_string(yk_json_get(tool, "type"));
    is_found_by_server |= type && strncmp(type, TOOL_SEARCH, strlen(TOOL_SEARCH)) == 0;
    has_deferred |= yk_json_is(yk_json_get(tool, "defer_loading"), YK_JSON_TRUE);
  }
  return has_deferred && !is_found_by_server;
}

static yk_status read_tools(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json tools = yk_translation_take(t, body, "tools");
  size_t i = 0;
  if (!tools.doc) return YK_OK;
  if (!yk_json_is(tools, YK_JSON_ARRAY)) return yk_translation_wrong(t, "an array of tools", tools, err);
  bool is_deferring = defers(tools);
  yk_strbuf names = YK_STRBUF_INIT;
  yk_status status = YK_OK;
  if (is_deferring) find_references(yk_json_get(body, "messages"), &names);
  YK_JSON_EACH(tool, tools)
  {
    yk_translation_at(t, "tools[%zu]", i++);
    bool waits = is_deferring && yk_json_is(yk_json_get(tool, "defer_loading"), YK_JSON_TRUE);
    const char *name = yk_json_string(yk_json_get(tool, "name"));
    if (waits && name && !is_among(&names, name)) continue;
    status = yk_messages_read_tool(t, tool, err);
    if (status != YK_OK) break;
  }
  t->failed |= names.failed;
  yk_strbuf_free(&names);
  return status;
}

static yk_status read_choice(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json choice = yk_translation_take(t, body, "tool_choice"), type = yk_json_get(choice, "type");
  yk_json alone = yk_json_get(choice, "disable_parallel_tool_use"), name = yk_json_get(choice, "name");
  bool is_one = yk_json_equals(type, "tool");
  if (!choice.doc) return YK_OK;
  bool is_known = is_one || yk_json_equals(type, "auto") || yk_json_equals(type, "any") || yk_json_equals(type, "none");
  if (!is_known || (is_one && !yk_json_is(name, YK_JSON_STRING)))
    return yk_translation_wrong(t, "an object of the type \"auto\", \"any\", \"none\" or \"tool\" with a \"name\"",
                                choice, err);
  if (yk_json_is_given(alone) && !yk_json_is_bool(alone)) {
    yk_translation_at(t, "tool_choice.disable_parallel_tool_use");
    return yk_translation_wrong(t, "true or false", alone, err);
  }
  if (yk_json_is(alone, YK_JSON_TRUE)) yk_strbuf_append_str(yk_translation_field(t, "parallel_tool_calls"), "false");
  yk_strbuf *out = yk_translation_field(t, "tool_choice");
  if (is_one) {
    yk_strbuf_append_str(out, "{\"type\":\"function\",\"function\":{\"name\":");
    yk_json_append(out, name, 0);
    yk_strbuf_append_str(out, "}}");
  } else {
    yk_strbuf_append_fmt(out, "\"%s\"", yk_json_equals(type, "any") ? "required" : yk_json_text(type));
  }
  return YK_OK;
}

/* The request to store a conversation is accepted, without effect; a stored conversation cannot be continued. */
static yk_status read_thread(yk_translation *t, yk_json body, yk_err *err)
{
  yk_json thread = yk_translation_take(t, body, "thread");
  if (!thread.doc || yk_json_equals(yk_json_get(thread, "type"), "create")) return YK_OK;
  return yk_translation_refuse(t, YK_E_UNSUPPORTED, err,
                               "messages are not stored here; send the whole conversation, without a thread");
}

/* ---- The body ---------------------------------------------------------------------------------------------------- */

static yk_status translate(yk_translation *t, yk_json body, bool is_complete, yk_err *err)
{
  YK_TRY(yk_translation_fields(t, body, fields, N_FIELDS, err));
  YK_TRY(read_max_tokens(t, body, is_complete, err));
  YK_TRY(read_stop(t, body, err));
  YK_TRY(read_output(t, body, err));
  YK_TRY(read_thinking(t, body, err));
  YK_TRY(read_tools(t, body, err));
  YK_TRY(read_choice(t, body, err));
  YK_TRY(read_thread(t, body, err));
  yk_json system = yk_translation_take(t, body, "system");
  if (system.doc) YK_TRY(yk_messages_read_system(t, system, err));
  return yk_messages_read_turns(t, yk_translation_take(t, body, "messages"), err);
}

yk_status yk_messages_translate(yk_translation *t, yk_json body, yk_err *err)
{
  return translate(t, body, true, err);
}

yk_status yk_messages_translate_count(yk_translation *t, yk_json body, yk_err *err)
{
  return translate(t, body, false, err);
}
