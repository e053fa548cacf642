/* encode_bounded.h - ids of a text, given up early where there are far more of them than a context takes.
 *
 * Tokenising 8 MiB takes seconds. The beginning of a text, encoded alone, has about the ids that the text begins with:
 * so beginnings of doubling length are encoded until one has clearly too many. */
#ifndef YK_TEXT_ENCODE_BOUNDED_H
#define YK_TEXT_ENCODE_BOUNDED_H

#include "text/tokenizer.h"

/* yk_tokenizer_encode_bounded - as yk_tokenizer_encode_partly_plain; plain may be NULL.
 *   Time grows with the smaller of n_bytes and what max_ids (0: any number) tokens take in this text; a text with a few
 *   more ids than max_ids may still be encoded. The spans are changed meanwhile and are as before on return.
 *   Errors: YK_E_CAPACITY for a text of more, with *n_ids > max_ids and *ids NULL; the others of that function, which
 *   are found in what was encoded. */
yk_status yk_tokenizer_encode_bounded(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                      const yk_spans *plain, bool add_special_tokens, size_t max_ids, int32_t **ids,
                                      size_t *n_ids, yk_err *err);

#endif
