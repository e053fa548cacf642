#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/rng.h"
#include "unit/scheduler_driver.h"

enum { N_SEQS = 60 };

typedef struct client {
  yk_sequence seq;
  int32_t output_wanted;
  bool active, done;
  bool was_running; /* before the current plan */
} client;

typedef struct flight {
  const yk_scheduled *items;
  int32_t n_items;
} flight;

/* A sequence's recurrent states on the device. */
typedef struct device_state {
  uint32_t tokens; /* hash of the tokens that the states have seen */
  uint32_t parts;  /* the same, and how these were divided into chunks and single rows, on which rounding depends */
  bool is_drawn;   /* some of them were drawn, or computed when later ones had been drawn */
} device_state;

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
  device_state states[SCHEDULER_MAX_SLOTS], snapshots[SCHEDULER_MAX_ENTRIES];
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
  int32_t prompt[SCHEDULER_MAX_CONTEXT];
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

static const device_state no_state = {YK_HASH_START, YK_HASH_START, false};

/* The states after the first n_after of the n_rows rows of a step that follow n_before tokens, as a device computes
 * them that has chunks. */
static device_state advance(device_state state, const yk_sequence *seq, int32_t n_before, int32_t n_after,
                            int32_t n_rows)
{
  const int32_t end = n_before + n_after;
  for (int32_t at = n_before, next; at < end; at = next) {
    next = n_rows < YK_STATE_CHUNK_ROWS ? at + 1 : (at / YK_STATE_SAVE_TOKENS + 1) * YK_STATE_SAVE_TOKENS;
    if (next > end) next = end;
    state.parts =
        yk_hash(yk_hash(state.parts, &next, sizeof next), seq->tokens + at, (size_t)(next - at) * sizeof(int32_t));
  }
  state.tokens = hash_of(seq, end);
  state.is_drawn |= seq->n_tokens > seq->n_prompt;
  return state;
}

/* Prompts have the bits of a fresh run in one step, for any division into steps and any first position. */
static void check_prompt(const driver *d, const yk_sequence *seq, const device_state *state)
{
  const bool waits = d->limits.step.max_tokens >= d->limits.step.max_seqs - 1 + YK_STATE_STEP_ROWS;
  if (!waits || state->is_drawn) return;
  assert_int_equal(state->parts, advance(no_state, seq, 0, seq->n_prompt, seq->n_prompt).parts);
}

/* Updates hashes in the way in which layers update states. Every sequence finds the states of its own tokens; no entry
 * is saved by a step that also loads or saves it otherwise. */
static void run_states(driver *d, const yk_scheduled *items, int32_t n_items)
{
  bool is_saved[SCHEDULER_MAX_ENTRIES] = {false};
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
    device_state before = d->states[m->slot];
    if (m->state_load >= 0) assert_false(is_saved[m->state_load]);
    if (m->state_load != YK_STATE_KEEP) before = m->state_load >= 0 ? d->snapshots[m->state_load] : no_state;
    assert_int_equal(before.tokens, hash_of(seq, m->n_computed));
    d->states[m->slot] = advance(before, seq, m->n_computed, items[i].n_rows, items[i].n_rows);
    if (m->n_computed + items[i].n_rows == seq->n_prompt) check_prompt(d, seq, &d->states[m->slot]);
    if (m->state_save < 0) continue;
    assert_in_range(m->state_save_rows, 1, items[i].n_rows);
    assert_int_equal((m->n_computed + m->state_save_rows) % YK_STATE_SAVE_TOKENS, 0);
    d->snapshots[m->state_save] = advance(before, seq, m->n_computed, m->state_save_rows, items[i].n_rows);
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

yk_scheduler_counts scheduler_drive(uint64_t seed, const scheduler_limits *limits, int depth, int32_t n_blocks,
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
  const int32_t fewest = limits->rules.has_states ? YK_STATE_STEP_ROWS : 1;
  yk_scheduler_limit_long_prompts(d->scheduler, fewest + draw(d, limits->step.max_tokens));
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
