/* encode_bounded.h - ids of a text in time proportional to the wanted ids instead of the text's length.
 *
 * Tokenising 8 MiB takes seconds. The beginning of a text, encoded alone, has about the ids with which the text begins:
 * so beginnings of doubling length are encoded until one clearly has too many ids. The end of a text, encoded alone,
 * has the ids with which the text ends, unless they depend on where the encoding began. */
#ifndef YK_TEXT_ENCODE_BOUNDED_H
#define YK_TEXT_ENCODE_BOUNDED_H

#include "text/tokenizer.h"

/* yk_tokenizer_encode_bounded - as yk_tokenizer_encode_partly_plain; plain may be NULL.
 *   Time grows with the smaller of n_bytes and the bytes of max_ids (0: any number) tokens of this text; a text with a
 *   few more ids than max_ids may still be encoded. The spans change during the call and are restored on return.
 *   Errors: YK_E_CAPACITY for a text with more ids, with *n_ids > max_ids and *ids NULL; the others of that function,
 *   if found in the encoded part. */
yk_status yk_tokenizer_encode_bounded(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                      const yk_spans *plain, bool add_special_tokens, size_t max_ids, int32_t **ids,
                                      size_t *n_ids, yk_err *err);

/* yk_tokenizer_encode_last - the last n_last (at least 1) of the ids of yk_tokenizer_encode_partly_plain, or all if
 *   there are no more; plain may be NULL.
 *   Ends of the text are encoded from several neighbouring start characters. If their last ids agree, with a margin,
 *   the encodings coincide from before these ids on, so the ids do not depend on the beginning. Else the whole text is
 *   encoded: for example one run of digits or of one letter, whose grouping depends on its first character.
 *   Errors: those of that function, if found in the encoded part. */
yk_status yk_tokenizer_encode_last(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                   const yk_spans *plain, bool add_special_tokens, size_t n_last, int32_t **ids,
                                   size_t *n_ids, yk_err *err);

/* yk_tokenizer_encode_truncated - the ids of yk_tokenizer_encode, cut to n_most (at least 1) as transformers does: the
 *   special tokens around the text stay, and the text keeps its last ids (keeps_end) or its first ones. If n_most has
 *   no space for all special tokens, the first n_most of them.
 *   As for yk_tokenizer_encode_last, a part of a long text is encoded if its ids do not depend on the rest. Errors:
 *   those of that function. */
yk_status yk_tokenizer_encode_truncated(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                        bool add_special_tokens, size_t n_most, bool keeps_end, int32_t **ids,
                                        size_t *n_ids, yk_err *err);

#endif
