#include "engine/loop/sequence_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/loop/slots.h"

enum { NONE = -1 };

struct yk_memory_pool {
  yk_kv_blocks *blocks;
  yk_memory_rules rules;
  yk_snapshots *snapshots;
  yk_slots *slots;
  yk_sequence_memory *parked;    /* linked by next_parked, latest first */
  yk_sequence_memory *branching; /* linked by next_branching: those that run towards a branch */
  uint64_t n_withdrawals, n_snapshot_owners, n_hits, n_misses;
  yk_step_copy copies[YK_STEP_MAX_COPIES]; /* for the coming step */
  int32_t n_copies;
};

/* ---- The pool ---------------------------------------------------------------------------------------------------- */

static void drop_snapshot(void *context, yk_kv_chain chain)
{
  yk_snapshots_drop(((yk_memory_pool *)context)->snapshots, chain);
}

yk_status yk_memory_pool_create(int32_t n_kv_blocks, int32_t max_seqs, const yk_memory_rules *rules,
                                yk_memory_pool **out, yk_err *err)
{
  yk_memory_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return yk_err_set(err, YK_E_NOMEM, "no memory for a pool of %d KV blocks", n_kv_blocks);
  pool->rules = *rules;
  yk_status status = yk_kv_blocks_create(n_kv_blocks, &pool->blocks, err);
  if (status == YK_OK) status = yk_snapshots_create(rules->n_state_entries, &pool->snapshots, err);
  if (status == YK_OK) status = yk_slots_create(max_seqs, &pool->slots, err);
  if (status != YK_OK) {
    yk_memory_pool_destroy(pool);
    return status;
  }
  if (rules->n_state_entries > 0) yk_kv_blocks_on_unpublish(pool->blocks, drop_snapshot, pool);
  *out = pool;
  return YK_OK;
}

void yk_memory_pool_destroy(yk_memory_pool *pool)
{
  if (!pool) return;
  yk_slots_destroy(pool->slots);
  yk_snapshots_destroy(pool->snapshots);
  yk_kv_blocks_destroy(pool->blocks);
  free(pool);
}

yk_kv_blocks *yk_memory_pool_blocks(yk_memory_pool *pool)
{
  return pool->blocks;
}

void yk_memory_pool_begin_step(yk_memory_pool *pool)
{
  yk_snapshots_begin_step(pool->snapshots);
}

const yk_step_copy *yk_memory_pool_take_copies(yk_memory_pool *pool, int32_t *n)
{
  *n = pool->n_copies;
  pool->n_copies = 0;
  return pool->copies;
}

yk_state_counts yk_memory_pool_count_states(const yk_memory_pool *pool)
{
  return (yk_state_counts){yk_snapshots_count(pool->snapshots), pool->n_hits, pool->n_misses};
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
  *m = (yk_sequence_memory){.blocks = malloc((size_t)yk_kv_blocks_for(capacity) * sizeof *m->blocks),
                            .chain_block = NONE,
                            .slot = NONE,
                            .state_load = YK_STATE_ZERO,
                            .state_save = NONE,
                            .snapshot = NONE};
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
  m->chain_block = NONE;
}

/* Last blocks first, so that the beginning, which other sequences are more likely to share, is taken last. */
static void drop_blocks(yk_sequence_memory *m, yk_kv_blocks *blocks, int32_t n_kept)
{
  while (m->n_blocks > n_kept) {
    int32_t block = m->blocks[--m->n_blocks];
    if (block >= 0) yk_kv_blocks_release(blocks, block);
  }
}

/* A beginning in published blocks. */
typedef struct beginning {
  int32_t n_blocks;
  yk_kv_chain chain;
  int32_t entry; /* of the snapshot there, or NONE */
} beginning;

static bool is_branch_of_running(const yk_memory_pool *pool, yk_kv_chain chain)
{
  for (const yk_sequence_memory *m = pool->branching; m; m = m->next_branching)
    if (m->branch_chain == chain) return true;
  return false;
}

static void begin_branch(yk_sequence_memory *m, yk_memory_pool *pool, const beginning *branch)
{
  m->branch_tokens = branch->n_blocks * YK_KV_BLOCK_TOKENS;
  m->branch_chain = branch->chain;
  m->next_branching = pool->branching;
  pool->branching = m;
}

static void end_branch(yk_sequence_memory *m, yk_memory_pool *pool)
{
  if (!m->branch_tokens) return;
  yk_sequence_memory **link = &pool->branching;
  while (*link != m) link = &(*link)->next_branching;
  *link = m->next_branching;
  m->branch_tokens = 0;
}

/* Places for snapshots in a published prefix. */
typedef struct snapshot_places {
  beginning loadable; /* the last one with a snapshot that the coming step may load */
  beginning coming;   /* the last one with a snapshot for later */
  beginning last;
} snapshot_places;

/* Takes references to the longest published prefix of at most n_tokens, at least one token less than there are. */
static snapshot_places find_blocks(yk_sequence_memory *m, yk_memory_pool *pool, const int32_t *tokens, int32_t n_tokens)
{
  enum { BLOCKS = YK_STATE_SAVE_TOKENS / YK_KV_BLOCK_TOKENS };
  const beginning nothing = {0, m->start, NONE};
  snapshot_places places = {nothing, nothing, nothing};
  const int32_t last_place = (n_tokens + 1 - YK_STATE_CHUNK_ROWS) / YK_KV_BLOCK_TOKENS;
  while (m->n_blocks < n_tokens / YK_KV_BLOCK_TOKENS) {
    const int32_t *ids = tokens + m->n_blocks * YK_KV_BLOCK_TOKENS;
    int32_t block = yk_kv_blocks_find(pool->blocks, m->chain, ids, &m->chain);
    if (block < 0) break;
    m->blocks[m->n_blocks++] = block;
    if (!pool->rules.has_states || m->n_blocks % BLOCKS != 0 || m->n_blocks > last_place) continue;
    const beginning place = {m->n_blocks, m->chain, yk_snapshots_find(pool->snapshots, m->chain)};
    places.last = place;
    if (place.entry < 0 ? is_branch_of_running(pool, m->chain) : yk_snapshots_is_coming(pool->snapshots, place.entry))
      places.coming = place;
    else if (place.entry >= 0)
      places.loadable = place;
  }
  return places;
}

int32_t yk_sequence_memory_reuse(yk_sequence_memory *m, yk_memory_pool *pool, const int32_t *tokens, int32_t n_tokens)
{
  if (!pool->rules.reuses_prefixes) return 0;
  const snapshot_places places = find_blocks(m, pool, tokens, n_tokens);
  /* A sequence that continues after the end of another one begins no branch. */
  bool diverges = m->n_blocks > 0 && yk_kv_blocks_is_continued(pool->blocks, m->blocks[m->n_blocks - 1]);
  if (pool->rules.has_states) {
    const bool must_wait = places.coming.n_blocks > places.loadable.n_blocks;
    const beginning start = must_wait ? (beginning){0, m->start, NONE} : places.loadable;
    drop_blocks(m, pool->blocks, start.n_blocks);
    m->chain = start.chain;
    if (must_wait) return YK_REUSE_LATER;
    m->snapshot = start.entry;
    m->n_withdrawals = pool->n_withdrawals;
    if (start.entry >= 0) m->has_unsound_start = !yk_snapshots_load(pool->snapshots, start.entry);
    m->is_miss = start.entry < 0 && places.last.n_blocks > 0;
    if (diverges && places.last.n_blocks > start.n_blocks) begin_branch(m, pool, &places.last);
  }
  m->chain_block = m->n_blocks > 0 ? m->blocks[m->n_blocks - 1] : NONE;
  m->n_published = m->n_blocks;
  m->n_computed = m->n_blocks * YK_KV_BLOCK_TOKENS;
  return m->n_computed;
}

static void drop_slot(yk_sequence_memory *m, yk_memory_pool *pool)
{
  if (m->slot < 0 || yk_slots_user(pool->slots, m->slot) == m) return;
  yk_slots_drop_holder(pool->slots, m->slot);
  m->slot = NONE;
}

void yk_sequence_memory_enter(yk_sequence_memory *m, yk_memory_pool *pool, int32_t n_tokens)
{
  yk_sequence_memory *loser = NULL;
  if (m->slot >= 0)
    yk_slots_retake(pool->slots, m->slot);
  else
    m->slot = yk_slots_take(pool->slots, m, &loser);
  if (loser) {
    loser->slot = NONE;
    yk_sequence_memory_release(loser, pool);
  }
  m->prompt_tokens = n_tokens;
  if (!m->snapshot_owner) m->snapshot_owner = ++pool->n_snapshot_owners;
  if (m->snapshot >= 0)
    pool->n_hits++;
  else if (m->is_miss)
    pool->n_misses++;
  m->is_miss = false;
}

void yk_sequence_memory_leave(yk_sequence_memory *m, yk_memory_pool *pool)
{
  bool keeps_states = pool->rules.has_states && m->n_computed > 0;
  end_branch(m, pool);
  yk_slots_leave(pool->slots, m->slot, keeps_states);
  if (!keeps_states) m->slot = NONE;
}

static int32_t last_multiple(int32_t n_tokens)
{
  return n_tokens / YK_STATE_SAVE_TOKENS * YK_STATE_SAVE_TOKENS;
}

/* Position of the last snapshot from which an equal prompt can begin: the last multiple of YK_STATE_SAVE_TOKENS that at
 * least YK_STATE_CHUNK_ROWS tokens follow; if it is already computed, the last multiple within the prompt. */
static int32_t last_of_prompt(const yk_sequence_memory *m)
{
  const int32_t place =
      m->prompt_tokens < YK_STATE_CHUNK_ROWS ? 0 : last_multiple(m->prompt_tokens - YK_STATE_CHUNK_ROWS);
  return place > m->n_computed ? place : last_multiple(m->prompt_tokens - 1);
}

static bool saves_states(const yk_memory_pool *pool)
{
  return pool->rules.has_states && pool->rules.reuses_prefixes;
}

/* The first position for a snapshot after n_tokens tokens. */
static int32_t place_behind(const yk_sequence_memory *m, int32_t n_tokens)
{
  const int32_t last = last_of_prompt(m), places[] = {m->branch_tokens, last};
  int32_t first = (n_tokens / YK_SNAPSHOT_EVERY_TOKENS + 1) * YK_SNAPSHOT_EVERY_TOKENS;
  if (first > last && first < m->prompt_tokens) first += YK_SNAPSHOT_EVERY_TOKENS;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (places[i] > n_tokens && places[i] < first) first = places[i];
  return first;
}

/* The rows up to the last multiple of YK_STATE_SAVE_TOKENS at which a step may end that computes at most n_most of the
 * next n_left rows; 0: there is none. */
static int32_t rows_to_multiple(const yk_sequence_memory *m, int32_t n_left, int32_t n_most)
{
  const int64_t most = yk_min_i64(n_most, (int64_t)n_left - YK_STATE_CHUNK_ROWS);
  const int32_t n_rows = last_multiple((int32_t)yk_max_i64(m->n_computed + most, 0)) - m->n_computed;
  return n_rows >= YK_STATE_CHUNK_ROWS ? n_rows : 0;
}

int32_t yk_sequence_memory_limit_rows(const yk_sequence_memory *m, const yk_memory_pool *pool, int32_t n_left,
                                      int32_t n_most, bool can_wait)
{
  int32_t n_rows = (int32_t)yk_min_i64(n_left, n_most);
  if (!pool->rules.has_states) return n_rows;
  if (n_rows < n_left) {
    const int32_t whole = rows_to_multiple(m, n_left, n_most);
    if (whole > 0 || can_wait) n_rows = whole;
  }
  if (!saves_states(pool)) return n_rows;
  const int32_t first = place_behind(m, m->n_computed), second = place_behind(m, first);
  const bool is_cut = second <= m->n_computed + n_rows && first - m->n_computed >= YK_STATE_CHUNK_ROWS;
  return is_cut ? first - m->n_computed : n_rows;
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

/* Position at which a step whose rows end here saves a snapshot; 0: none. */
static int32_t place_within(const yk_sequence_memory *m, const yk_memory_pool *pool, int32_t end)
{
  if (!saves_states(pool)) return 0;
  int32_t place = place_behind(m, m->n_computed), next;
  while ((next = place_behind(m, place)) <= end) place = next;
  if (place <= end) return place;
  return end == m->prompt_tokens && end % YK_STATE_SAVE_TOKENS == 0 ? end : 0;
}

/* Returns the chain at `place`, which lies after the published blocks; 0 if the rows do not reach it. */
static yk_kv_chain publish(yk_sequence_memory *m, yk_memory_pool *pool, const int32_t *tokens, int32_t end,
                           int32_t place)
{
  yk_kv_chain at_place = 0;
  while (m->n_published < end / YK_KV_BLOCK_TOKENS) {
    const int32_t *ids = tokens + m->n_published * YK_KV_BLOCK_TOKENS;
    m->chain = yk_kv_blocks_publish(pool->blocks, m->blocks[m->n_published++], m->chain, ids, &m->chain_block);
    if (m->n_published * YK_KV_BLOCK_TOKENS == place) at_place = m->chain;
  }
  return at_place;
}

void yk_sequence_memory_plan(yk_sequence_memory *m, yk_memory_pool *pool, const int32_t *tokens, int32_t n_rows)
{
  const int32_t end = m->n_computed + n_rows, place = place_within(m, pool, end);
  const yk_kv_chain chain = pool->rules.reuses_prefixes ? publish(m, pool, tokens, end, place) : 0;
  m->state_load = m->n_computed == 0 ? YK_STATE_ZERO : m->snapshot >= 0 ? m->snapshot : YK_STATE_KEEP;
  m->snapshot = m->state_save = NONE;
  m->state_save_rows = 0;
  if (place == 0) return;
  m->state_save = yk_snapshots_save(pool->snapshots, chain, m->snapshot_owner);
  if (m->state_save >= 0) {
    m->state_save_rows = place - m->n_computed;
    m->unsound_tokens = place;
  }
  if (end >= m->branch_tokens) end_branch(m, pool);
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

void yk_sequence_memory_release(yk_sequence_memory *m, yk_memory_pool *pool)
{
  drop_blocks(m, pool->blocks, 0);
  end_branch(m, pool);
  drop_slot(m, pool);
  m->n_computed = m->n_left_behind = m->n_published = m->n_sound = 0;
  m->chain = m->start;
  m->chain_block = m->snapshot = NONE;
  m->snapshot_owner = 0;
  m->is_miss = false;
  m->has_unsound_start = false;
  m->unsound_tokens = 0;
}

void yk_sequence_memory_truncate(yk_sequence_memory *m, yk_memory_pool *pool, int32_t n_tokens)
{
  if (pool->rules.has_states && n_tokens < m->n_computed) {
    yk_sequence_memory_release(m, pool);
    return;
  }
  m->n_computed = (int32_t)yk_min_i64(m->n_computed, n_tokens);
  if (n_tokens / YK_KV_BLOCK_TOKENS >= m->n_published)
    drop_blocks(m, pool->blocks, yk_kv_blocks_for(n_tokens));
  else /* the chain of an earlier block is not kept; the next reuse takes the blocks that are still published */
    yk_sequence_memory_release(m, pool);
}

/* Give the copy a slot for the states, from which a parked memory may lose its own; never this memory. */
static bool take_slot_for_fork(const yk_sequence_memory *m, yk_memory_pool *pool, yk_sequence_memory *copy)
{
  yk_sequence_memory *loser = NULL;
  yk_slots_retake(pool->slots, m->slot);
  copy->slot = yk_slots_take(pool->slots, copy, &loser);
  yk_slots_leave(pool->slots, m->slot, true);
  if (copy->slot < 0) return false;
  yk_slots_leave(pool->slots, copy->slot, true);
  if (!loser) return true;
  loser->slot = NONE;
  yk_sequence_memory_release(loser, pool);
  return true;
}

/* Copy the states and the blocks that are not published, of a memory whose published blocks the copy shares. False:
 * there is no space, and nothing is copied. */
static bool copy_rest(const yk_sequence_memory *m, yk_memory_pool *pool, yk_sequence_memory *copy)
{
  const int32_t n_blocks = m->n_blocks - m->n_published, n_copies = n_blocks > 0 ? n_blocks : 1;
  if (pool->n_copies + n_copies > YK_STEP_MAX_COPIES) return false;
  if (n_blocks > yk_kv_blocks_free_count(pool->blocks)) return false;
  if (pool->rules.has_states && !take_slot_for_fork(m, pool, copy)) return false;
  for (int32_t i = 0; i < n_copies; i++) {
    yk_step_copy *it = &pool->copies[pool->n_copies++];
    *it = (yk_step_copy){NONE, NONE, NONE, NONE};
    if (i == 0 && pool->rules.has_states) *it = (yk_step_copy){m->slot, copy->slot, NONE, NONE};
    if (n_blocks == 0) break;
    it->from_block = m->blocks[m->n_published + i];
    it->to_block = copy->blocks[copy->n_blocks++] = yk_kv_blocks_take(pool->blocks);
  }
  copy->n_computed = m->n_computed;
  copy->has_unsound_start = m->has_unsound_start;
  copy->n_withdrawals = m->n_withdrawals;
  return true;
}

void yk_sequence_memory_fork(const yk_sequence_memory *m, yk_memory_pool *pool, yk_sequence_memory *copy)
{
  copy->start = copy->chain = m->start;
  const bool runs = m->slot >= 0 && yk_slots_user(pool->slots, m->slot) == m;
  const bool may_copy = m->n_computed > 0 && !runs;
  if (pool->rules.has_states && !may_copy) return;
  for (int32_t i = 0; i < m->n_published; i++) {
    copy->blocks[i] = m->blocks[i];
    if (m->blocks[i] >= 0) yk_kv_blocks_share(pool->blocks, m->blocks[i]);
  }
  copy->n_blocks = copy->n_published = m->n_published;
  copy->n_left_behind = m->n_left_behind;
  copy->n_computed = m->n_published * YK_KV_BLOCK_TOKENS;
  copy->chain = m->chain;
  copy->chain_block = m->chain_block;
  if ((!may_copy || !copy_rest(m, pool, copy)) && pool->rules.has_states) yk_sequence_memory_release(copy, pool);
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
  m->has_unsound_start = false;
  if (m->unsound_tokens == 0 || position < m->unsound_tokens - 1) return;
  yk_snapshots_mark_sound(pool->snapshots, m->snapshot_owner);
  m->unsound_tokens = 0;
}

void yk_sequence_memory_withdraw(yk_sequence_memory *m, yk_memory_pool *pool)
{
  for (int32_t i = m->n_left_behind; i < m->n_published; i++) yk_kv_blocks_withdraw(pool->blocks, m->blocks[i]);
  if (!pool->rules.has_states) return;
  yk_snapshots_drop_unsound(pool->snapshots);
  pool->n_withdrawals++;
}

bool yk_sequence_memory_reads_withdrawn(const yk_sequence_memory *m, yk_memory_pool *pool)
{
  for (int32_t i = m->n_left_behind; i < m->n_blocks; i++)
    if (yk_kv_blocks_is_withdrawn(pool->blocks, m->blocks[i])) return true;
  return m->has_unsound_start && m->n_withdrawals != pool->n_withdrawals;
}

/* ---- For the step builder ---------------------------------------------------------------------------------------- */

/* Kernels may load blocks after the window, though no row uses them. The first remaining block replaces them in the
 * table, because this sequence must not touch another sequence's content. */
void yk_sequence_memory_fill_table(const yk_sequence_memory *m, int32_t *table, int32_t stride)
{
  int32_t n = (int32_t)yk_min_i64(m->n_blocks, stride);
  memcpy(table, m->blocks, (size_t)n * sizeof *table);
  memset(table + n, 0, (size_t)(stride - n) * sizeof *table);
  for (int32_t i = 0; i < m->n_left_behind; i++) table[i] = m->blocks[m->n_left_behind];
}
