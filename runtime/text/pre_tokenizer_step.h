/* pre_tokenizer_step.h - the steps of a pre-tokeniser; for pre_tokenizer_parse.c and pre_tokenizer.c. */
#ifndef YK_TEXT_PRE_TOKENIZER_STEP_H
#define YK_TEXT_PRE_TOKENIZER_STEP_H

#include "text/component.h"

/* Treatment of the delimiters, the parts that match the pattern. "a--b" split on "-": */
typedef enum yk_split_behavior {
  YK_SPLIT_REMOVED,              /* a b      */
  YK_SPLIT_ISOLATED,             /* a - - b  */
  YK_SPLIT_MERGED_WITH_PREVIOUS, /* a- - b   */
  YK_SPLIT_MERGED_WITH_NEXT,     /* a - -b   */
  YK_SPLIT_CONTIGUOUS            /* a -- b   */
} yk_split_behavior;

typedef struct yk_pre_tokenizer_step {
  enum { YK_STEP_SPLIT, YK_STEP_PREFIX, YK_STEP_BYTE_MAP } kind;

  /* YK_STEP_SPLIT: cut each piece */
  yk_regex *pattern;
  yk_split_behavior behavior;
  bool invert; /* delimiters are the parts that do not match */

  /* YK_STEP_PREFIX: replace every space, and prepend a replacement to each piece that does not begin with one */
  yk_metaspace prefix;

  /* YK_STEP_BYTE_MAP: replace every byte by its character of the byte-level alphabet */
} yk_pre_tokenizer_step;

#endif
