/* json_write.h - JSON written piece by piece into a buffer, because a tree of values would cost too much: a server
 * writes an object for every token of every client. The bytes equal those that jansson writes. */
#ifndef YK_BASE_JSON_WRITE_H
#define YK_BASE_JSON_WRITE_H

#include <stdint.h>

#include "base/strbuf.h"

/* yk_json_append_escaped - the inside of a JSON string: text [n_bytes] of UTF-8, which may contain NUL characters, with
 *   quotes, backslashes and control characters escaped. text may be NULL if n_bytes is 0. */
void yk_json_append_escaped(yk_strbuf *out, const char *text, size_t n_bytes);

/* yk_json_append_string - the same between quotes. */
void yk_json_append_string(yk_strbuf *out, const char *text, size_t n_bytes);

void yk_json_append_i64(yk_strbuf *out, int64_t value);

/* yk_json_append_real - nine digits, which distinguish any two float32; null for an infinity or a NaN, which JSON
 *   cannot express. */
void yk_json_append_real(yk_strbuf *out, double value);

#endif
