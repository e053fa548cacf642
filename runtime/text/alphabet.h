/* alphabet.h - the characters of a pattern's text by what the pattern can tell apart.
 *
 * A pattern asks of a character only which of its sets hold it. All characters that the same sets hold are one symbol,
 * a byte, so that a text is a string of symbols, one for each code point, and the pattern one over bytes: any engine of
 * regular expressions will do, whatever it knows of Unicode. */
#ifndef YK_TEXT_ALPHABET_H
#define YK_TEXT_ALPHABET_H

#include "base/status.h"
#include "base/strbuf.h"
#include "text/code_set.h"

typedef struct yk_alphabet yk_alphabet; /* immutable */

/* yk_alphabet_create - for n ordered sets. A line feed is a symbol of its own, '\n'. name appears in errors.
 *   YK_E_UNSUPPORTED where more than 255 symbols are needed. */
yk_status yk_alphabet_create(const char *name, const yk_code_set *sets, size_t n, yk_alphabet **out, yk_err *err);
void yk_alphabet_free(yk_alphabet *alphabet);

/* yk_alphabet_append_set - append an expression of PCRE2 for one symbol of a set that the alphabet was made for. */
void yk_alphabet_append_set(const yk_alphabet *alphabet, const yk_code_set *set, yk_strbuf *out);

/* yk_alphabet_write - the symbols of text (valid UTF-8), one for each code point, into room for n_bytes. Returns their
 *   number. */
size_t yk_alphabet_write(const yk_alphabet *alphabet, const char *text, size_t n_bytes, unsigned char *symbols);

#endif
