/* bytes.h - numbers and texts in the body of a message, written into a yk_strbuf and read from untrusted bytes.
 *
 * A reader that meets bytes that do not fit has failed: later reads return zeros and "", so that a caller may read
 * many fields and check once. */
#ifndef YK_PARALLEL_CLUSTER_BYTES_H
#define YK_PARALLEL_CLUSTER_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/strbuf.h"

typedef struct yk_bytes {
  const unsigned char *at, *end;
  bool failed;
} yk_bytes;

static inline void yk_put_u32(yk_strbuf *to, uint32_t value)
{
  yk_strbuf_append(to, &value, sizeof value);
}

/* A length of 32 bits, then the bytes. */
static inline void yk_put_text(yk_strbuf *to, const char *text)
{
  size_t n_bytes = text ? strlen(text) : 0;
  yk_put_u32(to, (uint32_t)n_bytes);
  if (n_bytes > 0) yk_strbuf_append(to, text, n_bytes);
}

/* yk_take - the next n_bytes, or NULL. */
static inline const void *yk_take(yk_bytes *from, size_t n_bytes)
{
  if (from->failed || n_bytes > (size_t)(from->end - from->at)) {
    from->failed = true;
    return NULL;
  }
  const void *taken = from->at;
  from->at += n_bytes;
  return taken;
}

static inline uint32_t yk_take_u32(yk_bytes *from)
{
  uint32_t value = 0;
  const void *bytes = yk_take(from, sizeof value);
  if (bytes) memcpy(&value, bytes, sizeof value);
  return value;
}

/* yk_take_int - a number of 0 .. max. */
static inline int yk_take_int(yk_bytes *from, int max)
{
  uint32_t value = yk_take_u32(from);
  if (value > (uint32_t)max) from->failed = true;
  return from->failed ? 0 : (int)value;
}

/* yk_take_text - a text of at most capacity - 1 bytes without a NUL, into text [capacity]. */
static inline void yk_take_text(yk_bytes *from, char *text, size_t capacity)
{
  uint32_t n_bytes = yk_take_u32(from);
  const char *bytes = n_bytes < capacity ? yk_take(from, n_bytes) : NULL;
  if (!bytes || memchr(bytes, 0, n_bytes)) {
    from->failed = true;
    text[0] = 0;
    return;
  }
  memcpy(text, bytes, n_bytes);
  text[n_bytes] = 0;
}

/* yk_take_line - as yk_take_text, with '?' for control characters, which a terminal would obey. */
static inline void yk_take_line(yk_bytes *from, char *text, size_t capacity)
{
  yk_take_text(from, text, capacity);
  for (char *at = text; *at; at++)
    if ((unsigned char)*at < ' ' || *at == 127) *at = '?';
}

#endif
