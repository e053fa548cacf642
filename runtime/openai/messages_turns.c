/* messages_turns.c - the system text and the turns of Anthropic's messages, as messages of a chat. A turn of the user
 * may hold results of tools, which become separate messages. */
#include <string.h>

#include "openai/messages_request.h"

/* The place of a value in the body, for errors. */
typedef struct place {
  yk_translation *t;
  size_t turn, block, inner;
  size_t last_user; /* index of the last turn of the user */
} place;

static void at_block(const place *p)
{
  yk_translation_at(p->t, "messages[%zu].content[%zu]", p->turn, p->block);
}

static void at_member(const place *p, const char *name)
{
  yk_translation_at(p->t, "messages[%zu].content[%zu].%s", p->turn, p->block, name);
}

static yk_status unsupported(const yk_translation *t, yk_json type, yk_err *err)
{
  return yk_translation_refuse(t, YK_E_UNSUPPORTED, err, "content of type \"%.40s\" is not supported",
                               yk_json_text(type));
}

/* Opens a message of this role, unless the open message has it. */
static void open_as(yk_translation *t, const char *role)
{
  if (!t->message.role || strcmp(t->message.role, role) != 0) yk_translation_message(t, role);
}

/* ---- System ------------------------------------------------------------------------------------------------------ */

/* Adds the text without the lines that differ in each request. */
static void add_system(yk_translation *t, yk_json value)
{
  static const char prefix[] = "x-anthropic-billing-header:";
  const char *text = yk_json_text(value), *end = text + yk_json_length(value);
  yk_strbuf kept = YK_STRBUF_INIT;
  for (const char *line = text; line < end;) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const char *after = newline ? newline + 1 : end;
    bool is_left_out = strncmp(line, prefix, strlen(prefix)) == 0; /* the text ends with a NUL */
    if (!is_left_out) yk_strbuf_append(&kept, line, (size_t)(after - line));
    line = after;
  }
  t->failed |= kept.failed;
  if (kept.length > 0) {
    open_as(t, "system");
    yk_translation_text(t, kept.data, kept.length);
  }
  yk_strbuf_free(&kept);
}

yk_status yk_messages_read_system(yk_translation *t, yk_json system, yk_err *err)
{
  size_t i = 0;
  if (yk_json_is(system, YK_JSON_STRING)) {
    add_system(t, system);
    return YK_OK;
  }
  if (!yk_json_is(system, YK_JSON_ARRAY)) return yk_translation_wrong(t, "a string or an array of texts", system, err);
  YK_JSON_EACH(block, system)
  {
    yk_json type = yk_json_get(block, "type"), text = yk_json_get(block, "text");
    yk_translation_at(t, "system[%zu]", i++);
    if (yk_json_is(type, YK_JSON_STRING) && !yk_json_equals(type, "text")) return unsupported(t, type, err);
    if (!yk_json_is(text, YK_JSON_STRING)) return yk_translation_wrong(t, "an object with a \"text\"", block, err);
    add_system(t, text);
  }
  return YK_OK;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

static yk_status read_string(const place *p, yk_json block, const char *name, yk_json *out, yk_err *err)
{
  *out = yk_json_get(block, name);
  at_member(p, name);
  return yk_json_is(*out, YK_JSON_STRING) ? YK_OK : yk_translation_wrong(p->t, "a string", *out, err);
}

static yk_status add_text(const place *p, yk_json block, yk_err *err)
{
  yk_json text;
  YK_TRY(read_string(p, block, "text", &text, err));
  yk_translation_text(p->t, yk_json_text(text), yk_json_length(text));
  return YK_OK;
}

static yk_status read_call(const place *p, yk_json block, yk_err *err)
{
  yk_json id, name, input = yk_json_get(block, "input");
  yk_strbuf arguments = YK_STRBUF_INIT;
  YK_TRY(read_string(p, block, "id", &id, err));
  YK_TRY(read_string(p, block, "name", &name, err));
  at_member(p, "input");
  if (!yk_json_is(input, YK_JSON_OBJECT)) return yk_translation_wrong(p->t, "an object", input, err);
  yk_json_append(&arguments, input, 0);
  yk_translation_call(p->t, id, name, arguments.data, arguments.length);
  p->t->failed |= arguments.failed;
  yk_strbuf_free(&arguments);
  return YK_OK;
}

static bool is_one_of(yk_json type, const char *const *names, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (yk_json_equals(type, names[i])) return true;
  return false;
}

/* The text of a part of a result. A reference names a tool that a search of the client has found; that tool is in
 * "tools". */
static yk_status read_result_part(place *p, yk_json block, yk_err *err)
{
  yk_json type = yk_json_get(block, "type");
  bool is_reference = yk_json_equals(type, "tool_reference");
  yk_json text = yk_json_get(block, is_reference ? "tool_name" : "text");
  yk_translation_at(p->t, "messages[%zu].content[%zu].content[%zu]", p->turn, p->block, p->inner++);
  if (yk_messages_is_document(type)) return yk_messages_read_document(p->t, block, err);
  if (yk_json_is(type, YK_JSON_STRING) && !is_reference && !yk_json_equals(type, "text"))
    return unsupported(p->t, type, err);
  if (!yk_json_is(text, YK_JSON_STRING))
    return yk_translation_wrong(p->t, is_reference ? "an object with a \"tool_name\"" : "an object with a \"text\"",
                                block, err);
  yk_translation_text(p->t, yk_json_text(text), yk_json_length(text));
  return YK_OK;
}

/* The texts of a result; absent: none. */
static yk_status read_result_content(place *p, yk_json content, yk_err *err)
{
  if (!yk_json_is_given(content)) return YK_OK;
  at_member(p, "content");
  if (yk_json_is(content, YK_JSON_STRING)) {
    yk_translation_text(p->t, yk_json_text(content), yk_json_length(content));
    return YK_OK;
  }
  if (!yk_json_is(content, YK_JSON_ARRAY))
    return yk_translation_wrong(p->t, "a string or an array of content blocks", content, err);
  p->inner = 0;
  YK_JSON_EACH(block, content)
  YK_TRY(read_result_part(p, block, err));
  return YK_OK;
}

static yk_status read_result(place *p, yk_json block, yk_err *err)
{
  yk_json id;
  YK_TRY(read_string(p, block, "tool_use_id", &id, err));
  if (!yk_translation_result(p->t, id))
    return yk_translation_refuse(p->t, YK_E_INVAL, err,
                                 "unexpected `tool_use_id` in a `tool_result` block: %.100s. Each `tool_result` block "
                                 "must have a `tool_use` block in a previous message",
                                 yk_json_text(id));
  return read_result_content(p, yk_json_get(block, "content"), err);
}

/* The summary of an earlier part of the conversation; null: there is none. */
static yk_status read_summary(const place *p, yk_json block, yk_err *err)
{
  yk_json text = yk_json_get(block, "content");
  at_member(p, "content");
  if (!yk_json_is_given(text)) return YK_OK;
  if (!yk_json_is(text, YK_JSON_STRING)) return yk_translation_wrong(p->t, "a string", text, err);
  yk_translation_text(p->t, yk_json_text(text), yk_json_length(text));
  return YK_OK;
}

static yk_status read_users_block(place *p, yk_json block, yk_json type, yk_err *err)
{
  if (yk_json_equals(type, "tool_result")) return read_result(p, block, err);
  if (yk_json_equals(type, "compaction")) {
    open_as(p->t, "user");
    return read_summary(p, block, err);
  }
  bool is_document = yk_messages_is_document(type);
  if (!is_document && !yk_json_equals(type, "text")) return unsupported(p->t, type, err);
  open_as(p->t, "user");
  return is_document ? yk_messages_read_document(p->t, block, err) : add_text(p, block, err);
}

/* Hidden thoughts of Anthropic's own models, and calls and results of their servers' tools, are left out. */
static yk_status read_assistants_block(place *p, yk_json block, yk_json type, yk_err *err)
{
  static const char *const left_out[] = {"redacted_thinking",
                                         "connector_text",
                                         "fallback",
                                         "server_tool_use",
                                         "web_search_tool_result",
                                         "web_fetch_tool_result",
                                         "code_execution_tool_result",
                                         "bash_code_execution_tool_result",
                                         "text_editor_code_execution_tool_result",
                                         "tool_search_tool_result",
                                         "advisor_tool_result",
                                         "mcp_tool_use",
                                         "mcp_tool_result",
                                         "mcp_tool_listing"};
  yk_json text;
  if (yk_json_equals(type, "text")) return add_text(p, block, err);
  if (yk_json_equals(type, "tool_use")) return read_call(p, block, err);
  if (yk_json_equals(type, "thinking")) {
    YK_TRY(read_string(p, block, "thinking", &text, err));
    yk_translation_reasoning(p->t, yk_json_text(text), yk_json_length(text));
    return YK_OK;
  }
  if (yk_json_equals(type, "compaction")) return read_summary(p, block, err);
  if (!is_one_of(type, left_out, sizeof left_out / sizeof *left_out)) return unsupported(p->t, type, err);
  yk_translation_note(p->t, "block type", type);
  return YK_OK;
}

static bool is_tool_change(yk_json type)
{
  return yk_json_equals(type, "tool_addition") || yk_json_equals(type, "tool_removal");
}

/* A tool that is defined here is offered from the beginning, like those of "tools"; changes of the offered tools are
 * left out. */
static yk_status read_tool_change(const place *p, yk_json block, yk_json type, yk_err *err)
{
  yk_json tool = yk_json_get(block, "tool"), definition = yk_json_get(tool, "definition");
  if (yk_json_equals(type, "tool_addition") && yk_json_equals(yk_json_get(tool, "type"), "tool_definition")) {
    at_member(p, "tool.definition");
    return yk_messages_read_tool(p->t, definition, err);
  }
  yk_translation_note(p->t, "block type", type);
  return YK_OK;
}

/* ---- Turns ------------------------------------------------------------------------------------------------------- */

static yk_status read_blocks(place *p, yk_json content, const char *role, yk_err *err)
{
  bool is_users = strcmp(role, "user") == 0, is_assistants = strcmp(role, "assistant") == 0;
  if (!is_users || yk_json_size(content) == 0) open_as(p->t, role);
  p->block = 0;
  YK_JSON_EACH(block, content)
  {
    yk_json type = yk_json_get(block, "type");
    at_block(p);
    if (!yk_json_is(type, YK_JSON_STRING)) return yk_translation_wrong(p->t, "an object with a \"type\"", block, err);
    if (is_tool_change(type))
      YK_TRY(read_tool_change(p, block, type, err));
    else if (is_users)
      YK_TRY(read_users_block(p, block, type, err));
    else if (is_assistants)
      YK_TRY(read_assistants_block(p, block, type, err));
    else
      YK_TRY(yk_json_equals(type, "text") ? add_text(p, block, err) : unsupported(p->t, type, err));
    p->block++;
  }
  return YK_OK;
}

/* A message of the system may hold for one turn of the user alone, or change settings without a text. */
static yk_status read_system_turn(place *p, yk_json turn, yk_json content, bool *is_over, yk_err *err)
{
  yk_json until = yk_json_get(turn, "clear_at"), config = yk_json_get(turn, "output_config");
  bool is_for_one = yk_json_equals(until, "next_user_message");
  if (yk_json_is_given(until) && !is_for_one && !yk_json_equals(until, "never")) {
    yk_translation_at(p->t, "messages[%zu].clear_at", p->turn);
    return yk_translation_wrong(p->t, "\"next_user_message\" or \"never\"", until, err);
  }
  bool is_setting = yk_json_is(config, YK_JSON_OBJECT) && !yk_json_is_given(content);
  *is_over = is_setting || (is_for_one && p->turn < p->last_user);
  return YK_OK;
}

/* *role: the turn's, static. */
static yk_status read_turn(place *p, yk_json turn, const char **role, yk_err *err)
{
  static const char *const roles[] = {"user", "assistant", "system"};
  yk_json content = yk_json_get(turn, "content"), name = yk_json_get(turn, "role");
  yk_translation_at(p->t, "messages[%zu]", p->turn);
  if (!yk_json_is(turn, YK_JSON_OBJECT)) return yk_translation_wrong(p->t, "an object", turn, err);
  yk_translation_at(p->t, "messages[%zu].role", p->turn);
  if (!yk_json_is(name, YK_JSON_STRING)) return yk_translation_wrong(p->t, "a string", name, err);
  *role = NULL;
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (yk_json_equals(name, roles[i])) *role = roles[i];
  if (!*role)
    return yk_translation_refuse(p->t, YK_E_INVAL, err,
                                 "expected \"user\", \"assistant\" or \"system\", found \"%.40s\"", yk_json_text(name));
  bool is_over = false;
  if (strcmp(*role, "system") == 0) YK_TRY(read_system_turn(p, turn, content, &is_over, err));
  if (is_over) return YK_OK;
  yk_translation_at(p->t, "messages[%zu].content", p->turn);
  if (yk_json_is(content, YK_JSON_ARRAY)) return read_blocks(p, content, *role, err);
  if (!yk_json_is(content, YK_JSON_STRING))
    return yk_translation_wrong(p->t, "a string or an array of content blocks", content, err);
  open_as(p->t, *role);
  yk_translation_text(p->t, yk_json_text(content), yk_json_length(content));
  return YK_OK;
}

/* A last turn of the assistant is continued by the answer. */
static yk_status continue_last(yk_translation *t, yk_err *err)
{
  if (t->message.calls.length > 0)
    return yk_translation_refuse(t, YK_E_INVAL, err, "expected a message with the results of the last calls");
  if (t->message.n_parts == 0) return YK_OK;
  yk_strbuf_append_str(yk_translation_field(t, "add_generation_prompt"), "false");
  yk_strbuf_append_str(yk_translation_field(t, "continue_final_message"), "true");
  return YK_OK;
}

yk_status yk_messages_read_turns(yk_translation *t, yk_json messages, yk_err *err)
{
  place p = {.t = t};
  const char *role = NULL;
  if (!yk_json_is(messages, YK_JSON_ARRAY)) return yk_translation_wrong(t, "an array of messages", messages, err);
  if (yk_json_size(messages) == 0) return yk_translation_refuse(t, YK_E_INVAL, err, "expected at least one message");
  YK_JSON_EACH(turn, messages)
  {
    if (yk_json_equals(yk_json_get(turn, "role"), "user")) p.last_user = p.turn;
    p.turn++;
  }
  p.turn = 0;
  YK_JSON_EACH(turn, messages)
  {
    YK_TRY(read_turn(&p, turn, &role, err));
    p.turn++;
  }
  yk_translation_at(t, "messages");
  return role && strcmp(role, "assistant") == 0 ? continue_last(t, err) : YK_OK;
}
