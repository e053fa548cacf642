/* strbuf.h - a growing byte string. Owner: the owner of the struct; free with yk_strbuf_free.
 * After a failed allocation `failed` stays true and later appends have no effect, so that a caller may append many
 * times and check once. */
#ifndef YK_BASE_STRBUF_H
#define YK_BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct yk_strbuf {
  char *data; /* always NUL-terminated after the first append; may contain other NULs */
  size_t length;
  size_t capacity;
  bool failed;
} yk_strbuf;

#define YK_STRBUF_INIT ((yk_strbuf){0})

void yk_strbuf_append(yk_strbuf *buf, const void *bytes, size_t n_bytes);
void yk_strbuf_append_str(yk_strbuf *buf, const char *text);
void yk_strbuf_append_fmt(yk_strbuf *buf, const char *fmt, ...) YK_PRINTF(2, 3);
void yk_strbuf_clear(yk_strbuf *buf); /* keeps the memory */
void yk_strbuf_free(yk_strbuf *buf);

#endif
