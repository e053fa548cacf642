/* The scheduler's invariants under thousands of random submissions, steps, cancellations and preemptions: no block
 * owned twice or lost, no block shared by sequences with different prefixes, row and slot budgets kept, first come
 * first served, every sequence finishes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/rng.h"
#include "engine/loop/scheduler.h"
#include "kernels/device.h"

enum { N_SEQS = 60, MAX_CONTEXT = 100, LONG_CONTEXT = 300, MAX_SLOTS = 64, MAX_ENTRIES = 40 };

typedef struct client {
  yk_sequence seq;
  int32_t output_wanted;
  bool active, done;
  bool was_running; /* before the current plan */
} client;

typedef struct scheduler_limits {
  yk_device_limits step;
  yk_memory_rules rules;
} scheduler_limits;

typedef struct flight {
  const yk_scheduled *items;
  int32_t n_items;
} flight;

typedef struct driver {
  scheduler_limits limits;
  int depth;
  flight flights[4]; /* [n_flights] steps planned and not committed, oldest first */
  int n_flights, most_flights;
  int32_t n_blocks;
  yk_memory_pool *pool;
  yk_kv_blocks *blocks; /* the pool's */
  yk_scheduler *scheduler;
  client clients[N_SEQS];
  bool some_fail;  /* some rows give logits that are not finite, others finite ones */
  bool forgets;    /* occasionally forgets published blocks */
  int32_t context; /* longest sequence */
  /* The device: for each slot and snapshot, the hash of the tokens that its recurrent states have seen. */
  uint32_t states[MAX_SLOTS], snapshots[MAX_ENTRIES];
  uint32_t draws;
  uint64_t seed;
} driver;

static int32_t draw(driver *d, int32_t below)
{
  return (int32_t)(yk_rng_uniform(d->seed, 0, d->draws++) * (float)below);
}

/* The first owner found for a block, and the block's position in it. */
typedef struct owner {
  const yk_sequence *seq;
  int32_t index;
} owner;

static void check_same_beginning(const yk_sequence *a, const yk_sequence *b, int32_t block_index)
{
  assert_memory_equal(a->tokens, b->tokens, (size_t)(block_index + 1) * YK_KV_BLOCK_TOKENS * sizeof *a->tokens);
}

static void check_blocks(driver *d)
{
  int32_t total = d->n_blocks, n_owned = 0;
  owner *owners = calloc((size_t)total, sizeof *owners);
  for (int i = 0; i < N_SEQS; i++) {
    const yk_sequence *seq = &d->clients[i].seq;
    if (!d->clients[i].active) continue;
    assert_true(seq->memory.n_blocks >= yk_kv_blocks_for(seq->memory.n_computed));
    assert_true(seq->memory.n_blocks <= yk_kv_blocks_for(seq->capacity));
    for (int32_t b = 0; b < seq->memory.n_blocks; b++) {
      if (seq->memory.blocks[b] < 0) {
        int32_t behind = seq->memory.n_computed - d->limits.rules.window_tokens + 1;
        assert_true(d->limits.rules.window_tokens > 0 && (b + 1) * YK_KV_BLOCK_TOKENS <= behind);
        continue;
      }
      assert_in_range(seq->memory.blocks[b], 0, total - 1);
      owner *o = &owners[seq->memory.blocks[b]];
      if (o->seq) {
        assert_true(d->limits.rules.reuses_prefixes);
        assert_int_equal(o->index, b);
        check_same_beginning(o->seq, seq, b);
      } else
        n_owned++;
      *o = (owner){seq, b};
    }
  }
  assert_int_equal(n_owned + yk_kv_blocks_free_count(d->blocks), total);
  free(owners);
}

/* Prompts often share a prefix, and differ from a random position on. */
static void make_prompt(driver *d, int32_t *prompt, int32_t n)
{
  int32_t family = draw(d, 3), parting = draw(d, d->context);
  for (int32_t i = 0; i < n; i++) prompt[i] = i < parting ? family : draw(d, 1000);
}

static void submit(driver *d, int i)
{
  int32_t prompt[LONG_CONTEXT];
  int32_t n_prompt = 1 + draw(d, d->context / 2);
  make_prompt(d, prompt, n_prompt);
  client *c = &d->clients[i];
  c->output_wanted = 1 + draw(d, d->context / 2 - 1);
  assert_int_equal(yk_sequence_init(&c->seq, NULL, prompt, n_prompt, n_prompt + c->output_wanted, NULL), YK_OK);
  c->active = true;
  yk_scheduler_add(d->scheduler, &c->seq);
}

static void leave(driver *d, client *c)
{
  yk_scheduler_remove(d->scheduler, &c->seq);
  assert_int_equal(c->seq.memory.n_blocks, 0);
  yk_sequence_destroy(&c->seq);
  c->active = false;
  c->done = true;
}

static const client *oldest(const driver *d)
{
  for (int i = 0; i < N_SEQS; i++) /* submitted in index order */
    if (d->clients[i].active) return &d->clients[i];
  return NULL;
}

static void check_plan(driver *d, const yk_scheduled *items, int32_t n_items)
{
  int32_t rows = 0;
  assert_in_range(n_items, 1, d->limits.step.max_seqs);
  /* The oldest always makes progress, unless a block that it shares was withdrawn. */
  if (!d->some_fail && d->n_flights == 0) assert_ptr_equal(items[0].seq, &oldest(d)->seq);
  for (int32_t i = 0; i < n_items; i++) {
    const yk_sequence *seq = items[i].seq;
    rows += items[i].n_rows;
    assert_true(items[i].n_rows >= 1);
    assert_int_equal(items[i].enters, !((const client *)seq)->was_running);
    assert_true(seq->memory.n_computed + items[i].n_rows <= seq->n_tokens);
    assert_true(seq->memory.n_blocks >= yk_kv_blocks_for(seq->memory.n_computed + items[i].n_rows));
    if (i > 0 && !d->some_fail)
      assert_true(items[i - 1].seq < seq); /* first come, first served: clients lie in order of arrival */
  }
  assert_true(rows <= d->limits.step.max_tokens);
}

/* A sequence ends by non-finite logits: no other may continue with a block of it that is not known to be sound. */
static void fail_one(driver *d, client *failed)
{
  yk_scheduler_withdraw(d->scheduler, &failed->seq);
  for (int i = 0; i < N_SEQS; i++) {
    const client *c = &d->clients[i];
    if (c->active && c != failed && !c->seq.is_void)
      assert_false(yk_sequence_memory_reads_withdrawn(&c->seq.memory, d->pool));
  }
  leave(d, failed);
}

/* Take the results of the oldest step in flight. */
static void complete(driver *d)
{
  const yk_scheduled *items = d->flights[0].items;
  int32_t n_items = d->flights[0].n_items;
  d->n_flights--;
  memmove(d->flights, d->flights + 1, (size_t)d->n_flights * sizeof *d->flights);
  yk_scheduler_commit(d->scheduler);
  for (int32_t i = 0; i < n_items; i++) {
    yk_sequence *seq = items[i].seq;
    if (!seq || seq->memory.n_computed < seq->n_tokens) continue;
    if (d->some_fail && draw(d, 20) == 0) {
      fail_one(d, (client *)seq);
      continue;
    }
    yk_scheduler_mark_sound(d->scheduler, seq, seq->memory.n_computed - 1);
    seq->tokens[seq->n_tokens++] = 1;
    if (seq->n_tokens == seq->capacity) leave(d, (client *)seq);
  }
}

static uint32_t hash_of(const yk_sequence *seq, int32_t n_tokens)
{
  return yk_hash(YK_HASH_START, seq->tokens, (size_t)n_tokens * sizeof *seq->tokens);
}

/* Do with hashes what the layers do with states. Every sequence finds the states of its own tokens; no entry is saved
 * by a step that also loads or saves it otherwise. */
static void run_states(driver *d, const yk_scheduled *items, int32_t n_items)
{
  bool is_saved[MAX_ENTRIES] = {false};
  if (!d->limits.rules.has_states) return;
  for (int32_t i = 0; i < n_items; i++) {
    const yk_sequence_memory *m = &items[i].seq->memory;
    assert_in_range(m->slot, 0, d->limits.step.max_seqs - 1);
    for (int32_t j = 0; j < i; j++) assert_int_not_equal(items[j].seq->memory.slot, m->slot);
    if (m->state_save < 0) continue;
    assert_true(m->state_save < d->limits.rules.n_state_entries && !is_saved[m->state_save]);
    is_saved[m->state_save] = true;
  }
  for (int32_t i = 0; i < n_items; i++) {
    const yk_sequence *seq = items[i].seq;
    const yk_sequence_memory *m = &seq->memory;
    uint32_t *state = &d->states[m->slot];
    if (m->state_load >= 0) assert_false(is_saved[m->state_load]);
    if (m->state_load != YK_STATE_KEEP) *state = m->state_load >= 0 ? d->snapshots[m->state_load] : YK_HASH_START;
    assert_int_equal(*state, hash_of(seq, m->n_computed));
    *state = hash_of(seq, m->n_computed + items[i].n_rows);
    if (m->state_save < 0) continue;
    assert_in_range(m->state_save_rows, 1, items[i].n_rows);
    assert_int_equal((m->n_computed + m->state_save_rows) % YK_STATE_SAVE_TOKENS, 0);
    d->snapshots[m->state_save] = hash_of(seq, m->n_computed + m->state_save_rows);
  }
}

static void check_not_in_flight(const driver *d, const yk_scheduled *items, int32_t n_items)
{
  for (int f = 0; f < d->n_flights; f++)
    for (int32_t i = 0; i < d->flights[f].n_items; i++)
      for (int32_t j = 0; j < n_items; j++) assert_ptr_not_equal(d->flights[f].items[i].seq, items[j].seq);
}

static void step(driver *d)
{
  const yk_scheduled *items;
  if (d->n_flights == d->depth || (d->n_flights > 0 && draw(d, 3) == 0)) {
    complete(d);
    return;
  }
  for (int i = 0; i < N_SEQS; i++) d->clients[i].was_running = d->clients[i].active && d->clients[i].seq.slot >= 0;
  int32_t n_items = yk_scheduler_plan(d->scheduler, &items);
  if (n_items == 0) {
    assert_true(!oldest(d) || d->n_flights > 0);
    if (d->n_flights > 0) complete(d);
    return;
  }
  check_plan(d, items, n_items);
  check_not_in_flight(d, items, n_items);
  run_states(d, items, n_items);
  check_blocks(d);
  d->most_flights = d->n_flights >= d->most_flights ? d->n_flights + 1 : d->most_flights;
  d->flights[d->n_flights++] = (flight){items, n_items};
  if (d->depth == 1) complete(d);
}

static yk_scheduler_counts drive(uint64_t seed, const scheduler_limits *limits, int depth, int32_t n_blocks,
                                 bool some_fail, bool forgets)
{
  driver *d = calloc(1, sizeof *d);
  d->depth = depth;
  d->some_fail = some_fail;
  d->forgets = forgets;
  d->limits = *limits;
  d->context = limits->step.max_model_tokens;
  d->n_blocks = n_blocks;
  d->seed = seed;
  assert_int_equal(yk_memory_pool_create(n_blocks, limits->step.max_seqs, &limits->rules, &d->pool, NULL), YK_OK);
  d->blocks = yk_memory_pool_blocks(d->pool);
  assert_int_equal(yk_scheduler_create(&limits->step, d->depth, d->pool, &d->scheduler, NULL), YK_OK);
  int submitted = 0, steps = 0;
  while (submitted < N_SEQS || oldest(d)) {
    int32_t action = draw(d, 10);
    if (action < 3 && submitted < N_SEQS)
      submit(d, submitted++);
    else if (action == 3 && submitted > 0 && draw(d, 4) == 0) {
      client *c = &d->clients[draw(d, submitted)];
      if (c->active && !c->seq.is_in_flight) leave(d, c);
    } else
      step(d);
    if (d->forgets && draw(d, 20) == 0) yk_kv_blocks_forget(d->blocks);
    assert_true(++steps < 200000); /* no sequence starves */
  }
  for (int i = 0; i < N_SEQS; i++) assert_true(d->clients[i].done);
  assert_true(d->most_flights >= (depth > 2 ? 2 : depth)); /* more need more blocks */
  assert_int_equal(yk_kv_blocks_free_count(d->blocks), n_blocks);
  assert_int_equal(yk_scheduler_n_running(d->scheduler) + yk_scheduler_n_waiting(d->scheduler), 0);
  yk_scheduler_counts counts = yk_scheduler_count(d->scheduler);
  yk_scheduler_destroy(d->scheduler);
  yk_memory_pool_destroy(d->pool);
  free(d);
  return counts;
}

static yk_scheduler_counts run_driver(uint64_t seed, const scheduler_limits *limits, int32_t n_blocks)
{
  return drive(seed, limits, 1, n_blocks, false, false);
}

static void random_loads_keep_every_promise(void **state)
{
  (void)state;
  static const scheduler_limits limits[] = {
      {.step.max_tokens = 16, .step.max_seqs = 4, .step.max_model_tokens = MAX_CONTEXT},
      {.step.max_tokens = 64, .step.max_seqs = 16, .step.max_model_tokens = MAX_CONTEXT},
      {.step.max_tokens = 5, .step.max_seqs = 8, .step.max_model_tokens = MAX_CONTEXT}};
  for (uint64_t seed = 1; seed <= 40; seed++)
    for (size_t i = 0; i < 3; i++) run_driver(seed, &limits[i], 200);
}

static void scarce_blocks_preempt_and_still_everyone_finishes(void **state)
{
  (void)state;
  scheduler_limits limits = {.step.max_tokens = 64, .step.max_seqs = 16, .step.max_model_tokens = MAX_CONTEXT};
  for (uint64_t seed = 1; seed <= 40; seed++)
    assert_true(run_driver(seed, &limits, yk_kv_blocks_for(MAX_CONTEXT) + 4).preemptions > 0);
}

static void equal_beginnings_share_blocks(void **state)
{
  (void)state;
  scheduler_limits limits = {
      .step.max_tokens = 64, .step.max_seqs = 16, .step.max_model_tokens = MAX_CONTEXT, .rules.reuses_prefixes = true};
  for (uint64_t seed = 1; seed <= 40; seed++) {
    assert_true(run_driver(seed, &limits, 200).reused_tokens > 0);
    assert_true(run_driver(seed, &limits, yk_kv_blocks_for(MAX_CONTEXT) + 4).reused_tokens > 0);
  }
}

static void blocks_behind_the_window_are_let_go(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    scheduler_limits limits = {.step.max_tokens = 64,
                               .step.max_seqs = 16,
                               .step.max_model_tokens = MAX_CONTEXT,
                               .rules.window_tokens = 20,
                               .rules.narrowest_window_tokens = 20,
                               .rules.reuses_prefixes = true};
    run_driver(seed, &limits, 200);
    limits.rules.window_tokens = limits.rules.narrowest_window_tokens = 1;
    run_driver(seed, &limits, yk_kv_blocks_for(MAX_CONTEXT) + 2);
  }
}

static void failing_sequences_take_nobody_along(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    scheduler_limits limits = {.step.max_tokens = 24,
                               .step.max_seqs = 16,
                               .step.max_model_tokens = MAX_CONTEXT,
                               .rules.reuses_prefixes = true};
    drive(seed, &limits, 1, 200, true, false);
    drive(seed, &limits, 1, yk_kv_blocks_for(MAX_CONTEXT) + 4, true, true);
    limits.rules.window_tokens = limits.rules.narrowest_window_tokens = 20;
    drive(seed, &limits, 1, 60, true, false);
  }
}

/* Each promise with several steps in flight: no sequence is in two of them, and blocks that failed are computed again,
 * by sequences in flight too. */
static void steps_in_flight_keep_every_promise(void **state)
{
  (void)state;
  uint64_t n_preemptions = 0;
  for (uint64_t seed = 1; seed <= 40; seed++)
    for (int depth = 2; depth <= 4; depth++) {
      scheduler_limits limits = {.step.max_tokens = 24,
                                 .step.max_seqs = 16,
                                 .step.max_model_tokens = MAX_CONTEXT,
                                 .rules.reuses_prefixes = true};
      drive(seed, &limits, depth, 200, false, false);
      n_preemptions += drive(seed, &limits, depth, yk_kv_blocks_for(MAX_CONTEXT) + 4, false, false).preemptions;
      drive(seed, &limits, depth, 200, true, false);
      drive(seed, &limits, depth, yk_kv_blocks_for(MAX_CONTEXT) + 4, true, true);
    }
  assert_true(n_preemptions > 0);
}

/* Recurrent states, with snapshots in plenty, few and none, and with every other difficulty. */
static void states_follow_their_sequences(void **state)
{
  (void)state;
  static const int32_t n_entries[] = {MAX_ENTRIES, 2, 0};
  for (uint64_t seed = 1; seed <= 10; seed++)
    for (size_t i = 0; i < sizeof n_entries / sizeof *n_entries; i++)
      for (int depth = 1; depth <= 3; depth++) {
        scheduler_limits limits = {.step.max_tokens = 90,
                                   .step.max_seqs = 12,
                                   .step.max_model_tokens = LONG_CONTEXT,
                                   .rules.reuses_prefixes = n_entries[i] > 0,
                                   .rules.has_states = true,
                                   .rules.n_state_entries = n_entries[i]};
        uint64_t n_reused = drive(seed, &limits, depth, 400, false, false).reused_tokens;
        assert_true(n_entries[i] < MAX_ENTRIES ? n_entries[i] > 0 || n_reused == 0 : n_reused > 0);
        drive(seed, &limits, depth, yk_kv_blocks_for(LONG_CONTEXT) + 6, false, true);
        drive(seed, &limits, depth, 400, true, false);
        drive(seed, &limits, depth, yk_kv_blocks_for(LONG_CONTEXT) + 6, true, true);
      }
}

typedef struct prompt_work {
  int64_t n_rows, n_steps;
} prompt_work;

/* Work of n requests with equal beginnings of n_shared tokens, run to the end of their prompts. */
static prompt_work work_of_prompts(int32_t n, int32_t n_tokens, int32_t n_shared, int32_t n_entries)
{
  scheduler_limits limits = {.step.max_tokens = 2048,
                             .step.max_seqs = 64,
                             .step.max_model_tokens = n_tokens + 16,
                             .rules.reuses_prefixes = n_entries > 0,
                             .rules.has_states = true,
                             .rules.n_state_entries = n_entries};
  int32_t *prompt = calloc((size_t)n_tokens, sizeof *prompt), n_items, n_done = 0;
  yk_sequence *seqs = calloc((size_t)n, sizeof *seqs);
  const yk_scheduled *items;
  yk_memory_pool *pool;
  yk_scheduler *scheduler;
  prompt_work work = {0};
  assert_int_equal(yk_memory_pool_create(40000, 64, &limits.rules, &pool, NULL), YK_OK);
  assert_int_equal(yk_scheduler_create(&limits.step, 1, pool, &scheduler, NULL), YK_OK);
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = n_shared; k < n_tokens; k++) prompt[k] = i + 1;
    assert_int_equal(yk_sequence_init(&seqs[i], NULL, prompt, n_tokens, n_tokens + 1, NULL), YK_OK);
    yk_scheduler_add(scheduler, &seqs[i]);
  }
  while ((n_items = yk_scheduler_plan(scheduler, &items)) > 0) {
    for (int32_t i = 0; i < n_items; i++) work.n_rows += items[i].n_rows;
    work.n_steps++;
    yk_scheduler_commit(scheduler);
    for (int32_t i = 0; i < n_items; i++) {
      if (items[i].seq->memory.n_computed < n_tokens) continue;
      yk_scheduler_remove(scheduler, items[i].seq);
      n_done++;
    }
  }
  assert_int_equal(n_done, n);
  for (int32_t i = 0; i < n; i++) yk_sequence_destroy(&seqs[i]);
  yk_scheduler_destroy(scheduler);
  yk_memory_pool_destroy(pool);
  free(seqs);
  free(prompt);
  return work;
}

static void snapshots_save_rows(void **state)
{
  (void)state;
  prompt_work cold = work_of_prompts(256, 4000, 3600, 0);
  assert_int_equal(cold.n_rows, 256 * 4000);
  for (int32_t n_entries = 8; n_entries <= 64; n_entries *= 8) {
    prompt_work reused = work_of_prompts(256, 4000, 3600, n_entries);
    assert_true(6 * reused.n_rows < cold.n_rows && 4 * reused.n_steps < cold.n_steps);
  }
}

/* Appends drawn tokens, one a step, to a sequence that is alone, which then ends. */
static void draw_tokens(yk_scheduler *scheduler, yk_sequence *seq, int32_t n)
{
  const yk_scheduled *items;
  for (int32_t i = 0; i < n; i++) {
    while (seq->memory.n_computed < seq->n_tokens) {
      assert_int_equal(yk_scheduler_plan(scheduler, &items), 1);
      yk_scheduler_commit(scheduler);
    }
    seq->tokens[seq->n_tokens++] = 7 + i % 90;
  }
  yk_scheduler_remove(scheduler, seq);
}

/* A conversation goes on behind an answer: its next prompt begins at the snapshot of the one before, and is one step.
 * Another continuation of the answer parts from this one, which is a branch: the third begins there. */
static void conversations_begin_at_snapshots(void **state)
{
  (void)state;
  enum { PROMPT = 1000, ANSWER = 400, CAPACITY = 1600 };
  const scheduler_limits limits = {.step.max_tokens = 2048,
                                   .step.max_seqs = 4,
                                   .step.max_model_tokens = CAPACITY,
                                   .rules.reuses_prefixes = true,
                                   .rules.has_states = true,
                                   .rules.n_state_entries = 8};
  static const struct {
    int32_t begins_at, first_rows;
  } turns[] = {{960, 640}, {960, 384}, {1344, 256}};
  const yk_scheduled *items;
  yk_memory_pool *pool;
  yk_scheduler *scheduler;
  yk_sequence first, next;
  int32_t tokens[CAPACITY] = {0};
  assert_int_equal(yk_memory_pool_create(400, 4, &limits.rules, &pool, NULL), YK_OK);
  assert_int_equal(yk_scheduler_create(&limits.step, 1, pool, &scheduler, NULL), YK_OK);
  assert_int_equal(yk_sequence_init(&first, NULL, tokens, PROMPT, CAPACITY, NULL), YK_OK);
  yk_scheduler_add(scheduler, &first);
  draw_tokens(scheduler, &first, ANSWER + 1); /* the last one is not computed */
  memcpy(tokens, first.tokens, (PROMPT + ANSWER) * sizeof *tokens);
  for (int32_t turn = 0; turn < 3; turn++) {
    for (int32_t i = PROMPT + ANSWER; i < CAPACITY; i++) tokens[i] = 500 + turn;
    assert_int_equal(yk_sequence_init(&next, NULL, tokens, CAPACITY, CAPACITY + 2, NULL), YK_OK);
    yk_scheduler_add(scheduler, &next);
    assert_int_equal(yk_scheduler_plan(scheduler, &items), 1);
    assert_int_equal(next.memory.n_computed, turns[turn].begins_at);
    assert_int_equal(items[0].n_rows, turns[turn].first_rows);
    yk_scheduler_commit(scheduler);
    draw_tokens(scheduler, &next, 1);
    yk_sequence_destroy(&next);
  }
  assert_int_equal(yk_memory_pool_count_states(pool).hits, 3);
  yk_sequence_destroy(&first);
  yk_scheduler_destroy(scheduler);
  yk_memory_pool_destroy(pool);
}

/* Prompts without a common beginning take the rows and steps that they take without snapshots. */
static void snapshots_cost_no_steps(void **state)
{
  (void)state;
  for (int32_t n_tokens = 40; n_tokens <= 4000; n_tokens += 99) {
    prompt_work with = work_of_prompts(1, n_tokens, 0, 64), without = work_of_prompts(1, n_tokens, 0, 0);
    assert_int_equal(with.n_rows, without.n_rows);
    assert_int_equal(with.n_steps, without.n_steps);
  }
  assert_int_equal(work_of_prompts(20, 3000, 0, 64).n_rows, 20 * 3000);
}

/* Eight decoding sequences in two steps: four each, in turn. */
static void steps_in_flight_share_the_sequences(void **state)
{
  (void)state;
  enum { N = 8, CONTEXT = 64 };
  const scheduler_limits limits = {.step.max_tokens = 64, .step.max_seqs = N, .step.max_model_tokens = CONTEXT};
  const yk_scheduled *items, *others;
  yk_memory_pool *pool;
  yk_scheduler *scheduler;
  yk_sequence seqs[N];
  int32_t prompt[1] = {0};
  assert_int_equal(yk_memory_pool_create(100, 64, &limits.rules, &pool, NULL), YK_OK);
  assert_int_equal(yk_scheduler_create(&limits.step, 2, pool, &scheduler, NULL), YK_OK);
  for (int i = 0; i < N; i++) {
    assert_int_equal(yk_sequence_init(&seqs[i], NULL, prompt, 1, CONTEXT, NULL), YK_OK);
    yk_scheduler_add(scheduler, &seqs[i]);
  }
  assert_int_equal(yk_scheduler_plan(scheduler, &items), N / 2);
  assert_int_equal(yk_scheduler_plan(scheduler, &others), N / 2);
  assert_ptr_equal(items[0].seq, &seqs[0]);
  assert_ptr_equal(others[0].seq, &seqs[N / 2]);
  for (int round = 0; round < 3; round++) {
    const yk_scheduled *next;
    yk_scheduler_commit(scheduler);
    for (int i = 0; i < N / 2; i++) items[i].seq->n_tokens++;
    assert_int_equal(yk_scheduler_plan(scheduler, &next), N / 2);
    assert_ptr_equal(next[0].seq, round % 2 ? &seqs[N / 2] : &seqs[0]);
    items = others;
    others = next;
  }
  yk_scheduler_drop_steps(scheduler);
  for (int i = 0; i < N; i++) {
    assert_false(seqs[i].is_in_flight);
    yk_scheduler_remove(scheduler, &seqs[i]);
    yk_sequence_destroy(&seqs[i]);
  }
  assert_int_equal(yk_kv_blocks_free_count(yk_memory_pool_blocks(pool)), 100);
  yk_scheduler_destroy(scheduler);
  yk_memory_pool_destroy(pool);
}

/* Three sequences share two blocks of a prompt. The blocks of the third, which fails, are withdrawn except for those
 * confirmed by a finite row of the first; the second, half computed, begins again. */
static void blocks_of_a_failed_sequence_are_not_reused(void **state)
{
  (void)state;
  enum { BLOCK = YK_KV_BLOCK_TOKENS, N_PROMPT = 3 * BLOCK + 1, CONTEXT = 8 * BLOCK };
  scheduler_limits limits = {
      .step.max_tokens = CONTEXT, .step.max_seqs = 4, .step.max_model_tokens = CONTEXT, .rules.reuses_prefixes = true};
  yk_memory_pool *pool;
  yk_kv_blocks *blocks;
  yk_scheduler *scheduler;
  yk_sequence sound, sharing, failing;
  const yk_scheduled *items;
  int32_t prompt[CONTEXT] = {0};
  assert_int_equal(yk_memory_pool_create(40, 64, &limits.rules, &pool, NULL), YK_OK);
  blocks = yk_memory_pool_blocks(pool);
  assert_int_equal(yk_scheduler_create(&limits.step, 1, pool, &scheduler, NULL), YK_OK);
  assert_int_equal(yk_sequence_init(&sound, NULL, prompt, BLOCK + 1, CONTEXT, NULL), YK_OK);
  assert_int_equal(yk_sequence_init(&failing, NULL, prompt, N_PROMPT, CONTEXT, NULL), YK_OK);
  assert_int_equal(yk_sequence_init(&sharing, NULL, prompt, CONTEXT, CONTEXT, NULL), YK_OK);
  yk_scheduler_add(scheduler, &sound);
  yk_scheduler_add(scheduler, &failing);
  yk_scheduler_add(scheduler, &sharing);
  assert_int_equal(yk_scheduler_plan(scheduler, &items), 3);
  assert_int_equal(items[2].seq->memory.blocks[2], failing.memory.blocks[2]);
  assert_true(items[2].n_rows < CONTEXT - 3 * BLOCK);
  yk_scheduler_commit(scheduler);
  yk_scheduler_mark_sound(scheduler, &sound, BLOCK);
  int32_t shared = sound.memory.blocks[0], withdrawn = failing.memory.blocks[1];
  yk_scheduler_withdraw(scheduler, &failing);
  assert_false(yk_kv_blocks_is_withdrawn(blocks, shared));
  assert_true(yk_kv_blocks_is_withdrawn(blocks, withdrawn));
  assert_int_equal(yk_scheduler_n_waiting(scheduler), 1);
  assert_int_equal(sharing.memory.n_blocks, 0);
  assert_int_equal(sound.memory.n_blocks, 2); /* continues as before */
  yk_scheduler_remove(scheduler, &failing);
  yk_scheduler_plan(scheduler, &items);
  assert_int_equal(sharing.memory.n_computed, BLOCK); /* only the sound block is found again */
  assert_int_equal(sharing.memory.blocks[0], shared);
  yk_scheduler_commit(scheduler);
  yk_scheduler_remove(scheduler, &sound);
  yk_scheduler_remove(scheduler, &sharing);
  yk_sequence_destroy(&sound);
  yk_sequence_destroy(&failing);
  yk_sequence_destroy(&sharing);
  assert_int_equal(yk_kv_blocks_free_count(blocks), 40);
  yk_scheduler_destroy(scheduler);
  yk_memory_pool_destroy(pool);
}

static yk_kv_chain publish(yk_kv_blocks *blocks, int32_t block, yk_kv_chain previous, const int32_t *ids)
{
  int32_t holder = -1;
  yk_kv_chain chain = yk_kv_blocks_publish(blocks, block, previous, ids, &holder);
  assert_true(holder >= 0);
  return chain;
}

static void forgotten_blocks_are_not_reused(void **state)
{
  (void)state;
  yk_kv_blocks *blocks;
  yk_kv_chain chain = 99;
  int32_t a[YK_KV_BLOCK_TOKENS] = {1}, b[YK_KV_BLOCK_TOKENS] = {2};
  assert_int_equal(yk_kv_blocks_create(4, &blocks, NULL), YK_OK);
  int32_t first = yk_kv_blocks_take(blocks), second = yk_kv_blocks_take(blocks);
  yk_kv_chain after_a = publish(blocks, first, 0, a);
  yk_kv_blocks_release(blocks, first);
  yk_kv_blocks_forget(blocks);
  assert_int_equal(yk_kv_blocks_find(blocks, 0, a, &chain), -1);
  assert_int_equal(yk_kv_blocks_free_count(blocks), 3);
  publish(blocks, second, after_a, b); /* of a sequence that continues */
  assert_int_equal(yk_kv_blocks_find(blocks, 0, b, &chain), -1);
  int32_t anew = yk_kv_blocks_take(blocks);
  assert_true(publish(blocks, anew, 0, a) != after_a);
  assert_int_equal(yk_kv_blocks_find(blocks, 0, a, &chain), anew);
  assert_int_equal(yk_kv_blocks_find(blocks, chain, b, &chain), -1);
  for (int i = 0; i < 2; i++) yk_kv_blocks_release(blocks, anew);
  yk_kv_blocks_release(blocks, second);
  assert_int_equal(yk_kv_blocks_free_count(blocks), 4);
  yk_kv_blocks_destroy(blocks);
}

/* A block is found only after exactly the same prefix, whatever its own tokens and hash. */
static void a_block_is_found_only_behind_the_same_chain(void **state)
{
  (void)state;
  yk_kv_blocks *blocks;
  yk_kv_chain chain = 99;
  int32_t a[YK_KV_BLOCK_TOKENS] = {1}, b[YK_KV_BLOCK_TOKENS] = {2};
  assert_int_equal(yk_kv_blocks_create(4, &blocks, NULL), YK_OK);
  int32_t first = yk_kv_blocks_take(blocks), second = yk_kv_blocks_take(blocks), twin = yk_kv_blocks_take(blocks);
  yk_kv_chain after_a = publish(blocks, first, 0, a);
  yk_kv_chain after_b = publish(blocks, second, after_a, b);
  assert_int_equal(publish(blocks, twin, 0, a), after_a); /* computed twice: one of them is used */
  assert_int_equal(yk_kv_blocks_find(blocks, 0, b, &chain), -1);
  assert_int_equal(yk_kv_blocks_find(blocks, after_b, b, &chain), -1);
  assert_int_equal(yk_kv_blocks_find(blocks, after_a, b, &chain), second);
  assert_int_equal(chain, after_b);
  yk_kv_blocks_release(blocks, second);
  yk_kv_blocks_release(blocks, twin);
  yk_kv_blocks_release(blocks, first);
  yk_kv_blocks_release(blocks, second);
  assert_int_equal(yk_kv_blocks_free_count(blocks), 4);
  assert_int_equal(yk_kv_blocks_find(blocks, 0, a, &chain), first); /* free, and still holding what it held */
  /* Taking everything else evicts the rest, least recently used first. */
  for (int i = 0; i < 3; i++) assert_true(yk_kv_blocks_take(blocks) >= 0);
  assert_int_equal(yk_kv_blocks_take(blocks), -1);
  assert_int_equal(yk_kv_blocks_find(blocks, after_a, b, &chain), -1);
  yk_kv_blocks_destroy(blocks);
}

/* A parked sequence that waits again, behind another, may hold the blocks that the first one needs. */
static void waiting_sequences_release_their_blocks(void **state)
{
  (void)state;
  enum { N_BLOCKS = 4, CONTEXT = N_BLOCKS * YK_KV_BLOCK_TOKENS };
  scheduler_limits limits = {.step.max_tokens = CONTEXT, .step.max_seqs = 4, .step.max_model_tokens = CONTEXT};
  yk_memory_pool *pool;
  yk_kv_blocks *blocks;
  yk_scheduler *scheduler;
  yk_sequence parked, first;
  const yk_scheduled *items;
  int32_t prompt[CONTEXT] = {0};
  assert_int_equal(yk_memory_pool_create(N_BLOCKS, 64, &limits.rules, &pool, NULL), YK_OK);
  blocks = yk_memory_pool_blocks(pool);
  assert_int_equal(yk_scheduler_create(&limits.step, 1, pool, &scheduler, NULL), YK_OK);
  assert_int_equal(yk_sequence_init(&parked, NULL, prompt, CONTEXT / 2, CONTEXT, NULL), YK_OK);
  assert_int_equal(yk_sequence_init(&first, NULL, prompt, CONTEXT - 1, CONTEXT, NULL), YK_OK);
  yk_scheduler_add(scheduler, &parked);
  assert_int_equal(yk_scheduler_plan(scheduler, &items), 1);
  yk_scheduler_commit(scheduler);
  yk_scheduler_park(scheduler, &parked);
  parked.n_tokens++;
  yk_scheduler_add(scheduler, &first);
  yk_scheduler_unpark(scheduler, &parked);
  assert_int_equal(parked.memory.n_blocks, N_BLOCKS / 2);
  assert_int_equal(yk_scheduler_plan(scheduler, &items), 1);
  assert_ptr_equal(items[0].seq, &first);
  assert_int_equal(parked.memory.n_blocks, 0);
  yk_scheduler_commit(scheduler);
  yk_scheduler_remove(scheduler, &first);
  assert_int_equal(yk_scheduler_plan(scheduler, &items), 1);
  assert_ptr_equal(items[0].seq, &parked);
  assert_int_equal(items[0].n_rows, CONTEXT / 2 + 1); /* all of it again */
  yk_scheduler_remove(scheduler, &parked);
  assert_int_equal(yk_kv_blocks_free_count(blocks), N_BLOCKS);
  yk_sequence_destroy(&first);
  yk_sequence_destroy(&parked);
  yk_scheduler_destroy(scheduler);
  yk_memory_pool_destroy(pool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_loads_keep_every_promise),
                                     cmocka_unit_test(scarce_blocks_preempt_and_still_everyone_finishes),
                                     cmocka_unit_test(equal_beginnings_share_blocks),
                                     cmocka_unit_test(blocks_behind_the_window_are_let_go),
                                     cmocka_unit_test(failing_sequences_take_nobody_along),
                                     cmocka_unit_test(steps_in_flight_keep_every_promise),
                                     cmocka_unit_test(states_follow_their_sequences),
                                     cmocka_unit_test(snapshots_save_rows),
                                     cmocka_unit_test(snapshots_cost_no_steps),
                                     cmocka_unit_test(conversations_begin_at_snapshots),
                                     cmocka_unit_test(steps_in_flight_share_the_sequences),
                                     cmocka_unit_test(blocks_of_a_failed_sequence_are_not_reused),
                                     cmocka_unit_test(forgotten_blocks_are_not_reused),
                                     cmocka_unit_test(a_block_is_found_only_behind_the_same_chain),
                                     cmocka_unit_test(waiting_sequences_release_their_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
