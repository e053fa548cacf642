#include "engine/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

int32_t yk_sequence_blocks_for(int32_t n_tokens)
{
  return n_tokens / YK_KV_BLOCK_TOKENS + (n_tokens % YK_KV_BLOCK_TOKENS != 0);
}

yk_status yk_sequence_init(yk_sequence *seq, const yk_sequence_owner *owner, const int32_t *prompt, int32_t n_prompt,
                           int32_t capacity, yk_err *err)
{
  *seq = (yk_sequence){.n_prompt = n_prompt,
                       .n_tokens = n_prompt,
                       .capacity = capacity,
                       .wanted_from = n_prompt - 1,
                       .slot = -1,
                       .owner = owner};
  seq->tokens = malloc((size_t)capacity * sizeof *seq->tokens);
  seq->blocks = malloc((size_t)yk_sequence_blocks_for(capacity) * sizeof *seq->blocks);
  if (!seq->tokens || !seq->blocks) {
    yk_sequence_destroy(seq);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a sequence of %d tokens", capacity);
  }
  if (n_prompt > 0) memcpy(seq->tokens, prompt, (size_t)n_prompt * sizeof *prompt);
  return YK_OK;
}

void yk_sequence_begin_at(yk_sequence *seq, yk_kv_chain start)
{
  seq->start = seq->chain = start;
}

void yk_sequence_destroy(yk_sequence *seq)
{
  free(seq->tokens);
  free(seq->blocks);
  seq->tokens = seq->blocks = NULL;
}

bool yk_sequence_reserve(yk_sequence *seq, yk_kv_blocks *blocks, int32_t n_tokens)
{
  int32_t needed = yk_sequence_blocks_for(n_tokens);
  while (seq->n_blocks < needed) {
    int32_t block = yk_kv_blocks_take(blocks);
    if (block < 0) return false;
    seq->blocks[seq->n_blocks++] = block;
  }
  return true;
}

int32_t yk_sequence_match(yk_sequence *seq, yk_kv_blocks *blocks)
{
  int32_t limit = (int32_t)yk_min_i64(seq->wanted_from, seq->n_tokens - 1) / YK_KV_BLOCK_TOKENS;
  while (seq->n_blocks < limit) {
    const int32_t *ids = seq->tokens + seq->n_blocks * YK_KV_BLOCK_TOKENS;
    int32_t block = yk_kv_blocks_find(blocks, seq->chain, ids, &seq->chain);
    if (block < 0) break;
    seq->blocks[seq->n_blocks++] = block;
  }
  seq->n_published = seq->n_blocks;
  seq->n_computed = seq->n_blocks * YK_KV_BLOCK_TOKENS;
  return seq->n_computed;
}

void yk_sequence_publish(yk_sequence *seq, yk_kv_blocks *blocks, int32_t n_tokens)
{
  for (int32_t n_full = n_tokens / YK_KV_BLOCK_TOKENS; seq->n_published < n_full; seq->n_published++) {
    const int32_t *ids = seq->tokens + seq->n_published * YK_KV_BLOCK_TOKENS;
    seq->chain = yk_kv_blocks_publish(blocks, seq->blocks[seq->n_published], seq->chain, ids);
  }
}

void yk_sequence_mark_sound(yk_sequence *seq, yk_kv_blocks *blocks, int32_t position, int32_t window_tokens)
{
  int32_t n_full = (int32_t)yk_min_i64((position + 1) / YK_KV_BLOCK_TOKENS, seq->n_published);
  int32_t first_seen = window_tokens ? (int32_t)yk_max_i64(position - window_tokens + 1, 0) : 0;
  int32_t first_whole = first_seen / YK_KV_BLOCK_TOKENS + (first_seen % YK_KV_BLOCK_TOKENS != 0);
  seq->n_sound = (int32_t)yk_max_i64(seq->n_sound, first_whole);
  for (; seq->n_sound < n_full; seq->n_sound++)
    if (seq->blocks[seq->n_sound] >= 0) yk_kv_blocks_mark_sound(blocks, seq->blocks[seq->n_sound]);
}

void yk_sequence_withdraw(yk_sequence *seq, yk_kv_blocks *blocks)
{
  for (int32_t i = seq->n_left_behind; i < seq->n_published; i++) yk_kv_blocks_withdraw(blocks, seq->blocks[i]);
}

bool yk_sequence_reads_withdrawn(const yk_sequence *seq, const yk_kv_blocks *blocks)
{
  for (int32_t i = seq->n_left_behind; i < seq->n_blocks; i++)
    if (yk_kv_blocks_is_withdrawn(blocks, seq->blocks[i])) return true;
  return false;
}

void yk_sequence_leave_behind(yk_sequence *seq, yk_kv_blocks *blocks, int32_t window_tokens)
{
  /* Seen by the next row to be computed, or by one of a truncation that cuts no published block: those undo at most the
   * tokens of one unfilled block. */
  int32_t first_seen = seq->n_computed - window_tokens + 1 - YK_KV_BLOCK_TOKENS;
  while ((seq->n_left_behind + 1) * YK_KV_BLOCK_TOKENS <= first_seen && seq->n_left_behind < seq->n_published) {
    yk_kv_blocks_release(blocks, seq->blocks[seq->n_left_behind]);
    seq->blocks[seq->n_left_behind++] = -1;
  }
}

/* Last blocks first, so that the beginning, which others are likelier to share, is the last to be taken. */
static void drop_blocks(yk_sequence *seq, yk_kv_blocks *blocks, int32_t n_kept)
{
  while (seq->n_blocks > n_kept) {
    int32_t block = seq->blocks[--seq->n_blocks];
    if (block >= 0) yk_kv_blocks_release(blocks, block);
  }
}

void yk_sequence_release(yk_sequence *seq, yk_kv_blocks *blocks)
{
  drop_blocks(seq, blocks, 0);
  seq->n_computed = seq->n_left_behind = seq->n_published = seq->n_sound = 0;
  seq->chain = seq->start;
}

void yk_sequence_truncate(yk_sequence *seq, yk_kv_blocks *blocks, int32_t n_tokens)
{
  int32_t n_full = n_tokens / YK_KV_BLOCK_TOKENS;
  bool cuts_published = n_full < seq->n_published;
  seq->n_tokens = n_tokens;
  seq->n_computed = (int32_t)yk_min_i64(seq->n_computed, n_tokens);
  if (!cuts_published) {
    drop_blocks(seq, blocks, yk_sequence_blocks_for(n_tokens));
    return;
  }
  /* The chain of an earlier block is not kept: begin again, and find what is still published. */
  yk_sequence_release(seq, blocks);
}

void yk_sequence_fork(const yk_sequence *seq, yk_kv_blocks *blocks, yk_sequence *copy)
{
  memcpy(copy->tokens, seq->tokens, (size_t)seq->n_tokens * sizeof *seq->tokens);
  copy->n_prompt = copy->n_tokens = seq->n_tokens;
  for (int32_t i = 0; i < seq->n_published; i++) {
    copy->blocks[i] = seq->blocks[i];
    if (seq->blocks[i] >= 0) yk_kv_blocks_share(blocks, seq->blocks[i]);
  }
  copy->n_blocks = copy->n_published = seq->n_published;
  copy->n_left_behind = seq->n_left_behind;
  copy->n_computed = seq->n_published * YK_KV_BLOCK_TOKENS;
  copy->start = seq->start;
  copy->chain = seq->chain;
}
