/* ids.h - a growing array of token ids. As in a yk_strbuf, a failed allocation sets failed, which stays set and is
 * checked once at the end. */
#ifndef YK_TEXT_IDS_H
#define YK_TEXT_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct yk_ids {
  int32_t *data;
  size_t n, capacity;
  bool failed;
} yk_ids;

static inline void yk_ids_append(yk_ids *ids, int32_t id)
{
  if (ids->n == ids->capacity) {
    size_t capacity = ids->capacity ? 2 * ids->capacity : 64;
    int32_t *data = ids->failed ? NULL : realloc(ids->data, capacity * sizeof *data);
    if (!data) {
      ids->failed = true;
      return;
    }
    ids->data = data;
    ids->capacity = capacity;
  }
  ids->data[ids->n++] = id;
}

#endif
