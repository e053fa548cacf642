/* span.h - ranges of a text: byte offsets from begin up to end. */
#ifndef YK_TEXT_SPAN_H
#define YK_TEXT_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

typedef struct yk_span {
  size_t begin, end;
} yk_span;

/* A growing list; start from {0}, free items. */
typedef struct yk_spans {
  yk_span *items;
  size_t n, capacity;
} yk_spans;

/* yk_spans_append - append a span. False: no memory. */
static inline bool yk_spans_append(yk_spans *spans, size_t begin, size_t end)
{
  if (spans->n == spans->capacity) {
    size_t capacity = spans->capacity ? 2 * spans->capacity : 64;
    yk_span *items = realloc(spans->items, capacity * sizeof *items);
    if (!items) return false;
    spans->items = items;
    spans->capacity = capacity;
  }
  spans->items[spans->n++] = (yk_span){begin, end};
  return true;
}

#endif
