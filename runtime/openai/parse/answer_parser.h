/* answer_parser.h - parses an answer's output into events while it arrives: reasoning, content, and calls of tools.
 *
 * The parser reads the tokens' texts including special tokens, independent of the request, since tags may be special
 * tokens, and the finish reason. Streams and whole answers are both built from its events; no finished text is ever
 * searched, and the events' texts do not depend on how the output was cut into pieces.
 *
 * Reasoning (reasoning.h) precedes content and calls. The white space around reasoning is dropped.
 *
 * Text that is not a valid call becomes content, byte for byte as the model wrote it. A call whose beginning has been
 * emitted is final: if its arguments turn out to be malformed, they are passed on as written, and the call is not
 * whole. If an output is cut, by its length or a stop string, text that may begin a tag or a call is dropped (for
 * llama3_json and pythonic only a tag: any JSON object may begin a call). */
#ifndef YK_OPENAI_PARSE_ANSWER_PARSER_H
#define YK_OPENAI_PARSE_ANSWER_PARSER_H

#include "base/status.h"
#include "openai/parse/events.h"
#include "yoke/yoke.h"

typedef struct yk_answer_parser yk_answer_parser; /* owner: the creator; one thread at a time */

/* yk_answer_parser_create - Errors: YK_E_NOMEM. */
yk_status yk_answer_parser_create(const yk_answer_parser_options *options, yk_answer_parser **out, yk_err *err);
void yk_answer_parser_free(yk_answer_parser *parser);

/* yk_answer_parser_push - one more output: its text, and the byte ranges of special tokens. The last output closes
 *   every open part: if the output was not truncated, an incomplete call becomes content, unless its beginning was
 *   emitted. Errors: YK_E_NOMEM, after which only free may be called. */
yk_status yk_answer_parser_push(yk_answer_parser *parser, const yk_output *output, yk_err *err);

/* yk_answer_parser_is_reasoning - the output so far ends inside reasoning. */
bool yk_answer_parser_is_reasoning(const yk_answer_parser *parser);

/* yk_answer_parser_has_calls - calls were emitted, and each call that began is complete. */
bool yk_answer_parser_has_calls(const yk_answer_parser *parser);

#endif
