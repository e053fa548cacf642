/* answer_style.h - how a model writes tool calls and reasoning in its answers. */
#ifndef YK_OPENAI_ANSWER_STYLE_H
#define YK_OPENAI_ANSWER_STYLE_H

#include "openai/parse/reasoning.h"
#include "openai/parse/tool_format.h"

typedef struct yk_answer_style {
  yk_tool_format tools;          /* YK_TOOLS_NONE: not known */
  const yk_reasoning *reasoning; /* NULL: reasoning, if there is any, is content */
} yk_answer_style;

/* The operator's options; each NULL: by the template. The parsers' names are valid; reasoning_parser may be "none". */
typedef struct yk_answer_style_options {
  const char *chat_template; /* NULL: the checkpoint's; as in yk_chat_options */
  const char *tool_parser, *reasoning_parser;
} yk_answer_style_options;

/* yk_answer_style_find - by the options, else by the tags in the template of the checkpoint with this tokenizer
 *   (yk_tokenizer_load); a template that cannot be read has none. */
yk_answer_style yk_answer_style_find(const char *tokenizer, const yk_answer_style_options *options);

#endif
