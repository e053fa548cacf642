/* op_cases_latent.h - latent attention and its cache writes, against float64.
 *
 * Sequences, blocks and the rotary table are those of a scene (op_cases_attention.h) of one head of rope_dim. */
#ifndef YK_TESTS_OP_CASES_LATENT_H
#define YK_TESTS_OP_CASES_LATENT_H

#include "each_case.h"
#include "op/op_cases_attention.h"

enum { LATENT_MAX_TOKENS = 2304 };

typedef struct latent_shape {
  yk_latent_layout layout; /* n_heads, nope_dim, rope_dim, kv_rank, value_dim */
  int n_seqs;
  struct {
    int32_t cached, rows;
  } seqs[SCENE_MAX_SEQS];
  int shared_blocks; /* the first blocks of all sequences are those of the first sequence */
} latent_shape;

/* Rows of q and of the latent vectors are adjacent, as in a model. */
typedef struct latent_scene {
  scene_shape sequences;
  scene s;
  yk_latent_layout layout;
  int64_t stride;
  op_array rows, cache, norm_w, kv_up; /* kv_up: empty before the first attention */
  float scale;
  yk_score_growth growth;
} latent_scene;

static inline void share_blocks(yk_device *dev, scene *s, const latent_shape *shape)
{
  size_t n_bytes = (size_t)(shape->n_seqs * s->stride) * sizeof *s->tables;
  for (int seq = 1; seq < shape->n_seqs; seq++)
    for (int b = 0; b < shape->shared_blocks; b++) s->tables[seq * s->stride + b] = s->tables[b];
  op_ok(dev->ops->upload(dev, (void *)(uintptr_t)s->batch.block_tables, s->tables, n_bytes, &err));
}

static inline latent_scene *latent_scene_new(yk_device *dev, const latent_shape *shape, uint32_t seed)
{
  latent_scene *l = calloc(1, sizeof *l);
  assert_non_null(l);
  const yk_latent_layout *layout = &shape->layout;
  op_random random = {.seed = seed + 77};
  l->sequences = (scene_shape){.heads = {1, 1, layout->rope_dim, 1, 0, 0}, .n_seqs = shape->n_seqs};
  for (int i = 0; i < shape->n_seqs; i++) {
    l->sequences.seqs[i].cached = shape->seqs[i].cached;
    l->sequences.seqs[i].rows = shape->seqs[i].rows;
  }
  l->s = scene_new(dev, &l->sequences, seed);
  share_blocks(dev, &l->s, shape);
  l->layout = *layout;
  l->stride = yk_latent_q_width(layout) + yk_latent_width(layout);
  l->scale = 1.0f / sqrtf((float)(layout->nope_dim + layout->rope_dim));
  size_t cache = (size_t)l->s.n_blocks * YK_KV_BLOCK_TOKENS * (size_t)yk_latent_width(layout);
  l->rows = op_array_random(dev, dev->dtype, (size_t)(l->s.n_tokens * l->stride), 1.5, &random);
  l->cache = op_array_random(dev, dev->dtype, cache, 1.0, &random);
  l->norm_w = op_array_random(dev, dev->dtype, (size_t)layout->kv_rank, 1.0, &random);
  return l;
}

static inline void latent_scene_free(yk_device *dev, latent_scene *l)
{
  scene_free(dev, &l->s);
  op_array_free(dev, &l->rows);
  op_array_free(dev, &l->cache);
  op_array_free(dev, &l->norm_w);
  op_array_free(dev, &l->kv_up);
  free(l);
}

/* Uniform values of variance (1.2 / sqrt(kv_rank))^2. There are so many that drawing normal values would dominate the
 * tests' time. */
static inline void make_latent_weights(yk_device *dev, latent_scene *l)
{
  const yk_latent_layout *layout = &l->layout;
  op_random random = {.seed = 78};
  double most = 1.2 * sqrt(3.0 / layout->kv_rank);
  l->kv_up =
      op_array_new(dev, dev->dtype,
                   (size_t)layout->n_heads * (size_t)(layout->nope_dim + layout->value_dim) * (size_t)layout->kv_rank);
  for (size_t i = 0; i < l->kv_up.n; i++) l->kv_up.values[i] = most * (2 * op_uniform(&random) - 1);
  op_array_send(dev, &l->kv_up);
}

static inline void attend_latent(yk_device *dev, latent_scene *l, const op_array *y, void *scratch)
{
  int64_t first_bytes = yk_latent_q_width(&l->layout) * (int64_t)yk_dtype_bytes(dev->dtype);
  if (!l->kv_up.values) make_latent_weights(dev, l);
  const yk_latent_attention_args args = {.y = y->dev,
                                         .q = l->rows.dev,
                                         .latent = (char *)l->rows.dev + first_bytes,
                                         .q_stride = l->stride,
                                         .latent_stride = l->stride,
                                         .layout = l->layout,
                                         .norm_w = l->norm_w.dev,
                                         .norm_eps = 1e-3f,
                                         .scale = l->scale,
                                         .growth = l->growth,
                                         .rope = l->s.rope.dev,
                                         .kv_up = l->kv_up.dev,
                                         .cache = l->cache.dev,
                                         .scratch = scratch,
                                         .batch = &l->s.batch};
  op_ok(dev->ops->latent_attention(dev, &args, &err));
}

/* in_front: attention in an earlier call, or NULL. */
static inline op_array run_latent_attention_behind(yk_device *dev, latent_scene *in_front, latent_scene *l)
{
  latent_scene *scenes[] = {in_front, l};
  op_array y[2] = {0};
  void *scratch[2] = {0};
  for (int i = 0; i < 2; i++) {
    if (!scenes[i]) continue;
    const yk_latent_layout *layout = &scenes[i]->layout;
    int32_t n_tokens = scenes[i]->s.n_tokens;
    y[i] = op_array_new(dev, dev->dtype, (size_t)(n_tokens * layout->n_heads * layout->value_dim));
    if (dev->ops->latent_scratch_bytes)
      op_ok(dev->ops->alloc(dev, (size_t)dev->ops->latent_scratch_bytes(layout, n_tokens), &scratch[i], &err));
  }
  if (in_front) attend_latent(dev, in_front, &y[0], scratch[0]);
  attend_latent(dev, l, &y[1], scratch[1]);
  op_array_fetch(dev, &y[1]);
  if (in_front) op_array_free(dev, &y[0]);
  for (int i = 0; i < 2; i++) dev->ops->free(dev, scratch[i]);
  return y[1];
}

static inline op_array run_latent_attention(yk_device *dev, latent_scene *l)
{
  return run_latent_attention_behind(dev, NULL, l);
}

/* Largest error of the cached rows, and of slots that must not change. */
static inline double latent_cache_error(const op_target *target, yk_dtype dtype, const latent_shape *shape,
                                        op_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  latent_scene *l = latent_scene_new(dev, shape, 5);
  const yk_latent_layout *layout = &l->layout;
  int32_t width = yk_latent_width(layout);
  int64_t q_width = yk_latent_q_width(layout);
  double *cache = calloc(l->cache.n, sizeof *cache);
  assert_non_null(cache);
  memcpy(cache, l->cache.values, l->cache.n * sizeof *cache);
  for (int32_t row = 0; row < l->s.n_tokens; row++) {
    const double *from = l->rows.values + row * l->stride + q_width;
    double *cached = cache + (int64_t)l->s.slots[row] * width;
    op_ref_rms_norm(dtype, cached, from, l->norm_w.values, layout->kv_rank, (double)1e-3f, fault);
    op_ref_rope(cached + layout->kv_rank, from + layout->kv_rank, layout->rope_dim, l->s.positions[row], l->s.inv_freq,
                fault);
  }
  op_array y = run_latent_attention(dev, l);
  op_array_free(dev, &y);
  op_array_fetch(dev, &l->cache);
  double error = op_error(l->cache.values, cache, l->cache.n);
  free(cache);
  latent_scene_free(dev, l);
  dev->ops->destroy(dev);
  return error;
}

/* Values left by an earlier owner of a block must not affect a row, nor may old values where this call writes. */
static inline void poison_unused_latents(yk_device *dev, latent_scene *l)
{
  int32_t width = yk_latent_width(&l->layout);
  bool *is_used = calloc((size_t)l->s.n_blocks * YK_KV_BLOCK_TOKENS, sizeof *is_used);
  assert_non_null(is_used);
  for (int32_t seq = 0; seq < l->sequences.n_seqs; seq++)
    for (int32_t t = 0; t < l->s.kv_tokens[seq]; t++) is_used[slot_of(&l->s, seq, t)] = true;
  for (int32_t row = 0; row < l->s.n_tokens; row++) is_used[l->s.slots[row]] = false;
  for (int64_t slot = 0; slot < (int64_t)l->s.n_blocks * YK_KV_BLOCK_TOKENS; slot++)
    for (int32_t i = 0; !is_used[slot] && i < width; i++) l->cache.values[slot * width + i] = (double)NAN;
  free(is_used);
  op_array_send(dev, &l->cache);
}

/* y [value_dim] of one row and head. The definition multiplies K[h] and V[h] by c of every token. Here K[h] multiplies
 * q instead, and V[h] the weighted sum: equal except for roundings of float64, in a hundredth of the time.
 * Thread: any. */
static inline void latent_reference_row(const latent_scene *l, int32_t row, int32_t head, op_fault fault, double *y)
{
  const yk_latent_layout *layout = &l->layout;
  int32_t rank = layout->kv_rank, seq = l->s.seq_of_row[row], last = l->s.positions[row] - (fault == OP_MASK_EARLY);
  const double *q = l->rows.values + row * l->stride + (int64_t)head * (layout->nope_dim + layout->rope_dim);
  if (fault == OP_WRONG_KV_HEAD) head = (head + 1) % layout->n_heads;
  const double *k = l->kv_up.values + (int64_t)head * (layout->nope_dim + layout->value_dim) * rank,
               *v = k + (int64_t)layout->nope_dim * rank, *tokens[LATENT_MAX_TOKENS];
  double *query = calloc((size_t)rank * 2, sizeof *query), *sums = query + rank;
  double scores[LATENT_MAX_TOKENS], highest = -INFINITY, sum = 0;
  if (!query) abort();
  for (int32_t i = 0; i < layout->nope_dim; i++)
    for (int32_t c = 0; c < rank; c++) query[c] += q[i] * k[i * rank + c];
  for (int32_t t = 0; t <= last; t++) {
    int64_t slot = fault == OP_BLOCKS_IN_ORDER ? seq * l->s.stride * YK_KV_BLOCK_TOKENS + t : slot_of(&l->s, seq, t);
    tokens[t] = l->cache.values + slot * yk_latent_width(layout);
    scores[t] = op_dot(query, tokens[t], rank) + op_dot(q + layout->nope_dim, tokens[t] + rank, layout->rope_dim);
    scores[t] *= fault == OP_NO_SOFTMAX_SCALE
                     ? 1.0
                     : (double)l->scale * (double)yk_score_growth_at(&l->growth, l->s.positions[row]);
    highest = fmax(highest, scores[t]);
  }
  for (int32_t t = 0; t <= last; t++) {
    double weight = exp(scores[t] - highest);
    sum += weight;
    for (int32_t c = 0; c < rank; c++) sums[c] += weight * tokens[t][c];
  }
  for (int32_t i = 0; i < layout->value_dim; i++) y[i] = op_dot(v + i * rank, sums, rank) / sum;
  free(query);
}

/* Checks a call: q is rotated, and the cache holds the values that attention must have read. */
static inline void follow_latent_rows(yk_device *dev, latent_scene *l)
{
  const yk_latent_layout *layout = &l->layout;
  double *from = calloc((size_t)layout->rope_dim, sizeof *from);
  assert_non_null(from);
  for (int32_t row = 0; row < l->s.n_tokens; row++)
    for (int32_t h = 0; h < layout->n_heads; h++) {
      double *q =
          l->rows.values + row * l->stride + (int64_t)h * (layout->nope_dim + layout->rope_dim) + layout->nope_dim;
      memcpy(from, q, (size_t)layout->rope_dim * sizeof *from);
      op_ref_rope(q, from, layout->rope_dim, l->s.positions[row], l->s.inv_freq, OP_RIGHT);
    }
  free(from);
  op_array_send(dev, &l->rows); /* rounds them */
  op_array_fetch(dev, &l->cache);
}

/* The reference of a scene: an item is a head of a row. */
typedef struct latent_reference {
  const latent_scene *l;
  op_fault fault;
  double *expected; /* [n_tokens, n_heads, value_dim] */
} latent_reference;

static inline void latent_reference_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const latent_reference *reference = context;
  const latent_scene *l = reference->l;
  const int32_t n_heads = l->layout.n_heads;
  (void)thread;
  for (int64_t i = begin; i < end; i++)
    latent_reference_row(l, (int32_t)(i / n_heads), (int32_t)(i % n_heads), reference->fault,
                         reference->expected + i * l->layout.value_dim);
}

/* y: attention's output for the scene's rows, whose q is rotated and whose tokens are in the cache. */
static inline double latent_scene_error(const latent_scene *l, const op_array *y, op_fault fault)
{
  latent_reference reference = {l, fault, calloc(y->n, sizeof(double))};
  assert_non_null(reference.expected);
  const int64_t n_items = (int64_t)l->s.n_tokens * l->layout.n_heads;
  const double work = (double)n_items * l->layout.kv_rank * (l->s.max_tokens + l->layout.nope_dim);
  op_for_each(n_items, work, latent_reference_rows, &reference);
  double error = op_error(y->values, reference.expected, y->n);
  free(reference.expected);
  return error;
}

/* sharpness: factor of the softmax scale. */
static inline double latent_scaled_error(const op_target *target, yk_dtype dtype, const latent_shape *shape,
                                         float sharpness, yk_score_growth growth, op_fault fault)
{
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  latent_scene *l = latent_scene_new(dev, shape, 6);
  l->scale *= sharpness;
  l->growth = growth;
  poison_unused_latents(dev, l);
  op_array y = run_latent_attention(dev, l);
  follow_latent_rows(dev, l);
  double error = latent_scene_error(l, &y, fault);
  op_array_free(dev, &y);
  latent_scene_free(dev, l);
  dev->ops->destroy(dev);
  return error;
}

/* Right after a call during which one multiprocessor computes a row and the others are free for the next call. A device
 * that reads cached tokens before the earlier call has ended thus has all the time to do so before this step's tokens
 * are written; their slots hold NaN until then. */
static inline double latent_error_behind_long_call(const op_target *target, yk_dtype dtype, const latent_shape *shape)
{
  static const latent_shape in_front = {{1, 16, 8, 32, 16}, 1, {{2200, 1}}, 0};
  yk_device *dev = op_device_new(target, dtype, 3, 16);
  latent_scene *first = latent_scene_new(dev, &in_front, 7), *l = latent_scene_new(dev, shape, 6);
  poison_unused_latents(dev, l);
  op_array y = run_latent_attention_behind(dev, first, l);
  op_array_free(dev, &y); /* the first time code may have to be loaded, longer than the earlier call lasts */
  op_array_send(dev, &l->rows);
  op_array_send(dev, &l->cache);
  y = run_latent_attention_behind(dev, first, l);
  follow_latent_rows(dev, l);
  double error = latent_scene_error(l, &y, OP_RIGHT);
  op_array_free(dev, &y);
  latent_scene_free(dev, first);
  latent_scene_free(dev, l);
  dev->ops->destroy(dev);
  return error;
}

static inline double latent_sharp_error(const op_target *target, yk_dtype dtype, const latent_shape *shape,
                                        float sharpness, op_fault fault)
{
  return latent_scaled_error(target, dtype, shape, sharpness, (yk_score_growth){0}, fault);
}

static inline double latent_attention_error(const op_target *target, yk_dtype dtype, const latent_shape *shape,
                                            op_fault fault)
{
  return latent_sharp_error(target, dtype, shape, 1.0f, fault);
}

/* heads, nope_dim, rope_dim, kv_rank, value_dim; sequences {cached, rows} */
static const latent_shape latent_shapes[] = {
    {{2, 16, 8, 32, 16}, 1, {{0, 1}}, 0},                         /* first token */
    {{6, 16, 8, 32, 16}, 2, {{0, 40}, {17, 5}}, 0},               /* prefill, chunk */
    {{2, 128, 64, 512, 128}, 3, {{15, 1}, {16, 1}, {140, 1}}, 0}, /* decode, DeepSeek's sizes */
    {{5, 20, 12, 36, 28}, 3, {{50, 1}, {0, 21}, {30, 3}}, 0},     /* odd sizes, mixed */
    {{20, 24, 16, 48, 40}, 2, {{33, 4}, {99, 1}}, 0},             /* more heads than a tile of queries */
    {{3, 16, 8, 32, 16}, 3, {{31, 1}, {32, 1}, {40, 1}}, 2},      /* a block that the step completes, read by others */
};
enum { N_LATENT_SHAPES = sizeof latent_shapes / sizeof *latent_shapes };

/* absorbed_dtype: rounding of products with kv_up before the softmax and before the result, and of probabilities.
 * Emulated in numpy, a head of 171 rows is off by up to 5 such roundings, both absorbed and with keys and values. */
static inline double latent_tolerance(yk_dtype dtype, yk_dtype absorbed_dtype)
{
  return op_unit_roundoff(dtype) + 6.0 * op_unit_roundoff(absorbed_dtype) + 0x1p-17;
}

/* On devices with score_growth: all shapes, with periods that end within their sequences. The factors may be multiplied
 * into the queries, which rounds these once more. */
static inline void check_latent_growth(const op_target *target, const latent_shape *shapes, int n_shapes,
                                       bool absorbs_in_f32)
{
  static const yk_score_growth growth = {.beta = 0.3f, .period = 16, .shift = 1};
  for (size_t d = 0; each_case(d, d < op_n_dtypes(target)); d++)
    for (int i = 0; i < n_shapes; i++) {
      const yk_dtype dtype = op_dtypes[d];
      const double error = latent_scaled_error(target, dtype, &shapes[i], 1, growth, OP_RIGHT);
      const double tolerance = 2 * latent_tolerance(dtype, absorbs_in_f32 ? YK_F32 : dtype);
      if (!(error <= tolerance))
        fail_msg("%s %s latent shape %d with growing scores: error %.3g", target->name, yk_dtype_name(dtype), i, error);
    }
}

static inline void check_latent_shapes(const op_target *target, const latent_shape *shapes, int n_shapes,
                                       size_t n_dtypes, bool absorbs_in_f32)
{
  for (size_t d = 0; d < n_dtypes; d++)
    for (int i = 0; i < n_shapes; i++) {
      yk_dtype dtype = op_dtypes[d];
      double cache = latent_cache_error(target, dtype, &shapes[i], OP_RIGHT);
      double attention = latent_attention_error(target, dtype, &shapes[i], OP_RIGHT);
      double tolerance = latent_tolerance(dtype, absorbs_in_f32 ? YK_F32 : dtype);
      if (!(cache <= rope_tolerance(dtype, true)) || !(attention <= tolerance))
        fail_msg("%s %s latent shape %d: errors of the cache %.3g, of y %.3g", target->name, yk_dtype_name(dtype), i,
                 cache, attention);
    }
}

/* This step's tokens in the first tile of their sequence, at its start, in its middle and at its end; after it; in
 * blocks of the first sequence that all others also read. With few and with more rows, few and many heads. */
static const latent_shape latent_new_token_shapes[] = {
    {{2, 128, 64, 512, 128}, 2, {{20, 1}, {63, 1}}, 0},
    {{16, 128, 64, 512, 128}, 6, {{0, 1}, {20, 1}, {63, 1}, {64, 1}, {100, 1}, {127, 1}}, 0},
    {{16, 128, 64, 512, 128}, 6, {{31, 1}, {32, 1}, {40, 1}, {70, 1}, {130, 1}, {150, 1}}, 2},
    {{20, 128, 64, 512, 128}, 6, {{31, 1}, {32, 1}, {63, 1}, {64, 1}, {130, 1}, {150, 1}}, 2},
};

static inline void check_latent_new_tokens(const op_target *target, size_t n_dtypes, bool absorbs_in_f32)
{
  for (size_t d = 0; d < n_dtypes; d++)
    for (size_t i = 0; each_case(i, i < sizeof latent_new_token_shapes / sizeof *latent_new_token_shapes); i++) {
      double error = latent_error_behind_long_call(target, op_dtypes[d], &latent_new_token_shapes[i]);
      if (!(error <= latent_tolerance(op_dtypes[d], absorbs_in_f32 ? YK_F32 : op_dtypes[d])))
        fail_msg("%s %s new tokens, shape %zu: error %.3g", target->name, yk_dtype_name(op_dtypes[d]), i, error);
    }
}

static inline void check_latent_table(const op_target *target, size_t n_dtypes, bool absorbs_in_f32)
{
  check_latent_shapes(target, latent_shapes, N_LATENT_SHAPES, n_dtypes, absorbs_in_f32);
}

static inline void check_latent_faults(const op_target *target, yk_dtype dtype)
{
  static const op_fault attention_faults[] = {OP_MASK_EARLY, OP_WRONG_KV_HEAD, OP_BLOCKS_IN_ORDER, OP_NO_SOFTMAX_SCALE};
  static const op_fault rope_faults[] = {OP_ROPE_INTERLEAVED, OP_ROPE_LATE, OP_NO_NORM_WEIGHT, OP_NO_NORM_WEIGHT};
  for (size_t i = 0; i < 4; i++) {
    assert_true(latent_attention_error(target, dtype, &latent_shapes[3], attention_faults[i]) > 0.05);
    assert_true(latent_cache_error(target, dtype, &latent_shapes[3], rope_faults[i]) >
                5.0 * rope_tolerance(dtype, true));
  }
}

#endif
