/* tokenizer_parts.h - the struct of a tokenizer, for the files that implement it. */
#ifndef YK_TEXT_TOKENIZER_PARTS_H
#define YK_TEXT_TOKENIZER_PARTS_H

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"

struct yk_tokenizer {
  yk_normalizer normalizer;
  yk_pre_tokenizer pre_tokenizer;
  yk_bpe model;
  yk_added_tokens added;
  yk_post_processor post_processor;
  yk_decoder decoder;
  int32_t eos_id; /* -1: none is named, or it is no token of this vocabulary */
};

#endif
