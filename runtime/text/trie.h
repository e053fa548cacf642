/* trie.h - a set of texts, to find the longest that begins at a place. Built once, then read-only. */
#ifndef YK_TEXT_TRIE_H
#define YK_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct yk_trie_node {
  int32_t first_child, next_sibling; /* -1: none */
  int32_t value;                     /* of the text that ends here; -1: none does */
  unsigned char byte;
} yk_trie_node;

typedef struct yk_trie {
  yk_trie_node *nodes;
  int32_t n_nodes, capacity;
  int32_t root[256]; /* node of a first byte, -1: none; valid once n_nodes > 0 */
} yk_trie;

/* yk_trie_add - text must not be empty nor there already (YK_E_FORMAT). Start from {0}. */
yk_status yk_trie_add(yk_trie *trie, const char *text, size_t n_bytes, int32_t value, yk_err *err);
void yk_trie_free(yk_trie *trie);

/* yk_trie_find - the first place at or after from where a text of the trie begins, and the longest one there.
 *   Returns its value and sets *begin and *length; -1 where there is none. */
int32_t yk_trie_find(const yk_trie *trie, const char *text, size_t n_bytes, size_t from, size_t *begin, size_t *length);

#endif
