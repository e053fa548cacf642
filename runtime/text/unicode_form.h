/* unicode_form.h - Unicode normalisation forms (UAX #15) as in the public `tokenizers` package, which implements
 * Unicode 9: characters that later versions added stay unchanged in any context. All other characters have the same
 * forms in every version of utf8proc, since Unicode never changes the forms of an assigned character. */
#ifndef YK_TEXT_UNICODE_FORM_H
#define YK_TEXT_UNICODE_FORM_H

#include <stddef.h>

#include "base/status.h"
#include "base/strbuf.h"

typedef enum yk_unicode_form { YK_NFC, YK_NFD, YK_NFKC, YK_NFKD } yk_unicode_form;

/* yk_unicode_form_apply - append the normal form of text (valid UTF-8) to out. Time grows linearly with n_bytes. */
yk_status yk_unicode_form_apply(yk_unicode_form form, const char *text, size_t n_bytes, yk_strbuf *out, yk_err *err);

#endif
