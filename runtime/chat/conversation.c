#include "chat/conversation.h"

#include <string.h>

#include "base/strbuf.h"

static const char *const ROLES[] = {"system", "developer", "user",        "assistant",
                                    "tool",   "function",  "observation", "ipython"};
#define ROLE_NAMES "system, developer, user, assistant, tool, function, observation, ipython"

/* A role becomes part of tokens in many templates ("<|user|>"), so that it cannot be just any text. */
static yk_status check_role(const json_t *message, size_t index, yk_err *err)
{
  const json_t *role = json_object_get(message, "role");
  if (!json_is_string(role))
    return yk_err_set(err, YK_E_INVAL, "messages[%zu].role: expected a string, found %s", index,
                      yk_tree_type_name(role));
  for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++)
    if (strcmp(json_string_value(role), ROLES[i]) == 0) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "messages[%zu].role: expected one of %s, found \"%.40s\"", index, ROLE_NAMES,
                    json_string_value(role));
}

static yk_status check_part(const json_t *part, size_t index, size_t part_index, yk_err *err)
{
  const char *type = json_string_value(json_object_get(part, "type"));
  if (!type)
    return yk_err_set(err, YK_E_INVAL, "messages[%zu].content[%zu]: expected an object with a \"type\", found %s",
                      index, part_index, yk_tree_type_name(part));
  if (strcmp(type, "text") != 0)
    return yk_err_set(err, YK_E_INVAL, "messages[%zu].content[%zu].type: expected \"text\", found \"%.40s\"", index,
                      part_index, type);
  const json_t *text = json_object_get(part, "text");
  if (json_is_string(text)) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "messages[%zu].content[%zu].text: expected a string, found %s", index, part_index,
                    yk_tree_type_name(text));
}

static yk_status check_content(const json_t *message, size_t index, yk_err *err)
{
  const json_t *content = json_object_get(message, "content"), *part;
  bool optional = strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0;
  size_t i;
  if (json_is_string(content) || (optional && (!content || json_is_null(content)))) return YK_OK;
  if (!json_is_array(content))
    return yk_err_set(err, YK_E_INVAL, "messages[%zu].content: expected a string or a list of text parts, found %s",
                      index, yk_tree_type_name(content));
  json_array_foreach(content, i, part) YK_TRY(check_part(part, index, i, err));
  return YK_OK;
}

static yk_status check_list(const char *name, const json_t *list, yk_err *err)
{
  const json_t *item;
  size_t i;
  if (!list || json_is_null(list)) return YK_OK;
  if (!json_is_array(list))
    return yk_err_set(err, YK_E_INVAL, "%s: expected a list, found %s", name, yk_tree_type_name(list));
  json_array_foreach(list, i, item) if (!json_is_object(item)) return yk_err_set(
      err, YK_E_INVAL, "%s[%zu]: expected an object, found %s", name, i, yk_tree_type_name(item));
  return YK_OK;
}

static yk_status check_arguments(const json_t *arguments, yk_err *err)
{
  static const char *const TAKEN[] = {"messages", "tools", "documents", "add_generation_prompt"};
  if (!arguments || json_is_null(arguments)) return YK_OK;
  if (!json_is_object(arguments))
    return yk_err_set(err, YK_E_INVAL, "template arguments: expected an object, found %s",
                      yk_tree_type_name(arguments));
  for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
    if (json_object_get(arguments, TAKEN[i]))
      return yk_err_set(err, YK_E_INVAL, "template arguments: \"%s\" has a place of its own in the request", TAKEN[i]);
  return YK_OK;
}

/* What the last message says can be gone on with. */
static yk_status check_final(const yk_chat_conversation *conversation, yk_err *err)
{
  size_t last = json_array_size(conversation->messages) - 1;
  const json_t *content = json_object_get(json_array_get(conversation->messages, last), "content");
  if (!conversation->continue_final_message) return YK_OK;
  if (json_is_string(content) || json_array_size(content) > 0) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "messages[%zu].content: expected a text to continue, found %s", last,
                    json_is_array(content) ? "none" : yk_tree_type_name(content));
}

yk_status yk_conversation_check(const yk_chat_conversation *conversation, yk_err *err)
{
  const json_t *messages = conversation->messages, *message;
  size_t i;
  if (!json_is_array(messages) || json_array_size(messages) == 0)
    return yk_err_set(err, YK_E_INVAL, "messages: expected a list of at least one message, found %s",
                      json_is_array(messages) ? "none" : yk_tree_type_name(messages));
  json_array_foreach(messages, i, message)
  {
    if (!json_is_object(message))
      return yk_err_set(err, YK_E_INVAL, "messages[%zu]: expected an object, found %s", i, yk_tree_type_name(message));
    YK_TRY(check_role(message, i, err));
    YK_TRY(check_content(message, i, err));
  }
  YK_TRY(check_final(conversation, err));
  YK_TRY(check_list("tools", conversation->tools, err));
  YK_TRY(check_list("documents", conversation->documents, err));
  return check_arguments(conversation->arguments, err);
}

/* The parts' texts with line ends between them, or NULL without memory. */
static json_t *join_parts(const json_t *parts)
{
  yk_strbuf text = YK_STRBUF_INIT;
  const json_t *part;
  size_t i;
  yk_strbuf_append(&text, "", 0);
  json_array_foreach(parts, i, part)
  {
    const json_t *string = json_object_get(part, "text");
    if (i > 0) yk_strbuf_append(&text, "\n", 1);
    yk_strbuf_append(&text, json_string_value(string), json_string_length(string));
  }
  json_t *joined = text.failed ? NULL : json_stringn(text.data, text.length);
  yk_strbuf_free(&text);
  return joined;
}

/* Arguments that are a string of a JSON object, or of nothing, as that object. Returns whether there was memory. */
static bool parse_arguments(json_t *call)
{
  json_t *function = json_object_get(call, "function");
  json_t *arguments = json_object_get(function, "arguments"), *parsed;
  if (!json_is_string(arguments)) return true;
  if (json_string_length(arguments) == 0) return json_object_set_new(function, "arguments", json_object()) == 0;
  if (yk_tree_parse("arguments", json_string_value(arguments), json_string_length(arguments), &parsed, NULL) != YK_OK)
    return true; /* the template gets what there is */
  if (json_is_object(parsed)) return json_object_set_new(function, "arguments", parsed) == 0;
  json_decref(parsed);
  return true;
}

/* What clients send back of an answer: null for what it does not have. Returns whether there was memory. */
static bool leave_out_nulls(json_t *message)
{
  const json_t *content = json_object_get(message, "content");
  if (json_array_size(json_object_get(message, "tool_calls")) > 0) return true;
  json_object_del(message, "tool_calls");
  return (content && !json_is_null(content)) || json_object_set_new(message, "content", json_string("")) == 0;
}

static bool convert(json_t *message, yk_template_needs needs)
{
  if (!leave_out_nulls(message)) return false;
  json_t *content = json_object_get(message, "content"), *call;
  const char *role = json_string_value(json_object_get(message, "role"));
  size_t i;
  if (needs.no_developer && strcmp(role, "developer") == 0)
    if (json_object_set_new(message, "role", json_string("system")) != 0) return false;
  if (!needs.content_lists && json_is_array(content))
    if (json_object_set_new(message, "content", join_parts(content)) != 0) return false;
  if (needs.argument_objects)
    json_array_foreach(json_object_get(message, "tool_calls"), i, call) if (!parse_arguments(call)) return false;
  return true;
}

yk_status yk_conversation_convert(const json_t *messages, yk_template_needs needs, json_t **out, yk_err *err)
{
  json_t *converted = json_deep_copy(messages), *message;
  bool ok = converted != NULL;
  size_t i;
  json_array_foreach(converted, i, message) ok = ok && convert(message, needs);
  if (ok) {
    *out = converted;
    return YK_OK;
  }
  json_decref(converted);
  return yk_err_set(err, YK_E_NOMEM, "no memory for %zu messages", json_array_size(messages));
}
