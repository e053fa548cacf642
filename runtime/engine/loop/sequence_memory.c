#include "engine/loop/sequence_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

struct yk_memory_pool {
  yk_kv_blocks *blocks;
  yk_memory_rules rules;
  yk_sequence_memory *parked; /* linked by next_parked, latest first */
};

/* ---- The pool ---------------------------------------------------------------------------------------------------- */

yk_status yk_memory_pool_create(int32_t n_kv_blocks, const yk_memory_rules *rules, yk_memory_pool **out, yk_err *err)
{
  yk_memory_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return yk_err_set(err, YK_E_NOMEM, "no memory for a pool of %d KV blocks", n_kv_blocks);
  pool->rules = *rules;
  yk_status status = yk_kv_blocks_create(n_kv_blocks, &pool->blocks, err);
  if (status != YK_OK) {
    free(pool);
    return status;
  }
  *out = pool;
  return YK_OK;
}

void yk_memory_pool_destroy(yk_memory_pool *pool)
{
  if (!pool) return;
  yk_kv_blocks_destroy(pool->blocks);
  free(pool);
}

yk_kv_blocks *yk_memory_pool_blocks(yk_memory_pool *pool)
{
  return pool->blocks;
}

const yk_memory_rules *yk_memory_pool_rules(const yk_memory_pool *pool)
{
  return &pool->rules;
}

bool yk_memory_pool_fits(const yk_memory_pool *pool, const yk_sequence_memory *m, int32_t n_tokens, int32_t n_others)
{
  return yk_kv_blocks_free_count(pool->blocks) >= yk_kv_blocks_for(n_tokens) - m->n_blocks + n_others;
}

bool yk_memory_pool_reclaim(yk_memory_pool *pool)
{
  yk_sequence_memory *victim = NULL;
  for (yk_sequence_memory *m = pool->parked; m; m = m->next_parked)
    if (!yk_sequence_memory_is_empty(m)) victim = m;
  if (!victim) return false;
  yk_sequence_memory_release(victim, pool);
  return true;
}

bool yk_memory_pool_drop_withdrawn(yk_memory_pool *pool)
{
  for (yk_sequence_memory *m = pool->parked; m; m = m->next_parked) {
    if (!yk_sequence_memory_reads_withdrawn(m, pool)) continue;
    yk_sequence_memory_withdraw(m, pool);
    yk_sequence_memory_release(m, pool);
    return true;
  }
  return false;
}

/* ---- A sequence's memory ----------------------------------------------------------------------------------------- */

yk_status yk_sequence_memory_init(yk_sequence_memory *m, int32_t capacity, yk_err *err)
{
  *m = (yk_sequence_memory){.blocks = malloc((size_t)yk_kv_blocks_for(capacity) * sizeof *m->blocks)};
  return m->blocks ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a sequence of %d tokens", capacity);
}

void yk_sequence_memory_destroy(yk_sequence_memory *m)
{
  free(m->blocks);
  m->blocks = NULL;
}

void yk_sequence_memory_begin_at(yk_sequence_memory *m, yk_kv_chain start)
{
  m->start = m->chain = start;
}

int32_t yk_sequence_memory_reuse(yk_sequence_memory *m, yk_memory_pool *pool, const int32_t *tokens, int32_t n_tokens)
{
  if (!pool->rules.reuses_prefixes) return 0;
  for (int32_t limit = n_tokens / YK_KV_BLOCK_TOKENS; m->n_blocks < limit; m->n_blocks++) {
    const int32_t *ids = tokens + m->n_blocks * YK_KV_BLOCK_TOKENS;
    int32_t block = yk_kv_blocks_find(pool->blocks, m->chain, ids, &m->chain);
    if (block < 0) break;
    m->blocks[m->n_blocks] = block;
  }
  m->n_published = m->n_blocks;
  m->n_computed = m->n_blocks * YK_KV_BLOCK_TOKENS;
  return m->n_computed;
}

bool yk_sequence_memory_reserve(yk_sequence_memory *m, yk_memory_pool *pool, int32_t n_tokens)
{
  for (int32_t needed = yk_kv_blocks_for(n_tokens); m->n_blocks < needed; m->n_blocks++) {
    int32_t block = yk_kv_blocks_take(pool->blocks);
    if (block < 0) return false;
    m->blocks[m->n_blocks] = block;
  }
  return true;
}

void yk_sequence_memory_plan(yk_sequence_memory *m, yk_memory_pool *pool, const int32_t *tokens, int32_t n_rows)
{
  if (!pool->rules.reuses_prefixes) return;
  int32_t n_full = (m->n_computed + n_rows) / YK_KV_BLOCK_TOKENS;
  for (; m->n_published < n_full; m->n_published++) {
    const int32_t *ids = tokens + m->n_published * YK_KV_BLOCK_TOKENS;
    m->chain = yk_kv_blocks_publish(pool->blocks, m->blocks[m->n_published], m->chain, ids);
  }
}

/* Release published blocks that no coming row can see with this window, even after a truncation inside the last,
 * unfilled block: a truncation that cuts no published block removes at most the tokens of one unfilled block. */
static void leave_behind(yk_sequence_memory *m, yk_kv_blocks *blocks, int32_t window_tokens)
{
  int32_t first_seen = m->n_computed - window_tokens + 1 - YK_KV_BLOCK_TOKENS;
  while ((m->n_left_behind + 1) * YK_KV_BLOCK_TOKENS <= first_seen && m->n_left_behind < m->n_published) {
    yk_kv_blocks_release(blocks, m->blocks[m->n_left_behind]);
    m->blocks[m->n_left_behind++] = -1;
  }
}

void yk_sequence_memory_commit(yk_sequence_memory *m, yk_memory_pool *pool, int32_t n_rows)
{
  m->n_computed += n_rows;
  if (pool->rules.window_tokens) leave_behind(m, pool->blocks, pool->rules.window_tokens);
}

/* Last blocks first, so that the beginning, which other sequences are more likely to share, is taken last. */
static void drop_blocks(yk_sequence_memory *m, yk_kv_blocks *blocks, int32_t n_kept)
{
  while (m->n_blocks > n_kept) {
    int32_t block = m->blocks[--m->n_blocks];
    if (block >= 0) yk_kv_blocks_release(blocks, block);
  }
}

void yk_sequence_memory_release(yk_sequence_memory *m, yk_memory_pool *pool)
{
  drop_blocks(m, pool->blocks, 0);
  m->n_computed = m->n_left_behind = m->n_published = m->n_sound = 0;
  m->chain = m->start;
}

void yk_sequence_memory_truncate(yk_sequence_memory *m, yk_memory_pool *pool, int32_t n_tokens)
{
  m->n_computed = (int32_t)yk_min_i64(m->n_computed, n_tokens);
  if (n_tokens / YK_KV_BLOCK_TOKENS >= m->n_published)
    drop_blocks(m, pool->blocks, yk_kv_blocks_for(n_tokens));
  else /* the chain of an earlier block is not kept: start again with the blocks that are still published */
    yk_sequence_memory_release(m, pool);
}

void yk_sequence_memory_fork(const yk_sequence_memory *m, yk_memory_pool *pool, yk_sequence_memory *copy)
{
  for (int32_t i = 0; i < m->n_published; i++) {
    copy->blocks[i] = m->blocks[i];
    if (m->blocks[i] >= 0) yk_kv_blocks_share(pool->blocks, m->blocks[i]);
  }
  copy->n_blocks = copy->n_published = m->n_published;
  copy->n_left_behind = m->n_left_behind;
  copy->n_computed = m->n_published * YK_KV_BLOCK_TOKENS;
  copy->start = m->start;
  copy->chain = m->chain;
}

void yk_sequence_memory_park(yk_sequence_memory *m, yk_memory_pool *pool)
{
  m->is_parked = true;
  m->next_parked = pool->parked;
  pool->parked = m;
}

void yk_sequence_memory_unpark(yk_sequence_memory *m, yk_memory_pool *pool)
{
  if (!m->is_parked) return;
  yk_sequence_memory **link = &pool->parked;
  while (*link != m) link = &(*link)->next_parked;
  *link = m->next_parked;
  m->is_parked = false;
}

/* ---- Non-finite logits ------------------------------------------------------------------------------------------- */

void yk_sequence_memory_mark_sound(yk_sequence_memory *m, yk_memory_pool *pool, int32_t position)
{
  int32_t window_tokens = pool->rules.narrowest_window_tokens;
  int32_t n_full = (int32_t)yk_min_i64((position + 1) / YK_KV_BLOCK_TOKENS, m->n_published);
  int32_t first_seen = window_tokens ? (int32_t)yk_max_i64(position - window_tokens + 1, 0) : 0;
  m->n_sound = (int32_t)yk_max_i64(m->n_sound, yk_kv_blocks_for(first_seen)); /* the first block that is seen in full */
  for (; m->n_sound < n_full; m->n_sound++)
    if (m->blocks[m->n_sound] >= 0) yk_kv_blocks_mark_sound(pool->blocks, m->blocks[m->n_sound]);
}

void yk_sequence_memory_withdraw(yk_sequence_memory *m, yk_memory_pool *pool)
{
  for (int32_t i = m->n_left_behind; i < m->n_published; i++) yk_kv_blocks_withdraw(pool->blocks, m->blocks[i]);
}

bool yk_sequence_memory_reads_withdrawn(const yk_sequence_memory *m, yk_memory_pool *pool)
{
  for (int32_t i = m->n_left_behind; i < m->n_blocks; i++)
    if (yk_kv_blocks_is_withdrawn(pool->blocks, m->blocks[i])) return true;
  return false;
}

/* ---- For the step builder ---------------------------------------------------------------------------------------- */

/* Kernels may load blocks behind the window, though no row uses them. The first remaining block replaces them in the
 * table, because this sequence must not touch another sequence's content. */
void yk_sequence_memory_fill_table(const yk_sequence_memory *m, int32_t *table, int32_t stride)
{
  int32_t n = (int32_t)yk_min_i64(m->n_blocks, stride);
  memcpy(table, m->blocks, (size_t)n * sizeof *table);
  memset(table + n, 0, (size_t)(stride - n) * sizeof *table);
  for (int32_t i = 0; i < m->n_left_behind; i++) table[i] = m->blocks[m->n_left_behind];
}
