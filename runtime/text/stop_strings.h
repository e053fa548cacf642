/* stop_strings.h - find where generated text must end, without ever giving out text that a stop string may claim. */
#ifndef YK_TEXT_STOP_STRINGS_H
#define YK_TEXT_STOP_STRINGS_H

#include <stdbool.h>

#include "base/status.h"
#include "base/strbuf.h"

typedef struct yk_stop_strings yk_stop_strings;

/* yk_stop_strings_create - strings are copied; each must be well-formed UTF-8 and not empty, since generated text would
 *   never hold another. Errors: YK_E_INVAL naming the index, YK_E_NOMEM. */
yk_status yk_stop_strings_create(const char *const *strings, size_t n, yk_stop_strings **out, yk_err *err);

/* yk_stop_strings_include - the stop string that ends a text shall be part of it. */
void yk_stop_strings_include(yk_stop_strings *stops);
void yk_stop_strings_free(yk_stop_strings *stops);

/* yk_stop_strings_push - take in a piece of text and append to out what is certain to come before any stop string: all
 *   but the longest end that begins one. True once a stop string is complete: out then has the text before the one that
 *   is complete first (of several that end together the first of the list), or up to its end, and what follows is
 *   dropped. However a text is cut into pieces, the result is one. armed: false lets stop strings pass (min_tokens). */
bool yk_stop_strings_push(yk_stop_strings *stops, const char *text, size_t n_bytes, bool armed, yk_strbuf *out);

/* yk_stop_strings_found - the stop string that is complete, NUL-terminated and as long-lived as stops; NULL: none. */
const char *yk_stop_strings_found(const yk_stop_strings *stops);

/* yk_stop_strings_flush - append what was held back: no more text will come. */
void yk_stop_strings_flush(yk_stop_strings *stops, yk_strbuf *out);

#endif
