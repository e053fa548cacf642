/* token_bytes.h - the bytes that each token of a vocabulary adds to a text, as the detokenizer has them. */
#ifndef YK_TEXT_TOKEN_BYTES_H
#define YK_TEXT_TOKEN_BYTES_H

#include "text/tokenizer.h"

typedef struct yk_token_bytes {
  yk_strbuf bytes; /* of all tokens, one after another */
  size_t *ends;    /* [n_ids] where each token's bytes end */
  int32_t n_ids;
} yk_token_bytes;

/* yk_token_bytes_create - the bytes of ids 0 .. n_ids - 1 in the middle of a text; they may be parts of characters.
 *   Special tokens, and ids without a token, have none. Errors: YK_E_NOMEM, YK_E_FORMAT for a tokenizer that makes
 *   texts grow without end; *out is then empty. Thread: any. */
yk_status yk_token_bytes_create(const yk_tokenizer *tokenizer, int32_t n_ids, yk_token_bytes *out, yk_err *err);
void yk_token_bytes_free(yk_token_bytes *tokens);

/* yk_token_bytes_of - a token's bytes, *n_bytes long, 0 for an id outside 0 .. n_ids - 1. */
const char *yk_token_bytes_of(const yk_token_bytes *tokens, int32_t id, size_t *n_bytes);

#endif
