/* json_write.h - JSON written piece by piece straight into a buffer, where a tree of values would cost too much: a
 * server writes an object for every token of every client. The bytes are those that jansson writes. */
#ifndef YK_BASE_JSON_WRITE_H
#define YK_BASE_JSON_WRITE_H

#include <stdint.h>

#include "base/strbuf.h"

/* yk_json_append_escaped - the inside of a JSON string: text [n_bytes] of UTF-8, which may hold NUL characters, or
 *   NULL where that is 0, with quotes, backslashes and control characters escaped. */
void yk_json_append_escaped(yk_strbuf *out, const char *text, size_t n_bytes);

/* yk_json_append_string - the same between quotes. */
void yk_json_append_string(yk_strbuf *out, const char *text, size_t n_bytes);

void yk_json_append_i64(yk_strbuf *out, int64_t value);

/* yk_json_append_real - nine digits, which tell any two float32 apart; null for what JSON has no number for: an
 *   infinity or a NaN. */
void yk_json_append_real(yk_strbuf *out, double value);

#endif
