#include "loader/safetensors/json_index.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b)
{
  return strcmp(yk_json_text(*(const yk_json *)a), yk_json_text(*(const yk_json *)b));
}

static int compare_key(const void *text, const void *key)
{
  return strcmp(text, yk_json_text(*(const yk_json *)key));
}

yk_status yk_json_index_make(yk_json object, const char *name, yk_json_index *out, yk_err *err)
{
  size_t n = yk_json_size(object);
  *out = (yk_json_index){.keys = calloc(n + 1, sizeof *out->keys)};
  if (!out->keys) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a table of %zu keys", name, n);
  YK_JSON_EACH_KEY(key, object)
  {
    out->keys[out->n++] = key;
  }
  qsort(out->keys, out->n, sizeof *out->keys, by_text);
  return YK_OK;
}

void yk_json_index_free(yk_json_index *index)
{
  free(index->keys);
  *index = (yk_json_index){0};
}

yk_json yk_json_index_get(const yk_json_index *index, const char *key)
{
  const yk_json *found = index->n ? bsearch(key, index->keys, index->n, sizeof *index->keys, compare_key) : NULL;
  return found ? yk_json_member(*found) : YK_JSON_NONE;
}
