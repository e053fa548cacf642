#include "openai/chat_fields.h"

#include <string.h>

#include <stdio.h>

#include "chat/conversation.h"

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

/* Checks a member that may be missing. of: the object's path. */
static yk_status check_text_member(yk_json object, const char *of, const char *key, yk_err *err)
{
  char name[128];
  yk_json value = yk_json_get(object, key);
  if (!yk_json_is_given(value) || yk_json_is(value, YK_JSON_STRING)) return YK_OK;
  snprintf(name, sizeof name, "%s.%s", of, key);
  return yk_json_wrong_type(NULL, name, "a string", value, err);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* The renderer checks the texts. */
static yk_status check_part(yk_json part, const char *name, yk_err *err)
{
  yk_json type = yk_json_get(part, "type");
  if (yk_json_is(part, YK_JSON_STRING)) return YK_OK;
  if (!yk_json_is(part, YK_JSON_OBJECT)) return yk_json_wrong_type(NULL, name, "an object", part, err);
  if (!yk_json_is(type, YK_JSON_STRING))
    return yk_err_set(err, YK_E_FORMAT, "key \"%s\": expected a \"type\" that is a string", name);
  if (yk_chat_text_key(type)) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: expected content of type \"text\", found \"%.40s\"", name,
                    yk_json_string(type));
}

static yk_status check_content(yk_json content, const char *name, bool may_be_null, yk_err *err)
{
  if (yk_json_is(content, YK_JSON_STRING) || (may_be_null && !yk_json_is_given(content))) return YK_OK;
  if (!yk_json_is(content, YK_JSON_ARRAY))
    return yk_json_wrong_type(NULL, name, "a string or an array of text parts", content, err);
  size_t i = 0;
  YK_JSON_EACH(part, content) YK_TRY(check_part(part, path_of(name, i++, "").text, err));
  return YK_OK;
}

static yk_status check_call(yk_json call, const char *name, yk_err *err)
{
  yk_json function = yk_json_get(call, "function");
  yk_json arguments = yk_json_get(function, "arguments"), type = yk_json_get(call, "type");
  YK_TRY(check_text_member(call, name, "id", err));
  YK_TRY(check_text_member(call, name, "type", err));
  if (yk_json_is_given(type) && !yk_json_equals(type, "function"))
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s.type: expected \"function\", found \"%.40s\"", name,
                      yk_json_string(type));
  if (!yk_json_is(function, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "key \"%s\": expected an object with a \"function\" that is an object", name);
  if (!yk_json_is(yk_json_get(function, "name"), YK_JSON_STRING))
    return yk_err_set(err, YK_E_FORMAT, "key \"%s.function\": expected a \"name\" that is a string", name);
  if (yk_json_is_given(arguments) && !yk_json_is(arguments, YK_JSON_STRING) && !yk_json_is(arguments, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "key \"%s.function\": expected \"arguments\" that are a string of JSON", name);
  return YK_OK;
}

static yk_status check_calls(yk_json calls, const char *name, yk_err *err)
{
  if (!yk_json_is(calls, YK_JSON_ARRAY)) return yk_json_wrong_type(NULL, name, "an array of tool calls", calls, err);
  size_t i = 0;
  YK_JSON_EACH(call, calls) YK_TRY(check_call(call, path_of(name, i++, "").text, err));
  return YK_OK;
}

static yk_status check_message(yk_json message, size_t index, yk_err *err)
{
  yk_json role = yk_json_get(message, "role"), calls = yk_json_get(message, "tool_calls");
  if (!yk_json_is(message, YK_JSON_OBJECT))
    return yk_json_wrong_type(NULL, path_of("messages", index, "").text, "an object", message, err);
  if (!yk_json_is(role, YK_JSON_STRING) || yk_json_length(role) == 0)
    return yk_json_wrong_or_empty(NULL, path_of("messages", index, "role").text, "a string that is not empty", role,
                                  err);
  static const char *const texts[] = {"name", "tool_call_id", "reasoning", "reasoning_content"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    YK_TRY(check_text_member(message, path_of("messages", index, "").text, texts[i], err));
  if (yk_json_is_given(calls)) YK_TRY(check_calls(calls, path_of("messages", index, "tool_calls").text, err));
  return check_content(yk_json_get(message, "content"), path_of("messages", index, "content").text,
                       yk_chat_may_lack_content(role), err);
}

yk_status yk_chat_read_messages(yk_openai_chat *chat, yk_json value, yk_err *err)
{
  if (!yk_json_is(value, YK_JSON_ARRAY))
    return yk_json_wrong_type(NULL, "messages", "an array of messages", value, err);
  if (yk_json_size(value) == 0)
    return yk_err_set(err, YK_E_INVAL, "messages: expected at least one message, found none");
  size_t i = 0;
  YK_JSON_EACH(message, value) YK_TRY(check_message(message, i++, err));
  chat->messages = value;
  return YK_OK;
}

/* ---- Tools ------------------------------------------------------------------------------------------------------- */

static yk_status check_tool(yk_json tool, size_t index, yk_err *err)
{
  path name = path_of("tools", index, "");
  yk_json type = yk_json_get(tool, "type"), function = yk_json_get(tool, "function");
  if (!yk_json_is(tool, YK_JSON_OBJECT)) return yk_json_wrong_type(NULL, name.text, "an object", tool, err);
  if (!yk_json_equals(type, "function"))
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: expected the type \"function\"", name.text);
  if (!yk_json_is(function, YK_JSON_OBJECT))
    return yk_json_wrong_type(NULL, path_of("tools", index, "function").text, "an object", function, err);
  yk_json function_name = yk_json_get(function, "name");
  if (!yk_json_is(function_name, YK_JSON_STRING) || yk_json_length(function_name) == 0)
    return yk_json_wrong_or_empty(NULL, path_of("tools", index, "function.name").text, "a string that is not empty",
                                  function_name, err);
  if (strlen(yk_json_string(function_name)) != yk_json_length(function_name))
    return yk_err_set(err, YK_E_INVAL, "%s: expected a name without NUL characters",
                      path_of("tools", index, "function.name").text);
  yk_json parameters = yk_json_get(function, "parameters"), strict = yk_json_get(function, "strict");
  if (yk_json_is_given(parameters) && !yk_json_is(parameters, YK_JSON_OBJECT))
    return yk_json_wrong_type(NULL, path_of("tools", index, "function.parameters").text, "an object", parameters, err);
  if (yk_json_is_given(strict) && !yk_json_is_bool(strict))
    return yk_json_wrong_type(NULL, path_of("tools", index, "function.strict").text, "true or false", strict, err);
  return check_text_member(function, path_of("tools", index, "function").text, "description", err);
}

yk_status yk_chat_read_tools(yk_openai_chat *chat, yk_json value, yk_err *err)
{
  if (!yk_json_is(value, YK_JSON_ARRAY)) return yk_json_wrong_type(NULL, "tools", "an array of tools", value, err);
  size_t i = 0;
  YK_JSON_EACH(tool, value) YK_TRY(check_tool(tool, i++, err));
  if (yk_json_size(value) > 0) chat->tools = value;
  return YK_OK;
}

yk_status yk_chat_read_tool_choice(yk_json value, yk_tool_choice *choice, const char **function, yk_err *err)
{
  static const char expected[] =
      "\"auto\", \"none\", \"required\" or {\"type\": \"function\", \"function\": {\"name\"}}";
  yk_json name = yk_json_get(yk_json_get(value, "function"), "name"), type = yk_json_get(value, "type");
  if (yk_json_is(type, YK_JSON_STRING) && !yk_json_equals(type, "function"))
    return yk_err_set(err, YK_E_UNSUPPORTED, "tool_choice: expected %s, found the type \"%.40s\"", expected,
                      yk_json_string(type));
  if (yk_json_is_given(type) && !yk_json_is(type, YK_JSON_STRING))
    return yk_json_wrong_type(NULL, "tool_choice.type", "a string", type, err);
  *function = yk_json_string(name);
  if (*function && strlen(*function) != yk_json_length(name))
    return yk_err_set(err, YK_E_INVAL, "tool_choice: expected a name without NUL characters");
  *choice = yk_json_equals(value, "none") ? YK_TOOL_CHOICE_NONE : YK_TOOL_CHOICE_AUTO;
  if (*function || yk_json_equals(value, "required")) *choice = YK_TOOL_CHOICE_REQUIRED;
  if (*choice != YK_TOOL_CHOICE_AUTO || yk_json_equals(value, "auto")) return YK_OK;
  if (yk_json_is(value, YK_JSON_OBJECT))
    return yk_json_wrong_type(NULL, "tool_choice.function.name", "a string", name, err);
  if (!yk_json_is(value, YK_JSON_STRING)) return yk_json_wrong_type(NULL, "tool_choice", expected, value, err);
  return yk_err_set(err, YK_E_INVAL, "tool_choice: expected %s, found \"%.40s\"", expected, yk_json_string(value));
}

/* ---- Other fields ------------------------------------------------------------------------------------------------ */

yk_status yk_chat_read_documents(yk_openai_chat *chat, yk_json value, yk_err *err)
{
  if (!yk_json_is(value, YK_JSON_ARRAY))
    return yk_json_wrong_type(NULL, "documents", "an array of documents", value, err);
  size_t i = 0;
  YK_JSON_EACH(document, value)
  {
    if (!yk_json_is(document, YK_JSON_OBJECT))
      return yk_json_wrong_type(NULL, path_of("documents", i, "").text, "an object", document, err);
    i++;
  }
  chat->documents = value;
  return YK_OK;
}

yk_status yk_chat_read_template_kwargs(yk_openai_chat *chat, yk_json value, yk_err *err)
{
  if (!yk_json_is(value, YK_JSON_OBJECT))
    return yk_json_wrong_type(NULL, "chat_template_kwargs", "an object", value, err);
  chat->template_kwargs = value;
  return YK_OK;
}

yk_status yk_chat_check_endings(const yk_openai_chat *chat, yk_err *err)
{
  if (!chat->add_generation_prompt || !chat->continue_final_message) return YK_OK;
  return yk_err_set(err, YK_E_INVAL,
                    "continue_final_message: expected add_generation_prompt to be false with it, found true");
}
