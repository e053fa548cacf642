/* conversation.h - a conversation before it is rendered: checked, and in the form that a template takes. */
#ifndef YK_CHAT_CONVERSATION_H
#define YK_CHAT_CONVERSATION_H

#include <stdbool.h>

#include "base/json_tree.h"
#include "base/status.h"

/* A conversation, borrowed for the length of a call. */
typedef struct yk_chat_conversation {
  /* Objects with a "role" (system, developer, user, assistant, tool, function, or the models' own observation, ipython)
   * and mostly "content": a string, null, or a list of {"type": "text", "text": ...}, which templates that do not go
   * through such lists get as one string, its parts joined by line ends. An assistant's null is an empty string unless
   * tools are called, and "tool_calls" without a call is left out. Arguments of tool calls that are a string of JSON
   * are objects to templates that take only those, and developer is system to templates without that role. */
  const json_t *messages;
  const json_t *tools;     /* a list of objects, or NULL or null: none given */
  const json_t *documents; /* likewise */
  const json_t *arguments; /* an object of further variables of the template ("enable_thinking"), or NULL or null */
  bool add_generation_prompt;
  /* The text ends with the last message's content, so that an answer goes on with it: what the template puts behind is
   * left out, and so is white space at the content's end where the template trims it. Never with
   * add_generation_prompt. */
  bool continue_final_message;
  bool add_special_tokens; /* to the ids: what the tokenizer adds to every text, beside what the template has */
} yk_chat_conversation;

/* What a template takes, as the helper finds out by reading it. */
typedef struct yk_template_needs {
  bool content_lists;    /* it goes through lists of content parts; else they become one string */
  bool argument_objects; /* arguments of tool calls must be objects; else they stay as they are */
  bool no_developer;     /* it knows no role "developer", which becomes "system" */
} yk_template_needs;

/* yk_conversation_check - YK_E_INVAL names the message, the key, what is expected and what was found. */
yk_status yk_conversation_check(const yk_chat_conversation *conversation, yk_err *err);

/* yk_conversation_convert - a new list of messages (json_decref) in the form that the template takes. The messages have
 *   been checked. Errors: YK_E_NOMEM. */
yk_status yk_conversation_convert(const json_t *messages, yk_template_needs needs, json_t **out, yk_err *err);

#endif
