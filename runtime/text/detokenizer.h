/* detokenizer.h - text from token ids one at a time, as a model produces them.
 *
 * push appends only final text: whole characters that no later token can change. The texts of all pushes and of finish
 * together equal the text of yk_tokenizer_decode for all the ids. */
#ifndef YK_TEXT_DETOKENIZER_H
#define YK_TEXT_DETOKENIZER_H

#include "text/tokenizer.h"

typedef struct yk_detokenizer yk_detokenizer; /* owner: the creator; one thread at a time */

/* yk_detokenizer_create - the tokenizer must outlive it. */
yk_status yk_detokenizer_create(const yk_tokenizer *tokenizer, bool skip_special_tokens, yk_detokenizer **out,
                                yk_err *err);
void yk_detokenizer_free(yk_detokenizer *detokenizer);

/* yk_detokenizer_push - one more token; appends the final part of its text to out. Amortised time is proportional to
 *   the token. YK_E_INVAL for an id outside the vocabulary: the state is unchanged, and pushing can continue. With byte
 *   fallback a run of byte tokens is held back until another token ends it, since one bad byte spoils the run. */
yk_status yk_detokenizer_push(yk_detokenizer *detokenizer, int32_t id, yk_strbuf *out, yk_err *err);

/* yk_detokenizer_special_bytes - number of bytes that a special token has added at the end of the last push's text; 0
 *   for other tokens, and if special tokens are skipped. */
size_t yk_detokenizer_special_bytes(const yk_detokenizer *detokenizer, int32_t id);

/* yk_detokenizer_continue - before the first push: the text continues after ids, a prompt whose text is not returned.
 *   Some models spell the first token of a text differently, and a prompt may end inside a character, which push then
 *   returns whole. Only the last ids are read; ids without a token are skipped.
 *   Errors: YK_E_NOMEM, YK_E_FORMAT for a tokenizer that makes texts grow without end; after an error only free may be
 *   called. */
yk_status yk_detokenizer_continue(yk_detokenizer *detokenizer, const int32_t *ids, size_t n_ids, yk_err *err);

/* yk_detokenizer_finish - no more tokens: append the text held back. The next push begins another text. */
yk_status yk_detokenizer_finish(yk_detokenizer *detokenizer, yk_strbuf *out, yk_err *err);

/* yk_tokenizer_decode - append the text of ids to out, always well-formed UTF-8: bytes that form no character become
 *   U+FFFD. skip_special_tokens omits special tokens. An id below the vocabulary's size without a token is omitted; an
 *   id outside the vocabulary is YK_E_INVAL, naming both. */
yk_status yk_tokenizer_decode(const yk_tokenizer *tokenizer, const int32_t *ids, size_t n_ids, bool skip_special_tokens,
                              yk_strbuf *out, yk_err *err);

#endif
