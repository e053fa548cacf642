/* bpe.h - byte pair encoding of one piece of text (the "model" of a tokenizer.json).
 *
 * A piece is cut into characters, then the adjacent pair whose merge has the lowest rank is joined, leftmost first on
 * ties, until no pair has a merge (Sennrich et al., "Neural machine translation of rare words with subword units",
 * 2016). A heap of candidate pairs over a linked list makes this O(n log n) for a piece of n characters. */
#ifndef YK_TEXT_BPE_H
#define YK_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "text/ids.h"
#include "text/vocab.h"

typedef struct yk_bpe_merge {
  uint64_t pair; /* left id << 32 | right id; UINT64_MAX: empty slot */
  int32_t rank, merged_id;
} yk_bpe_merge;

typedef struct yk_bpe {
  yk_vocab vocab;
  yk_bpe_merge *merges; /* open addressing by pair */
  uint64_t merge_mask;
  char *unk_token; /* NULL: characters without a token are dropped */
  int32_t unk_id;  /* -1: the vocabulary lacks unk_token, and an unknown character is an error */
  bool fuse_unk;   /* neighbouring unknown characters become one unk_token */
  bool byte_fallback;
  bool ignore_merges;    /* a piece that is a token is not built from its characters */
  int32_t byte_ids[256]; /* of "<0x00>".. "<0xFF>", -1: none; read only with byte_fallback */
} yk_bpe;

/* yk_bpe_merge_slot - the slot of a pair: its merge, or the empty slot where it would go. */
static inline yk_bpe_merge *yk_bpe_merge_slot(const yk_bpe *bpe, int32_t left, int32_t right)
{
  uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  uint64_t at = pair * 0x9E3779B97F4A7C15u >> 20 & bpe->merge_mask;
  while (bpe->merges[at].pair != pair && bpe->merges[at].pair != UINT64_MAX) at = (at + 1) & bpe->merge_mask;
  return &bpe->merges[at];
}

/* Scratch of yk_bpe_encode, reused from piece to piece. Start from {0}; one per thread. */
typedef struct yk_bpe_scratch {
  struct yk_bpe_symbol *symbols;
  uint64_t *heap;
  size_t symbol_capacity, heap_capacity;
} yk_bpe_scratch;

void yk_bpe_scratch_free(yk_bpe_scratch *scratch);

/* yk_bpe_parse - read the value of "model". file names it in errors. YK_E_UNSUPPORTED: a model type or an option that
 *   is not implemented. On failure the caller frees nothing. */
yk_status yk_bpe_parse(yk_bpe *bpe, const char *file, yk_json model, yk_err *err);
void yk_bpe_free(yk_bpe *bpe);

/* yk_bpe_encode - append the ids of one piece (valid UTF-8). bpe is only read: many threads may share it. */
yk_status yk_bpe_encode(const yk_bpe *bpe, yk_bpe_scratch *scratch, const char *piece, size_t n_bytes, yk_ids *ids,
                        yk_err *err);

#endif
