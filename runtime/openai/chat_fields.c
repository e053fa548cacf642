#include "openai/chat_fields.h"

#include <stdio.h>
#include <string.h>

#include "openai/values.h"

void yk_chat_init(yk_openai_chat *chat)
{
  *chat = (yk_openai_chat){.add_generation_prompt = true, .parallel_tool_calls = true};
}

/* "messages[2].content" */
typedef struct path {
  char text[64];
} path;

static path path_of(const char *of, size_t index, const char *key)
{
  path made;
  snprintf(made.text, sizeof made.text, "%s[%zu]%s%s", of, index, key[0] ? "." : "", key);
  return made;
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static yk_status check_part(const json_t *part, const char *name, yk_err *err)
{
  const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
  if (!json_is_object(part)) return yk_value_wrong_type(name, "an object", part, err);
  if (!json_is_string(type))
    return yk_err_set(err, YK_E_FORMAT, "key \"%s\": expected a \"type\" that is a string", name);
  if (strcmp(json_string_value(type), "text") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: expected content of type \"text\", found \"%.40s\"", name,
                      json_string_value(type));
  if (!json_is_string(text))
    return yk_err_set(err, YK_E_FORMAT, "key \"%s\": expected a \"text\" that is a string", name);
  return YK_OK;
}

static yk_status check_content(const json_t *content, const char *name, bool may_be_null, yk_err *err)
{
  if (json_is_string(content) || (may_be_null && !yk_value_is_given(content))) return YK_OK;
  if (!json_is_array(content)) return yk_value_wrong_type(name, "a string or an array of text parts", content, err);
  for (size_t i = 0; i < json_array_size(content); i++)
    YK_TRY(check_part(json_array_get(content, i), path_of(name, i, "").text, err));
  return YK_OK;
}

static yk_status check_call(const json_t *call, const char *name, yk_err *err)
{
  const json_t *function = json_object_get(call, "function");
  const json_t *arguments = json_object_get(function, "arguments");
  if (!json_is_object(function))
    return yk_err_set(err, YK_E_FORMAT, "key \"%s\": expected an object with a \"function\" that is an object", name);
  if (!json_is_string(json_object_get(function, "name")))
    return yk_err_set(err, YK_E_FORMAT, "key \"%s.function\": expected a \"name\" that is a string", name);
  if (!json_is_string(arguments) && !json_is_object(arguments))
    return yk_err_set(err, YK_E_FORMAT, "key \"%s.function\": expected \"arguments\" that are a string of JSON", name);
  return YK_OK;
}

static yk_status check_calls(const json_t *calls, const char *name, yk_err *err)
{
  if (!json_is_array(calls)) return yk_value_wrong_type(name, "an array of tool calls", calls, err);
  for (size_t i = 0; i < json_array_size(calls); i++)
    YK_TRY(check_call(json_array_get(calls, i), path_of(name, i, "").text, err));
  return YK_OK;
}

static yk_status check_message(const json_t *message, size_t index, yk_err *err)
{
  const json_t *role = json_object_get(message, "role"), *calls = json_object_get(message, "tool_calls");
  if (!json_is_object(message))
    return yk_value_wrong_type(path_of("messages", index, "").text, "an object", message, err);
  if (!json_is_string(role) || json_string_length(role) == 0)
    return yk_value_wrong_type(path_of("messages", index, "role").text, "a string that is not empty", role, err);
  bool is_assistant = strcmp(json_string_value(role), "assistant") == 0;
  if (yk_value_is_given(calls)) YK_TRY(check_calls(calls, path_of("messages", index, "tool_calls").text, err));
  return check_content(json_object_get(message, "content"), path_of("messages", index, "content").text, is_assistant,
                       err);
}

yk_status yk_chat_read_messages(yk_openai_chat *chat, const json_t *value, yk_err *err)
{
  if (!json_is_array(value)) return yk_value_wrong_type("messages", "an array of messages", value, err);
  if (json_array_size(value) == 0)
    return yk_err_set(err, YK_E_INVAL, "messages: expected at least one message, found none");
  for (size_t i = 0; i < json_array_size(value); i++) YK_TRY(check_message(json_array_get(value, i), i, err));
  chat->messages = value;
  return YK_OK;
}

/* ---- Tools ------------------------------------------------------------------------------------------------------- */

static yk_status check_tool(const json_t *tool, size_t index, yk_err *err)
{
  path name = path_of("tools", index, "");
  const json_t *type = json_object_get(tool, "type"), *function = json_object_get(tool, "function");
  if (!json_is_object(tool)) return yk_value_wrong_type(name.text, "an object", tool, err);
  if (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: expected the type \"function\"", name.text);
  if (!json_is_object(function))
    return yk_value_wrong_type(path_of("tools", index, "function").text, "an object", function, err);
  const json_t *function_name = json_object_get(function, "name");
  if (!json_is_string(function_name) || json_string_length(function_name) == 0)
    return yk_value_wrong_type(path_of("tools", index, "function.name").text, "a string that is not empty",
                               function_name, err);
  return YK_OK;
}

yk_status yk_chat_read_tools(yk_openai_chat *chat, const json_t *value, yk_err *err)
{
  if (!json_is_array(value)) return yk_value_wrong_type("tools", "an array of tools", value, err);
  for (size_t i = 0; i < json_array_size(value); i++) YK_TRY(check_tool(json_array_get(value, i), i, err));
  if (json_array_size(value) > 0) chat->tools = value;
  return YK_OK;
}

yk_status yk_chat_read_tool_choice(const json_t *value, bool *none, yk_err *err)
{
  const char *choice = json_string_value(value);
  *none = choice && strcmp(choice, "none") == 0;
  if (*none || (choice && strcmp(choice, "auto") == 0)) return YK_OK;
  if (!json_is_string(value) && !json_is_object(value))
    return yk_value_wrong_type("tool_choice", "\"auto\" or \"none\"", value, err);
  return yk_err_set(err, YK_E_UNSUPPORTED, "tool_choice: expected \"auto\" or \"none\"; calls cannot be enforced");
}

/* ---- The rest ---------------------------------------------------------------------------------------------------- */

yk_status yk_chat_read_documents(yk_openai_chat *chat, const json_t *value, yk_err *err)
{
  if (!json_is_array(value)) return yk_value_wrong_type("documents", "an array of documents", value, err);
  for (size_t i = 0; i < json_array_size(value); i++)
    if (!json_is_object(json_array_get(value, i)))
      return yk_value_wrong_type(path_of("documents", i, "").text, "an object", json_array_get(value, i), err);
  chat->documents = value;
  return YK_OK;
}

yk_status yk_chat_read_template_kwargs(yk_openai_chat *chat, const json_t *value, yk_err *err)
{
  if (!json_is_object(value)) return yk_value_wrong_type("chat_template_kwargs", "an object", value, err);
  chat->template_kwargs = value;
  return YK_OK;
}

yk_status yk_chat_check_endings(const yk_openai_chat *chat, yk_err *err)
{
  if (!chat->add_generation_prompt || !chat->continue_final_message) return YK_OK;
  return yk_err_set(err, YK_E_INVAL,
                    "continue_final_message: expected add_generation_prompt to be false beside it, found true");
}
