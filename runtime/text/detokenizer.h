/* detokenizer.h - text from token ids one at a time, as a model produces them.
 *
 * What push appends is final: whole characters that no later token can change. What all pushes and finish append is
 * together exactly what yk_tokenizer_decode gives for all the ids. */
#ifndef YK_TEXT_DETOKENIZER_H
#define YK_TEXT_DETOKENIZER_H

#include "text/tokenizer.h"

typedef struct yk_detokenizer yk_detokenizer; /* owner: whoever created it; one thread at a time */

/* yk_detokenizer_create - the tokenizer must outlive it. */
yk_status yk_detokenizer_create(const yk_tokenizer *tokenizer, bool skip_special_tokens, yk_detokenizer **out,
                                yk_err *err);
void yk_detokenizer_free(yk_detokenizer *detokenizer);

/* yk_detokenizer_push - one more token; appends its text, as far as it is final, to out. Time is proportional to the
 *   token, amortised. YK_E_INVAL for an id outside the vocabulary: the state is as before, and pushing can go on.
 *   With byte fallback a run of byte tokens is held back until another token ends it, since one bad byte spoils it. */
yk_status yk_detokenizer_push(yk_detokenizer *detokenizer, int32_t id, yk_strbuf *out, yk_err *err);

/* yk_detokenizer_special_bytes - bytes of the text that a special token has added at the end of what its push appended;
 *   0 for other tokens, and where special tokens are skipped. */
size_t yk_detokenizer_special_bytes(const yk_detokenizer *detokenizer, int32_t id);

/* yk_detokenizer_continue - before the first push: the text continues that of ids, a prompt, none of which is given
 *   out. Some models spell the first token of a text differently, and a prompt may end inside a character, which push
 *   then gives out whole. Only the last ids are read; those that no token has are passed over.
 *   Errors: YK_E_NOMEM, YK_E_FORMAT for a tokenizer that makes texts grow without end; only free is of use then. */
yk_status yk_detokenizer_continue(yk_detokenizer *detokenizer, const int32_t *ids, size_t n_ids, yk_err *err);

/* yk_detokenizer_finish - no more tokens: append what was held back. The next push begins another text. */
yk_status yk_detokenizer_finish(yk_detokenizer *detokenizer, yk_strbuf *out, yk_err *err);

/* yk_tokenizer_decode - append the text of ids to out, always well-formed UTF-8: bytes that spell no character become
 *   U+FFFD. skip_special_tokens leaves out special tokens. An id below the vocabulary's size that no token has
 *   is left out; one outside it is YK_E_INVAL, naming both. */
yk_status yk_tokenizer_decode(const yk_tokenizer *tokenizer, const int32_t *ids, size_t n_ids, bool skip_special_tokens,
                              yk_strbuf *out, yk_err *err);

#endif
