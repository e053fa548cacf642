#define _GNU_SOURCE /* qsort_r */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json_doc.h"

enum { FEW_KEYS = 8 }; /* up to this number all pairs are compared */

typedef struct hashed_key {
  uint32_t hash, node;
} hashed_key;

static bool keys_equal(const yk_json_doc *doc, uint32_t a, uint32_t b)
{
  const yk_json_node *x = &doc->nodes[a], *y = &doc->nodes[b];
  return x->size == y->size && memcmp(doc->text + x->at, doc->text + y->at, x->size) == 0;
}

static void replace(yk_json_doc *doc, uint32_t node, uint32_t key, const char **twice)
{
  if (doc->nodes[key].kind == YK_JSON_REPLACED) return;
  doc->nodes[key].kind = YK_JSON_REPLACED;
  doc->nodes[node].size--;
  *twice = doc->text + doc->nodes[key].at;
}

static void settle_few(yk_json_doc *doc, uint32_t node, const uint32_t *keys, uint32_t n, const char **twice)
{
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = i + 1; j < n; j++)
      if (keys_equal(doc, keys[i], keys[j])) replace(doc, node, keys[i], twice);
}

/* Equal hashes are sorted by their text, so that keys made to collide cost no more than others. */
static int compare(const void *left, const void *right, void *context)
{
  const hashed_key *a = left, *b = right;
  const yk_json_doc *doc = context;
  if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
  const yk_json_node *x = &doc->nodes[a->node], *y = &doc->nodes[b->node];
  if (x->size != y->size) return x->size < y->size ? -1 : 1;
  int order = memcmp(doc->text + x->at, doc->text + y->at, x->size);
  if (order) return order;
  return a->node < b->node ? -1 : 1; /* so that the last of equal keys is sorted last */
}

yk_status yk_json_keys_settle(yk_json_doc *doc, uint32_t node, uint32_t n, const char **twice, yk_err *err)
{
  uint32_t few[FEW_KEYS], key = node + 1;
  *twice = NULL;
  doc->nodes[node].size = n & ((1u << YK_JSON_SIZE_BITS) - 1);
  if (n <= FEW_KEYS) {
    for (uint32_t i = 0; i < n; i++, key = yk_json_node_after(doc->nodes, key + 1)) few[i] = key;
    settle_few(doc, node, few, n, twice);
    return YK_OK;
  }
  hashed_key *keys = malloc(n * sizeof *keys);
  if (!keys) return yk_err_set(err, YK_E_NOMEM, "JSON: no memory for an object of %u members", n);
  for (uint32_t i = 0; i < n; i++, key = yk_json_node_after(doc->nodes, key + 1))
    keys[i] = (hashed_key){yk_hash(YK_HASH_START, doc->text + doc->nodes[key].at, doc->nodes[key].size), key};
  qsort_r(keys, n, sizeof *keys, compare, doc);
  for (uint32_t i = 0; i + 1 < n; i++)
    if (keys[i].hash == keys[i + 1].hash && keys_equal(doc, keys[i].node, keys[i + 1].node))
      replace(doc, node, keys[i].node, twice);
  free(keys);
  return YK_OK;
}
