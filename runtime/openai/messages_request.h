/* messages_request.h - Anthropic's messages: bodies of POST /v1/messages and /v1/messages/count_tokens. */
#ifndef YK_OPENAI_MESSAGES_REQUEST_H
#define YK_OPENAI_MESSAGES_REQUEST_H

#include "openai/translation.h"

/* yk_messages_translate / _count - yk_protocol.translate; the first requires max_tokens. */
yk_status yk_messages_translate(yk_translation *t, yk_json body, yk_err *err);
yk_status yk_messages_translate_count(yk_translation *t, yk_json body, yk_err *err);

/* yk_messages_keeps - yk_protocol.keeps. */
bool yk_messages_keeps(const char *key);

/* yk_messages_read_system - "system": a string, or text blocks. A line that a client changes with each request
 *   ("x-anthropic-billing-header:") is left out, since prompts that begin differently share no computed prefix. */
yk_status yk_messages_read_system(yk_translation *t, yk_json system, yk_err *err);

/* yk_messages_is_document - whether a block of this type is a document or a search result. */
bool yk_messages_is_document(yk_json type);

/* yk_messages_read_document - add such a block, whose place is param, to the open message as a text. */
yk_status yk_messages_read_document(yk_translation *t, yk_json block, yk_err *err);

/* yk_messages_read_tool - add the tool at param, an entry of "tools" or a definition in a message of the system. */
yk_status yk_messages_read_tool(yk_translation *t, yk_json tool, yk_err *err);

/* yk_messages_read_turns - "messages", an array. A last message of the assistant is continued. */
yk_status yk_messages_read_turns(yk_translation *t, yk_json messages, yk_err *err);

#endif
