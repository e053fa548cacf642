/* alphabet.h - maps characters to symbols, one for each class of characters that a pattern distinguishes.
 *
 * A pattern distinguishes characters only by its sets. All characters that belong to the same sets become one symbol, a
 * byte, so that a text becomes a string of symbols, one for each code point, and the pattern a pattern over bytes: any
 * engine of regular expressions can be used, independent of its Unicode version. */
#ifndef YK_TEXT_ALPHABET_H
#define YK_TEXT_ALPHABET_H

#include "base/status.h"
#include "base/strbuf.h"
#include "text/code_set.h"

typedef struct yk_alphabet yk_alphabet; /* immutable */

/* yk_alphabet_create - for n ordered sets. A line feed has its own symbol, '\n'. name appears in errors.
 *   YK_E_UNSUPPORTED if more than 255 symbols are needed. */
yk_status yk_alphabet_create(const char *name, const yk_code_set *sets, size_t n, yk_alphabet **out, yk_err *err);
void yk_alphabet_free(yk_alphabet *alphabet);

/* yk_alphabet_append_set - append a PCRE2 expression for one symbol of a set; the alphabet was made with the set. */
void yk_alphabet_append_set(const yk_alphabet *alphabet, const yk_code_set *set, yk_strbuf *out);

/* yk_alphabet_write - write the symbols of text (valid UTF-8), one for each code point, to symbols [n_bytes]. Returns
 *   their number. */
size_t yk_alphabet_write(const yk_alphabet *alphabet, const char *text, size_t n_bytes, unsigned char *symbols);

#endif
