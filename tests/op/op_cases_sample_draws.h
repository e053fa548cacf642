/* op_cases_sample_draws.h - which token is drawn: filters, frequencies, ties, seeds, large vocabularies. */
#ifndef YK_TESTS_OP_CASES_SAMPLE_DRAWS_H
#define YK_TESTS_OP_CASES_SAMPLE_DRAWS_H

#include "each_case.h"
#include "op/op_sample.h"

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

#endif
