/* pre_tokenizer.h - the "pre_tokenizer" of a tokenizer.json: ByteLevel, Digits, Metaspace, Split, Whitespace,
 * WhitespaceSplit, Sequence. */
#ifndef YK_TEXT_PRE_TOKENIZER_H
#define YK_TEXT_PRE_TOKENIZER_H

#include "base/json.h"
#include "text/pieces.h"

typedef struct yk_pre_tokenizer {
  struct yk_pre_tokenizer_step *steps; /* applied in order to every piece; none: pieces are unchanged */
  size_t n_steps;
} yk_pre_tokenizer;

/* yk_pre_tokenizer_parse - read the value of "pre_tokenizer" (absent or null: none). On failure the caller frees
 *   nothing. */
yk_status yk_pre_tokenizer_parse(yk_pre_tokenizer *pre_tokenizer, const char *file, yk_json value, yk_err *err);
void yk_pre_tokenizer_free(yk_pre_tokenizer *pre_tokenizer);

/* yk_pre_tokenizer_apply - cut and rewrite the pieces that are still text; *spare is scratch. Any thread. */
yk_status yk_pre_tokenizer_apply(const yk_pre_tokenizer *pre_tokenizer, yk_pieces *pieces, yk_pieces *spare,
                                 yk_err *err);

#endif
