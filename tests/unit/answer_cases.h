/* answer_cases.h - the events of an answer in readable form, independent of how the answer is cut. */
#ifndef TESTS_UNIT_ANSWER_CASES_H
#define TESTS_UNIT_ANSWER_CASES_H

#include "base/strbuf.h"
#include "openai/parse/answer_parser.h"

/* Content unchanged, reasoning as «reasoning», a call as {name|arguments}, with the model's id {id:name|arguments}, a
 * cut or broken call as {name|arguments!. */
typedef struct answer_record {
  yk_strbuf text;
  bool in_call, in_reasoning, has_broken;
  int32_t n_calls;
  int n_pieces; /* of arguments */
} answer_record;

/* Options of the parser, and the end of the answer. */
typedef struct answer_way {
  yk_tool_format tools;
  const yk_reasoning *reasoning;
  const yk_tool_schemas *schemas;
  bool begins_inside;
  bool only_first;
  const char *const *specials; /* texts that are special tokens, up to NULL; or NULL */
  bool hides_special;
  yk_output end;
} answer_way;

/* A text and its events; expected NULL: the text is content, byte for byte. */
typedef struct answer_sample {
  const char *text, *expected;
} answer_sample;

/* answer_take - yk_answer_parser_options.take for a record; checks the order of events. */
void answer_take(void *record, const yk_answer_event *event);

/* answer_check - checks the events of a text whole, cut once and twice anywhere, and byte by byte. */
void answer_check(const answer_way *way, const char *text, const char *expected);

/* answer_check_samples - answer_check of each of n rows; a failure names the row. */
void answer_check_samples(const answer_way *way, const answer_sample *rows, size_t n);

/* answer_check_once - the text whole. */
void answer_check_once(const answer_way *way, const char *text, const char *expected);

#endif
