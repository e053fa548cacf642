/* quote.h - make text of unknown origin safe for a line of a log or a terminal.
 *
 * Characters that start a line, move a cursor or reorder the display become escapes: C0 controls, DEL and bytes that
 * are not UTF-8 become "\n", "\r", "\t" or "\x1b"; C1 controls, U+2028, U+2029, the byte order mark and the controls of
 * bidirectional text become "\u2028". All other text is unchanged, including backslashes. */
#ifndef YK_BASE_QUOTE_H
#define YK_BASE_QUOTE_H

#include <stddef.h>

#include "base/strbuf.h"

/* yk_quote - write text [n_bytes] quoted, and a NUL, to out [out_bytes > 0]. Characters and escapes are never split.
 *   Returns the number of bytes of text that were quoted: fewer than n_bytes if out is too small. */
size_t yk_quote(const char *text, size_t n_bytes, char *out, size_t out_bytes);

/* yk_quote_append - append the whole text, quoted, to a buffer. */
void yk_quote_append(yk_strbuf *out, const char *text, size_t n_bytes);

#endif
