#include "chat/conversation.h"

#include <string.h>

#include "base/json_write.h"

static const char *const ROLES[] = {"system", "developer", "user",        "assistant",
                                    "tool",   "function",  "observation", "ipython"};
#define ROLE_NAMES "system, developer, user, assistant, tool, function, observation, ipython"

/* Types of content parts that vLLM treats as texts, and the key of the text in each. */
static const struct {
  const char *type, *key;
} TEXT_PARTS[] = {{"text", "text"},
                  {"input_text", "text"},
                  {"output_text", "text"},
                  {"refusal", "refusal"},
                  {"thinking", "thinking"}};
enum { N_TEXT_PARTS = sizeof TEXT_PARTS / sizeof *TEXT_PARTS };

static bool has_role(yk_json message, const char *role)
{
  return yk_json_equals(yk_json_get(message, "role"), role);
}

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

/* A role becomes part of tokens in many templates ("<|user|>"), so arbitrary text is refused. */
static yk_status check_role(yk_json message, size_t index, yk_err *err)
{
  yk_json role = yk_json_get(message, "role");
  if (!yk_json_is(role, YK_JSON_STRING))
    return yk_err_set(err, YK_E_INVAL, "messages[%zu].role: expected a string, found %s", index,
                      yk_json_type_name(role));
  for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++)
    if (yk_json_equals(role, ROLES[i])) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "messages[%zu].role: expected one of %s, found \"%.40s\"", index, ROLE_NAMES,
                    yk_json_string(role));
}

const char *yk_chat_text_key(yk_json type)
{
  for (size_t i = 0; i < N_TEXT_PARTS; i++)
    if (yk_json_equals(type, TEXT_PARTS[i].type)) return TEXT_PARTS[i].key;
  return NULL;
}

bool yk_chat_may_lack_content(yk_json role)
{
  return yk_json_equals(role, "assistant") || yk_json_equals(role, "tool") || yk_json_equals(role, "function");
}

static yk_status check_part(yk_json part, size_t index, size_t part_index, yk_err *err)
{
  yk_json type = yk_json_get(part, "type");
  if (yk_json_is(part, YK_JSON_STRING)) return YK_OK;
  if (!yk_json_is(type, YK_JSON_STRING))
    return yk_err_set(err, YK_E_INVAL, "messages[%zu].content[%zu]: expected an object with a \"type\", found %s",
                      index, part_index, yk_json_type_name(part));
  const char *key = yk_chat_text_key(type);
  if (!key)
    return yk_err_set(err, YK_E_INVAL, "messages[%zu].content[%zu].type: expected \"text\", found \"%.40s\"", index,
                      part_index, yk_json_string(type));
  yk_json text = yk_json_get(part, key);
  if (yk_json_is(text, YK_JSON_STRING) || yk_json_is(text, YK_JSON_NULL)) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "messages[%zu].content[%zu].%s: expected a string, found %s", index, part_index,
                    key, yk_json_type_name(text));
}

static yk_status check_content(yk_json message, size_t index, yk_err *err)
{
  yk_json content = yk_json_get(message, "content");
  bool optional = yk_chat_may_lack_content(yk_json_get(message, "role"));
  size_t i = 0;
  if (yk_json_is(content, YK_JSON_STRING) || (optional && !yk_json_is_given(content))) return YK_OK;
  if (!yk_json_is(content, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_INVAL, "messages[%zu].content: expected a string or a list of text parts, found %s",
                      index, yk_json_type_name(content));
  YK_JSON_EACH(part, content) YK_TRY(check_part(part, index, i++, err));
  return YK_OK;
}

static yk_status check_list(const char *name, yk_json list, yk_err *err)
{
  size_t i = 0;
  if (!yk_json_is_given(list)) return YK_OK;
  if (!yk_json_is(list, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_INVAL, "%s: expected a list, found %s", name, yk_json_type_name(list));
  YK_JSON_EACH(item, list)
  {
    if (!yk_json_is(item, YK_JSON_OBJECT))
      return yk_err_set(err, YK_E_INVAL, "%s[%zu]: expected an object, found %s", name, i, yk_json_type_name(item));
    i++;
  }
  return YK_OK;
}

static yk_status check_arguments(yk_json arguments, yk_err *err)
{
  static const char *const TAKEN[] = {"messages", "tools", "documents", "add_generation_prompt"};
  if (!yk_json_is_given(arguments)) return YK_OK;
  if (!yk_json_is(arguments, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_INVAL, "template arguments: expected an object, found %s",
                      yk_json_type_name(arguments));
  for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
    if (yk_json_get(arguments, TAKEN[i]).doc)
      return yk_err_set(err, YK_E_INVAL, "template arguments: \"%s\": expected as a field of the request itself",
                        TAKEN[i]);
  return YK_OK;
}

static bool is_string_or_filled(yk_json content)
{
  return yk_json_is(content, YK_JSON_STRING) || (yk_json_is(content, YK_JSON_ARRAY) && yk_json_size(content) > 0);
}

/* Checks that the last message has a text that an answer can continue. */
static yk_status check_final(const yk_chat_conversation *conversation, yk_err *err)
{
  if (!conversation->continue_final_message) return YK_OK;
  size_t last = yk_json_size(conversation->messages) - 1;
  yk_json content = yk_json_get(yk_json_at(conversation->messages, last), "content");
  if (is_string_or_filled(content)) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "messages[%zu].content: expected a text to continue, found %s", last,
                    yk_json_is(content, YK_JSON_ARRAY) ? "none" : yk_json_type_name(content));
}

yk_status yk_conversation_check(const yk_chat_conversation *conversation, yk_err *err)
{
  yk_json messages = conversation->messages;
  bool is_list = yk_json_is(messages, YK_JSON_ARRAY);
  size_t i = 0;
  if (!is_list || yk_json_size(messages) == 0)
    return yk_err_set(err, YK_E_INVAL, "messages: expected a list of at least one message, found %s",
                      is_list ? "none" : yk_json_type_name(messages));
  YK_JSON_EACH(message, messages)
  {
    if (!yk_json_is(message, YK_JSON_OBJECT))
      return yk_err_set(err, YK_E_INVAL, "messages[%zu]: expected an object, found %s", i, yk_json_type_name(message));
    YK_TRY(check_role(message, i, err));
    YK_TRY(check_content(message, i++, err));
  }
  YK_TRY(check_final(conversation, err));
  YK_TRY(check_list("tools", conversation->tools, err));
  YK_TRY(check_list("documents", conversation->documents, err));
  YK_TRY(check_arguments(conversation->default_arguments, err));
  return check_arguments(conversation->arguments, err);
}

/* ---- Members ----------------------------------------------------------------------------------------------------- */

static void append_separator(yk_strbuf *out, bool *is_first)
{
  if (!*is_first) yk_strbuf_append_str(out, ", ");
  *is_first = false;
}

static void append_key(yk_strbuf *out, const char *key, bool *is_first)
{
  append_separator(out, is_first);
  yk_json_append_string(out, key, strlen(key));
  yk_strbuf_append_str(out, ": ");
}

/* Appends a member unchanged. */
static void append_member(yk_strbuf *out, yk_json key, bool *is_first)
{
  append_separator(out, is_first);
  yk_json_append(out, key, 0);
  yk_strbuf_append_str(out, ": ");
  yk_json_append(out, yk_json_member(key), 0);
}

/* ---- Contents ---------------------------------------------------------------------------------------------------- */

/* The text of a content part; absent or null: none. */
static yk_json part_text(yk_json part)
{
  if (yk_json_is(part, YK_JSON_STRING)) return part;
  const char *key = yk_chat_text_key(yk_json_get(part, "type"));
  return key ? yk_json_get(part, key) : YK_JSON_NONE;
}

/* Appends a part as a text, with its other members ("cache_control"). */
static void append_part(yk_strbuf *out, yk_json part)
{
  bool is_first = true, is_object = yk_json_is(part, YK_JSON_OBJECT);
  const char *text = is_object ? yk_chat_text_key(yk_json_get(part, "type")) : NULL;
  yk_strbuf_append_str(out, "{");
  append_key(out, "type", &is_first);
  yk_strbuf_append_str(out, "\"text\"");
  append_key(out, "text", &is_first);
  yk_json_append(out, part_text(part), 0);
  if (is_object) YK_JSON_EACH_KEY(key, part)
    {
      bool is_done = yk_json_equals(key, "type") || yk_json_equals(key, "text") || yk_json_equals(key, text);
      if (!is_done) append_member(out, key, &is_first);
    }
  yk_strbuf_append_str(out, "}");
}

static void append_parts(yk_strbuf *out, yk_json parts)
{
  bool is_first = true;
  yk_strbuf_append_str(out, "[");
  YK_JSON_EACH(part, parts)
  {
    if (!yk_json_is_given(part_text(part))) continue;
    append_separator(out, &is_first);
    append_part(out, part);
  }
  yk_strbuf_append_str(out, "]");
}

static void append_list_of_one(yk_strbuf *out, yk_json text)
{
  yk_strbuf_append_str(out, "[");
  append_part(out, text);
  yk_strbuf_append_str(out, "]");
}

/* Appends the texts of a content to an open JSON string, one on each line; empty texts take no line. *is_first: the
 * string is empty so far; else separator comes first. */
static void append_texts(yk_strbuf *out, yk_json content, const char *separator, bool *is_first)
{
  bool is_list = yk_json_is(content, YK_JSON_ARRAY);
  for (yk_json part = is_list ? yk_json_first(content) : content; part.doc;
       part = is_list ? yk_json_after(content, part) : YK_JSON_NONE) {
    yk_json text = part_text(part);
    if (yk_json_length(text) == 0) continue;
    if (!*is_first) yk_json_append_escaped(out, separator, strlen(separator));
    yk_json_append_escaped(out, yk_json_text(text), yk_json_length(text));
    separator = "\n";
    *is_first = false;
  }
}

static void append_joined(yk_strbuf *out, yk_json content)
{
  bool is_first = true;
  yk_strbuf_append_str(out, "\"");
  append_texts(out, content, "\n", &is_first);
  yk_strbuf_append_str(out, "\"");
}

static void append_content(yk_strbuf *out, yk_json message, yk_json content, yk_template_needs needs)
{
  bool is_list = yk_json_is(content, YK_JSON_ARRAY), wants_list = needs.content == YK_CONTENT_LISTS;
  if (!yk_json_is_given(content))
    yk_strbuf_append_str(out, needs.content_null ? "null" : wants_list ? "[]" : "\"\"");
  else if (!is_list && wants_list)
    append_list_of_one(out, content);
  else if (!is_list)
    yk_json_append(out, content, 0);
  else if (needs.content == YK_CONTENT_STRINGS || (has_role(message, "tool") && !wants_list))
    append_joined(out, content);
  else
    append_parts(out, content);
}

/* ---- Tool calls -------------------------------------------------------------------------------------------------- */

/* Appends arguments as the object that a JSON string contains. */
static void append_parsed(yk_strbuf *out, yk_json text)
{
  yk_json_doc *doc = NULL;
  yk_err err = YK_ERR_INIT;
  yk_json_rules rules = {.max_depth = 512}; /* Python's limit is little higher */
  yk_status status = yk_json_parse("arguments", yk_json_text(text), yk_json_length(text), &rules, &doc, &err);
  if (status == YK_OK && yk_json_is(yk_json_root(doc), YK_JSON_OBJECT))
    yk_json_append(out, yk_json_root(doc), 0);
  else
    yk_strbuf_append_str(out, "{}");
  if (status == YK_E_NOMEM) out->failed = true;
  yk_json_free(doc);
}

static void append_arguments(yk_strbuf *out, yk_json arguments, yk_template_needs needs)
{
  bool is_string = yk_json_is(arguments, YK_JSON_STRING);
  if (yk_json_is(arguments, YK_JSON_OBJECT) || (is_string && needs.argument_strings))
    yk_json_append(out, arguments, 0);
  else if (is_string)
    append_parsed(out, arguments);
  else
    yk_strbuf_append_str(out, needs.argument_strings ? "\"{}\"" : "{}");
}

static void append_function(yk_strbuf *out, yk_json function, yk_template_needs needs)
{
  bool is_first = true;
  yk_strbuf_append_str(out, "{");
  YK_JSON_EACH_KEY(key, function)
  if (!yk_json_equals(key, "arguments")) append_member(out, key, &is_first);
  append_key(out, "arguments", &is_first);
  append_arguments(out, yk_json_get(function, "arguments"), needs);
  yk_strbuf_append_str(out, "}");
}

static void append_call(yk_strbuf *out, yk_json call, yk_template_needs needs)
{
  bool is_first = true;
  if (!yk_json_is(yk_json_get(call, "function"), YK_JSON_OBJECT)) {
    yk_json_append(out, call, 0);
    return;
  }
  yk_strbuf_append_str(out, "{");
  YK_JSON_EACH_KEY(key, call)
  {
    if (!yk_json_equals(key, "function")) {
      append_member(out, key, &is_first);
      continue;
    }
    append_key(out, "function", &is_first);
    append_function(out, yk_json_member(key), needs);
  }
  yk_strbuf_append_str(out, "}");
}

static void append_calls(yk_strbuf *out, yk_json calls, yk_template_needs needs)
{
  bool is_first = true;
  yk_strbuf_append_str(out, "[");
  YK_JSON_EACH(call, calls)
  {
    append_separator(out, &is_first);
    append_call(out, call, needs);
  }
  yk_strbuf_append_str(out, "]");
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* The reasoning of an answer, by the newer name or the older one. */
static yk_json reasoning_of(yk_json message)
{
  yk_json reasoning = yk_json_get(message, "reasoning");
  return yk_json_is_given(reasoning) ? reasoning : yk_json_get(message, "reasoning_content");
}

static void append_reasoning(yk_strbuf *out, yk_json message, bool *is_first)
{
  static const char *const NAMES[] = {"reasoning", "reasoning_content", "thinking"};
  yk_json reasoning = reasoning_of(message);
  size_t n = yk_json_is_given(yk_json_get(message, "thinking")) ? 2 : 3; /* a client's own "thinking" stays */
  for (size_t i = 0; i < n && yk_json_is_given(reasoning); i++) {
    append_key(out, NAMES[i], is_first);
    yk_json_append(out, reasoning, 0);
  }
}

static void append_message_member(yk_strbuf *out, yk_json message, yk_json key, yk_template_needs needs, bool *is_first)
{
  yk_json value = yk_json_member(key);
  if (yk_json_equals(key, "content")) {
    append_key(out, "content", is_first);
    append_content(out, message, value, needs);
  } else if (yk_json_equals(key, "tool_calls")) {
    if (yk_json_size(value) == 0 || needs.calls_in_metadata) return;
    append_key(out, "tool_calls", is_first);
    append_calls(out, value, needs);
  } else if (yk_json_is_given(value) && (!yk_json_equals(key, "name") || yk_json_is(value, YK_JSON_STRING))) {
    append_member(out, key, is_first);
  }
}

/* The functions of tools as JSON in a string; tools absent or null: nothing. */
static void append_tools(yk_strbuf *out, yk_json tools)
{
  yk_strbuf text = YK_STRBUF_INIT;
  if (!yk_json_is_given(tools)) return;
  YK_JSON_EACH(tool, tools)
  {
    yk_json function = yk_json_get(tool, "function");
    yk_strbuf_append_str(&text, text.length ? ", " : "[");
    yk_json_append(&text, function.doc ? function : tool, 0);
  }
  yk_strbuf_append_str(&text, text.length ? "]" : "[]");
  yk_strbuf_append_str(out, ", \"tools\": ");
  yk_json_append_string(out, text.data, text.failed ? 0 : text.length);
  out->failed |= text.failed;
  yk_strbuf_free(&text);
}

/* role: replaces the message's role, since the last of two members counts; or NULL. tools: replace the tools of a
 * message of the system; or absent. */
static void append_message(yk_strbuf *out, yk_json message, yk_template_needs needs, const char *role, yk_json tools)
{
  bool is_first = true, is_assistant = has_role(message, "assistant");
  yk_strbuf_append_str(out, "{");
  YK_JSON_EACH_KEY(key, message)
  {
    bool is_reasoning = yk_json_equals(key, "reasoning") || yk_json_equals(key, "reasoning_content");
    if (!is_assistant || !is_reasoning) append_message_member(out, message, key, needs, &is_first);
  }
  if (!yk_json_get(message, "content").doc) {
    append_key(out, "content", &is_first);
    append_content(out, message, YK_JSON_NONE, needs);
  }
  if (is_assistant) append_reasoning(out, message, &is_first);
  if (role) append_key(out, "role", &is_first);
  if (role) yk_json_append_string(out, role, strlen(role));
  append_tools(out, tools);
  yk_strbuf_append_str(out, "}");
}

/* Each call as a message: GLM-4's form. */
static void append_calls_as_messages(yk_strbuf *out, yk_json calls, bool *is_first)
{
  YK_JSON_EACH(call, calls)
  {
    yk_json function = yk_json_get(call, "function"), arguments = yk_json_get(function, "arguments");
    yk_strbuf text = YK_STRBUF_INIT;
    if (yk_json_is(arguments, YK_JSON_STRING))
      yk_strbuf_append(&text, yk_json_text(arguments), yk_json_length(arguments));
    else if (arguments.doc)
      yk_json_append(&text, arguments, 0);
    append_separator(out, is_first);
    yk_strbuf_append_str(out, "{\"role\": \"assistant\", \"metadata\": ");
    yk_json_append(out, yk_json_get(function, "name"), 0);
    yk_strbuf_append_str(out, ", \"content\": ");
    yk_json_append_string(out, text.length ? text.data : "{}", text.length ? text.length : 2);
    yk_strbuf_append_str(out, "}");
    out->failed |= text.failed;
    yk_strbuf_free(&text);
  }
}

static bool has_text(yk_json content)
{
  return yk_json_is(content, YK_JSON_STRING) ? yk_json_length(content) > 0 : yk_json_size(content) > 0;
}

static bool instructs(yk_json message)
{
  return has_role(message, "system") || has_role(message, "developer");
}

/* Number of system and developer messages at the beginning. */
static size_t count_leading(yk_json messages)
{
  size_t n = 0;
  YK_JSON_EACH(message, messages)
  {
    if (!instructs(message)) return n;
    n++;
  }
  return n;
}

/* Appends the system and developer messages among the first n_most messages as one system message. tools: as for
 * append_message. */
static void append_instructions(yk_strbuf *out, yk_json messages, size_t n_most, yk_template_needs needs, yk_json tools)
{
  size_t n = 0;
  bool is_first = true, is_list = needs.content == YK_CONTENT_LISTS;
  yk_strbuf_append_str(out, "{\"role\": \"system\", \"content\": ");
  yk_strbuf_append_str(out, is_list ? "[{\"type\": \"text\", \"text\": \"" : "\"");
  YK_JSON_EACH(message, messages)
  if (n++ < n_most && instructs(message)) append_texts(out, yk_json_get(message, "content"), "\n\n", &is_first);
  yk_strbuf_append_str(out, is_list ? "\"}]" : "\"");
  append_tools(out, tools);
  yk_strbuf_append_str(out, "}");
}

/* tools: of a message of the system; or absent. */
static void append_messages(yk_strbuf *out, yk_json messages, yk_template_needs needs, yk_json tools)
{
  bool is_first = true, merges_all = false;
  YK_JSON_EACH(message, messages) merges_all = merges_all || (needs.no_developer && has_role(message, "developer"));
  size_t i = 0, n_leading = count_leading(messages), n_merged = merges_all ? SIZE_MAX : n_leading;
  bool wants_system = yk_json_is_given(tools) && !has_role(yk_json_first(messages), "system");
  bool merges = merges_all || (needs.system_first && n_leading > 1) || wants_system;
  yk_strbuf_append_str(out, "[");
  if (merges) {
    append_separator(out, &is_first);
    append_instructions(out, messages, n_merged, needs, tools);
  }
  YK_JSON_EACH(message, messages)
  {
    size_t at = i++;
    bool is_late = needs.system_first && at >= n_leading && has_role(message, "system");
    if (merges && at < n_merged && instructs(message)) continue;
    yk_json calls = needs.calls_in_metadata ? yk_json_get(message, "tool_calls") : YK_JSON_NONE;
    bool is_result = needs.calls_in_metadata && has_role(message, "tool");
    if (yk_json_size(calls) == 0 || has_text(yk_json_get(message, "content"))) {
      const char *role = is_late ? "user" : is_result ? "observation" : NULL;
      append_separator(out, &is_first);
      append_message(out, message, needs, role, at == 0 && !merges ? tools : YK_JSON_NONE);
    }
    append_calls_as_messages(out, calls, &is_first);
  }
  yk_strbuf_append_str(out, "]");
}

/* ---- Conversations ----------------------------------------------------------------------------------------------- */

/* Members may occur twice: readers take the last one. */
static void append_arguments_of_template(yk_strbuf *out, const yk_chat_conversation *conversation)
{
  const char *effort = conversation->reasoning_effort;
  bool is_first = true;
  yk_strbuf_append_str(out, "{");
  YK_JSON_EACH_KEY(key, conversation->default_arguments) append_member(out, key, &is_first);
  if (effort) {
    append_key(out, "enable_thinking", &is_first);
    yk_strbuf_append_str(out, strcmp(effort, "none") == 0 ? "false" : "true");
  }
  YK_JSON_EACH_KEY(key, conversation->arguments) append_member(out, key, &is_first);
  if (effort) {
    append_key(out, "reasoning_effort", &is_first);
    yk_json_append_string(out, effort, strlen(effort));
  }
  yk_strbuf_append_str(out, "}");
}

void yk_conversation_append(const yk_chat_conversation *conversation, yk_template_needs needs, yk_strbuf *out)
{
  yk_strbuf_append_str(out, "{\"messages\": ");
  bool has_tools = needs.tools_in_system && yk_json_size(conversation->tools) > 0;
  append_messages(out, conversation->messages, needs, has_tools ? conversation->tools : YK_JSON_NONE);
  yk_strbuf_append_str(out, ", \"others\": {\"tools\": ");
  yk_json_append(out, conversation->tools, 0);
  yk_strbuf_append_str(out, ", \"documents\": ");
  yk_json_append(out, conversation->documents, 0);
  yk_strbuf_append_str(out, ", \"arguments\": ");
  append_arguments_of_template(out, conversation);
  yk_strbuf_append_str(out, "}}");
}
