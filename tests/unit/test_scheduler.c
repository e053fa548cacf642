/* Which rows the scheduler plans: prompts that begin at snapshots, steps in flight, failed and parked sequences. */
#include <stdlib.h>
#include <string.h>

#include "unit/scheduler_fixture.h"

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
  prompt_work work = {0};
  const scheduled_pool made = scheduled_pool_new(&limits, 1, 40000, 64);
  yk_scheduler *scheduler = made.scheduler;
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
  scheduled_pool_free(&made);
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
  yk_sequence first, next;
  int32_t tokens[CAPACITY] = {0};
  const scheduled_pool made = scheduled_pool_new(&limits, 1, 400, 4);
  yk_scheduler *scheduler = made.scheduler;
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
  assert_int_equal(yk_memory_pool_count_states(made.pool).hits, 3);
  yk_sequence_destroy(&first);
  scheduled_pool_free(&made);
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
  yk_sequence seqs[N];
  int32_t prompt[1] = {0};
  const scheduled_pool made = scheduled_pool_new(&limits, 2, 100, 64);
  yk_scheduler *scheduler = made.scheduler;
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
  assert_int_equal(yk_kv_blocks_free_count(made.blocks), 100);
  scheduled_pool_free(&made);
}

/* Three sequences share two blocks of a prompt. The blocks of the third, which fails, are withdrawn except for those
 * confirmed by a finite row of the first; the second, half computed, begins again. */
static void blocks_of_a_failed_sequence_are_not_reused(void **state)
{
  (void)state;
  enum { BLOCK = YK_KV_BLOCK_TOKENS, N_PROMPT = 3 * BLOCK + 1, CONTEXT = 8 * BLOCK };
  scheduler_limits limits = {
      .step.max_tokens = CONTEXT, .step.max_seqs = 4, .step.max_model_tokens = CONTEXT, .rules.reuses_prefixes = true};
  yk_sequence sound, sharing, failing;
  const yk_scheduled *items;
  int32_t prompt[CONTEXT] = {0};
  const scheduled_pool made = scheduled_pool_new(&limits, 1, 40, 64);
  yk_scheduler *scheduler = made.scheduler;
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
  assert_false(yk_kv_blocks_is_withdrawn(made.blocks, shared));
  assert_true(yk_kv_blocks_is_withdrawn(made.blocks, withdrawn));
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
  assert_int_equal(yk_kv_blocks_free_count(made.blocks), 40);
  scheduled_pool_free(&made);
}

/* A parked sequence that waits again, behind another, may hold the blocks that the first one needs. */
static void waiting_sequences_release_their_blocks(void **state)
{
  (void)state;
  enum { N_BLOCKS = 4, CONTEXT = N_BLOCKS * YK_KV_BLOCK_TOKENS };
  scheduler_limits limits = {.step.max_tokens = CONTEXT, .step.max_seqs = 4, .step.max_model_tokens = CONTEXT};
  yk_sequence parked, first;
  const yk_scheduled *items;
  int32_t prompt[CONTEXT] = {0};
  const scheduled_pool made = scheduled_pool_new(&limits, 1, N_BLOCKS, 64);
  yk_scheduler *scheduler = made.scheduler;
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
  assert_int_equal(yk_kv_blocks_free_count(made.blocks), N_BLOCKS);
  yk_sequence_destroy(&first);
  yk_sequence_destroy(&parked);
  scheduled_pool_free(&made);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(snapshots_save_rows),
                                     cmocka_unit_test(conversations_begin_at_snapshots),
                                     cmocka_unit_test(snapshots_cost_no_steps),
                                     cmocka_unit_test(steps_in_flight_share_the_sequences),
                                     cmocka_unit_test(blocks_of_a_failed_sequence_are_not_reused),
                                     cmocka_unit_test(waiting_sequences_release_their_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
