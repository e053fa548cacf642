/* events.h - the events of an answer, and the options of its parser. */
#ifndef YK_OPENAI_PARSE_EVENTS_H
#define YK_OPENAI_PARSE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "openai/parse/reasoning.h"
#include "openai/parse/tool_format.h"
#include "openai/parse/tool_schemas.h"

typedef enum yk_answer_event_kind {
  YK_EVENT_CONTENT,   /* text outside calls */
  YK_EVENT_REASONING, /* text before the content */
  YK_EVENT_CALL,      /* a call begins; text is the function's name */
  YK_EVENT_ARGUMENTS, /* a piece of the arguments of the last call: JSON */
  YK_EVENT_CALL_END   /* the call has ended */
} yk_answer_event_kind;

typedef struct yk_answer_event {
  yk_answer_event_kind kind;
  int32_t call;     /* index of the call, from 0; not set for CONTENT and REASONING */
  const char *text; /* [n_bytes] UTF-8; valid during the callback. CALL_END: none */
  size_t n_bytes;
  const char *id; /* [n_id_bytes] CALL: the id that the model wrote; NULL: none */
  size_t n_id_bytes;
  bool is_whole; /* CALL_END: the arguments are complete JSON */
} yk_answer_event;

typedef struct yk_answer_parser_options {
  yk_tool_format tools;
  const yk_reasoning *reasoning;  /* NULL: reasoning is content */
  bool begins_inside;             /* the prompt has opened the reasoning */
  bool only_first;                /* calls after the first are dropped */
  bool hides_special;             /* special tokens other than tags are omitted from every text */
  const yk_tool_schemas *schemas; /* of the tools, for formats that are typed; must outlive the parser; NULL: none */
  void (*take)(void *user, const yk_answer_event *event); /* called with each event, in order, from push */
  void *user;
} yk_answer_parser_options;

#endif
