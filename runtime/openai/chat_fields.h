/* chat_fields.h - the fields of a request that are about a conversation: messages, tools, and what is done with them.
 * Checked as far as they mean the same to every model; the template may still refuse them. */
#ifndef YK_OPENAI_CHAT_FIELDS_H
#define YK_OPENAI_CHAT_FIELDS_H

#include "openai/request.h"

/* yk_chat_init - the defaults of yk_openai_chat. */
void yk_chat_init(yk_openai_chat *chat);

/* Each reads one field, named as the field. Errors: YK_E_FORMAT, YK_E_INVAL, YK_E_UNSUPPORTED (content that is no
 * text). */
yk_status yk_chat_read_messages(yk_openai_chat *chat, yk_json value, yk_err *err);
yk_status yk_chat_read_tools(yk_openai_chat *chat, yk_json value, yk_err *err);
yk_status yk_chat_read_documents(yk_openai_chat *chat, yk_json value, yk_err *err);
yk_status yk_chat_read_template_kwargs(yk_openai_chat *chat, yk_json value, yk_err *err);

/* yk_chat_read_tool_choice - "auto" and "none"; "none" takes the tools away. Calls cannot be enforced. */
yk_status yk_chat_read_tool_choice(yk_json value, bool *none, yk_err *err);

/* yk_chat_check_endings - add_generation_prompt and continue_final_message exclude each other. */
yk_status yk_chat_check_endings(const yk_openai_chat *chat, yk_err *err);

#endif
