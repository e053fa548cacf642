/* Padding of decode steps: every array keeps its values, padding rows change no other row, and equal buckets share a
 * layout. Graphs of timed steps keep the operations of their timestamps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/checked.h"
#include "each_case.h"
#include "kernels/decode_layers.h"
#include "model/decode_graph.h"
#include "model/decode_parts.h"

enum { MAX_ROWS = 200, MAX_BLOCKS = 300 };

/* A decode step of n sequences of which the last has n_blocks blocks, in the engine's layout; with adapters if n_blocks
 * is odd. */
static yk_step decode_step(void *block, int32_t n, int32_t n_blocks)
{
  yk_step step = {.counts = {.n_tokens = n,
                             .n_seqs = n,
                             .max_rows_per_seq = 1,
                             .max_kv_tokens = 16 * n_blocks,
                             .block_table_stride = n_blocks,
                             .n_wanted = n,
                             .has_adapters = n_blocks % 2 == 1},
                  .block = block};
  step.layout = yk_step_layout_of(&step.counts);
  for (int32_t i = 0; i < n; i++) {
    yk_step_token_ids(&step)[i] = 1000 + i;
    yk_step_positions(&step)[i] = 2000 + i;
    yk_step_kv_slots(&step)[i] = 3000 + i;
    yk_step_seq_of_row(&step)[i] = yk_step_row_starts(&step)[i] = i;
    yk_step_kv_tokens(&step)[i] = 16 * n_blocks - i % 16;
    yk_step_seq_slots(&step)[i] = (i * 7 + 3) % n;
    yk_step_state_loads(&step)[i] = i % 3 - 2;
    yk_step_state_saves(&step)[i] = i % 5 - 1;
    yk_step_state_save_rows(&step)[i] = i % 5 > 0;
    yk_step_wanted_rows(&step)[i] = n - 1 - i;
    if (step.counts.has_adapters) yk_step_adapters(&step)[i] = i % 4;
  }
  yk_step_row_starts(&step)[n] = n;
  for (int32_t i = 0; i < n * n_blocks; i++) yk_step_block_tables(&step)[i] = 7 * i;
  return step;
}

/* Bytes of the largest step of these tests. */
static size_t block_bytes(void)
{
  const yk_device_limits limits = {.max_tokens = MAX_ROWS,
                                   .max_seqs = MAX_ROWS,
                                   .max_model_tokens = MAX_BLOCKS * YK_KV_BLOCK_TOKENS,
                                   .n_adapters = 3};
  const yk_step_counts most = yk_step_counts_max(&limits);
  return yk_step_layout_of(&most).n_bytes;
}

static void check_padded(const yk_step *step, const yk_step *padded)
{
  const yk_batch from_batch = yk_step_batch(step, step->block), to_batch = yk_step_batch(padded, padded->block);
  const yk_batch *from = &from_batch, *to = &to_batch;
  int32_t n = from->n_seqs;
  assert_true(to->n_seqs >= n && to->n_seqs <= MAX_ROWS && to->n_tokens == to->n_seqs);
  assert_true(to->block_table_stride >= from->block_table_stride && to->block_table_stride <= MAX_BLOCKS);
  assert_int_equal(to->max_rows_per_seq, 1);
  assert_int_equal(to->adapters != NULL, from->adapters != NULL);
  for (int32_t i = 0; i < to->n_seqs; i++) {
    assert_int_equal(to->token_ids[i], i < n ? from->token_ids[i] : 0);
    assert_int_equal(to->positions[i], i < n ? from->positions[i] : 0);
    assert_int_equal(to->kv_slots[i], i < n ? from->kv_slots[i] : -1);
    assert_int_equal(to->kv_tokens[i], i < n ? from->kv_tokens[i] : 0);
    assert_int_equal(to->seq_slots[i], i < n ? from->seq_slots[i] : -1);
    assert_int_equal(to->state_loads[i], i < n ? from->state_loads[i] : YK_STATE_KEEP);
    assert_int_equal(to->state_saves[i], i < n ? from->state_saves[i] : -1);
    assert_int_equal(to->state_save_rows[i], i < n ? from->state_save_rows[i] : 0);
    if (from->adapters && to->adapters) assert_int_equal(to->adapters[i], i < n ? from->adapters[i] : 0);
    assert_int_equal(to->row_starts[i + 1] - to->row_starts[i], i < n); /* padding adds no row */
    assert_true(i < n ? to->seq_of_row[i] == i : to->seq_of_row[i] >= n && to->seq_of_row[i] < to->n_seqs);
    for (int32_t b = 0; i < n && b < from->block_table_stride; b++)
      assert_int_equal(to->block_tables[(size_t)i * (size_t)to->block_table_stride + (size_t)b],
                       from->block_tables[(size_t)i * (size_t)from->block_table_stride + (size_t)b]);
  }
  int32_t n_wanted = step->counts.n_wanted;
  assert_int_equal(padded->counts.n_wanted, n_wanted);
  assert_memory_equal(yk_step_wanted_rows(padded), yk_step_wanted_rows(step), (size_t)n_wanted * sizeof(int32_t));
  assert_ptr_equal(yk_step_wanted_rows(padded) + n_wanted, (char *)padded->block + padded->layout.rank_bytes);
}

static void test_every_size(void **state)
{
  (void)state;
  static const int32_t block_counts[] = {1, 64, 65, 129, 300};
  yk_decode_graphs *graphs = NULL;
  assert_int_equal(yk_decode_graphs_create(MAX_ROWS, MAX_BLOCKS * YK_KV_BLOCK_TOKENS, true, &graphs, NULL), YK_OK);
  void *block = calloc(1, block_bytes());
  assert_non_null(block);
  for (size_t b = 0; each_case(b, b < sizeof block_counts / sizeof *block_counts); b++) {
    yk_decode_graph *last_slot = NULL;
    int32_t last_rows = 0;
    size_t last_at = 0;
    for (int32_t n = 1; n <= MAX_ROWS; n++) {
      yk_step step = decode_step(block, n, block_counts[b]);
      yk_decode_graph *slot = NULL;
      const yk_step *padded = yk_decode_graphs_pad(graphs, &step, &slot);
      assert_non_null(padded);
      assert_non_null(slot);
      assert_null(slot->graph);
      check_padded(&step, padded);
      assert_true((slot == last_slot) == (padded->counts.n_seqs == last_rows)); /* a graph serves one layout */
      if (slot == last_slot) assert_int_equal(padded->layout.offset[YK_STEP_ADAPTERS], last_at);
      last_at = padded->layout.offset[YK_STEP_ADAPTERS];
      assert_true(padded->counts.n_seqs - n < (n <= 4 ? 2 : n <= 64 ? 8 : 16));
      last_slot = slot;
      last_rows = padded->counts.n_seqs;
    }
  }
  free(block);
  yk_decode_graphs_destroy(graphs, NULL);
}

static void test_other_steps_are_left_alone(void **state)
{
  (void)state;
  yk_decode_graphs *graphs = NULL;
  assert_int_equal(yk_decode_graphs_create(4, 8 * YK_KV_BLOCK_TOKENS, false, &graphs, NULL), YK_OK);
  void *block = calloc(1, block_bytes());
  assert_non_null(block);
  yk_decode_graph *slot = NULL;
  yk_step step = decode_step(block, 5, 2);
  assert_null(yk_decode_graphs_pad(graphs, &step, &slot)); /* more rows than the model supports */
  step = decode_step(block, 3, 2);
  step.counts.max_rows_per_seq = 2;
  step.counts.n_tokens = 4;
  assert_null(yk_decode_graphs_pad(graphs, &step, &slot)); /* a prompt among them */
  step = decode_step(block, 3, 2);
  assert_non_null(yk_decode_graphs_pad(graphs, &step, &slot));
  free(block);
  yk_decode_graphs_destroy(graphs, NULL);
}

/* Steps with adapters, timed steps and all other steps have separate graphs. */
static void test_kinds_of_steps(void **state)
{
  (void)state;
  enum { N_KINDS = 4 };
  yk_decode_graph *slots[N_KINDS];
  yk_decode_graphs *graphs = NULL;
  assert_int_equal(yk_decode_graphs_create(4, 8 * YK_KV_BLOCK_TOKENS, true, &graphs, NULL), YK_OK);
  void *block = calloc(1, block_bytes());
  assert_non_null(block);
  for (int kind = 0; kind < N_KINDS; kind++) {
    yk_step step = decode_step(block, 3, kind / 2 + 2);
    step.counts.is_timed = kind % 2;
    assert_non_null(yk_decode_graphs_pad(graphs, &step, &slots[kind]));
    for (int other = 0; other < kind; other++) assert_ptr_not_equal(slots[other], slots[kind]);
  }
  free(block);
  yk_decode_graphs_destroy(graphs, NULL);
}

static yk_status timestamp(yk_device *dev, int64_t *at, yk_err *err)
{
  (void)dev, (void)err;
  *at = 0;
  return YK_OK;
}

/* Records a graph that begins after the upload, with these operations. */
static void record(yk_step_profile *profile, yk_device *dev, const yk_timed_operation *operations, int32_t n,
                   yk_graph_stamps *out)
{
  static const yk_timed_operation upload = {.kind = YK_OPERATION_OTHER, .layer = -1, .name = "step upload"};
  yk_step_profile_begin(profile);
  assert_int_equal(yk_step_profile_stamp(profile, dev, &upload, NULL), YK_OK);
  for (int run = 0; run < 2; run++) { /* once launch by launch, then recorded */
    if (run == 1) yk_step_profile_rewind(profile, 1);
    for (int32_t i = 0; i < n; i++) assert_int_equal(yk_step_profile_stamp(profile, dev, &operations[i], NULL), YK_OK);
  }
  assert_int_equal(yk_step_profile_recorded(profile, 1, out, NULL), YK_OK);
  assert_false(profile->is_whole);
}

/* A timed step that runs a graph has the operations of this graph's stamps, also if others were stamped since. */
static void test_operations_of_graphs(void **state)
{
  (void)state;
  static const yk_device_ops ops = {.timestamp = timestamp};
  static const yk_timed_operation whole[] = {{.kind = YK_OPERATION_OTHER, .layer = -1, .name = "embedding"},
                                             {.kind = YK_OPERATION_STATES, .layer = 0, .name = "gated delta net"}},
                                  apart[] = {{.kind = YK_OPERATION_OTHER, .layer = -1, .name = "embedding"},
                                             {.kind = YK_OPERATION_GEMM_QKV, .layer = 0, .name = "qkv_proj"},
                                             {.kind = YK_OPERATION_ATTENTION, .layer = 0, .name = "attention"}},
                                  head = {.kind = YK_OPERATION_LM_HEAD, .layer = -1, .name = "lm_head"};
  yk_device dev = {.ops = &ops};
  yk_timed_operation operations[8];
  int64_t table[8];
  yk_step_profile profile = {.capacity = 8, .operations = operations, .table = table};
  const struct {
    const yk_timed_operation *operations;
    int32_t n;
  } graphs[] = {{whole, 2}, {apart, 3}};
  yk_graph_stamps stamps[2];
  for (int i = 0; i < 2; i++) record(&profile, &dev, graphs[i].operations, graphs[i].n, &stamps[i]);
  for (int i = 0; each_case(i, i < 4); i++) {
    const int g = i % 2;
    yk_step_profile_begin(&profile);
    assert_int_equal(yk_step_profile_stamp(&profile, &dev, &apart[0], NULL), YK_OK);
    yk_step_profile_replayed(&profile, &stamps[g]);
    assert_int_equal(yk_step_profile_stamp(&profile, &dev, &head, NULL), YK_OK);
    assert_true(profile.is_whole);
    assert_int_equal(profile.n, graphs[g].n + 2);
    for (int32_t j = 0; j < graphs[g].n; j++) assert_string_equal(operations[1 + j].name, graphs[g].operations[j].name);
    assert_int_equal(operations[1 + graphs[g].n].kind, YK_OPERATION_LM_HEAD);
  }
  for (int i = 0; i < 2; i++) free(stamps[i].operations);
}

/* Parts that do not fit make the step one that is not counted. */
static void test_parts_beyond_the_capacity(void **state)
{
  (void)state;
  static const int32_t capacities[] = {0, 1, YK_DECODE_N_PARTS, 2 * YK_DECODE_N_PARTS - 1, 2 * YK_DECODE_N_PARTS};
  for (size_t i = 0; each_case(i, i < sizeof capacities / sizeof *capacities); i++) {
    yk_timed_operation operations[2 * YK_DECODE_N_PARTS];
    int64_t table[2 * YK_DECODE_N_PARTS];
    yk_step_profile profile = {.capacity = capacities[i], .operations = operations, .table = table};
    const bool fits = capacities[i] == 2 * YK_DECODE_N_PARTS;
    yk_step_profile_begin(&profile);
    assert_ptr_equal(yk_decode_parts_stamp(&profile, 5, 2), fits ? table : NULL);
    assert_int_equal(profile.is_whole, fits);
    assert_int_equal(profile.n, capacities[i]);
    if (!fits) continue;
    assert_true(operations[0].layer == 5 && operations[YK_DECODE_N_PARTS].layer == 6 && operations[3].is_internal);
    assert_int_equal(operations[YK_DECODE_PART_SUM_OF_DOWN].kind, YK_OPERATION_ALL_REDUCE);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_size),
                                     cmocka_unit_test(test_other_steps_are_left_alone),
                                     cmocka_unit_test(test_kinds_of_steps), cmocka_unit_test(test_operations_of_graphs),
                                     cmocka_unit_test(test_parts_beyond_the_capacity)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
