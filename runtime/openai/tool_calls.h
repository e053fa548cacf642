/* tool_calls.h - an answer's output as events, while it comes: what is content, and which tools are called.
 *
 * The parser reads tokens' texts with the special ones among them, whatever the client asked for, since tags may be
 * special tokens, and the reason of the end. Streams and whole answers are both made of its events; no finished text is
 * ever searched.
 *
 * hermes (Hermes, Qwen): <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number of them, text around. A
 *   call without arguments has none: {}.
 * llama3_json: the whole answer is {"name": ..., "parameters" or "arguments": {...}}, or several with ";" between,
 *   after an optional <|python_tag|>.
 * Text that is no valid call comes out as content, byte for byte as the model wrote it; so do arguments. Where an
 * output is cut, by its length or a stop string, text that may begin a tag or a call is dropped (of llama3_json only a
 * tag: any JSON object may begin a call). The calls and the content do not depend on how the text was cut into
 * pieces. */
#ifndef YK_OPENAI_TOOL_CALLS_H
#define YK_OPENAI_TOOL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"
#include "yoke/yoke.h"

typedef enum yk_tool_format { YK_TOOLS_NONE, YK_TOOLS_HERMES, YK_TOOLS_LLAMA3_JSON } yk_tool_format;

/* yk_tool_format_find - by its name, "hermes" or "llama3_json"; YK_TOOLS_NONE for any other. */
yk_tool_format yk_tool_format_find(const char *name);

/* yk_tool_format_names - "hermes, llama3_json", for messages. */
const char *yk_tool_format_names(void);

typedef enum yk_tool_event_kind {
  YK_TOOL_CONTENT,   /* text that is no call */
  YK_TOOL_BEGIN,     /* a call begins; text is the function's name */
  YK_TOOL_ARGUMENTS, /* a piece of the arguments of the last call that began */
  YK_TOOL_END        /* that call has ended */
} yk_tool_event_kind;

typedef struct yk_tool_event {
  yk_tool_event_kind kind;
  int32_t call;     /* all but CONTENT: from 0 */
  const char *text; /* [n_bytes] UTF-8; valid during the callback. END: none */
  size_t n_bytes;
  bool is_whole; /* END: the arguments are JSON to their last brace */
} yk_tool_event;

typedef struct yk_tool_parser yk_tool_parser; /* owner: whoever created it; one thread at a time */

typedef struct yk_tool_options {
  yk_tool_format format;
  bool only_first;    /* calls after the first are dropped */
  bool hides_special; /* special tokens that are no tags are neither in the content nor in arguments */
  void (*take)(void *user, const yk_tool_event *event); /* each event, in order, from push and finish */
  void *user;
} yk_tool_options;

/* yk_tool_parser_create - Errors: YK_E_INVAL for YK_TOOLS_NONE, YK_E_NOMEM. */
yk_status yk_tool_parser_create(const yk_tool_options *options, yk_tool_parser **out, yk_err *err);
void yk_tool_parser_free(yk_tool_parser *parser);

/* yk_tool_parser_push - one more output: its text, and which of that is special tokens'. The one that ends the answer
 *   closes what is open: where nothing cut the output, an incomplete call becomes content, unless its beginning was
 *   emitted. Errors: YK_E_NOMEM, after which only free is of use. */
yk_status yk_tool_parser_push(yk_tool_parser *parser, const yk_output *output, yk_err *err);

/* yk_tool_parser_has_calls - there were events of calls, and each call that began is whole. */
bool yk_tool_parser_has_calls(const yk_tool_parser *parser);

#endif
