/* responses_items.c - the items of a response's input, as messages of a chat: neighbouring items of the model become
 * one message of the assistant. */
#include <stdio.h>
#include <string.h>

#include "openai/responses_request.h"

/* ---- Contents ---------------------------------------------------------------------------------------------------- */

/* The member of a part that holds its text; NULL: a part of another type. Messages between two agents of Codex have the
 * type encrypted_content, but the text is plain if a model of a server without encryption wrote it. */
static const char *text_name_of(yk_json type)
{
  static const char *const names[][2] = {{"input_text", "text"},
                                         {"output_text", "text"},
                                         {"text", "text"},
                                         {"refusal", "refusal"},
                                         {"encrypted_content", "encrypted_content"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (yk_json_equals(type, names[i][0])) return names[i][1];
  return NULL;
}

/* Adds the texts of a content: a string, or an array of parts. */
static yk_status read_content(yk_translation *t, yk_json content, yk_err *err)
{
  char list[YK_OPENAI_PARAM_BYTES];
  size_t i = 0;
  if (yk_json_is(content, YK_JSON_STRING)) {
    yk_translation_text(t, yk_json_text(content), yk_json_length(content));
    return YK_OK;
  }
  if (!yk_json_is(content, YK_JSON_ARRAY))
    return yk_translation_wrong(t, "a string or an array of content parts", content, err);
  snprintf(list, sizeof list, "%s", t->param);
  YK_JSON_EACH(part, content)
  {
    yk_json type = yk_json_get(part, "type");
    const char *name = text_name_of(type);
    yk_translation_at(t, "%s[%zu]", list, i++);
    if (!yk_json_is(type, YK_JSON_STRING))
      return yk_translation_wrong(t, "an object with a \"type\"", yk_json_is(part, YK_JSON_OBJECT) ? type : part, err);
    if (!name)
      return yk_translation_refuse(t, YK_E_UNSUPPORTED, err, "expected text, found content of type \"%.40s\"",
                                   yk_json_text(type));
    yk_json text = yk_json_get(part, name);
    if (!yk_json_is(text, YK_JSON_STRING)) return yk_translation_wrong(t, "a text that is a string", text, err);
    yk_translation_text(t, yk_json_text(text), yk_json_length(text));
  }
  return YK_OK;
}

/* ---- Items ------------------------------------------------------------------------------------------------------- */

typedef struct input_item {
  yk_translation *t;
  yk_json value;
  size_t index;
} input_item;

static yk_json member(const input_item *item, const char *name)
{
  yk_translation_at(item->t, "input[%zu].%s", item->index, name);
  return yk_json_get(item->value, name);
}

static yk_status read_string(const input_item *item, const char *name, yk_json *out, yk_err *err)
{
  *out = member(item, name);
  return yk_json_is(*out, YK_JSON_STRING) ? YK_OK : yk_translation_wrong(item->t, "a string", *out, err);
}

/* Whether the open message is an assistant's that another text would make a later one. */
static bool has_text_alone(const yk_translated_message *m)
{
  return m->role && strcmp(m->role, "assistant") == 0 && m->n_parts > 0 && m->calls.length == 0;
}

/* Instructions and the system messages that follow them are one message, as templates allow only one. */
static void begin_message(yk_translation *t, const char *role)
{
  const yk_translated_message *m = &t->message;
  bool joins = m->role && strcmp(m->role, "system") == 0 && t->messages.length == 0 && strcmp(role, "system") == 0;
  if (joins) return;
  if (strcmp(role, "assistant") != 0 || has_text_alone(m))
    yk_translation_message(t, role);
  else
    yk_translation_assistant(t);
}

static yk_status read_message(const input_item *item, yk_err *err)
{
  static const char *const roles[] = {"user", "assistant", "system", "developer"};
  yk_json role;
  YK_TRY(read_string(item, "role", &role, err));
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
    if (!yk_json_equals(role, roles[i])) continue;
    begin_message(item->t, roles[i]);
    return read_content(item->t, member(item, "content"), err);
  }
  return yk_translation_refuse(item->t, YK_E_INVAL, err,
                               "expected \"user\", \"assistant\", \"system\" or \"developer\", found \"%.40s\"",
                               yk_json_text(role));
}

static yk_status read_call(const input_item *item, yk_err *err)
{
  yk_json id, name, arguments;
  YK_TRY(read_string(item, "call_id", &id, err));
  YK_TRY(read_string(item, "name", &name, err));
  YK_TRY(read_string(item, "arguments", &arguments, err));
  yk_translation_assistant(item->t);
  yk_translation_call(item->t, id, name, yk_json_text(arguments), yk_json_length(arguments));
  return YK_OK;
}

/* A message that one agent of the client sends to another one. */
static yk_status read_agent_message(const input_item *item, yk_err *err)
{
  yk_json content = member(item, "content");
  begin_message(item->t, "user");
  return yk_json_is_given(content) ? read_content(item->t, content, err) : YK_OK;
}

/* A call of another model, whose arguments are the value of one member. */
static void add_call(const input_item *item, yk_json id, yk_json name, const char *key, yk_json value)
{
  yk_strbuf arguments = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&arguments, "{\"%s\":", key);
  yk_json_append(&arguments, value, 0);
  yk_strbuf_append_str(&arguments, "}");
  yk_translation_assistant(item->t);
  yk_translation_call(item->t, id, name, arguments.data, arguments.length);
  item->t->failed |= arguments.failed;
  yk_strbuf_free(&arguments);
}

static yk_status read_custom_call(const input_item *item, yk_err *err)
{
  yk_json id, name, input;
  YK_TRY(read_string(item, "call_id", &id, err));
  YK_TRY(read_string(item, "name", &name, err));
  YK_TRY(read_string(item, "input", &input, err));
  add_call(item, id, name, "input", input);
  return YK_OK;
}

/* The result of a local shell call is a function_call_output: Codex sends it so. */
static yk_status read_shell_call(const input_item *item, yk_err *err)
{
  yk_json id, action = member(item, "action");
  if (!yk_json_is(action, YK_JSON_OBJECT)) return yk_translation_wrong(item->t, "an object", action, err);
  YK_TRY(read_string(item, "call_id", &id, err));
  add_call(item, id, yk_json_get(item->value, "type"), "action", action);
  return YK_OK;
}

static yk_status read_result(const input_item *item, yk_err *err)
{
  yk_json id;
  YK_TRY(read_string(item, "call_id", &id, err));
  if (!yk_translation_result(item->t, id))
    return yk_translation_refuse(item->t, YK_E_INVAL, err,
                                 "No tool call found for function call output with call_id %.100s", yk_json_text(id));
  return read_content(item->t, member(item, "output"), err);
}

static yk_status read_shell_result(const input_item *item, yk_err *err)
{
  yk_json id;
  YK_TRY(read_string(item, "id", &id, err));
  if (!yk_translation_result(item->t, id))
    return yk_translation_refuse(item->t, YK_E_INVAL, err, "No tool call found for shell call output with id %.100s",
                                 yk_json_text(id));
  return read_content(item->t, member(item, "output"), err);
}

static yk_status read_reasoning_texts(const input_item *item, const char *name, yk_err *err)
{
  yk_json parts = member(item, name);
  if (!yk_json_is_given(parts)) return YK_OK;
  if (!yk_json_is(parts, YK_JSON_ARRAY)) return yk_translation_wrong(item->t, "an array of texts", parts, err);
  YK_JSON_EACH(part, parts)
  {
    yk_json text = yk_json_get(part, "text");
    if (!yk_json_is(text, YK_JSON_STRING)) return yk_translation_wrong(item->t, "an array of texts", text, err);
    yk_translation_reasoning(item->t, yk_json_text(text), yk_json_length(text));
  }
  return YK_OK;
}

/* The reasoning itself, else the copy in the sealed text that a client returns, else the summary. */
static yk_status read_reasoning(const input_item *item, yk_err *err)
{
  yk_translation *t = item->t;
  const char *sealed = yk_json_string(yk_json_get(item->value, "encrypted_content"));
  size_t n_seal = strlen(YK_REASONING_SEAL);
  const yk_translated_message *m = &t->message;
  yk_translation_assistant(t);
  if (m->n_parts > 0 || m->calls.length > 0) yk_translation_message(t, "assistant");
  size_t n_before = m->reasoning.length;
  YK_TRY(read_reasoning_texts(item, "content", err));
  if (m->reasoning.length > n_before) return YK_OK;
  if (!sealed || strncmp(sealed, YK_REASONING_SEAL, n_seal) != 0) return read_reasoning_texts(item, "summary", err);
  yk_translation_reasoning(t, sealed + n_seal, yk_json_length(yk_json_get(item->value, "encrypted_content")) - n_seal);
  return YK_OK;
}

static yk_status read_reference(const input_item *item, yk_err *err)
{
  yk_json id;
  YK_TRY(read_string(item, "id", &id, err));
  return yk_translation_refuse(item->t, YK_E_INVAL, err, "Item with id '%.100s' not found: items are not stored here",
                               yk_json_text(id));
}

static yk_status read_more_tools(const input_item *item, yk_err *err)
{
  return yk_responses_read_tools(item->t, member(item, "tools"), YK_JSON_NONE, err);
}

/* Calls of tools that this server does not offer, and their results, from a conversation with another server. */
static yk_status leave_out(const input_item *item, yk_err *err)
{
  (void)err;
  yk_translation_note(item->t, "item type", yk_json_get(item->value, "type"));
  return YK_OK;
}

/* Settings are read with the fields of the body. */
static yk_status pass_settings(const input_item *item, yk_err *err)
{
  (void)item;
  (void)err;
  return YK_OK;
}

static const struct {
  const char *type;
  yk_status (*read)(const input_item *item, yk_err *err);
} types[] = {{"message", read_message},
             {"function_call", read_call},
             {"function_call_output", read_result},
             {"reasoning", read_reasoning},
             {"custom_tool_call", read_custom_call},
             {"custom_tool_call_output", read_result},
             {"item_reference", read_reference},
             {"additional_tools", read_more_tools},
             {"configuration_update", pass_settings},
             {"agent_message", read_agent_message},
             {"local_shell_call", read_shell_call},
             {"local_shell_call_output", read_shell_result},
             {"web_search_call", leave_out},
             {"file_search_call", leave_out},
             {"computer_call", leave_out},
             {"computer_call_output", leave_out},
             {"image_generation_call", leave_out},
             {"code_interpreter_call", leave_out},
             {"shell_call", leave_out},
             {"shell_call_output", leave_out},
             {"apply_patch_call", leave_out},
             {"apply_patch_call_output", leave_out},
             {"mcp_list_tools", leave_out},
             {"mcp_approval_request", leave_out},
             {"mcp_approval_response", leave_out},
             {"mcp_call", leave_out},
             {"tool_search_call", leave_out},
             {"tool_search_output", leave_out},
             {"program", leave_out},
             {"program_output", leave_out},
             {"ghost_snapshot", leave_out},
             {"compaction_summary", leave_out},
             {"context_compaction", leave_out},
             {"compaction", leave_out}};

static yk_status read_item(const input_item *item, yk_err *err)
{
  yk_json type = member(item, "type");
  if (!yk_json_is(item->value, YK_JSON_OBJECT)) {
    yk_translation_at(item->t, "input[%zu]", item->index);
    return yk_translation_wrong(item->t, "an object", item->value, err);
  }
  if (!yk_json_is_given(type)) return read_message(item, err);
  if (!yk_json_is(type, YK_JSON_STRING)) return yk_translation_wrong(item->t, "a string", type, err);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (yk_json_equals(type, types[i].type)) return types[i].read(item, err);
  return yk_translation_refuse(item->t, YK_E_UNSUPPORTED, err, "items of type \"%.40s\" are not supported",
                               yk_json_text(type));
}

yk_status yk_responses_read_items(yk_translation *t, yk_json items, yk_err *err)
{
  input_item item = {.t = t};
  YK_JSON_EACH(value, items)
  {
    item.value = value;
    YK_TRY(read_item(&item, err));
    item.index++;
  }
  yk_translation_end_message(t);
  if (t->messages.length > 0) return YK_OK;
  yk_translation_at(t, "input");
  return yk_translation_refuse(t, YK_E_INVAL, err, "expected an item with a text");
}
