/* Recurrent states and their snapshots as the scheduler plans them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/scheduler_driver.h"

/* Recurrent states, with snapshots in plenty, few and none, and with every other difficulty. */
static void states_follow_their_sequences(void **state)
{
  (void)state;
  static const int32_t n_entries[] = {SCHEDULER_MAX_ENTRIES, 2, 0};
  for (uint64_t seed = 1; seed <= 10; seed++)
    for (size_t i = 0; i < sizeof n_entries / sizeof *n_entries; i++)
      for (int depth = 1; depth <= 3; depth++) {
        scheduler_limits limits = {.step.max_tokens =
                                       seed % 3 ? 110 : 90, /* 90: too few for whole chunks in steps with other
                                                             * sequences */
                                   .step.max_seqs = 12,
                                   .step.max_model_tokens = SCHEDULER_MAX_CONTEXT,
                                   .rules.reuses_prefixes = n_entries[i] > 0,
                                   .rules.has_states = true,
                                   .rules.n_state_entries = n_entries[i]};
        uint64_t n_reused = scheduler_drive(seed, &limits, depth, 400, false, false).reused_tokens;
        assert_true(n_entries[i] < SCHEDULER_MAX_ENTRIES ? n_entries[i] > 0 || n_reused == 0 : n_reused > 0);
        scheduler_drive(seed, &limits, depth, yk_kv_blocks_for(SCHEDULER_MAX_CONTEXT) + 6, false, true);
        scheduler_drive(seed, &limits, depth, 400, true, false);
        scheduler_drive(seed, &limits, depth, yk_kv_blocks_for(SCHEDULER_MAX_CONTEXT) + 6, true, true);
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

/* A conversation continues after an answer: its next prompt begins at the snapshot of the previous prompt, and takes
 * one step. A second continuation of the answer diverges from the first, which creates a branch: the third begins
 * there. */
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

/* Given tokens end steps at multiples of 64, with 16 rows or more on either side; others wait, or end anywhere. */
static void steps_end_at_multiples(void **state)
{
  (void)state;
  static const struct {
    int32_t n_computed, n_left, n_most, rows_if_waiting, rows_otherwise;
  } cases[] = {{0, 100, 100, 100, 100}, {0, 100, 99, 64, 64},    {0, 79, 78, 0, 78},  {0, 80, 79, 64, 64},
               {0, 200, 63, 0, 63},     {0, 200, 199, 128, 128}, {64, 66, 65, 0, 65}, {50, 100, 90, 78, 78},
               {49, 100, 78, 0, 78},    {48, 100, 78, 16, 16},   {0, 3, 1, 0, 1},     {0, 1, 1, 1, 1}};
  const yk_memory_rules rules = {.has_states = true};
  yk_memory_pool *pool;
  yk_sequence_memory memory;
  assert_int_equal(yk_memory_pool_create(40, 4, &rules, &pool, NULL), YK_OK);
  assert_int_equal(yk_sequence_memory_init(&memory, SCHEDULER_MAX_CONTEXT, NULL), YK_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    memory.n_computed = cases[i].n_computed;
    const int32_t left = cases[i].n_left, most = cases[i].n_most;
    assert_int_equal(yk_sequence_memory_limit_rows(&memory, pool, left, most, true), cases[i].rows_if_waiting);
    assert_int_equal(yk_sequence_memory_limit_rows(&memory, pool, left, most, false), cases[i].rows_otherwise);
  }
  for (int32_t at = 0; at < YK_STATE_SAVE_TOKENS; at++)
    for (int32_t left = 1; left < 3 * YK_STATE_SAVE_TOKENS; left++) {
      memory.n_computed = at;
      assert_true(yk_sequence_memory_limit_rows(&memory, pool, left, YK_STATE_STEP_ROWS, true) > 0);
    }
  yk_sequence_memory_destroy(&memory);
  yk_memory_pool_destroy(pool);
}

/* A step that reaches two snapshot positions ends at the first, unless few rows precede it. */
static void a_step_saves_one_snapshot(void **state)
{
  (void)state;
  const yk_memory_rules rules = {.has_states = true, .reuses_prefixes = true, .n_state_entries = 4};
  yk_memory_pool *pool;
  yk_sequence_memory memory;
  assert_int_equal(yk_memory_pool_create(40, 4, &rules, &pool, NULL), YK_OK);
  assert_int_equal(yk_sequence_memory_init(&memory, SCHEDULER_MAX_CONTEXT, NULL), YK_OK);
  memory.prompt_tokens = 2240;
  memory.n_computed = 2048 - YK_STATE_CHUNK_ROWS;
  assert_int_equal(yk_sequence_memory_limit_rows(&memory, pool, 208, 300, true), YK_STATE_CHUNK_ROWS);
  memory.n_computed++;
  assert_int_equal(yk_sequence_memory_limit_rows(&memory, pool, 207, 300, true), 207);
  yk_sequence_memory_destroy(&memory);
  yk_memory_pool_destroy(pool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(states_follow_their_sequences), cmocka_unit_test(snapshots_save_rows),
      cmocka_unit_test(snapshots_cost_no_steps),       cmocka_unit_test(conversations_begin_at_snapshots),
      cmocka_unit_test(steps_end_at_multiples),        cmocka_unit_test(a_step_saves_one_snapshot)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
