/* messages_error.h - errors in Anthropic's form: {"type": "error", "error": {"type", "message"}}. */
#ifndef YK_OPENAI_MESSAGES_ERROR_H
#define YK_OPENAI_MESSAGES_ERROR_H

#include "openai/error.h"

/* yk_messages_error_append - append the object, without a newline; its type depends on the HTTP status. */
void yk_messages_error_append(const yk_openai_error *error, yk_strbuf *out);

#endif
