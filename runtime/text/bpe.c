#include "text/bpe.h"

#include <string.h>

#include "base/utf8.h"

/* A symbol of the piece, which may become a token. A symbol that was merged into its left neighbour has id -1. */
typedef struct yk_bpe_symbol {
  int32_t id;
  int32_t previous, next; /* -1 at the ends */
} symbol;

static const yk_bpe_merge *find_merge(const yk_bpe *bpe, int32_t left, int32_t right)
{
  const yk_bpe_merge *merge = yk_bpe_merge_slot(bpe, left, right);
  return merge->pair == UINT64_MAX ? NULL : merge;
}

void yk_bpe_scratch_free(yk_bpe_scratch *scratch)
{
  free(scratch->symbols);
  free(scratch->heap);
  *scratch = (yk_bpe_scratch){0};
}

/* A piece of n bytes has at most n symbols. A merge pops one candidate, pushes at most two and removes one symbol: n -
 * 1 candidates at the start and one more for each of n - 1 merges bound the heap. */
static yk_status reserve(yk_bpe_scratch *scratch, size_t n_bytes, yk_err *err)
{
  if (n_bytes >= INT32_MAX / 4)
    return yk_err_set(err, YK_E_INVAL, "a piece of %zu bytes is too long to encode", n_bytes);
  size_t n_symbols = n_bytes + 1, n_heap = 2 * n_symbols;
  if (n_symbols > scratch->symbol_capacity) {
    symbol *symbols = realloc(scratch->symbols, 2 * n_symbols * sizeof *symbols);
    if (!symbols) return yk_err_set(err, YK_E_NOMEM, "no memory to encode a piece of %zu bytes", n_bytes);
    scratch->symbols = symbols;
    scratch->symbol_capacity = 2 * n_symbols;
  }
  if (n_heap > scratch->heap_capacity) {
    uint64_t *heap = realloc(scratch->heap, 2 * n_heap * sizeof *heap);
    if (!heap) return yk_err_set(err, YK_E_NOMEM, "no memory to encode a piece of %zu bytes", n_bytes);
    scratch->heap = heap;
    scratch->heap_capacity = 2 * n_heap;
  }
  return YK_OK;
}

static size_t add_symbol(symbol *symbols, size_t n, int32_t id)
{
  symbols[n] = (symbol){id, (int32_t)n - 1, (int32_t)n + 1};
  return n + 1;
}

/* Appends the <0xNN> tokens of one character: all of its bytes or none. Returns the new number of symbols. */
static size_t add_byte_symbols(const yk_bpe *bpe, symbol *symbols, size_t n, const char *character, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if (bpe->byte_ids[(unsigned char)character[i]] < 0) return n;
  for (size_t i = 0; i < length; i++) n = add_symbol(symbols, n, bpe->byte_ids[(unsigned char)character[i]]);
  return n;
}

/* Cuts a piece into the symbols of its characters. A run of unknown characters is written only at the next known
 * character; byte tokens in between do not end the run and so precede it, as in the public implementation. */
static yk_status cut(const yk_bpe *bpe, const char *piece, size_t n_bytes, symbol *symbols, size_t *n_out, yk_err *err)
{
  size_t n = 0;
  bool unk_waits = false;
  for (size_t at = 0; at < n_bytes;) {
    size_t length = yk_utf8_sequence_bytes((unsigned char)piece[at]);
    const char *character = piece + at;
    at += length;
    int32_t id = yk_vocab_id(&bpe->vocab, character, length);
    if (id >= 0) {
      if (unk_waits) n = add_symbol(symbols, n, bpe->unk_id);
      unk_waits = false;
      n = add_symbol(symbols, n, id);
      continue;
    }
    if (bpe->byte_fallback) {
      size_t before = n;
      n = add_byte_symbols(bpe, symbols, n, character, length);
      if (n > before) continue;
    }
    if (!bpe->unk_token) continue;
    if (bpe->unk_id < 0)
      return yk_err_set(err, YK_E_FORMAT, "character \"%.*s\" has no token, nor has unk_token \"%s\"", (int)length,
                        character, bpe->unk_token);
    if (unk_waits && !bpe->fuse_unk) n = add_symbol(symbols, n, bpe->unk_id);
    unk_waits = true;
  }
  if (unk_waits) n = add_symbol(symbols, n, bpe->unk_id);
  if (n) symbols[n - 1].next = -1;
  *n_out = n;
  return YK_OK;
}

/* A binary min-heap of rank << 32 | position of the left symbol: lowest rank first, leftmost on ties. */
static void heap_push(uint64_t *heap, size_t *n, uint64_t key)
{
  size_t at = (*n)++;
  while (at > 0 && heap[(at - 1) / 2] > key) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = key;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
  uint64_t top = heap[0], key = heap[--*n];
  size_t at = 0;
  for (size_t child = 1; child < *n; child = 2 * at + 1) {
    if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= key) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = key;
  return top;
}

static void push_pair(const yk_bpe *bpe, const symbol *symbols, int32_t left, uint64_t *heap, size_t *n_heap)
{
  const yk_bpe_merge *merge = find_merge(bpe, symbols[left].id, symbols[symbols[left].next].id);
  if (merge) heap_push(heap, n_heap, (uint64_t)(uint32_t)merge->rank << 32 | (uint32_t)left);
}

/* Merges pairs until none has a merge. A candidate is stale, and skipped, when its pair is no longer the pair for which
 * it was pushed: symbols only grow, so a pair at the same position with the same rank is the same pair. */
static void merge_all(const yk_bpe *bpe, symbol *symbols, size_t n, uint64_t *heap)
{
  size_t n_heap = 0;
  for (size_t i = 0; i + 1 < n; i++) push_pair(bpe, symbols, (int32_t)i, heap, &n_heap);
  while (n_heap > 0) {
    uint64_t key = heap_pop(heap, &n_heap);
    int32_t left = (int32_t)(uint32_t)key, right = symbols[left].next;
    if (symbols[left].id < 0 || right < 0) continue;
    const yk_bpe_merge *merge = find_merge(bpe, symbols[left].id, symbols[right].id);
    if (!merge || (uint32_t)merge->rank != key >> 32) continue;
    symbols[left].id = merge->merged_id;
    symbols[left].next = symbols[right].next;
    symbols[right].id = -1;
    if (symbols[left].next >= 0) {
      symbols[symbols[left].next].previous = left;
      push_pair(bpe, symbols, left, heap, &n_heap);
    }
    if (symbols[left].previous >= 0) push_pair(bpe, symbols, symbols[left].previous, heap, &n_heap);
  }
}

yk_status yk_bpe_encode(const yk_bpe *bpe, yk_bpe_scratch *scratch, const char *piece, size_t n_bytes, yk_ids *ids,
                        yk_err *err)
{
  if (bpe->ignore_merges) {
    int32_t id = yk_vocab_id(&bpe->vocab, piece, n_bytes);
    if (id >= 0) {
      yk_ids_append(ids, id);
      return YK_OK;
    }
  }
  size_t n;
  YK_TRY(reserve(scratch, n_bytes, err));
  YK_TRY(cut(bpe, piece, n_bytes, scratch->symbols, &n, err));
  merge_all(bpe, scratch->symbols, n, scratch->heap);
  for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = scratch->symbols[i].next) yk_ids_append(ids, scratch->symbols[i].id);
  return YK_OK;
}
