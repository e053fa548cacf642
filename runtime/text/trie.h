/* trie.h - a set of texts; finds the longest text that begins at a position. Built once, then read-only. */
#ifndef YK_TEXT_TRIE_H
#define YK_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct yk_trie_node {
  int32_t first_child, next_sibling; /* -1: none */
  int32_t value;                     /* of the text that ends here; -1: none */
  unsigned char byte;
} yk_trie_node;

typedef struct yk_trie {
  yk_trie_node *nodes;
  int32_t n_nodes, capacity;
  int32_t root[256]; /* node of a first byte, -1: none; valid if n_nodes > 0 */
} yk_trie;

/* yk_trie_add - text must be new and not empty (YK_E_FORMAT). Start from {0}. */
yk_status yk_trie_add(yk_trie *trie, const char *text, size_t n_bytes, int32_t value, yk_err *err);
void yk_trie_free(yk_trie *trie);

/* yk_trie_find - the first position at or after from at which a text of the trie begins, and the longest text there.
 *   Returns its value and sets *begin and *length; -1: none. */
int32_t yk_trie_find(const yk_trie *trie, const char *text, size_t n_bytes, size_t from, size_t *begin, size_t *length);

#endif
