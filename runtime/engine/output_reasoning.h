/* output_reasoning.h - which part of an output is reasoning, read from its tokens, and the tokens that end reasoning
 * beyond its limit.
 *
 * Tags are matched in the text, across token boundaries. An output that begins with white space and the open tag, or
 * whose prompt has opened the reasoning, reasons until the close tag; any other output is an answer from its first
 * token. */
#ifndef YK_ENGINE_OUTPUT_REASONING_H
#define YK_ENGINE_OUTPUT_REASONING_H

#include "text/detokenizer.h"
#include "yoke/yoke.h"

typedef enum yk_output_part {
  YK_OUTPUT_ANSWERS, /* the remaining output is the answer */
  YK_OUTPUT_REASONS,
  YK_OUTPUT_OPENS /* so far white space and a part of the open tag */
} yk_output_part;

typedef struct yk_output_reasoning {
  yk_output_part part;
  int32_t n_read;              /* output tokens */
  int32_t first;               /* of REASONS and ANSWERS: output token with which the part begins */
  yk_detokenizer *detokenizer; /* NULL: there are no tags */
  yk_strbuf text;              /* of the last token that was read; in an answer, the text after the close tag in it */
  size_t n_tag;                /* bytes of the tag that have occurred */
  char *open, *close;          /* open is NULL if the prompt has opened the reasoning */
  int32_t *open_ids, *close_ids;
  size_t n_open_ids, n_close_ids;
  int32_t call_id;    /* ends the reasoning, and is the answer's first token; -1: none */
  int32_t max_tokens; /* of the reasoning; -1: any number */
} yk_output_reasoning;

/* yk_output_reasoning_init - from the reasoning members of sampling; without tags, the whole output is the answer.
 *   tokenizer: NULL if the model has none; no_tokenizer is then the reason.
 *   Errors: YK_E_UNSUPPORTED for tags without a tokenizer; YK_E_INVAL for a tag that is empty or repeats its first
 *   byte; YK_E_NOMEM. On failure the caller frees nothing. Thread: any. */
yk_status yk_output_reasoning_init(yk_output_reasoning *reasoning, const yk_tokenizer *tokenizer,
                                   const char *no_tokenizer, const yk_sampling *sampling, yk_err *err);
void yk_output_reasoning_end(yk_output_reasoning *reasoning);

/* yk_output_reasoning_read - read the output's ids [n] that have not been read. */
void yk_output_reasoning_read(yk_output_reasoning *reasoning, const int32_t *ids, int32_t n);

/* yk_output_reasoning_forced - the id of the close tag that must follow the output ids [n], which have been read, if
 *   the reasoning has reached its limit; -1: none. */
int32_t yk_output_reasoning_forced(const yk_output_reasoning *reasoning, const int32_t *ids, int32_t n);

/* yk_output_reasoning_opening - the id of the open tag that may follow the output ids [n], while the part is OPENS; -1:
 *   none. */
int32_t yk_output_reasoning_opening(const yk_output_reasoning *reasoning, const int32_t *ids, int32_t n);

#endif
