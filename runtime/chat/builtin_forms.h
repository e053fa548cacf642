/* builtin_forms.h - chat templates that need no Python: ChatML, Llama 2, Llama 3, MiniCPM (and FM9G).
 *
 * For conversations of system, user and assistant messages whose contents are strings, they render the same text as the
 * templates of these models: Qwen2, Llama-2-chat, Meta-Llama-3-Instruct, MiniCPM. They support no tools. */
#ifndef YK_CHAT_BUILTIN_FORMS_H
#define YK_CHAT_BUILTIN_FORMS_H

#include "base/json.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "text/span.h"

typedef struct yk_builtin_form yk_builtin_form;

/* The names, for messages. */
#define YK_BUILTIN_FORM_NAMES "builtin:chatml, builtin:llama2, builtin:llama3, builtin:minicpm"

/* The end of a rendered text. */
typedef enum yk_form_ending {
  YK_ENDING_NONE,     /* the last message */
  YK_ENDING_ANSWER,   /* the header of the assistant's answer */
  YK_ENDING_CONTINUED /* the last message's content, which the answer continues */
} yk_form_ending;

/* yk_builtin_form_find - the form of a name ("chatml"), or NULL. */
const yk_builtin_form *yk_builtin_form_find(const char *name);

/* yk_builtin_form_turn_end - the text after each answer, or NULL if there is none; it lives as long as special_tokens,
 *   which are as for yk_builtin_form_render. */
const char *yk_builtin_form_turn_end(const yk_builtin_form *form, yk_json special_tokens);

/* yk_builtin_form_render - append the text of messages, which have been checked and whose contents are strings
 *   (conversation.h), and the spans of the text that come from messages of roles other than assistant.
 *   special_tokens: an object that may contain "bos_token" and "eos_token".
 *   Errors: YK_E_INVAL (a role that the form lacks, or at a wrong position), YK_E_NOMEM. */
yk_status yk_builtin_form_render(const yk_builtin_form *form, yk_json messages, yk_json special_tokens,
                                 yk_form_ending ending, yk_strbuf *text, yk_spans *plain, yk_err *err);

#endif
