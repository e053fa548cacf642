/* stop_strings.h - finds stop strings in generated text, and holds back text that a stop string may still contain. */
#ifndef YK_TEXT_STOP_STRINGS_H
#define YK_TEXT_STOP_STRINGS_H

#include <stdbool.h>

#include "base/status.h"
#include "base/strbuf.h"

typedef struct yk_stop_strings yk_stop_strings;

/* yk_stop_strings_create - strings are copied; each must be well-formed UTF-8 and not empty, since generated text would
 *   never contain another. Errors: YK_E_INVAL naming the index, YK_E_NOMEM. */
yk_status yk_stop_strings_create(const char *const *strings, size_t n, yk_stop_strings **out, yk_err *err);

/* yk_stop_strings_include - the text shall include the stop string that ends it. */
void yk_stop_strings_include(yk_stop_strings *stops);
void yk_stop_strings_free(yk_stop_strings *stops);

/* yk_stop_strings_push - take a piece of text and append to out the part that certainly precedes any stop string:
 *   everything except the longest end that begins one. True when a stop string is complete: out then has the text
 *   before the stop string that is complete first (of several that end together, the first of the list), or up to its
 *   end, and the following text is dropped. The result does not depend on how a text is cut into pieces. armed: false
 *   ignores stop strings (min_tokens). */
bool yk_stop_strings_push(yk_stop_strings *stops, const char *text, size_t n_bytes, bool armed, yk_strbuf *out);

/* yk_stop_strings_found - the complete stop string, NUL-terminated, which lives as long as stops; NULL: none. */
const char *yk_stop_strings_found(const yk_stop_strings *stops);

/* yk_stop_strings_flush - append the text held back: no more text will come. */
void yk_stop_strings_flush(yk_stop_strings *stops, yk_strbuf *out);

#endif
