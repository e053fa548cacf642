/* responses_request.h - OpenAI's responses: bodies of POST /v1/responses. Nothing is stored, so that a body holds the
 * whole conversation. */
#ifndef YK_OPENAI_RESPONSES_REQUEST_H
#define YK_OPENAI_RESPONSES_REQUEST_H

#include "openai/translation.h"

/* Text before the reasoning in "encrypted_content", which a client gets and returns unread. */
#define YK_REASONING_SEAL "yoke:"

/* yk_responses_translate - yk_protocol.translate. */
yk_status yk_responses_translate(yk_translation *t, yk_json body, yk_err *err);

/* yk_responses_keeps - yk_protocol.keeps. */
bool yk_responses_keeps(const char *key);

/* yk_responses_read_items - the items of "input", an array, as messages. */
yk_status yk_responses_read_items(yk_translation *t, yk_json items, yk_err *err);

/* yk_responses_read_tools - an array at t->param, as tools. Other types than functions are left out, or refused if the
 *   client would get a wrong answer without them. allowed: an array of the tools that may be called; absent: all. */
yk_status yk_responses_read_tools(yk_translation *t, yk_json tools, yk_json allowed, yk_err *err);

#endif
