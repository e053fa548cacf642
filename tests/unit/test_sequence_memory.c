/* Sequences' memory against a plain model: after any order of appending, computing, forking, truncating, parking,
 * reclaiming and reusing, every computed token is in the slot where its sequence reads it, after the same tokens,
 * recurrent states are those of the computed tokens, and no block is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/rng.h"
#include "engine/loop/sequence.h"

enum { N_SEQS = 12, CAPACITY = 120, N_BLOCKS = 40, N_SLOTS = 5, N_ENTRIES = 3, N_ACTIONS = 2000, N_SEEDS = 10 };

typedef struct player {
  yk_sequence seq;
  bool is_alive, is_parked;
  int parked_at; /* the action */
} player;

/* The plain model: for each slot of the cache, the hash of all tokens up to the one whose K and V are in it; for each
 * slot of a sequence and each snapshot, the hash of all tokens that the states have seen. */
typedef struct device_memory {
  uint32_t cache[N_BLOCKS * YK_KV_BLOCK_TOKENS];
  uint32_t states[N_SLOTS], snapshots[N_ENTRIES];
} device_memory;

typedef struct game {
  yk_memory_pool *pool;
  yk_memory_rules rules;
  player players[N_SEQS];
  device_memory device;
  yk_step_copy copies[YK_STEP_MAX_COPIES]; /* for the coming step */
  int32_t n_copies, n_copied, n_blocks;
  uint64_t seed;
  uint32_t draws;
  int action;
} game;

static int32_t draw(game *g, int32_t below)
{
  return (int32_t)(yk_rng_uniform(g->seed, 0, g->draws++) * (float)below);
}

static uint32_t hash_up_to(const yk_sequence *seq, int32_t position)
{
  return yk_hash(YK_HASH_START, seq->tokens, (size_t)(position + 1) * sizeof *seq->tokens);
}

static int32_t first_visible(const game *g, const yk_sequence *seq)
{
  int32_t first = g->rules.window_tokens ? seq->memory.n_computed - g->rules.window_tokens + 1 : 0;
  return first > 0 ? first : 0;
}

static void collect_copies(game *g)
{
  int32_t n;
  const yk_step_copy *copies = yk_memory_pool_take_copies(g->pool, &n);
  memcpy(g->copies + g->n_copies, copies, (size_t)n * sizeof *copies);
  g->n_copies += n;
  g->n_copied += n;
}

static void do_copies(const game *g, device_memory *memory)
{
  enum { BLOCK = YK_KV_BLOCK_TOKENS };
  for (const yk_step_copy *c = g->copies; c < g->copies + g->n_copies; c++) {
    if (c->from_slot >= 0) memory->states[c->to_slot] = memory->states[c->from_slot];
    for (int32_t i = 0; i < BLOCK && c->from_block >= 0; i++)
      memory->cache[c->to_block * BLOCK + i] = memory->cache[c->from_block * BLOCK + i];
  }
}

/* Checks every sequence as at the beginning of a step. */
static void check_all(game *g)
{
  bool is_held[N_BLOCKS] = {false};
  int32_t n_held = 0;
  collect_copies(g);
  device_memory now = g->device;
  do_copies(g, &now);
  for (int i = 0; i < N_SEQS; i++) {
    const player *p = &g->players[i];
    const yk_sequence_memory *m = &p->seq.memory;
    if (!p->is_alive) continue;
    assert_true(m->n_computed <= p->seq.n_tokens && yk_kv_blocks_for(m->n_computed) <= m->n_blocks);
    for (int32_t position = first_visible(g, &p->seq); position < m->n_computed; position++)
      if (now.cache[yk_sequence_memory_kv_slot(m, position)] != hash_up_to(&p->seq, position))
        fail_msg("seed %d, action %d: sequence %d, position %d", (int)g->seed, g->action, i, position);
    if (g->rules.has_states && m->n_computed > 0) {
      assert_in_range(m->slot, 0, N_SLOTS - 1);
      if (now.states[m->slot] != hash_up_to(&p->seq, m->n_computed - 1))
        fail_msg("seed %d, action %d: states of sequence %d", (int)g->seed, g->action, i);
    }
    for (int32_t b = 0; b < m->n_blocks; b++)
      if (m->blocks[b] >= 0) is_held[m->blocks[b]] = true;
  }
  for (int b = 0; b < N_BLOCKS; b++) n_held += is_held[b];
  assert_int_equal(n_held + yk_kv_blocks_free_count(yk_memory_pool_blocks(g->pool)), g->n_blocks);
}

static void begin(game *g, player *p)
{
  int32_t prompt[CAPACITY], n = 1 + draw(g, CAPACITY / 2), parting = draw(g, CAPACITY);
  for (int32_t i = 0; i < n; i++) prompt[i] = i < parting ? 7 : draw(g, 3);
  assert_int_equal(yk_sequence_init(&p->seq, NULL, prompt, n, CAPACITY, NULL), YK_OK);
  p->is_alive = true;
  p->is_parked = false;
}

static void end(game *g, player *p)
{
  yk_sequence_memory_unpark(&p->seq.memory, g->pool);
  yk_sequence_memory_release(&p->seq.memory, g->pool);
  yk_sequence_destroy(&p->seq);
  p->is_alive = false;
}

/* The sequence that has been parked longest and holds blocks. */
static player *longest_parked(game *g)
{
  player *longest = NULL;
  for (int i = 0; i < N_SEQS; i++) {
    player *p = &g->players[i];
    if (!p->is_alive || !p->is_parked || p->seq.memory.n_blocks == 0) continue;
    if (!longest || p->parked_at < longest->parked_at) longest = p;
  }
  return longest;
}

static bool reclaim(game *g)
{
  player *expected = longest_parked(g);
  assert_true(yk_memory_pool_reclaim(g->pool) == (expected != NULL));
  if (expected) assert_true(expected->seq.memory.n_blocks == 0 && expected->seq.memory.n_computed == 0);
  return expected != NULL;
}

static void run_states(game *g, const yk_sequence *seq, int32_t n_rows)
{
  const yk_sequence_memory *m = &seq->memory;
  if (!g->rules.has_states) return;
  uint32_t *state = &g->device.states[m->slot];
  if (m->state_load != YK_STATE_KEEP) *state = m->state_load >= 0 ? g->device.snapshots[m->state_load] : 0;
  if (m->n_computed > 0) assert_int_equal(*state, hash_up_to(seq, m->n_computed - 1));
  *state = hash_up_to(seq, m->n_computed + n_rows - 1);
  if (m->state_save >= 0) g->device.snapshots[m->state_save] = hash_up_to(seq, m->n_computed + m->state_save_rows - 1);
}

/* Like a step: some rows, whose K and V are written before the next plan. */
static void compute(game *g, player *p)
{
  yk_sequence *seq = &p->seq;
  yk_memory_pool_begin_step(g->pool);
  if (yk_sequence_memory_is_empty(&seq->memory)) {
    int32_t reused = yk_sequence_reuse(seq, g->pool);
    assert_true(reused == seq->memory.n_computed && reused < seq->n_tokens);
  }
  int32_t left = seq->n_tokens - seq->memory.n_computed, n_rows = left > 0 ? 1 + draw(g, left) : 0;
  if (n_rows == 0 && !yk_sequence_memory_is_empty(&seq->memory)) return;
  yk_sequence_memory_enter(&seq->memory, g->pool, seq->n_tokens);
  n_rows = yk_sequence_memory_limit_rows(&seq->memory, g->pool, n_rows, n_rows, false);
  while (!yk_sequence_memory_reserve(&seq->memory, g->pool, seq->memory.n_computed + n_rows))
    if (!reclaim(g)) { /* like a sequence that is preempted */
      yk_sequence_memory_leave(&seq->memory, g->pool);
      yk_sequence_memory_release(&seq->memory, g->pool);
      return;
    }
  collect_copies(g);
  do_copies(g, &g->device);
  g->n_copies = 0;
  for (int32_t i = 0; i < n_rows; i++) {
    int32_t position = seq->memory.n_computed + i;
    g->device.cache[yk_sequence_memory_kv_slot(&seq->memory, position)] = hash_up_to(seq, position);
  }
  yk_sequence_memory_plan(&seq->memory, g->pool, seq->tokens, n_rows);
  run_states(g, seq, n_rows);
  yk_sequence_memory_commit(&seq->memory, g->pool, n_rows);
  yk_sequence_memory_leave(&seq->memory, g->pool);
}

static void append(game *g, player *p)
{
  for (int32_t n = 1 + draw(g, 20); n > 0 && p->seq.n_tokens < CAPACITY; n--)
    p->seq.tokens[p->seq.n_tokens++] = draw(g, 2);
  p->seq.wanted_from = p->seq.n_tokens - 1;
}

static void truncate(game *g, player *p)
{
  int32_t n = 1 + draw(g, p->seq.n_tokens);
  yk_sequence_truncate(&p->seq, g->pool, n);
  p->seq.wanted_from = n - 1;
  assert_true(p->seq.memory.n_computed <= n);
}

static void fork_into(game *g, const player *p, player *copy)
{
  assert_int_equal(yk_sequence_init(&copy->seq, NULL, NULL, 0, CAPACITY, NULL), YK_OK);
  const int32_t n_computed = p->seq.memory.n_computed, n_free = yk_kv_blocks_free_count(yk_memory_pool_blocks(g->pool));
  yk_sequence_fork(&p->seq, g->pool, &copy->seq);
  copy->is_alive = true;
  copy->is_parked = false;
  copy->seq.wanted_from = copy->seq.n_tokens - 1;
  assert_memory_equal(copy->seq.tokens, p->seq.tokens, (size_t)p->seq.n_tokens * sizeof *p->seq.tokens);
  assert_true(copy->seq.memory.n_computed <= p->seq.memory.n_computed);
  assert_int_equal(p->seq.memory.n_computed, n_computed);
  if (n_free >= yk_kv_blocks_for(CAPACITY)) assert_int_equal(copy->seq.memory.n_computed, n_computed);
}

static void park_or_unpark(game *g, player *p)
{
  if (p->is_parked)
    yk_sequence_memory_unpark(&p->seq.memory, g->pool);
  else
    yk_sequence_memory_park(&p->seq.memory, g->pool);
  p->is_parked = !p->is_parked;
  p->parked_at = g->action;
}

static void act(game *g)
{
  player *p = &g->players[draw(g, N_SEQS)], *other = &g->players[draw(g, N_SEQS)];
  int32_t what = draw(g, 20);
  if (!p->is_alive)
    begin(g, p);
  else if (what == 0)
    end(g, p);
  else if (what < 3)
    park_or_unpark(g, p);
  else if (what < 5 && !other->is_alive)
    fork_into(g, p, other);
  else if (what == 5)
    reclaim(g);
  else if (what < 8)
    truncate(g, p);
  else if (what < 11)
    append(g, p);
  else if (!p->is_parked)
    compute(g, p);
}

static void play(uint64_t seed, yk_memory_rules rules)
{
  game *g = calloc(1, sizeof *g);
  assert_non_null(g);
  g->seed = seed;
  g->rules = rules;
  g->n_blocks = seed % 2 ? N_BLOCKS : N_BLOCKS / 4;
  assert_int_equal(yk_memory_pool_create(g->n_blocks, N_SLOTS, &rules, &g->pool, NULL), YK_OK);
  for (g->action = 1; g->action <= N_ACTIONS; g->action++) {
    act(g);
    check_all(g);
  }
  for (int i = 0; i < N_SEQS; i++)
    if (g->players[i].is_alive) end(g, &g->players[i]);
  assert_int_equal(yk_kv_blocks_free_count(yk_memory_pool_blocks(g->pool)), g->n_blocks);
  assert_true(g->n_copied > 0 || g->n_blocks < N_BLOCKS);
  yk_memory_pool_destroy(g->pool);
  free(g);
}

static void test_whatever_the_order(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
    play(seed, (yk_memory_rules){.reuses_prefixes = seed % 2, .window_tokens = 20, .narrowest_window_tokens = 20});
    play(seed, (yk_memory_rules){.reuses_prefixes = true});
    play(seed, (yk_memory_rules){.reuses_prefixes = false});
    play(seed, (yk_memory_rules){.reuses_prefixes = seed % 2, .has_states = true, .n_state_entries = N_ENTRIES});
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_whatever_the_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
