/* op_cases_attention.h - qk_rope_kv and attention on a paged cache, against float64 on plain sequences.
 *
 * A scene is a set of sequences, each with some tokens already in the cache and some rows in this step. The reference
 * has every sequence as a flat array; the device has blocks shuffled over a larger cache. */
#ifndef YK_TESTS_OP_CASES_ATTENTION_H
#define YK_TESTS_OP_CASES_ATTENTION_H

#include "each_case.h"
#include "op/op_reference.h"

enum { SCENE_MAX_SEQS = 11, SCENE_MIN_TOKENS = 160, RANDOM_SCENE_SEQS = 6 };

typedef struct scene_seq {
  int32_t cached, rows;
} scene_seq;

typedef struct scene_shape {
  yk_head_layout heads;
  int n_seqs;
  scene_seq seqs[SCENE_MAX_SEQS];
  int32_t window;
  int qk_norm; /* 0: none, 1: before the rotation, 2: after it, 3: before it, and of values */
  bool has_sinks;
  bool is_chunk; /* the window is a chunk */
  bool is_unrotated;
  bool is_invariant; /* as in yk_attention_args */
  yk_score_growth growth;
  int32_t shortest, longest; /* not 0: n_seqs sequences with this number of tokens in place of seqs ... */
  bool are_prompts;          /* ... with this number of rows, not one */
} scene_shape;

typedef struct scene {
  const scene_shape *shape;
  int32_t max_tokens; /* positions of the rotary table, tokens of a block table */
  int32_t n_tokens, stride, n_blocks;
  int32_t *ids, *positions, *slots, *seq_of_row;      /* [n_tokens] */
  int32_t *row_starts, *kv_tokens, *tables, *numbers; /* [n_seqs + 1], [n_seqs], [n_seqs, stride]; memory of all */
  yk_batch batch;
  op_array qkv, k_cache, v_cache, q_norm_w, k_norm_w, rope;
  yk_kv_layer kv; /* arguments of the device: the two caches, unless a case replaces them */
  double *inv_freq;
  float scale;
  op_array sinks; /* of the query heads */
  op_array ones;  /* [head_dim] */
} scene;

static inline int64_t cache_index(const yk_head_layout *heads, int64_t slot, int64_t kv_head)
{
  return ((slot / YK_KV_BLOCK_TOKENS * heads->n_kv_heads + kv_head) * YK_KV_BLOCK_TOKENS + slot % YK_KV_BLOCK_TOKENS) *
         heads->head_dim;
}

static inline int64_t slot_of(const scene *s, int32_t seq, int32_t position)
{
  return (int64_t)s->tables[seq * s->stride + position / YK_KV_BLOCK_TOKENS] * YK_KV_BLOCK_TOKENS +
         position % YK_KV_BLOCK_TOKENS;
}

static inline scene_seq scene_seq_of(const scene_shape *shape, int seq)
{
  op_random random = {.seed = 300, .n_drawn = (uint32_t)seq};
  if (shape->longest == 0) return shape->seqs[seq];
  const int32_t n_tokens = (int32_t)op_between(&random, shape->shortest, shape->longest);
  return shape->are_prompts ? (scene_seq){0, n_tokens} : (scene_seq){n_tokens - 1, 1};
}

/* The longest sequence and the number of rows, and memory for the arrays of both. */
static inline void measure_scene(scene *s)
{
  const int n_seqs = s->shape->n_seqs;
  int32_t n_rows = 0;
  s->max_tokens = s->shape->longest ? 0 : SCENE_MIN_TOKENS;
  for (int i = 0; i < n_seqs; i++) {
    const scene_seq seq = scene_seq_of(s->shape, i);
    n_rows += seq.rows;
    if (seq.cached + seq.rows > s->max_tokens) s->max_tokens = seq.cached + seq.rows;
  }
  s->stride = s->max_tokens / YK_KV_BLOCK_TOKENS + 1;
  s->n_blocks = n_seqs * s->stride + 3;
  s->numbers = calloc((size_t)(4 * n_rows + (2 + s->stride) * n_seqs + 1), sizeof *s->numbers);
  assert_non_null(s->numbers);
  int32_t *next = s->numbers, **const of_rows[] = {&s->ids, &s->positions, &s->slots, &s->seq_of_row};
  for (int i = 0; i < 4; i++, next += n_rows) *of_rows[i] = next;
  s->row_starts = next, next += n_seqs + 1;
  s->kv_tokens = next, next += n_seqs;
  s->tables = next;
}

static inline void lay_out_rows(scene *s, op_random *random)
{
  const scene_shape *shape = s->shape;
  measure_scene(s);
  int32_t *blocks = calloc((size_t)s->n_blocks, sizeof *blocks);
  for (int32_t i = 0; i < s->n_blocks; i++) blocks[i] = i;
  for (int32_t i = s->n_blocks - 1; i > 0; i--) {
    int32_t j = (int32_t)op_between(random, 0, i), swap = blocks[i];
    blocks[i] = blocks[j], blocks[j] = swap;
  }
  for (int32_t i = 0; i < shape->n_seqs * s->stride; i++) s->tables[i] = blocks[i];
  free(blocks);
  for (int32_t seq = 0; seq < shape->n_seqs; seq++) {
    const scene_seq of = scene_seq_of(shape, seq);
    s->row_starts[seq] = s->n_tokens;
    s->kv_tokens[seq] = of.cached + of.rows;
    for (int32_t i = 0; i < of.rows; i++, s->n_tokens++) {
      s->positions[s->n_tokens] = of.cached + i;
      s->seq_of_row[s->n_tokens] = seq;
      s->slots[s->n_tokens] = (int32_t)slot_of(s, seq, of.cached + i);
    }
  }
  s->row_starts[shape->n_seqs] = s->n_tokens;
}

static inline void send_batch(yk_device *dev, scene *s)
{
  int32_t longest_run = 0, longest_kv = 0;
  for (int32_t seq = 0; seq < s->shape->n_seqs; seq++) {
    const int32_t n_rows = s->row_starts[seq + 1] - s->row_starts[seq];
    longest_run = n_rows > longest_run ? n_rows : longest_run;
    longest_kv = s->kv_tokens[seq] > longest_kv ? s->kv_tokens[seq] : longest_kv;
  }
  size_t rows = (size_t)s->n_tokens, seqs = (size_t)s->shape->n_seqs;
  s->batch = (yk_batch){.n_tokens = s->n_tokens,
                        .n_seqs = s->shape->n_seqs,
                        .max_rows_per_seq = longest_run,
                        .max_kv_tokens = longest_kv,
                        .block_table_stride = s->stride,
                        .token_ids = op_send_i32(dev, s->ids, rows),
                        .positions = op_send_i32(dev, s->positions, rows),
                        .kv_slots = op_send_i32(dev, s->slots, rows),
                        .seq_of_row = op_send_i32(dev, s->seq_of_row, rows),
                        .row_starts = op_send_i32(dev, s->row_starts, seqs + 1),
                        .kv_tokens = op_send_i32(dev, s->kv_tokens, seqs),
                        .block_tables = op_send_i32(dev, s->tables, seqs * (size_t)s->stride)};
}

static inline scene scene_new(yk_device *dev, const scene_shape *shape, uint32_t seed)
{
  op_random random = {.seed = seed};
  scene s = {.shape = shape, .scale = 1.0f / sqrtf((float)shape->heads.head_dim)};
  lay_out_rows(&s, &random);
  send_batch(dev, &s);
  int32_t head_dim = shape->heads.head_dim, half = head_dim / 2;
  size_t row = (size_t)yk_head_layout_width(&shape->heads);
  size_t cache = (size_t)s.n_blocks * (size_t)(shape->heads.n_kv_heads * YK_KV_BLOCK_TOKENS * head_dim);
  s.qkv = op_array_random(dev, dev->dtype, (size_t)s.n_tokens * row, 1.5, &random);
  s.k_cache = op_array_random(dev, dev->dtype, cache, 1.0, &random);
  s.v_cache = op_array_random(dev, dev->dtype, cache, 1.0, &random);
  s.kv = (yk_kv_layer){.k = s.k_cache.dev, .v = s.v_cache.dev};
  s.q_norm_w = op_array_random(dev, dev->dtype, (size_t)head_dim, 1.0, &random);
  s.k_norm_w = op_array_random(dev, dev->dtype, (size_t)head_dim, 1.0, &random);
  s.ones = op_array_new(dev, dev->dtype, (size_t)head_dim);
  for (int32_t i = 0; i < head_dim; i++) s.ones.values[i] = 1;
  s.sinks = op_array_random(dev, YK_F32, (size_t)shape->heads.n_q_heads, 3.0, &random);
  s.rope = op_array_new(dev, YK_F32, (size_t)(s.max_tokens * head_dim));
  s.inv_freq = calloc((size_t)half, sizeof *s.inv_freq);
  for (int32_t i = 0; i < half; i++) s.inv_freq[i] = pow(10000.0, -2.0 * i / head_dim);
  for (int32_t p = 0; p < s.max_tokens; p++)
    for (int32_t i = 0; i < half; i++) {
      s.rope.values[p * head_dim + i] = cos(p * s.inv_freq[i]);
      s.rope.values[p * head_dim + half + i] = sin(p * s.inv_freq[i]);
    }
  op_array_send(dev, &s.rope);
  return s;
}

static inline void scene_free(yk_device *dev, scene *s)
{
  const int32_t *arrays[] = {s->batch.token_ids,  s->batch.positions, s->batch.kv_slots,    s->batch.seq_of_row,
                             s->batch.row_starts, s->batch.kv_tokens, s->batch.block_tables};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) dev->ops->free(dev, (void *)(uintptr_t)arrays[i]);
  op_array_free(dev, &s->qkv);
  op_array_free(dev, &s->k_cache);
  op_array_free(dev, &s->v_cache);
  op_array_free(dev, &s->q_norm_w);
  op_array_free(dev, &s->k_norm_w);
  op_array_free(dev, &s->rope);
  op_array_free(dev, &s->sinks);
  op_array_free(dev, &s->ones);
  free(s->inv_freq);
  free(s->numbers);
}

static inline void run_rope(yk_device *dev, scene *s)
{
  yk_qk_rope_kv_args args = {.qkv = s->qkv.dev,
                             .heads = s->shape->heads,
                             .q_norm_w = s->shape->qk_norm ? s->q_norm_w.dev : NULL,
                             .k_norm_w = s->shape->qk_norm ? s->k_norm_w.dev : NULL,
                             .norms_follow = s->shape->qk_norm == 2,
                             .norms_values = s->shape->qk_norm == 3,
                             .norm_eps = 1e-5f,
                             .rope = s->shape->is_unrotated ? NULL : s->rope.dev,
                             .kv = s->kv,
                             .batch = &s->batch};
  op_ok(dev->ops->qk_rope_kv(dev, &args, &err));
}

static inline void launch_attention(yk_device *dev, const scene *s, const op_array *y)
{
  yk_attention_args args = {.y = y->dev,
                            .qkv = s->qkv.dev,
                            .heads = s->shape->heads,
                            .kv = s->kv,
                            .scale = s->scale,
                            .growth = s->shape->growth,
                            .window_tokens = s->shape->window,
                            .window_is_chunk = s->shape->is_chunk,
                            .sinks = s->shape->has_sinks ? s->sinks.dev : NULL,
                            .is_invariant = s->shape->is_invariant,
                            .batch = &s->batch};
  op_ok(dev->ops->attention(dev, &args, &err));
}

static inline op_array run_attention(yk_device *dev, const scene *s)
{
  op_array y =
      op_array_new(dev, dev->dtype, (size_t)(s->n_tokens * s->shape->heads.n_q_heads * s->shape->heads.head_dim));
  launch_attention(dev, s, &y);
  op_array_fetch(dev, &y);
  return y;
}

/* Largest error of q in place, of the written K and V rows, and of cache slots that must not change. */
static inline double rope_error(const op_target *target, yk_dtype dtype, const scene_shape *shape, uint32_t seed,
                                op_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  scene s = scene_new(dev, shape, seed);
  const yk_head_layout *heads = &shape->heads;
  const int32_t head_dim = heads->head_dim;
  const int32_t n_rotated = heads->n_q_heads + (heads->kv_columns == YK_KV_COLUMNS_NONE ? 0 : heads->n_kv_heads);
  int64_t row_size = yk_head_layout_width(heads);
  double *qkv = calloc(s.qkv.n + 1, sizeof *qkv), *k = calloc(s.k_cache.n + 1, sizeof *k);
  double *v = calloc(s.v_cache.n + 1, sizeof *v), *normed = calloc((size_t)head_dim, sizeof *normed);
  memcpy(qkv, s.qkv.values, s.qkv.n * sizeof *qkv);
  memcpy(k, s.k_cache.values, s.k_cache.n * sizeof *k);
  memcpy(v, s.v_cache.values, s.v_cache.n * sizeof *v);
  for (int32_t row = 0; row < s.n_tokens; row++) {
    for (int32_t h = 0; h < n_rotated; h++) {
      double *head = qkv + row * row_size + h * head_dim;
      const double *w = h < heads->n_q_heads ? s.q_norm_w.values : s.k_norm_w.values;
      memcpy(normed, head, (size_t)head_dim * sizeof *normed);
      bool has_norm = shape->qk_norm && fault != OP_NO_QK_NORM;
      if (has_norm && shape->qk_norm != 2) op_ref_rms_norm(dtype, normed, head, w, head_dim, (double)1e-5f, OP_RIGHT);
      if (shape->is_unrotated)
        memcpy(head, normed, (size_t)head_dim * sizeof *normed);
      else
        op_ref_rope(head, normed, head_dim, s.positions[row], s.inv_freq, fault);
      memcpy(normed, head, (size_t)head_dim * sizeof *normed);
      if (has_norm && shape->qk_norm == 2) op_ref_rms_norm(dtype, head, normed, w, head_dim, (double)1e-5f, OP_RIGHT);
    }
    for (int32_t h = 0; h < heads->n_kv_heads && heads->kv_columns != YK_KV_COLUMNS_NONE; h++) {
      const int64_t at = cache_index(heads, s.slots[row], h),
                    first = row * row_size + (heads->n_q_heads + h) * head_dim;
      const bool has_values = heads->kv_columns == YK_KV_COLUMNS_BOTH;
      const double *value = s.qkv.values + first + (has_values ? heads->n_kv_heads * head_dim : 0);
      memcpy(k + at, qkv + first, (size_t)head_dim * sizeof *k);
      memcpy(v + at, value, (size_t)head_dim * sizeof *v);
      if (shape->qk_norm == 3) op_ref_rms_norm(dtype, v + at, value, s.ones.values, head_dim, (double)1e-5f, OP_RIGHT);
    }
  }
  run_rope(dev, &s);
  op_array_fetch(dev, &s.qkv);
  op_array_fetch(dev, &s.k_cache);
  op_array_fetch(dev, &s.v_cache);
  for (int32_t row = 0; row < s.n_tokens; row++) /* only the q part of qkv is defined afterwards */
    memcpy(qkv + row * row_size + heads->n_q_heads * head_dim,
           s.qkv.values + row * row_size + heads->n_q_heads * head_dim,
           (size_t)(row_size - heads->n_q_heads * head_dim) * sizeof *qkv);
  double error = op_error(s.v_cache.values, v, s.v_cache.n);
  assert_true(shape->qk_norm == 3 || error == 0.0);
  error = fmax(error, fmax(op_error(s.qkv.values, qkv, s.qkv.n), op_error(s.k_cache.values, k, s.k_cache.n)));
  free(qkv);
  free(k);
  free(v);
  free(normed);
  scene_free(dev, &s);
  dev->ops->destroy(dev);
  return error;
}

/* A sequence's cached rows of one head as a flat array [n_tokens, head_dim]. Thread: any. */
static inline double *flatten(const scene *s, const op_array *cache, int32_t seq, int64_t kv_head, op_fault fault)
{
  int32_t head_dim = s->shape->heads.head_dim, n_tokens = s->kv_tokens[seq];
  double *flat = calloc((size_t)n_tokens * (size_t)head_dim + 1, sizeof *flat);
  if (!flat) abort();
  for (int32_t t = 0; t < n_tokens; t++) {
    int64_t slot = fault == OP_BLOCKS_IN_ORDER ? seq * s->stride * YK_KV_BLOCK_TOKENS + t : slot_of(s, seq, t);
    memcpy(flat + (int64_t)t * head_dim, cache->values + cache_index(&s->shape->heads, slot, kv_head),
           (size_t)head_dim * sizeof *flat);
  }
  return flat;
}

/* NaNs in every slot of the cache that holds no token of the scene: values left by an earlier owner of a block must not
 * affect a row. */
static inline void poison_unused_slots(yk_device *dev, scene *s)
{
  const yk_head_layout *heads = &s->shape->heads;
  int64_t n_slots = (int64_t)s->n_blocks * YK_KV_BLOCK_TOKENS;
  bool *is_used = calloc((size_t)n_slots, sizeof *is_used);
  assert_non_null(is_used);
  for (int32_t seq = 0; seq < s->shape->n_seqs; seq++)
    for (int32_t t = 0; t < s->kv_tokens[seq]; t++) is_used[slot_of(s, seq, t)] = true;
  for (int64_t slot = 0; slot < n_slots; slot++)
    for (int64_t i = 0; !is_used[slot] && i < (int64_t)heads->n_kv_heads * heads->head_dim; i++) {
      int64_t at = cache_index(heads, slot, i / heads->head_dim) + i % heads->head_dim;
      s->k_cache.values[at] = s->v_cache.values[at] = (double)NAN;
    }
  free(is_used);
  op_array_send(dev, &s->k_cache);
  op_array_send(dev, &s->v_cache);
}

/* The number of last tokens that a row attends to; 0: all. */
static inline int32_t window_of(const scene *s, int32_t row)
{
  const int32_t window = s->shape->window;
  return s->shape->is_chunk ? s->positions[row] % window + 1 : window;
}

/* The factor of a row's scores. */
static inline double scale_of(const scene *s, int32_t row)
{
  return (double)s->scale * (double)yk_score_growth_at(&s->shape->growth, s->positions[row]);
}

/* The share of a row's softmax that tokens have, with the sink of head h in the softmax. keys: [tokens, head_dim] of
 * the row's sequence. */
static inline double share_of_tokens(const scene *s, int32_t row, int32_t h, const double *keys)
{
  const yk_head_layout *heads = &s->shape->heads;
  const double *query = s->qkv.values + row * yk_head_layout_width(heads) + h * heads->head_dim;
  const int32_t last = s->positions[row], window = window_of(s, row), first = window > 0 ? last - window + 1 : 0;
  double others = 0;
  for (int32_t t = first < 0 ? 0 : first; t <= last; t++) {
    const double score = op_dot(query, keys + (int64_t)t * heads->head_dim, heads->head_dim);
    others += exp(score * scale_of(s, row) - s->sinks.values[h]);
  }
  return others / (1 + others);
}

/* The reference of a scene: an item is a query head of a sequence. */
typedef struct scene_reference {
  const scene *s;
  op_fault fault;
  double *expected; /* [n_tokens, n_q_heads, head_dim] */
} scene_reference;

static inline void expect_row(const scene_reference *reference, int32_t row, int32_t h, const double *keys,
                              const double *values)
{
  const scene *s = reference->s;
  const yk_head_layout *heads = &s->shape->heads;
  const int32_t head_dim = heads->head_dim;
  const double *in = s->qkv.values + row * yk_head_layout_width(heads);
  double *out = reference->expected + ((int64_t)row * heads->n_q_heads + h) * head_dim;
  op_ref_attention(out, in + h * head_dim, keys, values, s->positions[row], s->kv_tokens[s->seq_of_row[row]],
                   window_of(s, row), head_dim, scale_of(s, row), reference->fault);
  const double share = s->shape->has_sinks ? share_of_tokens(s, row, h, keys) : 1.0;
  const double *gates = in + (heads->n_q_heads + h) * head_dim + yk_head_layout_kv_columns(heads);
  for (int32_t i = 0; i < head_dim; i++) out[i] *= heads->has_gates ? share / (1 + exp(-gates[i])) : share;
}

static inline void expect_heads(void *context, int thread, int64_t begin, int64_t end)
{
  const scene_reference *reference = context;
  const scene *s = reference->s;
  const yk_head_layout *heads = &s->shape->heads;
  (void)thread;
  for (int64_t item = begin; item < end; item++) {
    const int32_t seq = (int32_t)(item / heads->n_q_heads), h = (int32_t)(item % heads->n_q_heads);
    int64_t kv_head = (heads->q_head_first + h) / heads->q_per_kv - heads->kv_head_first;
    if (reference->fault == OP_WRONG_KV_HEAD) kv_head = (kv_head + 1) % heads->n_kv_heads;
    double *keys = flatten(s, &s->k_cache, seq, kv_head, reference->fault);
    double *values = flatten(s, &s->v_cache, seq, kv_head, reference->fault);
    for (int32_t row = s->row_starts[seq]; row < s->row_starts[seq + 1]; row++)
      expect_row(reference, row, h, keys, values);
    free(keys);
    free(values);
  }
}

/* Attention of a scene, from the values of the two caches, [n_tokens, n_q_heads, head_dim]. Free with free. */
static inline double *expected_attention(const scene *s, op_fault fault)
{
  const yk_head_layout *heads = &s->shape->heads;
  const size_t row_size = (size_t)(heads->n_q_heads * heads->head_dim);
  scene_reference reference = {s, fault, calloc((size_t)s->n_tokens * row_size + 1, sizeof(double))};
  assert_non_null(reference.expected);
  const double work = (double)s->n_tokens * s->max_tokens * (double)row_size;
  op_for_each((int64_t)s->shape->n_seqs * heads->n_q_heads, work, expect_heads, &reference);
  return reference.expected;
}

/* Error of a run against the values of the two caches. */
static inline double scene_error(yk_device *dev, scene *s, op_fault fault)
{
  op_array y = run_attention(dev, s);
  double *expected = expected_attention(s, fault);
  double error = op_error(y.values, expected, y.n);
  free(expected);
  op_array_free(dev, &y);
  return error;
}

static inline double attention_error(const op_target *target, yk_dtype dtype, const scene_shape *shape, uint32_t seed,
                                     op_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  scene s = scene_new(dev, shape, seed);
  poison_unused_slots(dev, &s);
  double error = scene_error(dev, &s, fault);
  scene_free(dev, &s);
  dev->ops->destroy(dev);
  return error;
}

/* heads: n_q, n_kv, head_dim, q_per_kv, first q, first kv, gates; sequences {cached, rows}; window; q and k norms. */
static const scene_shape scene_shapes[] = {
    {{4, 2, 16, 2, 0, 0, false, YK_KV_COLUMNS_BOTH}, 1, {{0, 1}}, 0, .qk_norm = true},   /* first token */
    {{4, 2, 16, 2, 0, 0, false, YK_KV_COLUMNS_BOTH}, 1, {{0, 40}}, 0, .qk_norm = false}, /* prefill */
    {{8, 2, 128, 4, 0, 0, false, YK_KV_COLUMNS_BOTH}, 3, {{15, 1}, {16, 1}, {99, 1}}, 0, .qk_norm = true}, /* decode */
    {{6, 3, 80, 2, 0, 0, false, YK_KV_COLUMNS_BOTH},
     4,
     {{17, 1}, {0, 33}, {30, 5}, {63, 1}},
     0,
     .qk_norm = true}, /* mixed, chunked */
    {{4, 4, 20, 1, 0, 0, false, YK_KV_COLUMNS_BOTH},
     3,
     {{50, 1}, {0, 40}, {9, 30}},
     7,
     .qk_norm = false}, /* sliding window */
    {{4, 1, 64, 4, 0, 0, false, YK_KV_COLUMNS_BOTH},
     3,
     {{60, 20}, {100, 1}, {0, 1}},
     16,
     .qk_norm = true}, /* window of a block */
    {{5, 3, 16, 4, 7, 1, false, YK_KV_COLUMNS_BOTH},
     3,
     {{20, 3}, {0, 18}, {33, 1}},
     0,
     .qk_norm = true}, /* inside KV groups */
    {{24, 1, 16, 24, 0, 0, false, YK_KV_COLUMNS_BOTH},
     2,
     {{20, 19}, {40, 1}},
     0,
     .qk_norm = false}, /* many query heads per KV head */
    {{3, 1, 16, 8, 5, 0, false, YK_KV_COLUMNS_BOTH}, 1, {{5, 30}}, 33, .qk_norm = false}, /* end of a KV group */
    {{2, 1, 256, 2, 0, 0, false, YK_KV_COLUMNS_BOTH}, 2, {{140, 1}, {3, 17}}, 100, .qk_norm = true},
};
enum { N_SCENES = sizeof scene_shapes / sizeof *scene_shapes };

/* Rotation of normed values: the norm's two roundings and one more. */
static inline double rope_tolerance(yk_dtype dtype, bool qk_norm)
{
  return (qk_norm ? 5.0 : 1.0) * op_unit_roundoff(dtype) + 0x1p-20;
}

/* The result is rounded; in units of that rounding, rounded probabilities weigh twice. */
static inline double attention_tolerance(const op_target *target, yk_dtype dtype)
{
  return target->rounds_probabilities ? 3.0 * op_unit_roundoff(dtype) + 0x1p-16 : op_unit_roundoff(dtype) + 0x1p-18;
}

static inline void check_attention_table(const op_target *target)
{
  for (size_t d = 0; d < op_n_dtypes(target); d++)
    for (int i = 0; i < N_SCENES; i++) {
      double rope = rope_error(target, op_dtypes[d], &scene_shapes[i], 40 + (uint32_t)i, OP_RIGHT);
      if (!(rope <= rope_tolerance(op_dtypes[d], scene_shapes[i].qk_norm)))
        fail_msg("%s %s qk_rope_kv, scene %d: error %.3g, tolerance %.3g", target->name, yk_dtype_name(op_dtypes[d]), i,
                 rope, rope_tolerance(op_dtypes[d], scene_shapes[i].qk_norm));
      double attention = attention_error(target, op_dtypes[d], &scene_shapes[i], 40 + (uint32_t)i, OP_RIGHT);
      if (!(attention <= attention_tolerance(target, op_dtypes[d])))
        fail_msg("%s %s attention, scene %d: error %.3g, tolerance %.3g", target->name, yk_dtype_name(op_dtypes[d]), i,
                 attention, attention_tolerance(target, op_dtypes[d]));
    }
}

static inline void check_attention_random(const op_target *target, int n_cases)
{
  static const int32_t head_dims[] = {16, 20, 32, 64, 80, 128};
  for (int i = 0; i < n_cases; i++) {
    op_random random = {.seed = 9000 + (uint32_t)i};
    scene_shape shape = {.n_seqs = (int)op_between(&random, 1, RANDOM_SCENE_SEQS), .qk_norm = i % 2};
    yk_head_layout *heads = &shape.heads;
    heads->head_dim = head_dims[op_between(&random, 0, 5)];
    heads->q_per_kv = (int32_t)op_between(&random, 1, 5);
    heads->q_head_first = (int32_t)op_between(&random, 0, 7);
    heads->n_q_heads = (int32_t)op_between(&random, 1, 9);
    heads->kv_head_first = heads->q_head_first / heads->q_per_kv;
    heads->n_kv_heads = (heads->q_head_first + heads->n_q_heads - 1) / heads->q_per_kv - heads->kv_head_first + 1;
    for (int q = 0; q < shape.n_seqs; q++) {
      shape.seqs[q].cached = (int32_t)op_between(&random, 0, 120);
      shape.seqs[q].rows = op_uniform(&random) < 0.5 ? 1 : (int32_t)op_between(&random, 1, 20);
    }
    if (op_uniform(&random) < 0.4) shape.window = (int32_t)op_between(&random, 1, 60);
    yk_dtype dtype = op_dtypes[i % 3];
    double rope = rope_error(target, dtype, &shape, 70 + (uint32_t)i, OP_RIGHT);
    double attention = attention_error(target, dtype, &shape, 70 + (uint32_t)i, OP_RIGHT);
    if (!(rope <= rope_tolerance(dtype, shape.qk_norm)) || !(attention <= attention_tolerance(target, dtype)))
      fail_msg("%s %s random scene %d: errors of qk_rope_kv %.3g, attention %.3g", target->name, yk_dtype_name(dtype),
               i, rope, attention);
  }
}

static inline void check_attention_faults(const op_target *target)
{
  static const struct {
    op_fault fault;
    int scene;
  } faults[] = {{OP_MASK_LATE, 1},       {OP_MASK_LATE, 3},       {OP_MASK_EARLY, 1},    {OP_MASK_EARLY, 2},
                {OP_WINDOW_WIDE, 4},     {OP_WINDOW_WIDE, 5},     {OP_WRONG_KV_HEAD, 3}, {OP_WRONG_KV_HEAD, 6},
                {OP_BLOCKS_IN_ORDER, 2}, {OP_NO_SOFTMAX_SCALE, 3}};
  for (size_t d = 0; d < op_n_dtypes(target); d++) {
    yk_dtype dtype = op_dtypes[d];
    for (size_t i = 0; each_case(i, i < sizeof faults / sizeof *faults); i++) {
      double error = attention_error(target, dtype, &scene_shapes[faults[i].scene], 4, faults[i].fault);
      if (error < 5.0 * attention_tolerance(target, dtype))
        fail_msg("fault %d in scene %d passes: error %.3g", (int)faults[i].fault, faults[i].scene, error);
    }
    static const op_fault rope_faults[] = {OP_ROPE_INTERLEAVED, OP_ROPE_LATE, OP_NO_QK_NORM};
    for (size_t i = 0; i < 3; i++)
      assert_true(rope_error(target, dtype, &scene_shapes[3], 4, rope_faults[i]) > 5.0 * rope_tolerance(dtype, true));
  }
}

/* The same bits on any number of threads, and for a row of a scene alone and among the others. */
static inline void check_rows_alone(const op_target *target, yk_dtype dtype, const scene_shape *shape)
{
  yk_device *one = op_device_new(target, dtype, 1, 16), *three = op_device_new(target, dtype, 3, 16);
  scene s = scene_new(one, shape, 5), s3 = scene_new(three, shape, 5);
  poison_unused_slots(one, &s);
  run_rope(one, &s);
  run_rope(three, &s3);
  op_array y = run_attention(one, &s), y3 = run_attention(three, &s3);
  const size_t element_bytes = yk_dtype_bytes(dtype);
  assert_memory_equal(y.bytes, y3.bytes, y.n * element_bytes);
  const size_t row_elements = y.n / (size_t)s.n_tokens, qkv_elements = s.qkv.n / (size_t)s.n_tokens;
  const yk_batch whole = s.batch;
  for (int32_t row = 0; row < s.n_tokens; row += 3) {
    int32_t seq = s.seq_of_row[row], starts[2] = {0, 1}, kv_tokens = s.positions[row] + 1;
    s.batch = whole;
    s.batch.n_tokens = s.batch.n_seqs = s.batch.max_rows_per_seq = 1;
    s.batch.positions = whole.positions + row;
    s.batch.block_tables = whole.block_tables + seq * s.stride;
    int32_t *dev_starts = op_send_i32(one, starts, 2), *dev_kv = op_send_i32(one, &kv_tokens, 1);
    s.batch.row_starts = dev_starts;
    s.batch.kv_tokens = dev_kv;
    void *qkv = s.qkv.dev;
    s.qkv.dev = (char *)qkv + (size_t)row * qkv_elements * element_bytes;
    const int32_t n_tokens = s.n_tokens;
    s.n_tokens = 1;
    op_array alone = run_attention(one, &s);
    if (memcmp(alone.bytes, (char *)y.bytes + (size_t)row * row_elements * element_bytes,
               row_elements * element_bytes) != 0)
      fail_msg("%s %s heads of %d: row %d (position %d) alone has other bits than among %d rows", target->name,
               yk_dtype_name(dtype), shape->heads.head_dim, row, kv_tokens - 1, n_tokens);
    s.n_tokens = n_tokens;
    s.qkv.dev = qkv;
    op_array_free(one, &alone);
    one->ops->free(one, dev_starts);
    one->ops->free(one, dev_kv);
  }
  s.batch = whole;
  op_array_free(one, &y);
  op_array_free(three, &y3);
  scene_free(one, &s);
  scene_free(three, &s3);
  one->ops->destroy(one);
  three->ops->destroy(three);
}

static inline void check_attention_batch_invariance(const op_target *target)
{
  for (size_t d = 0; d < op_n_dtypes(target); d++)
    for (int i = 0; i < N_SCENES; i++) check_rows_alone(target, op_dtypes[d], &scene_shapes[i]);
}

#endif
