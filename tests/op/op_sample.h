/* op_sample.h - the definition of sampling, for its checks: sort all ids, cut, add up, draw.
 *
 * The reference computes in float64, except for s = logit / temperature, which the definition rounds to float32. A draw
 * may differ from it only where u falls within 1e-5 of the edge between two tokens. */
#ifndef YK_TESTS_OP_SAMPLE_H
#define YK_TESTS_OP_SAMPLE_H

#include "op/op_harness.h"

typedef struct ref_token {
  double scaled, weight;
  int32_t id;
} ref_token;

/* The filtered distribution, in descending order of scaled, lower id first. */
typedef struct ref_kept {
  ref_token *tokens;
  int32_t n;
  bool is_close; /* a filter's edge is within rounding of a token: float32 may decide otherwise */
} ref_kept;

static inline int compare_tokens(const void *a, const void *b)
{
  const ref_token *x = a, *y = b;
  if (x->scaled != y->scaled) return x->scaled > y->scaled ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

static inline int compare_ids(const void *a, const void *b)
{
  const ref_token *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static inline ref_kept ref_filter(const float *logits, int32_t n, const yk_sample_row *row)
{
  ref_kept kept = {.tokens = calloc((size_t)n, sizeof(ref_token)), .n = n};
  assert_non_null(kept.tokens);
  for (int32_t i = 0; i < n; i++)
    kept.tokens[i] = (ref_token){.scaled = (double)(logits[i] / row->temperature), .id = i};
  qsort(kept.tokens, (size_t)n, sizeof(ref_token), compare_tokens);
  for (int32_t i = 0; i < n; i++) kept.tokens[i].weight = exp(kept.tokens[i].scaled - kept.tokens[0].scaled);
  double min_p = (double)row->min_p;
  int32_t left = 0;
  for (int32_t i = 0; i < n; i++) {
    if (min_p > 0 && fabs(kept.tokens[i].weight - min_p) < 1e-6 * min_p && min_p < 1.0) kept.is_close = true;
    if (kept.tokens[i].weight >= min_p) left = i + 1;
  }
  kept.n = left;
  if (row->top_k > 0 && row->top_k < kept.n) {
    double last = kept.tokens[row->top_k - 1].scaled;
    for (left = row->top_k; left < kept.n && kept.tokens[left].scaled == last;) left++;
    kept.n = left;
  }
  if (row->top_p < 1.0f) {
    double total = 0.0, sum = 0.0;
    for (int32_t i = 0; i < kept.n; i++) total += kept.tokens[i].weight;
    double target = (double)row->top_p * total;
    for (left = 0; left < kept.n && (left == 0 || sum < target); left++) {
      sum += kept.tokens[left].weight;
      if (fabs(sum - target) < 1e-6 * total) kept.is_close = true;
    }
    kept.n = left;
  }
  return kept;
}

/* The id selected by u, and the distance of u from the nearest edge. kept is sorted by id on return. */
static inline int32_t ref_draw(ref_kept *kept, double u, double *distance)
{
  double total = 0.0, sum = 0.0;
  int32_t chosen = -1;
  qsort(kept->tokens, (size_t)kept->n, sizeof(ref_token), compare_ids);
  for (int32_t i = 0; i < kept->n; i++) total += kept->tokens[i].weight;
  *distance = 1.0;
  for (int32_t i = 0; i < kept->n; i++) {
    sum += kept->tokens[i].weight;
    if (i + 1 < kept->n) *distance = fmin(*distance, fabs(u - sum / total));
    if (chosen < 0 && sum > u * total) chosen = kept->tokens[i].id;
  }
  return chosen;
}

/* Biases and masks of rows, and destinations of logits. */
typedef struct sample_named {
  const yk_logit_bias *biases;
  float *logits_out;
  const uint32_t *masks;
} sample_named;

/* One call of sample on rows of logits [n_rows, vocab], cut into n_shards uneven shards with poisoned padding. */
static inline yk_status run_sample(yk_device *dev, const float *logits, int32_t n_rows, int32_t vocab, int n_shards,
                                   const yk_sample_row *rows, sample_named named, yk_sampled *out, yk_err *failure)
{
  int32_t shard_first[65], widest = 0;
  for (int s = 0; s <= n_shards; s++)
    shard_first[s] = (int32_t)((int64_t)vocab * s * (s + 1) / (n_shards * (n_shards + 1)));
  yk_sample_args args = {.n_rows = n_rows,
                         .n_shards = n_shards,
                         .shard_first = shard_first,
                         .rows = rows,
                         .biases = named.biases,
                         .masks = named.masks,
                         .logits_out = named.logits_out,
                         .out = out};
  for (int s = 0; s < n_shards; s++) {
    int32_t width = shard_first[s + 1] - shard_first[s];
    widest = width > widest ? width : widest;
  }
  args.shard_stride = widest + 3;
  size_t n = (size_t)n_shards * (size_t)n_rows * (size_t)args.shard_stride;
  float *sharded = malloc(n * sizeof *sharded);
  assert_non_null(sharded);
  for (size_t i = 0; i < n; i++) sharded[i] = NAN;
  for (int s = 0; s < n_shards; s++)
    for (int32_t row = 0; row < n_rows; row++)
      memcpy(sharded + ((int64_t)s * n_rows + row) * args.shard_stride, logits + (int64_t)row * vocab + shard_first[s],
             (size_t)(shard_first[s + 1] - shard_first[s]) * sizeof *sharded);
  void *dev_logits = NULL;
  op_ok(dev->ops->alloc(dev, n * sizeof *sharded, &dev_logits, &err));
  op_ok(dev->ops->upload(dev, dev_logits, sharded, n * sizeof *sharded, &err));
  args.logits = dev_logits;
  yk_status status = dev->ops->sample(dev, &args, failure);
  dev->ops->free(dev, dev_logits);
  free(sharded);
  return status;
}

static inline void sample_rows_ok(yk_device *dev, const float *logits, int32_t n_rows, int32_t vocab, int n_shards,
                                  const yk_sample_row *rows, yk_sampled *out)
{
  op_ok(run_sample(dev, logits, n_rows, vocab, n_shards, rows, (sample_named){0}, out, &err));
}

/* Random logits; coarse ones lie on a grid, so that many are equal. */
static inline float *random_logits(size_t n, double sigma, bool coarse, op_random *random)
{
  float *logits = malloc(n * sizeof *logits);
  assert_non_null(logits);
  for (size_t i = 0; i < n; i++) {
    double value = sigma * op_normal(random);
    logits[i] = (float)(coarse ? floor(value) : value);
  }
  return logits;
}

#endif
