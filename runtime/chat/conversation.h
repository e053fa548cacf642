/* conversation.h - a conversation before it is rendered: checked, and in the form that a template takes. */
#ifndef YK_CHAT_CONVERSATION_H
#define YK_CHAT_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/status.h"
#include "base/strbuf.h"

/* A conversation, borrowed for the length of a call. Its values may be of several documents, and reach the template as
 * Python's json module reads them: numbers as they were written, keys in their order. */
typedef struct yk_chat_conversation {
  /* Objects with a "role" (system, developer, user, assistant, tool, function, or the models' own observation, ipython)
   * and mostly "content": a string, null or absent (an assistant's or a tool's), or a list of texts: strings,
   * {"type": "text", "text": ...}, or one of vLLM's other types of texts. A template gets them in the form in which
   * vLLM passes them: yk_conversation_append. */
  yk_json messages;
  yk_json tools;             /* a list of objects, or absent or null: none given */
  yk_json documents;         /* likewise */
  yk_json arguments;         /* an object of further variables of the template ("enable_thinking"), or absent or null */
  yk_json default_arguments; /* the same, for variables that neither arguments nor reasoning_effort gives */
  const char *reasoning_effort; /* NULL or a variable of the template; also sets enable_thinking ("none": false), where
                                   arguments do not */
  bool add_generation_prompt;
  /* The text ends with the last message's content, so that an answer goes on with it: what the template puts behind is
   * left out, and so is white space at the content's end where the template trims it. Never with
   * add_generation_prompt. */
  bool continue_final_message;
  bool add_special_tokens; /* to the ids: what the tokenizer adds to every text, beside what the template has */
  int64_t deadline_ns;     /* of yk_clock_now_ns, for rendering, if before the renderer's own; 0: none */
  size_t max_ids;          /* ids are given up where there are clearly more (text/encode_bounded.h); 0: any number */
  size_t last_ids;         /* only so many ids, from the end, are wanted, in place of max_ids; 0: all */
} yk_chat_conversation;

/* In which form a template reads "content". */
typedef enum yk_content_form {
  YK_CONTENT_STRINGS, /* lists become one string, their texts joined by line ends */
  YK_CONTENT_LISTS,   /* strings become a list of one text */
  YK_CONTENT_EITHER   /* both stay, but for a tool's list, which most templates do not expect: it becomes a string */
} yk_content_form;

/* The forms that a template takes, as the helper finds them in it. */
typedef struct yk_template_needs {
  yk_content_form content;
  bool content_null;     /* it asks whether content is none: an assistant's that is not there stays null, else "" */
  bool argument_strings; /* arguments of tool calls are used as strings: they stay as they are; else they are objects */
  bool no_developer;     /* it knows no role "developer", which becomes "system" */
} yk_template_needs;

/* yk_chat_text_key - the key of the text in a content part of this type ("text", "refusal", ...); NULL: the type is no
 *   text. */
const char *yk_chat_text_key(yk_json type);

/* yk_chat_may_lack_content - whether the content of a message of this role may be null or absent. */
bool yk_chat_may_lack_content(yk_json role);

/* yk_conversation_check - YK_E_INVAL names the message, the key, what is expected and what was found. */
yk_status yk_conversation_check(const yk_chat_conversation *conversation, yk_err *err);

/* yk_conversation_append - append a conversation that has been checked as JSON: {"messages", "others": {"tools",
 *   "documents", "arguments"}}, the messages in the form that the template takes, as vLLM brings them there:
 *   - A member that is null is left out, as is a name that is no string and a list of no tool calls.
 *   - An assistant's reasoning stands under "reasoning" and "reasoning_content", whichever is given, and "thinking".
 *   - Arguments of a tool call that are a string become the object in it. Those that hold no object, no JSON or nothing
 *     become an empty one: they are the past, and refusing them would end the conversation.
 *   - Where there is a developer and the template does not know the role, all that system and developer say becomes one
 *     system message at the beginning, with blank lines between.
 *   A lack of memory makes *out failed. */
void yk_conversation_append(const yk_chat_conversation *conversation, yk_template_needs needs, yk_strbuf *out);

#endif
