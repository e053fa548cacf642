/* token_walk.h - texts of tokens at their positions, for log-probabilities: concatenated they are the whole text.
 *
 * A token that ends inside a character has no text, and the token that completes the character has the whole character,
 * as in vLLM. An alternative to a token is decoded after the same context. Special tokens have their names. */
#ifndef YK_OPENAI_TOKEN_WALK_H
#define YK_OPENAI_TOKEN_WALK_H

#include "openai/token_texts.h"

enum { YK_WALK_CONTEXT_TOKENS = 8 }; /* a character takes at most four tokens */

/* Start from {0}; one thread at a time. */
typedef struct yk_token_walk {
  yk_token_texts *texts;                   /* not owned */
  yk_text_stream *stream;                  /* NULL without a tokenizer */
  int32_t context[YK_WALK_CONTEXT_TOKENS]; /* [n_context] the tokens before the last */
  size_t n_context;
  int32_t last; /* the token of the last call of next */
  bool has_last;
  yk_strbuf name, other; /* last results of next (without a tokenizer) and of other */
} yk_token_walk;

/* yk_token_walk_begin - start after these ids, a prompt; without ids: at the beginning of a text. texts must outlive
 *   the walk. Errors: YK_E_NOMEM, YK_E_INVAL (an id outside the vocabulary), YK_E_FORMAT (a tokenizer that makes texts
 *   grow without end); also for the next two. */
yk_status yk_token_walk_begin(yk_token_walk *walk, yk_token_texts *texts, const int32_t *ids, size_t n_ids,
                              yk_err *err);

/* yk_token_walk_next - the text of the next token; valid until the next call of the function. */
yk_status yk_token_walk_next(yk_token_walk *walk, int32_t id, const char **text, size_t *n_bytes, yk_err *err);

/* yk_token_walk_other - the text of an alternative to the last token; valid until the next call of the function. */
yk_status yk_token_walk_other(yk_token_walk *walk, int32_t id, const char **text, size_t *n_bytes, yk_err *err);

void yk_token_walk_free(yk_token_walk *walk);

#endif
