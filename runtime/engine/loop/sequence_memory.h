/* sequence_memory.h - what a sequence holds on the devices from step to step, and the pool that all sequences hold it
 * from. Today that is KV blocks; a state per sequence belongs here too.
 *
 * A memory has an entry of each leading token that is computed. Scheduler and held sequences see tokens alone:
 *
 *   reuse       an empty memory starts from what others have published of the same beginning
 *   reserve     room for rows to come
 *   plan        rows that the step to come computes: what they fill is published, so that others reuse it
 *   commit      they are computed
 *   truncate    fewer tokens; fork: another memory with the same ones
 *   park        not needed for now: the pool may reclaim it; unpark
 *   release     nothing is computed any more
 *
 * Owner and thread: the engine's. No locks. */
#ifndef YK_ENGINE_LOOP_SEQUENCE_MEMORY_H
#define YK_ENGINE_LOOP_SEQUENCE_MEMORY_H

#include "engine/loop/kv_blocks.h"
#include "kernels/kv_cache.h"

/* What the layers of the model see. */
typedef struct yk_memory_rules {
  /* Of the widest layer where all slide: blocks behind the window are released; 0: some layer sees all. */
  int32_t window_tokens;
  int32_t narrowest_window_tokens; /* of the layer that sees least; 0: every layer sees all */
  bool reuses_prefixes;
} yk_memory_rules;

typedef struct yk_memory_pool yk_memory_pool;

typedef struct yk_sequence_memory {
  int32_t n_computed; /* leading tokens that it has; the rest are rows still to be computed */
  int32_t *blocks;    /* [blocks for capacity] physical blocks, in order of position; -1: left behind by the window */
  int32_t n_blocks;
  int32_t n_left_behind; /* leading blocks that are -1 */
  int32_t n_published;   /* leading blocks offered for reuse: full, and never written again */
  int32_t n_sound;       /* leading published blocks that were marked as sound, or passed over behind the window */
  yk_kv_chain start;     /* before the first block: blocks are shared by sequences that begin at one chain */
  yk_kv_chain chain;     /* of the last published block */
  bool is_parked;
  struct yk_sequence_memory *next_parked;
} yk_sequence_memory;

/* ---- The pool ---------------------------------------------------------------------------------------------------- */

/* yk_memory_pool_create - Errors: YK_E_NOMEM. */
yk_status yk_memory_pool_create(int32_t n_kv_blocks, const yk_memory_rules *rules, yk_memory_pool **out, yk_err *err);
void yk_memory_pool_destroy(yk_memory_pool *pool);

/* yk_memory_pool_blocks - its KV blocks: for counts, forgetting, and beginnings of their own. */
yk_kv_blocks *yk_memory_pool_blocks(yk_memory_pool *pool);

/* yk_memory_pool_fits - whether a memory could grow to n_tokens, and n_others more by their next token each. */
bool yk_memory_pool_fits(const yk_memory_pool *pool, const yk_sequence_memory *memory, int32_t n_tokens,
                         int32_t n_others);

/* yk_memory_pool_reclaim - release the memory that has been parked longest. False: none that is parked has any. */
bool yk_memory_pool_reclaim(yk_memory_pool *pool);

/* ---- A sequence's memory ----------------------------------------------------------------------------------------- */

/* yk_sequence_memory_init - empty, for at most `capacity` tokens. Errors: YK_E_NOMEM. */
yk_status yk_sequence_memory_init(yk_sequence_memory *memory, int32_t capacity, yk_err *err);

/* yk_sequence_memory_destroy - of a memory that was released. */
void yk_sequence_memory_destroy(yk_sequence_memory *memory);

/* yk_sequence_memory_begin_at - of a new one: share blocks only with sequences that begin at this chain too. */
void yk_sequence_memory_begin_at(yk_sequence_memory *memory, yk_kv_chain start);

static inline bool yk_sequence_memory_is_empty(const yk_sequence_memory *memory)
{
  return memory->n_blocks == 0;
}

/* yk_kv_blocks_for - blocks that n_tokens take. */
static inline int32_t yk_kv_blocks_for(int32_t n_tokens)
{
  return n_tokens / YK_KV_BLOCK_TOKENS + (n_tokens % YK_KV_BLOCK_TOKENS != 0);
}

/* yk_sequence_memory_reuse - of an empty one: start from the longest published beginning of tokens [n_tokens]. Returns
 *   the tokens that need not be computed. */
int32_t yk_sequence_memory_reuse(yk_sequence_memory *memory, yk_memory_pool *pool, const int32_t *tokens,
                                 int32_t n_tokens);

/* yk_sequence_memory_reserve - room for n_tokens in all. False, with what was got kept, when none is left. */
bool yk_sequence_memory_reserve(yk_sequence_memory *memory, yk_memory_pool *pool, int32_t n_tokens);

/* yk_sequence_memory_plan - the step to come computes the next n_rows of tokens, for which there is room. */
void yk_sequence_memory_plan(yk_sequence_memory *memory, yk_memory_pool *pool, const int32_t *tokens, int32_t n_rows);

/* yk_sequence_memory_commit - that step is over. */
void yk_sequence_memory_commit(yk_sequence_memory *memory, yk_memory_pool *pool, int32_t n_rows);

/* yk_sequence_memory_truncate - keep the first n_tokens at most. Rows of a published block that is cut are computed
 *   again: it may be another's too. */
void yk_sequence_memory_truncate(yk_sequence_memory *memory, yk_memory_pool *pool, int32_t n_tokens);

/* yk_sequence_memory_fork - copy, an empty memory, holds what others may share of this one: published blocks. Rows
 *   behind them are computed again. */
void yk_sequence_memory_fork(const yk_sequence_memory *memory, yk_memory_pool *pool, yk_sequence_memory *copy);

/* yk_sequence_memory_park - the pool may reclaim it until it is unparked. Of one that is not parked, unpark does
 *   nothing. */
void yk_sequence_memory_park(yk_sequence_memory *memory, yk_memory_pool *pool);
void yk_sequence_memory_unpark(yk_sequence_memory *memory, yk_memory_pool *pool);

/* yk_sequence_memory_release - give everything back; nothing is computed any more. */
void yk_sequence_memory_release(yk_sequence_memory *memory, yk_memory_pool *pool);

/* ---- Logits that are not finite: see kv_blocks.h ----------------------------------------------------------------- */

/* yk_sequence_memory_mark_sound - the row at this position has given finite logits: what it sees is sound. */
void yk_sequence_memory_mark_sound(yk_sequence_memory *memory, yk_memory_pool *pool, int32_t position);

/* yk_sequence_memory_withdraw - a row has given logits that are not finite: withdraw what is not known to be sound. */
void yk_sequence_memory_withdraw(yk_sequence_memory *memory, yk_memory_pool *pool);

/* yk_sequence_memory_reads_withdrawn - whether it holds something that was withdrawn. */
bool yk_sequence_memory_reads_withdrawn(const yk_sequence_memory *memory, yk_memory_pool *pool);

/* yk_memory_pool_drop_withdrawn - release one parked memory that holds something withdrawn; what it has computed on top
 *   is withdrawn with it. False: there is none. */
bool yk_memory_pool_drop_withdrawn(yk_memory_pool *pool);

/* ---- For the step builder ---------------------------------------------------------------------------------------- */

/* yk_sequence_memory_kv_slot - where the K and V of the token at a position go. */
static inline int32_t yk_sequence_memory_kv_slot(const yk_sequence_memory *memory, int32_t position)
{
  return memory->blocks[position / YK_KV_BLOCK_TOKENS] * YK_KV_BLOCK_TOKENS + position % YK_KV_BLOCK_TOKENS;
}

/* yk_sequence_memory_fill_table - the row of the block table: entries past the last are not read. */
void yk_sequence_memory_fill_table(const yk_sequence_memory *memory, int32_t *table, int32_t stride);

#endif
