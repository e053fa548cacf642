/* quote.h - text of unknown origin made safe for a line of a log or a terminal.
 *
 * Characters that start a line, move a cursor or reorder what is displayed become escapes: C0 controls, DEL and bytes
 * that are not UTF-8 "\n", "\r", "\t" or "\x1b"; C1 controls, U+2028, U+2029, the byte order mark and the controls of
 * bidirectional text "\u2028". All other text stays as it is, a backslash too. */
#ifndef YK_BASE_QUOTE_H
#define YK_BASE_QUOTE_H

#include <stddef.h>

#include "base/strbuf.h"

/* yk_quote - write text [n_bytes] quoted, and a NUL, to out [out_bytes > 0]; no part of a character or an escape.
 *   Returns how many bytes of text were quoted: fewer than n_bytes where out is too small. */
size_t yk_quote(const char *text, size_t n_bytes, char *out, size_t out_bytes);

/* yk_quote_append - the same to the end of a buffer, all of it. */
void yk_quote_append(yk_strbuf *out, const char *text, size_t n_bytes);

#endif
