/* plain_marks.h - finds the characters of a text that must be plain so that no added token arises from the text. */
#ifndef YK_TEXT_PLAIN_MARKS_H
#define YK_TEXT_PLAIN_MARKS_H

#include "text/tokenizer.h"

/* yk_tokenizer_find_plain_marks - finds single characters of text (valid UTF-8) such that every added token that
 *   contains any part of the text contains one of them, whether the text is alone or embedded in other text, with or
 *   without the white space at its ends. Few texts have any. If these characters are plain
 *   (yk_tokenizer_encode_partly_plain), no added token contains any part of the text, wherever the text, or a part that
 *   still begins and ends with its words, is placed. marks: overwritten, ordered and disjoint; start from {0}, free
 *   items. Time grows with n_bytes and with the bytes of all added tokens. Errors: YK_E_NOMEM, YK_E_FORMAT from the
 *   normalizer. Thread: any. */
yk_status yk_tokenizer_find_plain_marks(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                        yk_spans *marks, yk_err *err);

#endif
