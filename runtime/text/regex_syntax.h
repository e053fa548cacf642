/* regex_syntax.h - reads a pattern in Oniguruma's Ruby syntax, limited to the part that tokenizers use. */
#ifndef YK_TEXT_REGEX_SYNTAX_H
#define YK_TEXT_REGEX_SYNTAX_H

#include "base/status.h"
#include "base/strbuf.h"
#include "text/code_set.h"

/* A pattern as operators, which Oniguruma and PCRE2 share, and sets of characters. `operators` holds a set as two
 * bytes, YK_SET_MARK + number / 128 and number % 128; all others are ASCII. Start from {0}, free with
 * yk_regex_syntax_free. */
typedef struct yk_regex_syntax {
  yk_strbuf operators;
  yk_code_set *sets; /* ordered, all different */
  size_t n_sets, set_capacity;
} yk_regex_syntax;

enum { YK_SET_MARK = 0x80, YK_REGEX_MAX_SETS = 1024 };

/* yk_regex_syntax_read - pattern is UTF-8; name appears in errors. YK_E_UNSUPPORTED for syntax outside the common part,
 *   YK_E_FORMAT for a set or property that is malformed or unknown; operators are not checked. */
yk_status yk_regex_syntax_read(yk_regex_syntax *syntax, const char *name, const char *pattern, size_t n_bytes,
                               yk_err *err);
void yk_regex_syntax_free(yk_regex_syntax *syntax);

#endif
