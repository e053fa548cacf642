/* Sequences' memory against a plain model: after any order of appending, computing, forking, truncating, parking,
 * reclaiming and reusing, every token that counts as computed is where its sequence looks for it, after the same
 * tokens, and no block is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/rng.h"
#include "engine/loop/sequence.h"

enum { N_SEQS = 12, CAPACITY = 120, N_BLOCKS = 40, N_ACTIONS = 2000, N_SEEDS = 10 };

typedef struct player {
  yk_sequence seq;
  bool is_alive, is_parked;
  int parked_at; /* the action */
} player;

/* The plain model: for each slot of the cache, the hash of all tokens up to the one whose K and V are in it. */
typedef struct game {
  yk_memory_pool *pool;
  yk_memory_rules rules;
  player players[N_SEQS];
  uint32_t cache[N_BLOCKS * YK_KV_BLOCK_TOKENS];
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

static void check_all(game *g)
{
  bool is_held[N_BLOCKS] = {false};
  int32_t n_held = 0;
  for (int i = 0; i < N_SEQS; i++) {
    const player *p = &g->players[i];
    const yk_sequence_memory *m = &p->seq.memory;
    if (!p->is_alive) continue;
    assert_true(m->n_computed <= p->seq.n_tokens && yk_kv_blocks_for(m->n_computed) <= m->n_blocks);
    for (int32_t position = first_visible(g, &p->seq); position < m->n_computed; position++)
      if (g->cache[yk_sequence_memory_kv_slot(m, position)] != hash_up_to(&p->seq, position))
        fail_msg("seed %d, action %d: sequence %d, position %d", (int)g->seed, g->action, i, position);
    for (int32_t b = 0; b < m->n_blocks; b++)
      if (m->blocks[b] >= 0) is_held[m->blocks[b]] = true;
  }
  for (int b = 0; b < N_BLOCKS; b++) n_held += is_held[b];
  assert_int_equal(n_held + yk_kv_blocks_free_count(yk_memory_pool_blocks(g->pool)), N_BLOCKS);
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

/* Like a step: some rows, whose K and V are written before the next plan. */
static void compute(game *g, player *p)
{
  yk_sequence *seq = &p->seq;
  if (yk_sequence_memory_is_empty(&seq->memory)) {
    int32_t reused = yk_sequence_reuse(seq, g->pool);
    assert_true(reused == seq->memory.n_computed && reused < seq->n_tokens);
  }
  int32_t left = seq->n_tokens - seq->memory.n_computed, n_rows = left > 0 ? 1 + draw(g, left) : 0;
  while (!yk_sequence_memory_reserve(&seq->memory, g->pool, seq->memory.n_computed + n_rows))
    if (!reclaim(g)) return; /* like a sequence that is preempted later */
  for (int32_t i = 0; i < n_rows; i++) {
    int32_t position = seq->memory.n_computed + i;
    g->cache[yk_sequence_memory_kv_slot(&seq->memory, position)] = hash_up_to(seq, position);
  }
  yk_sequence_memory_plan(&seq->memory, g->pool, seq->tokens, n_rows);
  yk_sequence_memory_commit(&seq->memory, g->pool, n_rows);
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
  yk_sequence_fork(&p->seq, g->pool, &copy->seq);
  copy->is_alive = true;
  copy->is_parked = false;
  copy->seq.wanted_from = copy->seq.n_tokens - 1;
  assert_memory_equal(copy->seq.tokens, p->seq.tokens, (size_t)p->seq.n_tokens * sizeof *p->seq.tokens);
  assert_true(copy->seq.memory.n_computed <= p->seq.memory.n_computed);
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
  assert_int_equal(yk_memory_pool_create(N_BLOCKS, 64, &rules, &g->pool, NULL), YK_OK);
  for (g->action = 1; g->action <= N_ACTIONS; g->action++) {
    act(g);
    check_all(g);
  }
  for (int i = 0; i < N_SEQS; i++)
    if (g->players[i].is_alive) end(g, &g->players[i]);
  assert_int_equal(yk_kv_blocks_free_count(yk_memory_pool_blocks(g->pool)), N_BLOCKS);
  yk_memory_pool_destroy(g->pool);
  free(g);
}

static void test_whatever_the_order(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
    play(seed, (yk_memory_rules){.reuses_prefixes = true});
    play(seed, (yk_memory_rules){.reuses_prefixes = false});
    play(seed, (yk_memory_rules){.reuses_prefixes = true, .window_tokens = 20, .narrowest_window_tokens = 20});
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_whatever_the_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
