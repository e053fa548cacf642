/* plain_marks.h - which characters of a text must be plain so that no added token comes of it. */
#ifndef YK_TEXT_PLAIN_MARKS_H
#define YK_TEXT_PLAIN_MARKS_H

#include "text/tokenizer.h"

/* yk_tokenizer_find_plain_marks - single characters of text (valid UTF-8) that every added token would hold one of that
 *   holds anything of the text, alone or with what stands before and behind the text, white space at its ends taken off
 *   or not. Few texts have any. With these characters plain (yk_tokenizer_encode_partly_plain) no added token holds
 *   anything of the text wherever the text, or a part that still begins and ends with its words, comes to stand.
 *   marks: overwritten, in order and apart; start from {0}, free items. Time grows with n_bytes and with the bytes of
 *   all added tokens. Errors: YK_E_NOMEM, YK_E_FORMAT from the normalizer. Thread: any. */
yk_status yk_tokenizer_find_plain_marks(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                        yk_spans *marks, yk_err *err);

#endif
