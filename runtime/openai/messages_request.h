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

/* yk_messages_read_turns - "messages", an array. A last message of the assistant is continued. */
yk_status yk_messages_read_turns(yk_translation *t, yk_json messages, yk_err *err);

#endif
