/* token_walk.h - texts of tokens where they stand, as log-probabilities show them: joined they are the text.
 *
 * A token that ends inside a character has no text, and the one that completes the character has all of it, as in vLLM.
 * A token that might have stood in a token's place is read behind the same tokens. Special tokens have their names. */
#ifndef YK_OPENAI_TOKEN_WALK_H
#define YK_OPENAI_TOKEN_WALK_H

#include "openai/token_texts.h"

enum { YK_WALK_CONTEXT_TOKENS = 8 }; /* a character takes at most four */

/* Start from {0}; one thread at a time. */
typedef struct yk_token_walk {
  yk_token_texts *texts;                   /* not owned */
  yk_text_stream *stream;                  /* NULL where there is no tokenizer */
  int32_t context[YK_WALK_CONTEXT_TOKENS]; /* [n_context] the tokens before the last */
  size_t n_context;
  int32_t last; /* the token of the last call of next */
  bool has_last;
  yk_strbuf name, other; /* what next, without a tokenizer, and other have last given */
} yk_token_walk;

/* yk_token_walk_begin - behind these ids, a prompt; none: at the beginning of a text. texts must outlive the walk.
 *   Errors: YK_E_NOMEM. */
yk_status yk_token_walk_begin(yk_token_walk *walk, yk_token_texts *texts, const int32_t *ids, size_t n_ids,
                              yk_err *err);

/* yk_token_walk_next - the text of the token that comes next; valid until the next call of it. Errors: YK_E_NOMEM. */
yk_status yk_token_walk_next(yk_token_walk *walk, int32_t id, const char **text, size_t *n_bytes, yk_err *err);

/* yk_token_walk_other - the text of a token that might have stood in the last one's place; valid until the next call.
 *   Errors: YK_E_NOMEM. */
yk_status yk_token_walk_other(yk_token_walk *walk, int32_t id, const char **text, size_t *n_bytes, yk_err *err);

void yk_token_walk_free(yk_token_walk *walk);

#endif
