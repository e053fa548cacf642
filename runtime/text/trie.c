#include "text/trie.h"

#include <stdlib.h>
#include <string.h>

/* The node of byte in the list that begins at *list, added if missing; -1 without memory. */
static int32_t child(yk_trie *trie, int32_t parent, unsigned char byte)
{
  int32_t first = parent < 0 ? trie->root[byte] : trie->nodes[parent].first_child;
  for (int32_t node = first; node >= 0; node = trie->nodes[node].next_sibling)
    if (trie->nodes[node].byte == byte) return node;
  if (trie->n_nodes == trie->capacity) {
    if (trie->capacity > INT32_MAX / 2) return -1;
    int32_t capacity = trie->capacity ? 2 * trie->capacity : 256;
    yk_trie_node *nodes = realloc(trie->nodes, (size_t)capacity * sizeof *nodes);
    if (!nodes) return -1;
    trie->nodes = nodes;
    trie->capacity = capacity;
  }
  int32_t node = trie->n_nodes++;
  trie->nodes[node] = (yk_trie_node){-1, parent < 0 ? -1 : first, -1, byte};
  if (parent < 0)
    trie->root[byte] = node;
  else
    trie->nodes[parent].first_child = node;
  return node;
}

yk_status yk_trie_add(yk_trie *trie, const char *text, size_t n_bytes, int32_t value, yk_err *err)
{
  if (n_bytes == 0) return yk_err_set(err, YK_E_FORMAT, "an empty text cannot be searched for");
  if (trie->n_nodes == 0) memset(trie->root, 0xFF, sizeof trie->root);
  int32_t node = -1;
  for (size_t i = 0; i < n_bytes; i++) {
    node = child(trie, node, (unsigned char)text[i]);
    if (node < 0) return yk_err_set(err, YK_E_NOMEM, "no memory for a text of %zu bytes", n_bytes);
  }
  if (trie->nodes[node].value >= 0)
    return yk_err_set(err, YK_E_FORMAT, "two tokens are both found by \"%.*s\"", n_bytes < 64 ? (int)n_bytes : 64,
                      text);
  trie->nodes[node].value = value;
  return YK_OK;
}

void yk_trie_free(yk_trie *trie)
{
  free(trie->nodes);
  *trie = (yk_trie){0};
}

int32_t yk_trie_find(const yk_trie *trie, const char *text, size_t n_bytes, size_t from, size_t *begin, size_t *length)
{
  if (trie->n_nodes == 0) return -1;
  for (size_t at = from; at < n_bytes; at++) {
    int32_t value = -1, node = trie->root[(unsigned char)text[at]];
    for (size_t end = at + 1; node >= 0; end++) {
      if (trie->nodes[node].value >= 0) {
        value = trie->nodes[node].value;
        *begin = at;
        *length = end - at;
      }
      if (end == n_bytes) break;
      node = trie->nodes[node].first_child;
      while (node >= 0 && trie->nodes[node].byte != (unsigned char)text[end]) node = trie->nodes[node].next_sibling;
    }
    if (value >= 0) return value;
  }
  return -1;
}
