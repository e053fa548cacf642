/* The scheduler's invariants under thousands of random loads (scheduler_driver.h), and its order in single cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/scheduler_driver.h"

enum { MAX_CONTEXT = 100 };

static yk_scheduler_counts run_driver(uint64_t seed, const scheduler_limits *limits, int32_t n_blocks)
{
  return scheduler_drive(seed, limits, 1, n_blocks, false, false);
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
    scheduler_drive(seed, &limits, 1, 200, true, false);
    scheduler_drive(seed, &limits, 1, yk_kv_blocks_for(MAX_CONTEXT) + 4, true, true);
    limits.rules.window_tokens = limits.rules.narrowest_window_tokens = 20;
    scheduler_drive(seed, &limits, 1, 60, true, false);
  }
}

/* The scheduler's invariants with several steps in flight: no sequence is in two of them, and blocks that failed are
 * computed again, by sequences in flight too. */
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
      scheduler_drive(seed, &limits, depth, 200, false, false);
      n_preemptions +=
          scheduler_drive(seed, &limits, depth, yk_kv_blocks_for(MAX_CONTEXT) + 4, false, false).preemptions;
      scheduler_drive(seed, &limits, depth, 200, true, false);
      scheduler_drive(seed, &limits, depth, yk_kv_blocks_for(MAX_CONTEXT) + 4, true, true);
    }
  assert_true(n_preemptions > 0);
}

/* Eight decoding sequences in two steps: four each, alternately. */
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

/* Two sequences decode while a long prompt is computed, which gets the permitted rows, and a short prompt. Without
 * decodes there is no limit, nor with a second long prompt. */
static void a_long_prompt_leaves_rows_to_decodes(void **state)
{
  (void)state;
  enum { MAX_TOKENS = 32, CONTEXT = 256, LIMIT = 8, N = 5 };
  const scheduler_limits limits = {.step.max_tokens = MAX_TOKENS, .step.max_seqs = 8, .step.max_model_tokens = CONTEXT};
  const yk_scheduled *items;
  yk_memory_pool *pool;
  yk_scheduler *scheduler;
  yk_sequence seqs[N];
  const int32_t n_tokens[N] = {1, 1, 30, LIMIT, 100};
  int32_t prompt[CONTEXT] = {0};
  assert_int_equal(yk_memory_pool_create(100, 64, &limits.rules, &pool, NULL), YK_OK);
  assert_int_equal(yk_scheduler_create(&limits.step, 1, pool, &scheduler, NULL), YK_OK);
  yk_scheduler_limit_long_prompts(scheduler, LIMIT);
  for (int i = 0; i < N; i++) {
    assert_int_equal(yk_sequence_init(&seqs[i], NULL, prompt, n_tokens[i], CONTEXT, NULL), YK_OK);
    if (i < N - 1) yk_scheduler_add(scheduler, &seqs[i]);
    if (i != 1) continue;
    assert_int_equal(yk_scheduler_plan(scheduler, &items), 2);
    yk_scheduler_commit(scheduler);
    seqs[0].n_tokens++, seqs[1].n_tokens++;
  }
  assert_int_equal(yk_scheduler_plan(scheduler, &items), 4);
  assert_int_equal(items[2].n_rows, LIMIT);
  assert_int_equal(items[3].n_rows, LIMIT);
  yk_scheduler_commit(scheduler);
  seqs[0].n_tokens++;
  yk_scheduler_add(scheduler, &seqs[N - 1]);
  assert_int_equal(yk_scheduler_plan(scheduler, &items), 3); /* another long prompt waits */
  assert_int_equal(items[1].n_rows, 30 - LIMIT);
  assert_int_equal(items[2].n_rows, MAX_TOKENS - 1 - (30 - LIMIT));
  yk_scheduler_commit(scheduler);
  assert_int_equal(yk_scheduler_plan(scheduler, &items), 1); /* no decodes */
  assert_int_equal(items[0].n_rows, MAX_TOKENS);
  yk_scheduler_commit(scheduler);
  seqs[0].n_tokens++;
  assert_int_equal(yk_scheduler_plan(scheduler, &items), 2);
  assert_int_equal(items[1].n_rows, LIMIT);
  yk_scheduler_drop_steps(scheduler);
  for (int i = 0; i < N; i++) {
    yk_scheduler_remove(scheduler, &seqs[i]);
    yk_sequence_destroy(&seqs[i]);
  }
  assert_int_equal(yk_kv_blocks_free_count(yk_memory_pool_blocks(pool)), 100);
  yk_scheduler_destroy(scheduler);
  yk_memory_pool_destroy(pool);
}

/* A scheduler of steps of up to 2,048 rows whose long prompts are paced, and a sequence that decodes. */
typedef struct paced {
  yk_memory_pool *pool;
  yk_scheduler *scheduler;
  yk_sequence decoding, prompts[3];
} paced;

enum { PACED_CONTEXT = 5000 };

static void open_paced(paced *p, const int32_t n_tokens[3])
{
  static const int32_t tokens[PACED_CONTEXT];
  const scheduler_limits limits = {.step.max_tokens = 2048, .step.max_seqs = 8, .step.max_model_tokens = PACED_CONTEXT};
  assert_int_equal(yk_memory_pool_create(2000, 64, &limits.rules, &p->pool, NULL), YK_OK);
  assert_int_equal(yk_scheduler_create(&limits.step, 1, p->pool, &p->scheduler, NULL), YK_OK);
  yk_scheduler_pace_long_prompts(p->scheduler, YK_PACE_FEWEST_ROWS);
  assert_int_equal(yk_sequence_init(&p->decoding, NULL, tokens, 1, PACED_CONTEXT, NULL), YK_OK);
  for (int i = 0; i < 3; i++)
    assert_int_equal(yk_sequence_init(&p->prompts[i], NULL, tokens, n_tokens[i], PACED_CONTEXT, NULL), YK_OK);
}

static void close_paced(paced *p)
{
  yk_scheduler_drop_steps(p->scheduler);
  for (yk_sequence *seq; (seq = yk_scheduler_any(p->scheduler));) yk_scheduler_remove(p->scheduler, seq);
  yk_sequence_destroy(&p->decoding);
  for (int i = 0; i < 3; i++) yk_sequence_destroy(&p->prompts[i]);
  yk_scheduler_destroy(p->scheduler);
  yk_memory_pool_destroy(p->pool);
}

/* The rows of each item of the next step, which takes ns; 0 after the last one. */
static void run_paced(paced *p, int64_t ns, int32_t rows[4])
{
  const yk_scheduled *items;
  const int32_t n = yk_scheduler_plan(p->scheduler, &items);
  memset(rows, 0, 4 * sizeof *rows);
  for (int32_t i = 0; i < n; i++) rows[i] = items[i].n_rows;
  yk_scheduler_time_step(p->scheduler, ns);
  yk_scheduler_commit(p->scheduler);
  p->decoding.n_tokens++;
}

static void expect_rows(paced *p, int64_t ns, int32_t first, int32_t second, int32_t third)
{
  int32_t rows[4];
  run_paced(p, ns, rows);
  assert_int_equal(rows[0], first);
  assert_int_equal(rows[1], second);
  assert_int_equal(rows[2], third);
  assert_int_equal(rows[3], 0);
}

/* Alone, and for prompts that are not long, every row of a step. A long prompt follows the times of steps to its last
 * row; a short one computes all its rows meanwhile. */
static void long_prompts_are_paced(void **state)
{
  (void)state;
  static paced p;
  open_paced(&p, (const int32_t[]){512, 1000, 500});
  yk_scheduler_add(p.scheduler, &p.prompts[0]);
  expect_rows(&p, 9000, 512, 0, 0);
  yk_scheduler_remove(p.scheduler, &p.prompts[0]);
  p.decoding.n_tokens = 1;
  yk_scheduler_add(p.scheduler, &p.decoding);
  expect_rows(&p, 1000, 1, 0, 0);
  yk_scheduler_add(p.scheduler, &p.prompts[1]);
  expect_rows(&p, 2001, 1, YK_PACE_FIRST_ROWS, 0);
  yk_scheduler_add(p.scheduler, &p.prompts[2]);
  expect_rows(&p, 8000, 1, 96, 500); /* the time of two prompts changes nothing */
  yk_scheduler_remove(p.scheduler, &p.prompts[2]);
  expect_rows(&p, 2001, 1, 96, 0);
  for (int left = 1000 - 128 - 2 * 96; left >= 80; left -= 80) expect_rows(&p, 1800, 1, 80, 0);
  expect_rows(&p, 1800, 1, (1000 - 128 - 2 * 96) % 80, 0);
  close_paced(&p);
}

/* A held sequence that was paced has whole steps for later rows, unless they are many. */
static void a_held_sequence_loses_its_pace(void **state)
{
  (void)state;
  static paced p;
  open_paced(&p, (const int32_t[]){1000, 5, 5});
  yk_scheduler_add(p.scheduler, &p.decoding);
  expect_rows(&p, 1000, 1, 0, 0);
  yk_scheduler_add(p.scheduler, &p.prompts[0]);
  expect_rows(&p, 2001, 1, YK_PACE_FIRST_ROWS, 0);
  yk_scheduler_park(p.scheduler, &p.prompts[0]);
  p.prompts[0].n_tokens = YK_PACE_FIRST_ROWS + 200;
  yk_scheduler_unpark(p.scheduler, &p.prompts[0]);
  expect_rows(&p, 1800, 1, 200, 0);
  close_paced(&p);
}

/* Without a measured time of decodes a step leaves the prompt out; two long prompts, and one without decodes, have
 * whole steps. */
static void paced_prompts_measure_and_share(void **state)
{
  (void)state;
  static paced p;
  open_paced(&p, (const int32_t[]){3000, 600, 5});
  yk_scheduler_add(p.scheduler, &p.prompts[0]);
  expect_rows(&p, 9000, 2048, 0, 0);
  p.decoding.n_tokens = 1;
  yk_scheduler_add(p.scheduler, &p.decoding);
  expect_rows(&p, 9000, 952, 1, 0); /* the decoding sequence's prompt */
  yk_scheduler_remove(p.scheduler, &p.prompts[0]);
  yk_scheduler_add(p.scheduler, &p.prompts[0]);
  expect_rows(&p, 1000, 1, 0, 0);
  expect_rows(&p, 1800, 1, YK_PACE_FIRST_ROWS, 0);
  yk_scheduler_add(p.scheduler, &p.prompts[1]);
  expect_rows(&p, 9000, 1, 2047, 0);
  close_paced(&p);
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

/* A parked sequence that waits again, after another, may hold the blocks that the first one needs. */
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
                                     cmocka_unit_test(steps_in_flight_share_the_sequences),
                                     cmocka_unit_test(a_long_prompt_leaves_rows_to_decodes),
                                     cmocka_unit_test(long_prompts_are_paced),
                                     cmocka_unit_test(a_held_sequence_loses_its_pace),
                                     cmocka_unit_test(paced_prompts_measure_and_share),
                                     cmocka_unit_test(blocks_of_a_failed_sequence_are_not_reused),
                                     cmocka_unit_test(waiting_sequences_release_their_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
