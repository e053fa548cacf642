/* tool_calls.h - calls of tools found in the text of an answer while the text comes.
 *
 * hermes (Hermes, Qwen): <tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number of them, text around.
 * llama3_json: the whole answer is {"name": ..., "parameters" or "arguments": {...}}, or several with ";" between,
 *   after an optional <|python_tag|>.
 * What is no valid call comes out as content, byte for byte as the model wrote it. Arguments come out as the model
 * wrote them too. The calls and the content do not depend on how the text was cut into pieces. */
#ifndef YK_OPENAI_TOOL_CALLS_H
#define YK_OPENAI_TOOL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"

typedef enum yk_tool_format { YK_TOOLS_NONE, YK_TOOLS_HERMES, YK_TOOLS_LLAMA3_JSON } yk_tool_format;

/* yk_tool_format_find - by its name, "hermes" or "llama3_json"; YK_TOOLS_NONE for any other. */
yk_tool_format yk_tool_format_find(const char *name);

/* yk_tool_format_names - "hermes, llama3_json", for messages. */
const char *yk_tool_format_names(void);

typedef enum yk_tool_event_kind {
  YK_TOOL_CONTENT,  /* text that is no call */
  YK_TOOL_BEGIN,    /* a call begins; text is the function's name */
  YK_TOOL_ARGUMENTS /* a piece of the arguments of the last call that began */
} yk_tool_event_kind;

typedef struct yk_tool_event {
  yk_tool_event_kind kind;
  int32_t call;     /* BEGIN, ARGUMENTS: from 0 */
  const char *text; /* [n_bytes] UTF-8; valid during the callback */
  size_t n_bytes;
} yk_tool_event;

typedef struct yk_tool_parser yk_tool_parser; /* owner: whoever created it; one thread at a time */

/* yk_tool_parser_create - only_first: calls after the first are dropped. take is called with each event, in order,
 *   from push and finish. Errors: YK_E_INVAL for YK_TOOLS_NONE, YK_E_NOMEM. */
yk_status yk_tool_parser_create(yk_tool_format format, bool only_first,
                                void (*take)(void *user, const yk_tool_event *event), void *user, yk_tool_parser **out,
                                yk_err *err);
void yk_tool_parser_free(yk_tool_parser *parser);

/* yk_tool_parser_push - more text of the answer. Errors: YK_E_NOMEM, after which only free is of use. */
yk_status yk_tool_parser_push(yk_tool_parser *parser, const char *text, size_t n_bytes, yk_err *err);

/* yk_tool_parser_finish - the answer has ended: a call that is not complete becomes content, unless its beginning has
 *   been told already. Errors: YK_E_NOMEM. */
yk_status yk_tool_parser_finish(yk_tool_parser *parser, yk_err *err);

/* yk_tool_parser_calls - how many calls have begun. */
int32_t yk_tool_parser_calls(const yk_tool_parser *parser);

#endif
