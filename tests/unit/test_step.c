/* A step's block: consecutive arrays at the same offsets in every copy, within the largest block for every step that
 * limits allow; late data that rank 0 waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "model/step.h"
#include "model/step_message.h"

enum { N_CASES = 2000 };

static int32_t draw(uint64_t seed, uint32_t *draws, int32_t below)
{
  return (int32_t)(yk_rng_uniform(seed, 1, (*draws)++) * (float)below);
}

static yk_step_counts random_counts(const yk_device_limits *limits, uint64_t seed)
{
  uint32_t draws = 0;
  yk_step_counts c = {.n_tokens = 1 + draw(seed, &draws, limits->max_tokens)};
  c.n_seqs = 1 + draw(seed, &draws, c.n_tokens < limits->max_seqs ? c.n_tokens : limits->max_seqs);
  c.block_table_stride = 1 + draw(seed, &draws, (limits->max_model_tokens + 15) / 16);
  c.n_wanted = draw(seed, &draws, c.n_tokens + 1);
  c.n_penalty_loads = draw(seed, &draws, c.n_seqs + 1);
  c.n_hidden = draw(seed, &draws, (c.n_wanted < c.n_seqs ? c.n_wanted : c.n_seqs) + 1);
  c.n_copies = draw(seed, &draws, 4);
  c.n_penalty_tokens = draw(seed, &draws, 50);
  c.n_biases = draw(seed, &draws, 50);
  c.n_mask_words = draw(seed, &draws, 50);
  return c;
}

/* Fills every array with its number: none overlaps another, and a copy of the part for ranks holds the data that ranks
 * read. */
static void test_arrays_do_not_overlap(void **state)
{
  (void)state;
  const yk_device_limits limits = {.max_tokens = 37, .max_seqs = 9, .max_model_tokens = 130};
  for (uint64_t seed = 0; seed < N_CASES; seed++) {
    yk_step_counts c = random_counts(&limits, seed);
    yk_step_layout layout = yk_step_layout_of(&c);
    unsigned char *block = malloc(layout.n_bytes);
    assert_non_null(block);
    for (int i = 0; i < YK_STEP_N_ARRAYS; i++) {
      size_t n_bytes = (size_t)yk_step_array_length((yk_step_array)i, &c) * yk_step_array_element_bytes(i);
      if (layout.offset[i] + n_bytes > layout.n_bytes) fail_msg("seed %d: %s", (int)seed, yk_step_array_name(i));
      bool is_for_ranks = yk_step_array_part(i) == YK_STEP_RANKS;
      assert_true(is_for_ranks ? layout.offset[i] + n_bytes <= layout.rank_bytes
                               : layout.offset[i] >= layout.rank_bytes);
      memset(block + layout.offset[i], i + 1, n_bytes);
    }
    for (int i = 0; i < YK_STEP_N_ARRAYS; i++) {
      size_t n_bytes = (size_t)yk_step_array_length((yk_step_array)i, &c) * yk_step_array_element_bytes(i);
      for (size_t b = 0; b < n_bytes; b++)
        if (block[layout.offset[i] + b] != i + 1) fail_msg("seed %d: %s", (int)seed, yk_step_array_name(i));
    }
    free(block);
  }
}

/* The block for the largest step, and for that many biases and tokens, holds any step. */
static void test_largest_step_holds_all(void **state)
{
  (void)state;
  const yk_device_limits limits = {.max_tokens = 37, .max_seqs = 9, .max_model_tokens = 130};
  yk_step_counts most = yk_step_counts_max(&limits);
  most.n_penalty_tokens = most.n_biases = most.n_mask_words = 50;
  yk_step_layout largest = yk_step_layout_of(&most);
  for (uint64_t seed = 0; seed < N_CASES; seed++) {
    yk_step_counts c = random_counts(&limits, seed);
    yk_step_layout layout = yk_step_layout_of(&c);
    assert_true(layout.n_bytes <= largest.n_bytes && layout.rank_bytes <= largest.rank_bytes);
  }
}

/* The builder relies on late arrays being last, so that it may count biases while it fills the others. */
static void test_late_arrays_move_no_other(void **state)
{
  (void)state;
  const yk_device_limits limits = {.max_tokens = 37, .max_seqs = 9, .max_model_tokens = 130};
  for (uint64_t seed = 0; seed < N_CASES; seed++) {
    yk_step_counts c = random_counts(&limits, seed), without = c;
    without.n_biases = without.n_penalty_tokens = without.n_mask_words = 0;
    yk_step_layout with_late = yk_step_layout_of(&c), before = yk_step_layout_of(&without);
    for (int i = 0; i < YK_STEP_N_ARRAYS; i++)
      if (yk_step_array_part(i) != YK_STEP_FOR_SAMPLING_LATE) assert_int_equal(with_late.offset[i], before.offset[i]);
  }
}

static void test_batch_in_a_copy(void **state)
{
  (void)state;
  const yk_device_limits limits = {.max_tokens = 37, .max_seqs = 9, .max_model_tokens = 130};
  yk_step step = {.counts = random_counts(&limits, 5)};
  step.layout = yk_step_layout_of(&step.counts);
  step.block = calloc(1, step.layout.n_bytes);
  char *copy = calloc(1, step.layout.rank_bytes);
  assert_true(step.block && copy);
  for (int32_t i = 0; i < step.counts.n_tokens; i++) yk_step_positions(&step)[i] = 7 * i;
  for (int32_t i = 0; i < step.counts.n_seqs; i++) {
    yk_step_seq_slots(&step)[i] = 3 * i + 1;
    yk_step_state_loads(&step)[i] = i - 2;
    yk_step_state_saves(&step)[i] = 5 * i - 1;
    yk_step_state_save_rows(&step)[i] = 2 * i;
  }
  memcpy(copy, step.block, step.layout.rank_bytes);
  yk_batch batch = yk_step_batch(&step, copy);
  assert_int_equal(batch.n_tokens, step.counts.n_tokens);
  for (int32_t i = 0; i < batch.n_tokens; i++) assert_int_equal(batch.positions[i], 7 * i);
  for (int32_t i = 0; i < batch.n_seqs; i++) {
    assert_int_equal(batch.seq_slots[i], 3 * i + 1);
    assert_int_equal(batch.state_loads[i], i - 2);
    assert_int_equal(batch.state_saves[i], 5 * i - 1);
    assert_int_equal(batch.state_save_rows[i], 2 * i);
  }
  free(step.block);
  free(copy);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static const yk_device_limits message_limits = {.max_tokens = 37, .max_seqs = 9, .max_model_tokens = 130};

/* A message as its sender writes it, in a buffer of exactly this size. */
static void *write_message(const yk_step *step, size_t *n_bytes)
{
  const yk_step_head head = yk_step_head_of(&step->counts);
  *n_bytes = sizeof head + step->layout.rank_bytes;
  char *message = malloc(*n_bytes);
  assert_non_null(message);
  memcpy(message, &head, sizeof head);
  memcpy(message + sizeof head, step->block, step->layout.rank_bytes);
  return message;
}

static yk_step step_of_seed(uint64_t seed)
{
  yk_step step = {.counts = random_counts(&message_limits, seed)};
  step.counts.max_rows_per_seq = step.counts.max_kv_tokens = 1;
  step.layout = yk_step_layout_of(&step.counts);
  yk_step_counts most = yk_step_counts_max(&message_limits);
  most.n_penalty_tokens = most.n_biases = 50;
  const size_t n_bytes = yk_step_layout_of(&most).n_bytes;
  step.block = malloc(n_bytes);
  assert_non_null(step.block);
  for (size_t i = 0; i < n_bytes; i++) ((unsigned char *)step.block)[i] = (unsigned char)(i * 31 + seed);
  return step;
}

/* A reader gets the counts and every array for ranks; all arrays are within the message. */
static void test_message_holds_step(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < N_CASES; seed++) {
    yk_step sent = step_of_seed(seed), read;
    sent.counts.is_timed = seed % 2;
    sent.counts.is_plain = seed % 3 == 0;
    size_t n_bytes;
    void *message = write_message(&sent, &n_bytes);
    assert_int_equal(yk_step_message_read(message, n_bytes, &message_limits, &read, NULL), YK_OK);
    const yk_step_head before = yk_step_head_of(&sent.counts), after = yk_step_head_of(&read.counts);
    assert_memory_equal(&before, &after, sizeof before);
    assert_memory_equal(&sent.layout, &read.layout, sizeof sent.layout);
    assert_memory_equal(sent.block, read.block, read.layout.rank_bytes);
    assert_null(read.late);
    assert_null(read.answer.sampled);
    free(message);
    free(sent.block);
  }
}

static void test_bad_messages(void **state)
{
  (void)state;
  static const struct {
    const char *part;
    size_t offset;
    int32_t value;
  } cases[] = {{"version", offsetof(yk_step_head, version), 99},
               {"tokens", offsetof(yk_step_head, n_tokens), 38},
               {"tokens", offsetof(yk_step_head, n_tokens), 0},
               {"sequences", offsetof(yk_step_head, n_seqs), 10},
               {"sequences", offsetof(yk_step_head, n_seqs), -1},
               {"rows of a sequence", offsetof(yk_step_head, max_rows_per_seq), 1000},
               {"KV tokens", offsetof(yk_step_head, max_kv_tokens), 131},
               {"blocks of a sequence", offsetof(yk_step_head, block_table_stride), 10},
               {"copies", offsetof(yk_step_head, n_copies), YK_STEP_MAX_COPIES + 1},
               {"wanted rows", offsetof(yk_step_head, n_wanted), 1000},
               {"hidden states", offsetof(yk_step_head, n_hidden), 10},
               {"hidden states", offsetof(yk_step_head, n_hidden), -1},
               {"bytes of arrays", offsetof(yk_step_head, block_table_stride), 1}};
  yk_step sent = step_of_seed(7), read;
  sent.counts.block_table_stride = 2;
  sent.layout = yk_step_layout_of(&sent.counts);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_err err = YK_ERR_INIT;
    size_t n_bytes;
    char *message = write_message(&sent, &n_bytes);
    memcpy(message + cases[i].offset, &cases[i].value, sizeof cases[i].value);
    assert_int_equal(yk_step_message_read(message, n_bytes, &message_limits, &read, &err), YK_E_COMM);
    assert_non_null(strstr(err.message, cases[i].part));
    free(message);
  }
  size_t n_bytes;
  void *message = write_message(&sent, &n_bytes);
  assert_int_equal(yk_step_message_read(message, n_bytes - 4, &message_limits, &read, NULL), YK_E_COMM);
  assert_int_equal(yk_step_message_read(message, 63, &message_limits, &read, NULL), YK_E_COMM);
  free(message);
  free(sent.block);
}

/* ---- Late data --------------------------------------------------------------------------------------------------- */

typedef struct waiter {
  yk_step_late late;
  atomic_bool is_stopped;
  int data; /* written before it is announced */
  int seen;
  yk_status status;
} waiter;

static void *wait_for_late(void *argument)
{
  waiter *w = argument;
  w->status = yk_step_late_await(&w->late, &w->is_stopped, NULL);
  w->seen = w->status == YK_OK ? w->data : -1;
  return NULL;
}

static void pause_ms(int ms)
{
  nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void test_late_data_is_awaited(void **state)
{
  (void)state;
  for (int stops = 0; stops < 2; stops++) {
    waiter w = {.data = 0};
    pthread_t thread;
    yk_step_late_init(&w.late);
    assert_int_equal(yk_step_late_await(&w.late, &w.is_stopped, NULL), YK_OK); /* none is expected */
    yk_step_late_expect(&w.late);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_late, &w), 0);
    pause_ms(20);
    w.data = 42;
    if (stops)
      atomic_store(&w.is_stopped, true);
    else
      yk_step_late_fill(&w.late);
    pthread_join(thread, NULL);
    assert_int_equal(w.status, stops ? YK_E_COMM : YK_OK);
    assert_int_equal(w.seen, stops ? -1 : 42);
    yk_step_late_destroy(&w.late);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arrays_do_not_overlap),     cmocka_unit_test(test_largest_step_holds_all),
      cmocka_unit_test(test_late_arrays_move_no_other), cmocka_unit_test(test_batch_in_a_copy),
      cmocka_unit_test(test_message_holds_step),        cmocka_unit_test(test_bad_messages),
      cmocka_unit_test(test_late_data_is_awaited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
