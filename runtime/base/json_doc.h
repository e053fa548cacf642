/* json_doc.h - the memory of a JSON document. Private to json_*.c. */
#ifndef YK_BASE_JSON_DOC_H
#define YK_BASE_JSON_DOC_H

#include "base/json.h"

enum {
  YK_JSON_REPLACED = YK_JSON_SKIPPED + 1, /* kind of a key that is repeated later in its object */
  YK_JSON_SIZE_BITS = 28                  /* limit of the length of a text, and so of all sizes inside */
};

/* A value. The values inside a container follow it: elements, or keys and values alternately. */
typedef struct yk_json_node {
  uint32_t at;       /* strings and numbers: first byte in the text. Containers: the node after the last node inside */
  uint32_t kind : 4; /* yk_json_kind, or YK_JSON_REPLACED for a key */
  uint32_t size : YK_JSON_SIZE_BITS; /* bytes, elements, or members with distinct keys */
} yk_json_node;

struct yk_json_doc {
  char *text; /* owned; strings are decoded in place, strings and numbers end in NUL */
  yk_json_node *nodes;
  size_t n_nodes, capacity;
  bool *is_read; /* [n_nodes], owned; NULL unless the document is watched */
};

static inline uint32_t yk_json_node_after(const yk_json_node *nodes, uint32_t node)
{
  return nodes[node].kind == YK_JSON_ARRAY || nodes[node].kind == YK_JSON_OBJECT ? nodes[node].at : node + 1;
}

/* yk_json_keys_settle - mark repeated keys of object `node`, whose `n` members are complete: the last of equal keys
 *   counts. Sets the node's size. *twice: a replaced key, or NULL.
 *   Errors: YK_E_NOMEM. */
yk_status yk_json_keys_settle(yk_json_doc *doc, uint32_t node, uint32_t n, const char **twice, yk_err *err);

#endif
