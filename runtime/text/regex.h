/* regex.h - the regular expressions of a tokenizer.json, which are written for Oniguruma (Ruby syntax), on PCRE2.
 *
 * PCRE2 matches strings of symbols (alphabet.h), and Yoke's own tables map characters to symbols: so matches do not
 * depend on the Unicode version of the installed PCRE2. Syntax that could mean something else is refused by name
 * (regex_syntax.h). */
#ifndef YK_TEXT_REGEX_H
#define YK_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "text/span.h"

typedef struct yk_regex yk_regex; /* immutable: many threads may use it at once */

/* For use inside a set: the members of \w in Rust's regular expressions, which follow UTS #18, annex C, with the
 * numbers of Rust's standard library, which include those of Unicode 17 in addition to the tables' Unicode 16. */
#define YK_REGEX_RUST_WORD   "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"
#define YK_REGEX_RUST_NUMBER "\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}"

/* yk_regex_compile - pattern is UTF-8; literal: the pattern is plain text. name appears in errors. YK_E_UNSUPPORTED for
 *   syntax outside the common part, YK_E_FORMAT for a malformed pattern. */
yk_status yk_regex_compile(const char *name, const char *pattern, size_t n_bytes, bool literal, yk_regex **out,
                           yk_err *err);
void yk_regex_free(yk_regex *regex);

/* yk_regex_find_all - all matches in text (valid UTF-8), left to right, not overlapping; an empty match right after
 *   another match does not count. *matches is overwritten. YK_E_INVAL if matching exceeds its limits. */
yk_status yk_regex_find_all(const yk_regex *regex, const char *text, size_t n_bytes, yk_spans *matches, yk_err *err);

#endif
