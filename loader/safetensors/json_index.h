/* json_index.h - an index for looking up the members of a large object by key: 100,000 tensors of an index file, or a
 * description of each. Not for use outside the loader. */
#ifndef YK_LOADER_JSON_INDEX_H
#define YK_LOADER_JSON_INDEX_H

#include "base/json.h"

typedef struct yk_json_index {
  yk_json *keys; /* [n], in ascending order (strcmp); owned */
  size_t n;
} yk_json_index;

/* yk_json_index_make - index an object's members; the object's document must outlive the index. Free with
 *   yk_json_index_free, also after an error. name: of the file in errors. Errors: YK_E_NOMEM. */
yk_status yk_json_index_make(yk_json object, const char *name, yk_json_index *out, yk_err *err);
void yk_json_index_free(yk_json_index *index);

/* yk_json_index_get - the value of a key, absent if there is none. Time is proportional to the logarithm of n. */
yk_json yk_json_index_get(const yk_json_index *index, const char *key);

#endif
