/* sequence_memory.h - the state of a sequence on the devices from step to step, and the pool of all sequences' state.
 * The state consists of KV blocks, a slot while the sequence runs, and the recurrent states of models that have them.
 *
 * A memory has an entry for each leading token that is computed. Scheduler and held sequences count tokens only:
 *
 *   reuse       start an empty memory from the published blocks of the same beginning
 *   enter       take a slot to run; leave
 *   reserve     reserve space for coming rows
 *   plan        the coming step computes these rows; blocks that they fill are published for reuse
 *   commit      the planned rows are computed
 *   truncate    keep fewer tokens; fork: another memory with the same tokens
 *   park        the memory is not needed at present: the pool may reclaim it; unpark
 *   release     drop everything that is computed
 *
 * Recurrent states exist for the last computed token only, in the memory's slot. Earlier ones are in snapshots
 * (snapshots.h), which steps save at multiples of YK_STATE_SAVE_TOKENS: at the last one before a prompt's final
 * YK_STATE_CHUNK_ROWS tokens, at every multiple of YK_SNAPSHOT_EVERY_TOKENS, at a branch, where a prompt diverges,
 * after the last snapshot, from the tokens of published blocks, and at the prompt's end if the step has no other. A
 * step saves at most one snapshot per sequence, after any of its rows: a step whose rows reach two snapshot positions
 * is cut into two steps. With states, a memory is reused up to the last snapshot after published blocks. A memory that
 * is preempted, or truncated below its last token, begins in the same way, and so does a fork that is not copied. The
 * rows since that snapshot are computed again: fewer than YK_STATE_SAVE_TOKENS + YK_STATE_CHUNK_ROWS at the end of
 * given tokens, at most YK_SNAPSHOT_EVERY_TOKENS more among drawn tokens, more if snapshots were overwritten. A
 * snapshot of the last token has no use: its unfilled block is not shared, so every layer computes the block's rows
 * anyway. A parked memory keeps its states until another sequence takes its slot.
 *
 * Preemption drops the states. A snapshot at the last token would cost a copy without benefit: no blocks are free, the
 * last blocks of the preempted memory are the next to be reused, and a state is usable only if all blocks before it
 * remain. Snapshots that remain useful are saved beforehand, at every multiple of YK_SNAPSHOT_EVERY_TOKENS.
 *
 * Where devices compute rows in chunks, results must not depend on the steps that the scheduler makes of given tokens.
 * With states, a step therefore ends at the last of these tokens or at a multiple of YK_STATE_SAVE_TOKENS, and a part
 * of fewer than YK_STATE_CHUNK_ROWS rows is made only of that many tokens. Snapshots are at such multiples, and a
 * memory is reused only if YK_STATE_CHUNK_ROWS rows remain.
 *
 * Owner and thread: the engine's. No locks. */
#ifndef YK_ENGINE_LOOP_SEQUENCE_MEMORY_H
#define YK_ENGINE_LOOP_SEQUENCE_MEMORY_H

#include "engine/loop/kv_blocks.h"
#include "engine/loop/snapshots.h"
#include "kernels/device.h"
#include "kernels/kv_cache.h"
#include "model/step_arrays.h"

enum {
  YK_SNAPSHOT_EVERY_TOKENS = 2048,
  YK_REUSE_LATER = -1,
  YK_STATE_STEP_ROWS = YK_STATE_SAVE_TOKENS + 2 * (YK_STATE_CHUNK_ROWS - 1) /* see yk_sequence_memory_limit_rows */
};

/* How far back the layers of the model read, and the states that they keep. */
typedef struct yk_memory_rules {
  /* Window of the widest layer if all layers have a window: blocks after the window are released. 0: some layer has
   * full attention. */
  int32_t window_tokens;
  int32_t narrowest_window_tokens; /* window of the narrowest layer; 0: every layer has full attention */
  bool reuses_prefixes;            /* with states only if there are entries for snapshots */
  bool has_states;                 /* some layer has a recurrent state */
  int32_t n_state_entries;         /* rows of the table of snapshots */
} yk_memory_rules;

/* Counters since creation, of sequences that entered with an empty memory: hits began at a snapshot; misses did not,
 * though at least YK_STATE_SAVE_TOKENS of their beginning were in published blocks. */
typedef struct yk_state_counts {
  yk_snapshot_counts snapshots;
  uint64_t hits, misses;
} yk_state_counts;

typedef struct yk_memory_pool yk_memory_pool;

typedef struct yk_sequence_memory {
  int32_t n_computed; /* leading tokens in the memory; later tokens are rows still to be computed */
  int32_t *blocks;    /* [blocks for capacity] physical blocks, in order of position; -1: released, after the window */
  int32_t n_blocks;
  int32_t n_left_behind; /* leading blocks that are -1 */
  int32_t n_published;   /* leading blocks offered for reuse: full, and never written again */
  int32_t n_sound;       /* leading published blocks that are marked sound, or skipped after the window */
  yk_kv_chain start;     /* start of the chain: only sequences with the same start share blocks */
  yk_kv_chain chain;     /* of the last published block */
  int32_t chain_block;   /* a block that was published with this chain, or -1 */
  bool is_parked;
  struct yk_sequence_memory *next_parked;
  int32_t slot; /* row in tables of max_seqs rows: in use, or kept with the states in it; -1: none */

  /* For models with recurrent states only. */
  int32_t state_load, state_save, state_save_rows; /* of the planned rows: see yk_batch */
  int32_t snapshot;                                /* entry that the first planned rows load; -1: none */
  int32_t prompt_tokens;                           /* tokens when the memory entered */
  bool is_miss;          /* began without a snapshot, although published blocks have a snapshot position */
  int32_t branch_tokens; /* position after the published chain branch_chain at which to save a snapshot; 0: none */
  yk_kv_chain branch_chain;
  struct yk_sequence_memory *next_branching;
  uint64_t snapshot_owner; /* number of this memory's snapshots; 0: none yet */
  bool has_unsound_start;  /* began at a snapshot that is not known to be sound */
  int32_t unsound_tokens;  /* of the last snapshot saved that is not known to be sound; 0: all are */
  uint64_t n_withdrawals;  /* of the pool, when the memory began */
} yk_sequence_memory;

/* ---- The pool ---------------------------------------------------------------------------------------------------- */

/* yk_memory_pool_create - max_seqs: slots. Errors: YK_E_NOMEM. */
yk_status yk_memory_pool_create(int32_t n_kv_blocks, int32_t max_seqs, const yk_memory_rules *rules,
                                yk_memory_pool **out, yk_err *err);
void yk_memory_pool_destroy(yk_memory_pool *pool);

/* yk_memory_pool_blocks - the pool's KV blocks: for counts, forgetting, and new starts of chains. */
yk_kv_blocks *yk_memory_pool_blocks(yk_memory_pool *pool);

/* yk_memory_pool_begin_step - another step is planned from here on. */
void yk_memory_pool_begin_step(yk_memory_pool *pool);

/* yk_memory_pool_take_copies - the copies that the coming step does before its rows; valid until the next call for the
 *   pool. *n: their number. */
const yk_step_copy *yk_memory_pool_take_copies(yk_memory_pool *pool, int32_t *n);

/* yk_memory_pool_count_states - figures of recurrent states since the pool was created; zeros without states. */
yk_state_counts yk_memory_pool_count_states(const yk_memory_pool *pool);

/* yk_memory_pool_fits - whether a memory could grow to n_tokens while n_others memories grow by one token each. */
bool yk_memory_pool_fits(const yk_memory_pool *pool, const yk_sequence_memory *memory, int32_t n_tokens,
                         int32_t n_others);

/* yk_memory_pool_reclaim - release the memory that has been parked longest. False: no parked memory holds blocks. */
bool yk_memory_pool_reclaim(yk_memory_pool *pool);

/* ---- A sequence's memory ----------------------------------------------------------------------------------------- */

/* yk_sequence_memory_init - empty, for at most `capacity` tokens. Errors: YK_E_NOMEM. */
yk_status yk_sequence_memory_init(yk_sequence_memory *memory, int32_t capacity, yk_err *err);

/* yk_sequence_memory_destroy - free the arrays of a released memory. */
void yk_sequence_memory_destroy(yk_sequence_memory *memory);

/* yk_sequence_memory_begin_at - set the chain start of a new memory: it shares blocks only with sequences of the same
 *   start. */
void yk_sequence_memory_begin_at(yk_sequence_memory *memory, yk_kv_chain start);

static inline bool yk_sequence_memory_is_empty(const yk_sequence_memory *memory)
{
  return memory->n_blocks == 0;
}

/* yk_kv_blocks_for - number of blocks for n_tokens. */
static inline int32_t yk_kv_blocks_for(int32_t n_tokens)
{
  return n_tokens / YK_KV_BLOCK_TOKENS + (n_tokens % YK_KV_BLOCK_TOKENS != 0);
}

/* yk_sequence_memory_reuse - start an empty memory from the longest published prefix of tokens [n_tokens]. Returns the
 *   number of tokens that need not be computed; YK_REUSE_LATER: a running sequence saves a snapshot of a longer
 *   beginning in this step or a coming one, and the memory stays empty. */
int32_t yk_sequence_memory_reuse(yk_sequence_memory *memory, yk_memory_pool *pool, const int32_t *tokens,
                                 int32_t n_tokens);

/* yk_sequence_memory_enter - take a slot; fewer than max_seqs are in use. n_tokens: of the sequence, all of which are
 *   to be computed now. */
void yk_sequence_memory_enter(yk_sequence_memory *memory, yk_memory_pool *pool, int32_t n_tokens);

/* yk_sequence_memory_leave - release the slot. Recurrent states stay valid until the memory is released, or another
 *   memory takes the slot, which also releases this memory. */
void yk_sequence_memory_leave(yk_sequence_memory *memory, yk_memory_pool *pool);

/* yk_sequence_memory_limit_rows - how many of the next n_left rows a step with space for n_most computes. With
 *   recurrent states, a part of the rows should end where states can be saved. If n_most, below YK_STATE_STEP_ROWS, is
 *   too small for that: 0 with can_wait, so that the rows wait for a step with more space, else n_most. */
int32_t yk_sequence_memory_limit_rows(const yk_sequence_memory *memory, const yk_memory_pool *pool, int32_t n_left,
                                      int32_t n_most, bool can_wait);

/* yk_sequence_memory_reserve - reserve blocks for n_tokens in all. False if blocks ran out; those obtained are kept. */
bool yk_sequence_memory_reserve(yk_sequence_memory *memory, yk_memory_pool *pool, int32_t n_tokens);

/* yk_sequence_memory_plan - the coming step computes the next n_rows of tokens, whose blocks are reserved. */
void yk_sequence_memory_plan(yk_sequence_memory *memory, yk_memory_pool *pool, const int32_t *tokens, int32_t n_rows);

/* yk_sequence_memory_commit - the step that computed the n_rows planned last is over. */
void yk_sequence_memory_commit(yk_sequence_memory *memory, yk_memory_pool *pool, int32_t n_rows);

/* yk_sequence_memory_truncate - keep the first n_tokens at most. If a published block is cut, its rows are computed
 *   again, since other sequences may share the block. With states, nothing is kept of a memory that is cut. */
void yk_sequence_memory_truncate(yk_sequence_memory *memory, yk_memory_pool *pool, int32_t n_tokens);

/* yk_sequence_memory_fork - give copy, an empty memory, this memory: published blocks are shared, other blocks and
 *   states are copied by the coming step. The copy's states are in the slot that was left longest ago, as those of a
 *   parked memory. Nothing is copied without a free slot, free blocks or space in the coming step, or while this memory
 *   runs: then the published blocks are shared and later rows are computed again, but with states the copy stays
 *   empty. */
void yk_sequence_memory_fork(const yk_sequence_memory *memory, yk_memory_pool *pool, yk_sequence_memory *copy);

/* yk_sequence_memory_park - the pool may reclaim the memory until it is unparked. unpark has no effect on a memory that
 *   is not parked. */
void yk_sequence_memory_park(yk_sequence_memory *memory, yk_memory_pool *pool);
void yk_sequence_memory_unpark(yk_sequence_memory *memory, yk_memory_pool *pool);

/* yk_sequence_memory_release - return all blocks to the pool; nothing is computed any more. */
void yk_sequence_memory_release(yk_sequence_memory *memory, yk_memory_pool *pool);

/* ---- Non-finite logits: see kv_blocks.h -------------------------------------------------------------------------- */

/* yk_sequence_memory_mark_sound - the row at this position has produced finite logits: the blocks that it reads are
 *   sound. */
void yk_sequence_memory_mark_sound(yk_sequence_memory *memory, yk_memory_pool *pool, int32_t position);

/* yk_sequence_memory_withdraw - a row has produced non-finite logits: withdraw the blocks that are not known to be
 *   sound, and drop the snapshots, of any sequence, that are not. */
void yk_sequence_memory_withdraw(yk_sequence_memory *memory, yk_memory_pool *pool);

/* yk_sequence_memory_reads_withdrawn - whether the memory holds a withdrawn block, or began at a snapshot that
 *   was not known to be sound when snapshots were dropped. */
bool yk_sequence_memory_reads_withdrawn(const yk_sequence_memory *memory, yk_memory_pool *pool);

/* yk_memory_pool_drop_withdrawn - release one parked memory that holds a withdrawn block, and withdraw its later
 *   blocks, which were computed from that block. False: there is none. */
bool yk_memory_pool_drop_withdrawn(yk_memory_pool *pool);

/* ---- For the step builder ---------------------------------------------------------------------------------------- */

/* yk_sequence_memory_kv_slot - the cache slot of the K and V of the token at a position. */
static inline int32_t yk_sequence_memory_kv_slot(const yk_sequence_memory *memory, int32_t position)
{
  return memory->blocks[position / YK_KV_BLOCK_TOKENS] * YK_KV_BLOCK_TOKENS + position % YK_KV_BLOCK_TOKENS;
}

/* yk_sequence_memory_fill_table - fill the sequence's row of the block table. Entries past the last block are not
 * read. */
void yk_sequence_memory_fill_table(const yk_sequence_memory *memory, int32_t *table, int32_t stride);

#endif
