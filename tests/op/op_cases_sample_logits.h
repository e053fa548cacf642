/* op_cases_sample_logits.h - processing of logits before a draw, and the reported values: penalties, biases, masks,
 * log-probabilities, numbers that are not finite; and the best logit of a share of the vocabulary. */
#ifndef YK_TESTS_OP_CASES_SAMPLE_LOGITS_H
#define YK_TESTS_OP_CASES_SAMPLE_LOGITS_H

#include "each_case.h"
#include "op/op_sample.h"

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

enum { N_MASKED_ROWS = 24 };

/* Rows with masks among rows without, with biases and every filter. The masks of the last four rows are not neighbours
 * of those before. masks: zeros [N_MASKED_ROWS, stride]. */
static inline void make_masked_rows(int32_t vocab, int64_t stride, yk_sample_row *rows, uint32_t *masks)
{
  int64_t next = 0;
  for (int32_t i = 0; i < N_MASKED_ROWS; i++) {
    bool is_neighbour = i < N_MASKED_ROWS - 4;
    rows[i] = (yk_sample_row){.temperature = i % 4 ? 0.8f : 0.0f,
                              .top_p = i % 3 ? 0.9f : 1.0f,
                              .top_k = i % 5 == 4 ? 40 : 0,
                              .position = (uint32_t)i,
                              .want_logprob = true,
                              .n_top_logprobs = 3,
                              .n_biases = i % 2 ? 3 : 0,
                              .has_mask = i % 6 != 5,
                              .first_mask = is_neighbour ? next : (2 * N_MASKED_ROWS - 5 - i) * stride};
    if (rows[i].has_mask) next += yk_mask_words(vocab);
    for (int32_t id = i % 7; id < vocab && rows[i].has_mask; id += 1 + i * i / 2)
      masks[rows[i].first_mask + id / 32] |= UINT32_C(1) << id % 32;
  }
}

/* A masked row is the same row with -infinity at the other ids. */
static inline void check_sample_masks_of(const op_target *target, int32_t vocab)
{
  enum { N_ROWS = N_MASKED_ROWS };
  const int64_t n_words = yk_mask_words(vocab), stride = n_words + 1;
  op_random random = {.seed = 71};
  yk_device *dev = op_device_new(target, YK_F16, 2, vocab);
  float *logits = random_logits((size_t)N_ROWS * (size_t)vocab, 2.0, false, &random);
  float *banned = malloc(sizeof(float) * (size_t)vocab);
  uint32_t *masks = calloc((size_t)(N_ROWS * stride), sizeof *masks);
  const yk_logit_bias biases[] = {{7, 3.0f}, {500, -1.0f}, {vocab - 1, 9.0f}};
  yk_sample_row rows[N_ROWS];
  yk_sampled out[N_ROWS], unmasked, expected;
  assert_true(banned && masks);
  make_masked_rows(vocab, stride, rows, masks);
  op_ok(run_sample(dev, logits, N_ROWS, vocab, 3, rows, (sample_named){.biases = biases, .masks = masks}, out, &err));
  for (int32_t i = 0; i < N_ROWS; i++) {
    const uint32_t *mask = masks + rows[i].first_mask;
    const float *raw = logits + (int64_t)i * vocab;
    yk_sample_row row = rows[i];
    for (int32_t id = 0; id < vocab; id++)
      banned[id] = !row.has_mask || mask[id / 32] >> id % 32 & 1 ? raw[id] : -INFINITY;
    row.has_mask = false;
    op_ok(run_sample(dev, banned, 1, vocab, 3, &row, (sample_named){.biases = biases}, &expected, &err));
    op_ok(run_sample(dev, raw, 1, vocab, 3, &row, (sample_named){.biases = biases}, &unmasked, &err));
    assert_int_equal(out[i].state, YK_ROW_SAMPLED);
    assert_int_equal(out[i].token_id, expected.token_id);
    assert_memory_equal(out[i].top_ids, unmasked.top_ids, sizeof(int32_t) * 3);
    assert_memory_equal(out[i].top_logprobs, unmasked.top_logprobs, sizeof(float) * 3);
    if (out[i].token_id == unmasked.top_ids[0]) assert_true(out[i].logprob == unmasked.top_logprobs[0]);
  }
  yk_sample_row none = {.top_p = 1.0f, .has_mask = true, .first_mask = N_ROWS * stride - n_words};
  memset(masks + none.first_mask, 0, sizeof *masks * (size_t)n_words);
  op_ok(run_sample(dev, logits, 1, vocab, 3, &none, (sample_named){.masks = masks}, out, &err));
  assert_int_equal(out[0].state, YK_ROW_BANNED);
  assert_int_equal(run_sample(dev, logits, 1, vocab, 3, &none, (sample_named){0}, out, NULL), YK_E_INVAL);
  free(masks);
  free(banned);
  free(logits);
  dev->ops->destroy(dev);
}

/* On a GPU, slices of a row that begin within a word of the mask, with more words than threads, and masks that are
 * copied in several pieces. */
static inline void check_sample_masks(const op_target *target)
{
  static const int32_t vocabs[] = {1013, 1100, 151936};
  for (size_t i = 0; each_case(i, i < sizeof vocabs / sizeof *vocabs); i++) check_sample_masks_of(target, vocabs[i]);
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

#endif
