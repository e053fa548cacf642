/* op_cases_attention_large.h - attention at the lengths, head counts and numbers of sequences of served models, for
 * GPUs, whose kernels divide such work among thread blocks. */
#ifndef YK_TESTS_OP_CASES_ATTENTION_LARGE_H
#define YK_TESTS_OP_CASES_ATTENTION_LARGE_H

#include "op/op_cases_attention.h"

/* A rounding of each probability moves an output by u / sqrt(3) of the outputs' rms on average (u: unit roundoff), and
 * the farthest of a million outputs by five times as much; then the output is rounded. */
static inline double large_scene_tolerance(yk_dtype dtype)
{
  return 4.0 * op_unit_roundoff(dtype) + 0x1p-16;
}

/* Against float64, and the same bits in three more runs. */
static inline void check_large_scene(const op_target *target, yk_dtype dtype, const scene_shape *shape, uint32_t seed)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  scene s = scene_new(dev, shape, seed);
  poison_unused_slots(dev, &s);
  op_array y = run_attention(dev, &s);
  double *expected = expected_attention(&s, OP_RIGHT);
  double error = op_error(y.values, expected, y.n);
  if (!(error <= large_scene_tolerance(dtype)))
    fail_msg("%s %s, %d query and %d KV heads of %d, %d sequences, %d rows, window %d: error %.3g, tolerance %.3g",
             target->name, yk_dtype_name(dtype), shape->heads.n_q_heads, shape->heads.n_kv_heads, shape->heads.head_dim,
             shape->n_seqs, s.n_tokens, shape->window, error, large_scene_tolerance(dtype));
  for (int i = 0; i < 3; i++) {
    op_array again = run_attention(dev, &s);
    assert_memory_equal(again.bytes, y.bytes, y.n * yk_dtype_bytes(dtype));
    op_array_free(dev, &again);
  }
  free(expected);
  op_array_free(dev, &y);
  scene_free(dev, &s);
  dev->ops->destroy(dev);
}

static inline yk_head_layout grouped_heads(int32_t n_q_heads, int32_t n_kv_heads, int32_t head_dim)
{
  return (yk_head_layout){
      .n_q_heads = n_q_heads, .n_kv_heads = n_kv_heads, .head_dim = head_dim, .q_per_kv = n_q_heads / n_kv_heads};
}

/* A rank's heads that begin and end within groups of four, with gates. */
static inline yk_head_layout heads_of_parts(int32_t head_dim)
{
  return (yk_head_layout){
      .n_q_heads = 6, .n_kv_heads = 3, .head_dim = head_dim, .q_per_kv = 4, .q_head_first = 3, .has_gates = true};
}

/* Lengths at the ends of pages, warps' parts and thread blocks' parts. */
#define EDGES                                                                                                          \
  {                                                                                                                    \
    {0, 1}, {14, 1}, {15, 1}, {16, 1}, {63, 1}, {64, 1}, {999, 1}, {2046, 1}, {2, 1}, {699, 1},                        \
    {                                                                                                                  \
      127, 1                                                                                                           \
    }                                                                                                                  \
  }

/* A few query heads for a KV head, and more than a tile has; both types alternately. */
static inline void check_decode_heads(const op_target *target, int32_t head_dim, int turn)
{
  const scene_shape shapes[] = {
      {.heads = grouped_heads(8, 2, head_dim), .n_seqs = 11, .seqs = EDGES},
      {.heads = grouped_heads(8, 2, head_dim), .n_seqs = 11, .seqs = EDGES, .window = 100},
      {.heads = grouped_heads(14, 2, head_dim), .n_seqs = 9, .shortest = 1, .longest = 900},
      {.heads = grouped_heads(24, 2, head_dim), .n_seqs = 9, .shortest = 1, .longest = 900},
      {.heads = grouped_heads(40, 1, head_dim), .n_seqs = 5, .shortest = 1, .longest = 900, .window = 7},
      {.heads = heads_of_parts(head_dim), .n_seqs = 9, .shortest = 1, .longest = 900},
  };
  for (int i = 0; each_case(i, i < (int)(sizeof shapes / sizeof *shapes)); i++)
    check_large_scene(target, op_dtypes[(i + turn) % 2], &shapes[i], 400 + (uint32_t)i);
}

/* Numbers of sequences around those that a GPU's thread blocks share, and contexts of 20,000 tokens. */
static inline void check_decode_sizes(const op_target *target)
{
  static const int n_seqs[] = {1, 2, 8, 16, 17, 33, 64};
  const yk_head_layout grouped = grouped_heads(8, 2, 128),
                       gated[] = {grouped_heads(6, 1, 256), grouped_heads(16, 1, 256)};
  for (int i = 0; each_case(i, i < 7); i++) {
    const scene_shape shape = {.heads = grouped, .n_seqs = n_seqs[i], .shortest = 600, .longest = 600};
    check_large_scene(target, op_dtypes[i % 2], &shape, 420 + (uint32_t)i);
  }
  for (int d = 0; each_case(d, d < 2); d++) {
    check_large_scene(target, op_dtypes[d], &(scene_shape){.heads = grouped, .n_seqs = 1, .seqs = {{1023, 1}}}, 430);
    check_large_scene(target, op_dtypes[d], &(scene_shape){.heads = grouped, .n_seqs = 1, .seqs = {{19999, 1}}}, 431);
    check_large_scene(target, op_dtypes[d],
                      &(scene_shape){.heads = grouped, .n_seqs = 64, .shortest = 1, .longest = 2048}, 432);
    const scene_shape short_ones = {.heads = grouped_heads(4, 2, 64), .n_seqs = 2100, .shortest = 1, .longest = 64};
    check_large_scene(target, op_dtypes[d], &short_ones, 433);
    for (int i = 0; each_case(i, i < 2); i++) {
      scene_shape shape = {.heads = gated[i], .n_seqs = 1, .seqs = {{19999, 1}}};
      shape.heads.has_gates = true;
      check_large_scene(target, op_dtypes[d], &shape, 434);
      shape.n_seqs = 64, shape.shortest = 1, shape.longest = 1024;
      check_large_scene(target, op_dtypes[d], &shape, 435);
    }
  }
}

/* Prompts, chunks after cached tokens, and decodes in the same step. */
static inline void check_prefill_heads(const op_target *target, int32_t head_dim, int turn)
{
  const scene_shape shapes[] = {
      {.heads = grouped_heads(8, 2, head_dim), .n_seqs = 1, .seqs = {{0, 300}}},
      {.heads = grouped_heads(8, 2, head_dim),
       .n_seqs = 7,
       .seqs = {{399, 1}, {0, 17}, {800, 200}, {0, 1}, {698, 2}, {0, 128}, {128, 129}}},
      {.heads = grouped_heads(14, 2, head_dim), .n_seqs = 3, .seqs = {{100, 77}, {0, 31}, {898, 2}}},
      {.heads = heads_of_parts(head_dim), .n_seqs = 3, .seqs = {{100, 65}, {0, 300}, {32, 1}}},
      {.heads = grouped_heads(40, 1, head_dim), .n_seqs = 2, .seqs = {{300, 70}, {0, 9}}},
      {.heads = grouped_heads(2, 2, head_dim), .n_seqs = 1, .seqs = {{512, 513}}},
  };
  for (int i = 0; each_case(i, i < 6); i++)
    for (int window = 0; each_case(window, window <= (i < 4 ? 100 : 0)); window += 100) {
      scene_shape shape = shapes[i];
      shape.window = window;
      check_large_scene(target, op_dtypes[(i + window / 100 + turn) % 2], &shape, 440 + (uint32_t)i);
    }
}

/* Work tiles of many sequences, and many of one. */
static inline void check_prefill_sizes(const op_target *target)
{
  for (int d = 0; each_case(d, d < 2); d++) {
    scene_shape shape = {.heads = grouped_heads(8, 2, 128), .n_seqs = 1, .seqs = {{0, 1500}}};
    check_large_scene(target, op_dtypes[d], &shape, 450);
    shape.n_seqs = 40, shape.shortest = 1, shape.longest = 300, shape.are_prompts = true;
    check_large_scene(target, op_dtypes[d], &shape, 451);
    shape.heads = grouped_heads(12, 2, 256), shape.heads.has_gates = true;
    check_large_scene(target, op_dtypes[d], &shape, 452);
    shape.heads = grouped_heads(16, 1, 256), shape.heads.has_gates = true;
    shape.n_seqs = 1, shape.longest = 0, shape.seqs[0] = (scene_seq){0, 700};
    check_large_scene(target, op_dtypes[d], &shape, 453);
  }
}

/* Few rows over long contexts, whose work tiles GPUs split: into parts with unequal numbers of key tiles, together with
 * prompts and decodes that are not split, and with windows as long as several parts. */
static inline void check_prefill_splits(const op_target *target, int32_t head_dim, int turn)
{
  const yk_head_layout grouped = grouped_heads(8, 2, head_dim);
  const scene_shape shapes[] = {
      {.heads = grouped, .n_seqs = 1, .seqs = {{8100, 40}}},
      {.heads = grouped, .n_seqs = 1, .seqs = {{31990, 12}}},
      {.heads = grouped, .n_seqs = 2, .seqs = {{8191, 2}, {2048, 65}}},
      {.heads = grouped,
       .n_seqs = 7,
       .seqs = {{0, 300}, {8001, 33}, {699, 1}, {5000, 9}, {0, 1}, {8200, 1}, {3967, 128}}},
      {.heads = grouped, .n_seqs = 2, .seqs = {{8100, 40}, {2000, 70}}, .window = 3000},
      {.heads = grouped, .n_seqs = 2, .seqs = {{4100, 40}, {70, 20}}, .has_sinks = true},
      {.heads = grouped, .n_seqs = 2, .seqs = {{4500, 20}, {8000, 20}}, .window = 5000, .is_chunk = true},
      {.heads = grouped, .n_seqs = 1, .seqs = {{4500, 20}}, .growth = {.beta = 0.3f, .period = 1000, .shift = 1}},
      {.heads = heads_of_parts(head_dim), .n_seqs = 2, .seqs = {{8000, 33}, {50, 40}}, .has_sinks = true},
      {.heads = grouped_heads(40, 1, head_dim), .n_seqs = 1, .seqs = {{4100, 30}}},
      {.heads = grouped_heads(2, 2, head_dim), .n_seqs = 1, .seqs = {{6000, 130}}, .window = 2500},
  };
  for (int i = 0; each_case(i, i < (int)(sizeof shapes / sizeof *shapes)); i++)
    check_large_scene(target, op_dtypes[(i + turn) % 2], &shapes[i], 480 + (uint32_t)i);
}

/* A recorded step, replayed for the first n of its sequences with other lengths. */
static inline void replay_scene(yk_device *dev, const yk_graph *graph, scene *s, op_array *y, int32_t n)
{
  op_random random = {.seed = 460 + (uint32_t)n};
  const size_t n_seqs = (size_t)s->shape->n_seqs;
  for (int32_t i = 0; i < s->shape->n_seqs; i++) {
    const scene_seq seq = s->shape->seqs[i];
    s->kv_tokens[i] = i < n ? (int32_t)op_between(&random, seq.rows, seq.cached + seq.rows) : 0;
    s->row_starts[i + 1] = s->row_starts[i] + (i < n ? seq.rows : 0);
    for (int32_t row = s->row_starts[i + 1] - 1, at = s->kv_tokens[i] - 1; row >= s->row_starts[i]; row--, at--)
      s->positions[row] = at;
  }
  op_ok(dev->ops->upload(dev, (void *)(uintptr_t)s->batch.kv_tokens, s->kv_tokens, n_seqs * 4, &err));
  op_ok(dev->ops->upload(dev, (void *)(uintptr_t)s->batch.row_starts, s->row_starts, (n_seqs + 1) * 4, &err));
  for (size_t i = 0; i < y->n; i++) y->values[i] = (double)NAN;
  op_array_send(dev, y);
  op_ok(dev->ops->graph_run(dev, graph, &err));
  op_array_fetch(dev, y);
  double *expected = expected_attention(s, OP_RIGHT);
  const size_t n_values = (size_t)(s->row_starts[n] * s->shape->heads.n_q_heads * s->shape->heads.head_dim);
  double error = op_error(y->values, expected, n_values);
  free(expected);
  if (!(error <= large_scene_tolerance(dev->dtype)))
    fail_msg("%d sequences of a recorded step, heads of %d: error %.3g", n, s->shape->heads.head_dim, error);
}

static inline void check_replay_of(const op_target *target, const scene_shape *shape, const int32_t n_seqs[3])
{
  yk_device *dev = op_device_new(target, YK_F16, 3, 16);
  scene s = scene_new(dev, shape, 461);
  op_array first = run_attention(dev, &s), y = op_array_new(dev, YK_F16, first.n);
  yk_graph *graph = NULL;
  op_ok(dev->ops->graph_begin(dev, &err));
  launch_attention(dev, &s, &y);
  op_ok(dev->ops->graph_end(dev, &graph, &err));
  for (int i = 0; each_case(i, i < 3); i++) replay_scene(dev, graph, &s, &y, n_seqs[i]);
  dev->ops->graph_destroy(dev, graph);
  op_array_free(dev, &first), op_array_free(dev, &y);
  scene_free(dev, &s);
  dev->ops->destroy(dev);
}

/* Decodes, and prompts after contexts of which some are split in one replay and not in another. */
static inline void check_attention_replay(const op_target *target, const yk_head_layout *heads)
{
  enum { N_SEQS = 11 };
  scene_shape shape = {.heads = *heads, .n_seqs = N_SEQS};
  for (int i = 0; i < N_SEQS; i++) shape.seqs[i] = (scene_seq){899, 1};
  check_replay_of(target, &shape, (const int32_t[3]){N_SEQS, 7, 1});
  const scene_shape prompts = {.heads = *heads, .n_seqs = 3, .seqs = {{6000, 9}, {899, 1}, {4000, 40}}};
  check_replay_of(target, &prompts, (const int32_t[3]){3, 2, 1});
}

#endif
