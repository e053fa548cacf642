/* tool_calls.h - parses an answer's output into events while it arrives: content, and calls of tools.
 *
 * The parser reads the tokens' texts including special tokens, whatever the client requested, since tags may be special
 * tokens, and the finish reason. Streams and whole answers are both built from its events; no finished text is ever
 * searched.
 *
 * hermes (Hermes, Qwen): <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number of calls, text around
 * them. A call without arguments gets {}.
 * llama3_json: the whole answer is {"name": ..., "parameters" or "arguments": {...}}, or several with ";" between,
 * after an optional <|python_tag|>.
 * Text that is not a valid call becomes content, byte for byte as the model wrote it; arguments are unchanged too. If
 * an output is cut, by its length or a stop string, text that may begin a tag or a call is dropped (for llama3_json
 * only a tag: any JSON object may begin a call). The calls and the content do not depend on how the text was cut into
 * pieces. */
#ifndef YK_OPENAI_TOOL_CALLS_H
#define YK_OPENAI_TOOL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"
#include "yoke/yoke.h"

typedef enum yk_tool_format { YK_TOOLS_NONE, YK_TOOLS_HERMES, YK_TOOLS_LLAMA3_JSON } yk_tool_format;

/* yk_tool_format_find - the format named "hermes" or "llama3_json"; YK_TOOLS_NONE for any other name. */
yk_tool_format yk_tool_format_find(const char *name);

/* yk_tool_format_names - "hermes, llama3_json", for messages. */
const char *yk_tool_format_names(void);

typedef enum yk_tool_event_kind {
  YK_TOOL_CONTENT,   /* text outside calls */
  YK_TOOL_BEGIN,     /* a call begins; text is the function's name */
  YK_TOOL_ARGUMENTS, /* a piece of the arguments of the last call */
  YK_TOOL_END        /* the call has ended */
} yk_tool_event_kind;

typedef struct yk_tool_event {
  yk_tool_event_kind kind;
  int32_t call;     /* index of the call, from 0; not set for CONTENT */
  const char *text; /* [n_bytes] UTF-8; valid during the callback. END: none */
  size_t n_bytes;
  bool is_whole; /* END: the arguments are complete JSON */
} yk_tool_event;

typedef struct yk_tool_parser yk_tool_parser; /* owner: the creator; one thread at a time */

typedef struct yk_tool_options {
  yk_tool_format format;
  bool only_first;    /* calls after the first are dropped */
  bool hides_special; /* special tokens other than tags are omitted from content and arguments */
  void (*take)(void *user, const yk_tool_event *event); /* called with each event, in order, from push and finish */
  void *user;
} yk_tool_options;

/* yk_tool_parser_create - Errors: YK_E_INVAL for YK_TOOLS_NONE, YK_E_NOMEM. */
yk_status yk_tool_parser_create(const yk_tool_options *options, yk_tool_parser **out, yk_err *err);
void yk_tool_parser_free(yk_tool_parser *parser);

/* yk_tool_parser_push - one more output: its text, and the byte ranges of special tokens. The last output closes
 *   whatever is open: if nothing cut the output, an incomplete call becomes content, unless its beginning was emitted.
 *   Errors: YK_E_NOMEM, after which only free may be called. */
yk_status yk_tool_parser_push(yk_tool_parser *parser, const yk_output *output, yk_err *err);

/* yk_tool_parser_has_calls - calls were emitted, and each call that began is complete. */
bool yk_tool_parser_has_calls(const yk_tool_parser *parser);

#endif
