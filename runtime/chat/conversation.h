/* conversation.h - a conversation before rendering: checked, and converted to the form that a template takes. */
#ifndef YK_CHAT_CONVERSATION_H
#define YK_CHAT_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/status.h"
#include "base/strbuf.h"

/* A conversation, borrowed for the duration of a call. Its values may belong to several documents, and reach the
 * template as Python's json module reads them: numbers as they were written, keys in their order. */
typedef struct yk_chat_conversation {
  /* Objects with a "role" (system, developer, user, assistant, tool, function, or models' own roles observation,
   * ipython) and usually "content": a string, null or absent (an assistant's or a tool's), or a list of texts: strings,
   * {"type": "text", "text": ...}, or one of vLLM's other types of texts. The template gets vLLM's form of these: see
   * yk_conversation_append. */
  yk_json messages;
  yk_json tools;             /* a list of objects; absent or null: none */
  yk_json documents;         /* a list of objects; absent or null: none */
  yk_json arguments;         /* an object of further variables of the template ("enable_thinking"), or absent or null */
  yk_json default_arguments; /* the same, for variables missing in arguments and reasoning_effort */
  /* NULL or a variable of the template; also sets enable_thinking ("none": false), unless arguments have that key */
  const char *reasoning_effort;
  bool add_generation_prompt;
  /* The text ends with the last message's content, so that an answer continues it: the template's text after it is cut
   * off, and white space at the content's end too if the template trims it. Excludes add_generation_prompt. */
  bool continue_final_message;
  /* the ids include the tokens that the tokenizer adds to every text, in addition to the template's */
  bool add_special_tokens;
  int64_t deadline_ns; /* by yk_clock_now_ns, for rendering, if before the renderer's own limit; 0: none */
  /* tokenising stops early if there are clearly more ids (text/encode_bounded.h); 0: any number */
  size_t max_ids;
  size_t last_ids; /* number of ids to return, from the end, in place of max_ids; 0: all */
} yk_chat_conversation;

/* The form of "content" that a template reads. */
typedef enum yk_content_form {
  YK_CONTENT_STRINGS, /* lists become one string, their texts joined by line ends */
  YK_CONTENT_LISTS,   /* strings become a list of one text */
  YK_CONTENT_EITHER   /* both stay, except a tool's list, which most templates do not expect: it becomes a string */
} yk_content_form;

/* The forms that a template takes, as found by the helper in its syntax tree. */
typedef struct yk_template_needs {
  yk_content_form content;
  /* The template tests content for none: an assistant's absent content stays null, else "". If the template fails on
   * null, the helper renders again with "". */
  bool content_null;
  bool argument_strings;  /* arguments of tool calls are used as strings and stay unchanged; else they are objects */
  bool no_developer;      /* the template lacks the role "developer", which becomes "system" */
  bool calls_in_metadata; /* the template has a call as "metadata", its name, and results as the role "observation" */
  bool system_first;      /* the template refuses a message of the system after another message */
  bool tools_in_system;   /* the template reads tools as a text, the member "tools" of a message of the system */
} yk_template_needs;

/* yk_chat_text_key - the key of the text in a content part of this type ("text", "refusal", ...); NULL: the type is not
 *   a text. */
const char *yk_chat_text_key(yk_json type);

/* yk_chat_may_lack_content - whether the content of a message of this role may be null or absent. */
bool yk_chat_may_lack_content(yk_json role);

/* yk_conversation_check - YK_E_INVAL names the message, the key, the expected and the found value. */
yk_status yk_conversation_check(const yk_chat_conversation *conversation, yk_err *err);

/* yk_conversation_append - append a checked conversation as JSON: {"messages", "others": {"tools", "documents",
 *   "arguments"}}, the messages in the form that the template takes, converted as in vLLM:
 *   - A null member is omitted, and so are a name that is not a string and an empty list of tool calls.
 *   - An assistant's reasoning is given as "reasoning", "reasoning_content" and "thinking", whichever of the first two
 *   the client used.
 *   - Arguments of a tool call that are a string become the object in the string. A string without an object, without
 *   valid JSON or without text becomes an empty object: these are past calls, and refusing them would end the
 *   conversation.
 *   - If there is a developer and the template lacks the role, all system and developer messages become one system
 *   message at the beginning, with blank lines between.
 *   - If the template takes a message of the system only at the beginning, those at the beginning become one, and each
 *   later one keeps its place as a message of the user, so that the conversation's beginning is rendered as before.
 *   - If the template has tools in a message of the system, the first one, or an empty one at the beginning, gets the
 *   functions as JSON.
 *   - Where the template has calls in "metadata", each call is a separate assistant message with the arguments as
 *   content, and a tool's message becomes one of the role "observation".
 *   A failed allocation sets out->failed. */
void yk_conversation_append(const yk_chat_conversation *conversation, yk_template_needs needs, yk_strbuf *out);

#endif
