/* op_cases_sample.h - sampling against its definition: sort all ids, cut, add up, draw.
 *
 * The reference computes in float64, except for s = logit / temperature, which the definition rounds to float32. A draw
 * may differ from it only where u falls within 1e-5 of the edge between two tokens. */
#ifndef YK_TESTS_OP_CASES_SAMPLE_H
#define YK_TESTS_OP_CASES_SAMPLE_H

#include "each_case.h"
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

static inline yk_sample_row random_row(op_random *random)
{
  static const float temperatures[] = {0.05f, 0.7f, 1.0f, 1.3f, 20.0f},
                     top_ps[] = {1.0f, 1.0f, 0.1f, 0.6f, 0.95f, 1e-6f};
  static const float min_ps[] = {0.0f, 0.0f, 0.01f, 0.2f, 1.0f};
  static const int32_t top_ks[] = {0, -1, 1, 2, 7, 50, 5000};
  return (yk_sample_row){.temperature = temperatures[op_between(random, 0, 4)],
                         .top_p = top_ps[op_between(random, 0, 5)],
                         .min_p = min_ps[op_between(random, 0, 4)],
                         .top_k = top_ks[op_between(random, 0, 6)],
                         .seed = (uint64_t)op_between(random, 0, 1 << 20) << 20 | 5,
                         .stream = (uint32_t)op_between(random, 0, 3),
                         .position = (uint32_t)op_between(random, 0, 1000)};
}

/* Every draw equals the definition's; close calls are rare and skipped. */
static inline void check_sample_some_draws(const op_target *target, int n_cases)
{
  enum { N_ROWS = 12 };
  static const int32_t vocabs[] = {1, 2, 33, 257, 1500};
  int n_skipped = 0;
  for (int c = 0; c < n_cases; c++) {
    op_random random = {.seed = 30 + (uint32_t)c};
    int32_t vocab = vocabs[c % 5];
    int n_shards = vocab < 8 ? 1 : (int)op_between(&random, 1, 8);
    yk_device *dev = op_device_new(target, YK_F16, 2, vocab);
    float *logits = random_logits((size_t)(N_ROWS * vocab), c % 3 ? 3.0 : 0.5, c % 4 == 0, &random);
    yk_sample_row rows[N_ROWS];
    yk_sampled out[N_ROWS];
    for (int i = 0; i < N_ROWS; i++) rows[i] = random_row(&random);
    sample_rows_ok(dev, logits, N_ROWS, vocab, n_shards, rows, out);
    for (int i = 0; i < N_ROWS; i++) {
      double distance, u = (double)yk_rng_uniform(rows[i].seed, rows[i].stream, rows[i].position);
      ref_kept kept = ref_filter(logits + i * vocab, vocab, &rows[i]);
      int32_t expected = ref_draw(&kept, u, &distance);
      bool is_close = kept.is_close || distance < 1e-5;
      n_skipped += is_close;
      free(kept.tokens);
      if (!is_close && out[i].token_id != expected)
        fail_msg("%s case %d row %d: token %d, expected %d (T %g top_p %g min_p %g top_k %d, vocab %d)", target->name,
                 c, i, out[i].token_id, expected, (double)rows[i].temperature, (double)rows[i].top_p,
                 (double)rows[i].min_p, rows[i].top_k, vocab);
    }
    free(logits);
    dev->ops->destroy(dev);
  }
  assert_true(n_skipped < n_cases * N_ROWS / 20);
}

static inline void check_sample_draws(const op_target *target)
{
  check_sample_some_draws(target, 150);
}

/* The ids of many draws are exactly the set that the filters keep, with the expected frequencies. */
static inline void check_sample_frequencies(const op_target *target)
{
  enum { VOCAB = 40, N_DRAWS = 20000, N_ROWS = 50 };
  static const yk_sample_row params[] = {{.temperature = 1.0f, .top_p = 1.0f},
                                         {.temperature = 0.8f, .top_p = 1.0f, .top_k = 7},
                                         {.temperature = 1.2f, .top_p = 0.8f},
                                         {.temperature = 1.0f, .top_p = 1.0f, .min_p = 0.3f},
                                         {.temperature = 1.0f, .top_p = 0.7f, .top_k = 12, .min_p = 0.02f}};
  yk_device *dev = op_device_new(target, YK_F16, 2, VOCAB);
  for (size_t p = 0; each_case(p, p < sizeof params / sizeof *params); p++) {
    op_random random = {.seed = 3 + (uint32_t)p};
    float *logits = random_logits(VOCAB, 1.0, false, &random), *batch = malloc(sizeof *batch * VOCAB * N_ROWS);
    for (int i = 0; i < N_ROWS; i++) memcpy(batch + (size_t)i * VOCAB, logits, VOCAB * sizeof *logits);
    double counts[VOCAB] = {0}, total = 0.0, chi_square = 0.0;
    for (int done = 0; done < N_DRAWS; done += N_ROWS) {
      yk_sample_row rows[N_ROWS];
      yk_sampled out[N_ROWS];
      for (int i = 0; i < N_ROWS; i++) {
        rows[i] = params[p];
        rows[i].seed = 1234567 + p;
        rows[i].position = (uint32_t)(done + i);
      }
      sample_rows_ok(dev, batch, N_ROWS, VOCAB, 3, rows, out);
      for (int i = 0; i < N_ROWS; i++) counts[out[i].token_id]++;
    }
    ref_kept kept = ref_filter(logits, VOCAB, &params[p]);
    for (int32_t i = 0; i < kept.n; i++) total += kept.tokens[i].weight;
    for (int32_t i = 0; i < kept.n; i++) {
      double expected = N_DRAWS * kept.tokens[i].weight / total, count = counts[kept.tokens[i].id];
      assert_true(expected > 20.0 && count > 0.0);
      chi_square += (count - expected) * (count - expected) / expected;
      counts[kept.tokens[i].id] = 0.0;
    }
    for (int32_t i = 0; i < VOCAB; i++) assert_true(counts[i] == 0.0); /* nothing outside the set */
    double freedom = kept.n - 1;
    if (chi_square > freedom + 4.0 * sqrt(2.0 * freedom) + 4.0)
      fail_msg("filters %zu: chi-square %.1f with %.0f degrees of freedom", p, chi_square, freedom);
    free(kept.tokens);
    free(logits);
    free(batch);
  }
  dev->ops->destroy(dev);
}

static inline void check_sample_ties(const op_target *target)
{
  static const float logits[] = {1.0f, 3.0f, 2.0f, 3.0f, 2.0f, 3.0f, 2.0f, -INFINITY};
  enum { VOCAB = 8, N_DRAWS = 300 };
  static const struct {
    yk_sample_row row;
    uint32_t ids;                                               /* bit i: id i may be drawn */
  } cases[] = {{{.temperature = 0.0f, .top_p = 1.0f}, 1u << 1}, /* greedy: lowest id of the largest */
               {{.temperature = 1e-6f, .top_p = 0.5f}, 1u << 1},
               {{.temperature = 1.0f, .top_p = 1.0f, .top_k = 1}, 1u << 1 | 1u << 3 | 1u << 5}, /* ties stay */
               {{.temperature = 1.0f, .top_p = 1.0f, .top_k = 4}, 0x7Eu},
               {{.temperature = 1.0f, .top_p = 1.0f, .min_p = 1.0f}, 1u << 1 | 1u << 3 | 1u << 5},
               {{.temperature = 1.0f, .top_p = 1e-9f}, 1u << 1}, /* at least one; lower id first */
               {{.temperature = 1.0f, .top_p = 0.34f, .top_k = 1}, 1u << 1 | 1u << 3}, /* two of three thirds */
               {{.temperature = 1.0f, .top_p = 1.0f}, 0x7Fu},                          /* -inf is never drawn */
               {{.temperature = 1.0f, .top_p = 1.0f, .top_k = 8}, 0x7Fu}};
  yk_device *dev = op_device_new(target, YK_F16, 1, VOCAB);
  for (size_t c = 0; each_case(c, c < sizeof cases / sizeof *cases); c++) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < N_DRAWS; i++) {
      yk_sample_row row = cases[c].row;
      row.position = i;
      yk_sampled out;
      sample_rows_ok(dev, logits, 1, VOCAB, 1 + (int)(i % 3), &row, &out);
      seen |= 1u << out.token_id;
    }
    if (seen != cases[c].ids) fail_msg("case %zu: drew 0x%02X, expected 0x%02X", c, seen, cases[c].ids);
  }
  dev->ops->destroy(dev);
}

/* A row's token depends only on its own logits, parameters and position; the same seed gives the same token. */
static inline void check_sample_seeds(const op_target *target)
{
  enum { VOCAB = 500, N_ROWS = 24 };
  op_random random = {.seed = 12};
  float *logits = random_logits(VOCAB * N_ROWS, 1.0, false, &random);
  yk_device *one = op_device_new(target, YK_F16, 1, VOCAB), *three = op_device_new(target, YK_F16, 3, VOCAB);
  yk_sample_row rows[N_ROWS];
  yk_sampled batch[N_ROWS], again[N_ROWS], alone;
  for (int i = 0; i < N_ROWS; i++)
    rows[i] =
        (yk_sample_row){.temperature = 1.0f, .top_p = 0.97f, .seed = 8, .position = (uint32_t)i, .want_logprob = true};
  sample_rows_ok(one, logits, N_ROWS, VOCAB, 1, rows, batch);
  sample_rows_ok(three, logits, N_ROWS, VOCAB, 7, rows, again);
  assert_memory_equal(batch, again, sizeof batch);
  for (int i = 0; i < N_ROWS; i++) {
    sample_rows_ok(three, logits + (size_t)i * VOCAB, 1, VOCAB, 4, &rows[i], &alone);
    assert_memory_equal(&alone, &batch[i], sizeof alone);
  }
  int n_changed[3] = {0};
  for (int i = 0; i < N_ROWS; i++)
    for (int change = 0; change < 3; change++) {
      yk_sample_row row = rows[i];
      if (change == 0) row.seed += UINT64_C(1) << 32;
      if (change == 1) row.stream++;
      if (change == 2) row.position += 1000;
      sample_rows_ok(one, logits + (size_t)i * VOCAB, 1, VOCAB, 1, &row, &alone);
      n_changed[change] += alone.token_id != batch[i].token_id;
    }
  for (int change = 0; change < 3; change++) assert_true(n_changed[change] > N_ROWS / 2);
  free(logits);
  one->ops->destroy(one);
  three->ops->destroy(three);
}

static inline void check_sample_logprobs(const op_target *target)
{
  enum { VOCAB = 1200, N_ROWS = 6 };
  for (uint32_t seed = 0; seed < 6; seed++) {
    op_random random = {.seed = seed};
    float *logits = random_logits(VOCAB * N_ROWS, seed < 3 ? 4.0 : 40.0, seed % 2, &random);
    yk_device *dev = op_device_new(target, YK_F16, 2, VOCAB);
    yk_sample_row rows[N_ROWS];
    yk_sampled out[N_ROWS];
    for (int i = 0; i < N_ROWS; i++)
      rows[i] = (yk_sample_row){.temperature = i % 2 ? 0.5f : 0.0f, /* logprobs are of the raw logits in any case */
                                .top_p = 0.9f,
                                .top_k = 30,
                                .seed = seed,
                                .n_top_logprobs = i * 4,
                                .want_logprob = i != 2};
    sample_rows_ok(dev, logits, N_ROWS, VOCAB, 5, rows, out);
    for (int i = 0; i < N_ROWS; i++) {
      const float *row = logits + i * VOCAB;
      yk_sample_row plain = {.temperature = 1.0f, .top_p = 1.0f};
      ref_kept all = ref_filter(row, VOCAB, &plain);
      double sum = 0.0;
      for (int32_t j = 0; j < VOCAB; j++) sum += all.tokens[j].weight;
      double log_sum = all.tokens[0].scaled + log(sum);
      if (rows[i].want_logprob)
        assert_true(fabs((double)out[i].logprob - ((double)row[out[i].token_id] - log_sum)) < 2e-5);
      else
        assert_true(out[i].logprob == 0.0f);
      assert_int_equal(out[i].n_top, rows[i].n_top_logprobs);
      for (int32_t j = 0; j < out[i].n_top; j++) {
        assert_int_equal(out[i].top_ids[j], all.tokens[j].id);
        assert_true(fabs((double)out[i].top_logprobs[j] - (all.tokens[j].scaled - log_sum)) < 2e-5);
      }
      if (i % 2 == 0) assert_int_equal(out[i].token_id, all.tokens[0].id);
      free(all.tokens);
    }
    free(logits);
    dev->ops->destroy(dev);
  }
}

/* A row with a NaN, an infinity or nothing finite is reported, and its neighbours get the same results as next to a
 * sound row. */
static inline void check_sample_bad_logits(const op_target *target)
{
  enum { VOCAB = 70, N_ROWS = 3 };
  static const float poisons[] = {NAN, -NAN, INFINITY, -INFINITY}; /* the last replaces every logit */
  static const yk_row_state states[] = {YK_ROW_NAN, YK_ROW_NAN, YK_ROW_INFINITE, YK_ROW_INFINITE};
  yk_device *dev = op_device_new(target, YK_F16, 2, VOCAB);
  op_random random = {.seed = 77};
  float *sound = random_logits(N_ROWS * VOCAB, 1.5, false, &random);
  for (int i = 0; i < 8; i++) {
    bool forced = i >= 4;
    yk_sample_row rows[N_ROWS];
    for (int row = 0; row < N_ROWS; row++)
      rows[row] = (yk_sample_row){
          .temperature = (float)(row % 2), .top_p = 0.9f, .want_logprob = true, .n_top_logprobs = 3, .seed = 5};
    rows[1].is_forced = forced;
    float logits[N_ROWS * VOCAB], untouched[VOCAB] = {0};
    memcpy(logits, sound, sizeof logits);
    for (int j = 0; j < VOCAB; j++)
      if (i % 4 == 3 || j == 61 + i % 4) logits[VOCAB + j] = poisons[i % 4];
    if (i % 4 == 0) logits[VOCAB + 3] = INFINITY; /* a NaN takes precedence over an infinity in the row */
    rows[1].returns_logits = true;
    yk_sampled expected[N_ROWS], out[N_ROWS];
    const sample_named named = {.logits_out = untouched};
    op_ok(run_sample(dev, sound, N_ROWS, VOCAB, 2, rows, named, expected, &err));
    memset(untouched, 0, sizeof untouched);
    op_ok(run_sample(dev, logits, N_ROWS, VOCAB, 2, rows, named, out, &err));
    assert_int_equal(out[1].state, states[i % 4]);
    assert_int_equal(out[1].token_id, -1);
    for (int j = 0; j < VOCAB; j++) assert_true(untouched[j] == 0.0f);
    for (int row = 0; row < N_ROWS; row += 2) assert_memory_equal(&out[row], &expected[row], sizeof out[row]);
  }
  free(sound);
  dev->ops->destroy(dev);
}

/* No legal penalty creates an infinity or a NaN: the logit is clamped to the largest or smallest float. */
static inline void check_sample_extreme_penalties(const op_target *target)
{
  enum { VOCAB = 40, SLOT = 2 };
  static const int32_t tokens[] = {4, 9, 30};
  static const float repetitions[] = {1e-38f, 1e-45f, 10.0f}; /* 1e-45 is the smallest float above 0 */
  yk_device *dev = op_device_new(target, YK_F16, 2, VOCAB);
  for (int i = 0; i < 12; i++) {
    float logits[VOCAB] = {0};
    logits[4] = 4.0f, logits[9] = 5.0f, logits[11] = -INFINITY, logits[12] = 4.5f;
    if (i % 3 == 2) logits[4] = -3e38f;
    yk_sample_row row = {.temperature = i % 2 ? 0.7f : 0.0f,
                         .top_p = i >= 6 ? 0.9f : 1.0f,
                         .top_k = i >= 9 ? 5 : 0,
                         .want_logprob = true,
                         .has_penalties = true,
                         .repetition_penalty = repetitions[i % 3],
                         .frequency_penalty = i % 4 == 3 ? -2.0f : 0.0f,
                         .presence_penalty = i % 4 == 3 ? -2.0f : 2.0f,
                         .penalty_slot = SLOT};
    yk_sampled out;
    op_ok(dev->ops->penalties_set(dev, SLOT, tokens, 2, 3, &err));
    sample_rows_ok(dev, logits, 1, VOCAB, 2, &row, &out);
    assert_int_equal(out.state, YK_ROW_SAMPLED);
    assert_true(isfinite(out.logprob));
    if (i % 3 < 2) assert_int_equal(out.token_id, 4); /* 4 and 5 both become FLT_MAX: the lower id comes first */
  }
  dev->ops->destroy(dev);
}

/* Biases and penalties in float32, in the order of the definition, by hand for one row. */
static inline void ref_adjust(float *logits, const yk_sample_row *row, const yk_logit_bias *biases,
                              const int32_t *tokens, int32_t n_prompt, int32_t n_tokens, int32_t vocab)
{
  for (int32_t i = 0; i < row->n_biases; i++) logits[biases[i].token_id] += biases[i].bias;
  for (int32_t id = 0; id < vocab && row->has_penalties; id++) {
    int32_t n_seen = 0, n_output = 0;
    for (int32_t i = 0; i < n_tokens; i++) {
      n_seen += tokens[i] == id;
      n_output += tokens[i] == id && i >= n_prompt;
    }
    if (n_seen)
      logits[id] = logits[id] > 0 ? logits[id] / row->repetition_penalty : logits[id] * row->repetition_penalty;
    if (n_output) logits[id] = logits[id] - row->frequency_penalty * (float)n_output - row->presence_penalty;
  }
}

/* A sequence that is sampled step by step: the device counts drawn tokens, but not forced ones. */
static inline void check_sample_penalties(const op_target *target)
{
  enum { VOCAB = 90, N_STEPS = 120, N_PROMPT = 7, SLOT = 5 };
  op_random random = {.seed = 61};
  yk_device *dev = op_device_new(target, YK_F16, 2, VOCAB);
  int32_t tokens[N_PROMPT + 2 + N_STEPS] = {3, 3, 8, 20, 89, 0, 41, 8, 55}; /* the last two are output already */
  int32_t n_tokens = N_PROMPT + 2;
  enum { FIRST_BIAS = 2 }; /* the earlier ones are another row's, and so are the logits before */
  static const yk_logit_bias all_biases[] = {{5, 90.0f}, {6, 90.0f}, {11, 2.5f}, {3, 4.0f}, {60, -INFINITY}};
  const yk_logit_bias *biases = all_biases + FIRST_BIAS;
  op_ok(dev->ops->penalties_set(dev, SLOT, (const int32_t[]){1, 2, 60}, 1, 3, &err)); /* forgotten by the next row */
  op_ok(dev->ops->penalties_set(dev, SLOT, tokens, N_PROMPT, n_tokens, &err));
  op_ok(dev->ops->penalties_set(dev, SLOT + 1, tokens, 0, n_tokens, &err)); /* another row's */
  for (uint32_t step = 0; step < N_STEPS; step++) {
    float *logits = random_logits(VOCAB, 1.5, false, &random), raw[VOCAB], copied[2 * VOCAB] = {0};
    yk_sampled out;
    yk_sample_row row = {.temperature = step % 3 ? 1.0f : 0.0f,
                         .top_p = 1.0f,
                         .position = step,
                         .want_logprob = true,
                         .has_penalties = step % 8 != 7,
                         .is_forced = step % 10 == 9,
                         .forced_id = 13,
                         .repetition_penalty = 1.4f,
                         .frequency_penalty = 0.3f,
                         .presence_penalty = -0.2f,
                         .penalty_slot = SLOT,
                         .n_biases = (int32_t)(step % 4),
                         .first_bias = FIRST_BIAS,
                         .returns_logits = true,
                         .logits_row = 1};
    memcpy(raw, logits, sizeof raw);
    op_ok(run_sample(dev, logits, 1, VOCAB, 4, &row, (sample_named){.biases = all_biases, .logits_out = copied}, &out,
                     &err));
    assert_memory_equal(copied + VOCAB, raw, sizeof raw);
    for (int i = 0; i < VOCAB; i++) assert_true(copied[i] == 0.0f);
    double highest = -INFINITY, sum = 0.0;
    for (int i = 0; i < VOCAB; i++) highest = fmax(highest, (double)raw[i]);
    for (int i = 0; i < VOCAB; i++) sum += exp((double)raw[i] - highest);
    assert_true(fabs((double)out.logprob - ((double)raw[out.token_id] - highest - log(sum))) < 1e-5);
    if (row.is_forced) {
      assert_int_equal(out.token_id, 13);
    } else {
      ref_adjust(logits, &row, biases, tokens, N_PROMPT, n_tokens, VOCAB);
      yk_sample_row filter = {.temperature = row.temperature < 1e-5f ? 1.0f : row.temperature, .top_p = 1.0f};
      ref_kept kept = ref_filter(logits, VOCAB, &filter);
      double distance = 1.0;
      int32_t best = kept.tokens[0].id, drawn = ref_draw(&kept, (double)yk_rng_uniform(0, 0, step), &distance);
      if (distance > 1e-5 || row.temperature < 1e-5f)
        assert_int_equal(out.token_id, row.temperature < 1e-5f ? best : drawn);
      if (row.has_penalties) tokens[n_tokens++] = out.token_id;
      free(kept.tokens);
    }
    free(logits);
  }
  dev->ops->destroy(dev);
}

/* Rows with masks among rows without, with biases and every filter: a masked row is the same row with -infinity at the
 * excluded ids, but its log-probabilities are those of the raw logits. Masks lie apart, and in another order. */
static inline void check_sample_masks(const op_target *target)
{
  enum { VOCAB = 1013, N_ROWS = 24, N_WORDS = (VOCAB + 31) / 32, STRIDE = N_WORDS + 1 };
  op_random random = {.seed = 71};
  yk_device *dev = op_device_new(target, YK_F16, N_ROWS, VOCAB);
  float *logits = random_logits((size_t)N_ROWS * VOCAB, 2.0, false, &random), *banned = malloc(sizeof(float) * VOCAB);
  uint32_t *masks = calloc((size_t)N_ROWS * STRIDE, sizeof *masks);
  static const yk_logit_bias biases[] = {{7, 3.0f}, {500, -1.0f}, {1012, 9.0f}};
  yk_sample_row rows[N_ROWS];
  yk_sampled out[N_ROWS], unmasked, expected;
  assert_true(banned && masks);
  for (int32_t i = 0; i < N_ROWS; i++) {
    rows[i] = (yk_sample_row){.temperature = i % 4 ? 0.8f : 0.0f,
                              .top_p = i % 3 ? 0.9f : 1.0f,
                              .top_k = i % 5 == 4 ? 40 : 0,
                              .position = (uint32_t)i,
                              .want_logprob = true,
                              .n_top_logprobs = 3,
                              .n_biases = i % 2 ? 3 : 0,
                              .has_mask = i % 6 != 5,
                              .first_mask = (int64_t)(i < 8 ? i * N_WORDS : (N_ROWS - 1 - i + 8) * STRIDE)};
    for (int32_t id = i % 7; id < VOCAB && rows[i].has_mask; id += 1 + i * 3)
      masks[rows[i].first_mask + id / 32] |= UINT32_C(1) << id % 32;
  }
  op_ok(run_sample(dev, logits, N_ROWS, VOCAB, 3, rows, (sample_named){.biases = biases, .masks = masks}, out, &err));
  for (int32_t i = 0; i < N_ROWS; i++) {
    const uint32_t *mask = masks + rows[i].first_mask;
    yk_sample_row row = rows[i];
    for (int32_t id = 0; id < VOCAB; id++) {
      bool allowed = !row.has_mask || mask[id / 32] >> id % 32 & 1;
      banned[id] = allowed ? logits[(int64_t)i * VOCAB + id] : -INFINITY;
    }
    row.has_mask = false;
    op_ok(run_sample(dev, banned, 1, VOCAB, 3, &row, (sample_named){.biases = biases}, &expected, &err));
    op_ok(run_sample(dev, logits + (int64_t)i * VOCAB, 1, VOCAB, 3, &row, (sample_named){.biases = biases}, &unmasked,
                     &err));
    assert_int_equal(out[i].state, YK_ROW_SAMPLED);
    assert_int_equal(out[i].token_id, expected.token_id);
    assert_memory_equal(out[i].top_ids, unmasked.top_ids, sizeof(int32_t) * 3);
    assert_memory_equal(out[i].top_logprobs, unmasked.top_logprobs, sizeof(float) * 3);
    if (out[i].token_id == unmasked.top_ids[0]) assert_true(out[i].logprob == unmasked.top_logprobs[0]);
  }
  yk_sample_row none = {.top_p = 1.0f, .has_mask = true, .first_mask = (int64_t)N_ROWS * STRIDE - N_WORDS};
  memset(masks + none.first_mask, 0, sizeof *masks * N_WORDS);
  op_ok(run_sample(dev, logits, 1, VOCAB, 3, &none, (sample_named){.masks = masks}, out, &err));
  assert_int_equal(out[0].state, YK_ROW_BANNED);
  assert_int_equal(run_sample(dev, logits, 1, VOCAB, 3, &none, (sample_named){0}, out, NULL), YK_E_INVAL);
  free(masks);
  free(banned);
  free(logits);
  dev->ops->destroy(dev);
}

static inline void check_sample_refusals(const op_target *target)
{
  enum { VOCAB = 10 };
  yk_device *dev = op_device_new(target, YK_F16, 1, VOCAB);
  float logits[VOCAB] = {0};
  yk_logit_bias beyond = {VOCAB, 1.0f}, bans[VOCAB];
  for (int32_t i = 0; i < VOCAB; i++) bans[i] = (yk_logit_bias){i, -INFINITY};
  const yk_sample_row bad[] = {{.top_p = 1.0f, .n_biases = 1},
                               {.top_p = 1.0f, .is_forced = true, .forced_id = VOCAB},
                               {.top_p = 1.0f, .has_penalties = true, .penalty_slot = 64, .repetition_penalty = 1.0f}};
  yk_sampled out;
  for (int i = 0; i < 3; i++)
    assert_int_equal(run_sample(dev, logits, 1, VOCAB, 1, &bad[i], (sample_named){.biases = &beyond}, &out, NULL),
                     YK_E_INVAL);
  yk_sample_row all_banned = {.top_p = 1.0f, .n_biases = VOCAB};
  op_ok(run_sample(dev, logits, 1, VOCAB, 1, &all_banned, (sample_named){.biases = bans}, &out, &err));
  assert_int_equal(out.state, YK_ROW_BANNED);
  assert_int_equal(out.token_id, -1);
  int32_t unknown = VOCAB;
  assert_int_equal(dev->ops->penalties_set(dev, 0, &unknown, 0, 1, NULL), YK_E_INVAL);
  assert_int_equal(dev->ops->penalties_set(dev, 64, &unknown, 0, 0, NULL), YK_E_INVAL);
  dev->ops->destroy(dev);
}

/* A vocabulary of real size, every filter: against the definition, and no step with excessive time. */
static inline void check_sample_large_row(yk_device *dev, bool coarse, uint32_t n_draws)
{
  enum { VOCAB = 151936 };
  op_random random = {.seed = 2};
  float *logits = random_logits(VOCAB, 2.5, coarse, &random);
  static const yk_sample_row params[] = {{.temperature = 1.0f, .top_p = 1.0f},
                                         {.temperature = 0.6f, .top_p = 0.95f, .top_k = 20},
                                         {.temperature = 0.9f, .top_p = 0.8f, .top_k = 50, .min_p = 0.01f},
                                         {.temperature = 0.9f, .top_p = 1.0f, .top_k = 200},
                                         {.temperature = 0.2f, .top_p = 0.7f},
                                         {.temperature = 1.0f, .top_p = 0.9f},
                                         {.temperature = 0.01f, .top_p = 0.9f, .top_k = 40000},
                                         {.temperature = 1.0f, .top_p = 0.9999f, .min_p = 0.0001f}};
  for (size_t p = 0; each_case(p, p < sizeof params / sizeof *params); p++) {
    ref_kept kept = ref_filter(logits, VOCAB, &params[p]);
    for (uint32_t position = 0; position < n_draws; position++) {
      yk_sample_row row = params[p];
      row.position = position;
      yk_sampled out;
      sample_rows_ok(dev, logits, 1, VOCAB, 4, &row, &out);
      double distance;
      int32_t expected = ref_draw(&kept, (double)yk_rng_uniform(0, 0, position), &distance);
      if (!kept.is_close && distance > 1e-6) assert_int_equal(out.token_id, expected);
    }
    free(kept.tokens);
  }
  free(logits);
}

static inline void check_sample_large_draws(const op_target *target, uint32_t n_draws)
{
  yk_device *dev = op_device_new(target, YK_F16, 2, 151936);
  check_sample_large_row(dev, false, n_draws);
  check_sample_large_row(dev, true, n_draws);
  dev->ops->destroy(dev);
}

static inline void check_sample_large(const op_target *target)
{
  check_sample_large_draws(target, 4);
}

/* The best logits of shares of a vocabulary: some without ids, at every alignment, with equal logits, a NaN, an
 * infinity, or nothing above -infinity. */
static inline void check_sample_best_of(yk_device *dev, int32_t n_rows, int32_t n_ids, int32_t skipped, int64_t stride,
                                        op_random *random)
{
  const int32_t first_id = 1000;
  size_t n = (size_t)skipped + (size_t)n_rows * (size_t)stride;
  float *logits = random_logits(n + 1, 3.0, true, random);
  for (int32_t row = 0; row < n_rows; row++) {
    float *of_row = logits + skipped + row * stride;
    for (int32_t i = n_ids; i < stride; i++) of_row[i] = NAN; /* must not be read */
    if (n_ids == 0) continue;
    if (row % 4 == 1) of_row[op_between(random, 0, n_ids - 1)] = row % 8 == 1 ? NAN : -NAN;
    if (row % 4 == 2) of_row[op_between(random, 0, n_ids - 1)] = INFINITY;
    for (int32_t i = 0; row % 8 == 3 && i < n_ids; i++) of_row[i] = -INFINITY;
  }
  void *dev_logits = NULL, *out = NULL;
  op_ok(dev->ops->alloc(dev, (n + 1) * sizeof *logits, &dev_logits, &err));
  op_ok(dev->ops->upload(dev, dev_logits, logits, n * sizeof *logits, &err));
  op_ok(dev->ops->host_alloc(dev, (size_t)n_rows * sizeof(yk_best_logit), &out, &err));
  yk_best_logits_args args = {.logits = (const float *)dev_logits + skipped,
                              .n_rows = n_rows,
                              .n_ids = n_ids,
                              .first_id = first_id,
                              .stride = stride,
                              .out = out};
  op_ok(dev->ops->best_logits(dev, &args, &err));
  op_ok(dev->ops->sync(dev, &err));
  for (int32_t row = 0; row < n_rows; row++) {
    const float *of_row = logits + skipped + row * stride;
    yk_best_logit expected = {.value = -INFINITY}, found = args.out[row];
    bool has_nan = false;
    for (int32_t i = 0; i < n_ids; i++) {
      has_nan = has_nan || isnan(of_row[i]);
      if (of_row[i] > expected.value) expected = (yk_best_logit){of_row[i], first_id + i};
    }
    assert_int_equal(has_nan, isnan(found.value));
    if (has_nan) continue;
    assert_true(found.value == expected.value);
    if (isfinite(expected.value)) assert_int_equal(found.id, expected.id);
  }
  dev->ops->host_free(dev, out);
  dev->ops->free(dev, dev_logits);
  free(logits);
}

static inline void check_sample_best_logits(const op_target *target)
{
  static const int32_t widths[] = {0, 1, 3, 31, 32, 127, 1000, 4097, 75968};
  yk_device *dev = op_device_new(target, YK_F16, 2, 151936);
  op_random random = {.seed = 11};
  for (size_t w = 0; each_case(w, w < sizeof widths / sizeof *widths); w++)
    for (int32_t skipped = 0; skipped < 4; skipped++)
      check_sample_best_of(dev, 9, widths[w], skipped, widths[w] + op_between(&random, 0, 3), &random);
  check_sample_best_of(dev, 300, 500, 0, 500, &random);
  dev->ops->destroy(dev);
}

/* The checks as tests; the state of each is the device's op_target. */
#define SAMPLE_TEST(check)                                                                                             \
  static void test_##check(void **state)                                                                               \
  {                                                                                                                    \
    check_sample_##check(*state);                                                                                      \
  }

SAMPLE_TEST(draws)
SAMPLE_TEST(frequencies)
SAMPLE_TEST(ties)
SAMPLE_TEST(seeds)
SAMPLE_TEST(logprobs)
SAMPLE_TEST(bad_logits)
SAMPLE_TEST(extreme_penalties)
SAMPLE_TEST(penalties)
SAMPLE_TEST(masks)
SAMPLE_TEST(refusals)
SAMPLE_TEST(large)
SAMPLE_TEST(best_logits)

/* Tests for every device, to be put into an array of tests. */
#define SAMPLE_TESTS(target)                                                                                           \
  cmocka_unit_test_prestate(test_draws, target), cmocka_unit_test_prestate(test_frequencies, target),                  \
      cmocka_unit_test_prestate(test_masks, target), cmocka_unit_test_prestate(test_ties, target),                     \
      cmocka_unit_test_prestate(test_seeds, target), cmocka_unit_test_prestate(test_logprobs, target),                 \
      cmocka_unit_test_prestate(test_bad_logits, target), cmocka_unit_test_prestate(test_extreme_penalties, target),   \
      cmocka_unit_test_prestate(test_large, target), cmocka_unit_test_prestate(test_penalties, target),                \
      cmocka_unit_test_prestate(test_refusals, target), cmocka_unit_test_prestate(test_best_logits, target)

#endif
