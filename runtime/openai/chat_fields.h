/* chat_fields.h - the fields of a request that concern a conversation: messages, tools and their settings. Only rules
 * that hold for every model are checked; the template may still refuse the fields. */
#ifndef YK_OPENAI_CHAT_FIELDS_H
#define YK_OPENAI_CHAT_FIELDS_H

#include "openai/call_constraints.h"
#include "openai/request.h"

/* yk_chat_init - the defaults of yk_openai_chat. */
void yk_chat_init(yk_openai_chat *chat);

/* Each reads one field, with the field's name. Errors: YK_E_FORMAT, YK_E_INVAL, YK_E_UNSUPPORTED (content other than
 * text). */
yk_status yk_chat_read_messages(yk_openai_chat *chat, yk_json value, yk_err *err);
yk_status yk_chat_read_tools(yk_openai_chat *chat, yk_json value, yk_err *err);
yk_status yk_chat_read_documents(yk_openai_chat *chat, yk_json value, yk_err *err);
yk_status yk_chat_read_template_kwargs(yk_openai_chat *chat, yk_json value, yk_err *err);

/* yk_chat_read_tool_choice - "auto", "none", "required" or a function; *function: its name, else NULL. */
yk_status yk_chat_read_tool_choice(yk_json value, yk_tool_choice *choice, const char **function, yk_err *err);

/* yk_chat_check_endings - add_generation_prompt and continue_final_message exclude each other. */
yk_status yk_chat_check_endings(const yk_openai_chat *chat, yk_err *err);

#endif
