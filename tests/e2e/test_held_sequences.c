/* Held sequences give the same logits as requests, after truncating, forking and losing their blocks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/engine_fixture.h"
#include "each_case.h"
#include "yoke/process.h"

enum { VOCAB = 200, N = 60 };

static float log_softmax(const float *logits, int32_t id)
{
  double sum = 0, max = logits[0];
  for (int i = 1; i < VOCAB; i++) max = fmax(max, logits[i]);
  for (int i = 0; i < VOCAB; i++) sum += exp(logits[i] - max);
  return (float)(logits[id] - max - log(sum));
}

static yk_held_sequence *create(yk_engine *engine)
{
  yk_held_sequence *sequence = NULL;
  assert_int_equal(yk_held_sequence_create(engine, &sequence, NULL), YK_OK);
  return sequence;
}

static void append(yk_held_sequence *sequence, const int32_t *ids, size_t n, yk_logits_of which, float *logits)
{
  yk_err err = YK_ERR_INIT;
  if (yk_held_sequence_append(sequence, ids, n, which, logits, &err) != YK_OK) fail_msg("%s", err.message);
}

/* On two ranks experts are distributed whole, 3 each. */
static const struct {
  const char *name;
  int n_ranks;
} MODELS[] = {{"qwen3", 1}, {"mistral", 1}, {"moe_qwen3", 1}, {"moe_glm4", 2}, {"deepseek_v2", 1}, {"deepseek_v3", 1}};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS, N_DENSE = 2 };

static yk_engine_options options_of(size_t model)
{
  yk_engine_options options = fixture_options(MODELS[model].name, MODELS[model].n_ranks);
  options.expert_parallel = true;
  return options;
}

static yk_engine *open_model(size_t model)
{
  yk_engine_options options = options_of(model);
  return fixture_open(&options);
}

/* Mixtures come last and run only on devices with reproducible bits: rounding can change a near tie in a router. */
static size_t n_models(void)
{
  return fixture_same_bits() ? N_MODELS : N_DENSE;
}

/* Logits of all positions of the ids, the same in every test, each appended in one call to a fresh engine's sequence.
 * Computed once. */
static const float *reference(size_t model, const int32_t *ids)
{
  static float known[N_MODELS][N * VOCAB];
  static bool is_known[N_MODELS];
  if (is_known[model]) return known[model];
  yk_engine *engine = open_model(model);
  yk_held_sequence *sequence = create(engine);
  append(sequence, ids, N, YK_LOGITS_ALL, known[model]);
  yk_held_sequence_free(sequence);
  fixture_close(engine);
  is_known[model] = true;
  return known[model];
}

static void logits_are_those_of_requests(void **state)
{
  (void)state;
  int32_t ids[N];
  static answer scored;
  fixture_prompt(9, VOCAB, ids, N);
  for (size_t m = 0; each_case(m, m < n_models()); m++) {
    const float *logits = reference(m, ids);
    yk_engine *engine = open_model(m);
    yk_request_options request = fixture_request(engine, ids, N, 0);
    request.sampling.n_prompt_logprobs = 0;
    fixture_answer(engine, &request, &scored);
    for (int i = 0; i + 1 < N; i++) {
      float expected = log_softmax(logits + i * VOCAB, ids[i + 1]);
      assert_close_numbers(&scored.prompt_logprobs[i], &expected, 1);
    }
    fixture_close(engine);
  }
}

enum { N_DRAWN = 10, N_SAMPLES = 3, N_LISTED = 4 };

/* Reads a request to its end: every token comes with the log-probabilities that follow from the raw logits of its
 * position. */
static void check_listed(yk_engine *engine, yk_request *request, const int32_t *prompt, const yk_sampling *sampling)
{
  static float logits[VOCAB];
  yk_held_sequence *sequence = create(engine);
  const yk_output *output;
  int n = 0;
  append(sequence, prompt, N, YK_LOGITS_LAST, logits);
  for (; yk_request_next(request, -1, &output, NULL) == YK_OK && output->has_token; n++) {
    float expected[N_LISTED], chosen = log_softmax(logits, output->token_id);
    for (int i = 0; i < N_LISTED; i++) expected[i] = log_softmax(logits, sampling->logprob_ids[i]);
    assert_int_equal(output->n_listed, N_LISTED);
    assert_memory_equal(output->listed_ids, sampling->logprob_ids, sizeof expected);
    assert_close_numbers(output->listed_logprobs, expected, N_LISTED);
    assert_int_equal(output->n_top, sampling->n_logprobs > 0 ? sampling->n_logprobs : 0);
    if (sampling->n_logprobs >= 0) assert_close_numbers(&output->logprob, &chosen, 1);
    append(sequence, &output->token_id, 1, YK_LOGITS_LAST, logits);
  }
  assert_int_equal(n, N_DRAWN);
  assert_int_equal(output->n_listed, 0);
  yk_request_free(request);
  yk_held_sequence_free(sequence);
}

/* Samples drawn with biases and penalties, next to a request without logprob_ids. */
static void check_listed_samples(yk_engine *engine)
{
  static const yk_logit_bias biases[] = {{3, 2}, {7, -50}};
  static const int32_t listed[N_LISTED] = {VOCAB - 1, 3, 7, 3};
  static answer plain, concurrent;
  int32_t ids[N];
  fixture_prompt(9, VOCAB, ids, N);
  yk_request_options greedy = fixture_request(engine, ids, N, N_DRAWN), options = greedy;
  fixture_answer(engine, &greedy, &plain);
  options.sampling.temperature = 1;
  options.sampling.frequency_penalty = 2;
  options.sampling.biases = biases;
  options.sampling.n_biases = 2;
  options.sampling.logprob_ids = listed;
  options.sampling.n_logprob_ids = N_LISTED;
  yk_request *requests[N_SAMPLES], *other = fixture_submit(engine, &greedy);
  for (int i = 0; i < N_SAMPLES; i++) {
    options.sampling.sample_index = i;
    options.sampling.n_logprobs = i - 1;
    requests[i] = fixture_submit(engine, &options);
  }
  for (int i = 0; i < N_SAMPLES; i++) {
    options.sampling.n_logprobs = i - 1;
    check_listed(engine, requests[i], ids, &options.sampling);
  }
  fixture_read(other, &concurrent);
  assert_same_answer(&concurrent, &plain);
}

static void listed_ids_have_the_log_probabilities_of_the_logits(void **state)
{
  (void)state;
  int32_t ids[YK_MAX_LOGPROB_IDS + 1] = {0};
  for (int n_ranks = 1; each_case(n_ranks, n_ranks <= 2 && n_ranks <= fixture_most_ranks()); n_ranks++) {
    yk_engine_options options = fixture_options("qwen3", n_ranks);
    yk_engine *engine = fixture_open(&options);
    check_listed_samples(engine);
    yk_request_options request = fixture_request(engine, ids, N, 1);
    yk_request *refused;
    yk_err err = YK_ERR_INIT;
    request.sampling.logprob_ids = ids;
    request.sampling.n_logprob_ids = YK_MAX_LOGPROB_IDS + 1;
    assert_int_equal(yk_engine_submit(engine, &request, &refused, &err), YK_E_INVAL);
    assert_string_equal(err.message, "number of logprob_token_ids: expected 0 to 128, found 129");
    yk_err_clear(&err);
    ids[1] = VOCAB;
    request.sampling.n_logprob_ids = 2;
    assert_int_equal(yk_engine_submit(engine, &request, &refused, &err), YK_E_INVAL);
    assert_string_equal(err.message, "logprob_token_ids: token id 200 at index 1 is outside the vocabulary (0 to 199)");
    ids[1] = 0;
    fixture_close(engine);
  }
}

static void going_back_and_branching_change_nothing(void **state)
{
  (void)state;
  int32_t ids[N], other[N];
  float last[VOCAB];
  fixture_prompt(9, VOCAB, ids, N);
  fixture_prompt(10, VOCAB, other, N);
  for (size_t m = 0; each_case(m, m < n_models()); m++) {
    const float *logits = reference(m, ids);
    yk_engine *engine = open_model(m);
    yk_held_sequence *sequence = create(engine), *branch = NULL;
    for (int kept = 0; kept < N; kept += 7) { /* truncates inside blocks and at their ends, after a detour */
      assert_int_equal(yk_held_sequence_truncate(sequence, (size_t)kept, NULL), YK_OK);
      append(sequence, other, 20, YK_LOGITS_LAST, last);
      assert_int_equal(yk_held_sequence_truncate(sequence, (size_t)kept, NULL), YK_OK);
      append(sequence, ids + kept, (size_t)(N - kept), YK_LOGITS_LAST, last);
      assert_same_numbers(last, logits + (N - 1) * VOCAB, VOCAB);
      assert_int_equal(yk_held_sequence_length(sequence), N);
    }
    assert_int_equal(yk_held_sequence_truncate(sequence, 40, NULL), YK_OK);
    assert_int_equal(yk_held_sequence_fork(sequence, &branch, NULL), YK_OK);
    append(branch, other, 15, YK_LOGITS_NONE, NULL);
    append(sequence, ids + 40, N - 40, YK_LOGITS_LAST, last);
    assert_same_numbers(last, logits + (N - 1) * VOCAB, VOCAB);
    yk_held_sequence_free(branch);
    yk_held_sequence_free(sequence);
    fixture_close(engine);
  }
}

/* Truncates by a few tokens and appends again, at every position of a block, as in speculative decoding. */
static void small_steps_back_change_nothing(void **state)
{
  (void)state;
  int32_t ids[N], other[N];
  float last[VOCAB];
  fixture_prompt(9, VOCAB, ids, N);
  fixture_prompt(10, VOCAB, other, N);
  for (size_t m = 0; each_case(m, m < n_models()); m++) {
    const float *logits = reference(m, ids);
    yk_engine *engine = open_model(m);
    yk_held_sequence *sequence = create(engine);
    for (int n = 0; n < N; n++) {
      for (int astray = 1; astray <= 15; astray += 7) {
        append(sequence, other, (size_t)astray, YK_LOGITS_NONE, NULL);
        assert_int_equal(yk_held_sequence_truncate(sequence, (size_t)n, NULL), YK_OK);
      }
      append(sequence, ids + n, 1, YK_LOGITS_LAST, last);
      assert_same_numbers(last, logits + n * VOCAB, VOCAB);
    }
    yk_held_sequence_free(sequence);
    fixture_close(engine);
  }
}

/* With memory for one sequence only, holding two requires recomputation; the logits stay the same. */
static void lost_blocks_are_computed_again(void **state)
{
  (void)state;
  int32_t ids[N], other[N];
  float last[VOCAB];
  fixture_prompt(9, VOCAB, ids, N);
  fixture_prompt(10, VOCAB, other, N);
  for (size_t m = 0; each_case(m, m < n_models()); m++) {
    const float *logits = reference(m, ids);
    yk_engine_options options = options_of(m);
    options.max_model_tokens = 64;
    options.no_prefix_reuse = true;
    options.kv_cache_bytes = fixture_kv_bytes(&options, 64);
    yk_engine *engine = fixture_open(&options);
    yk_held_sequence *a = create(engine), *b = create(engine);
    append(a, ids, 30, YK_LOGITS_NONE, NULL);
    append(b, other, N, YK_LOGITS_NONE, NULL);
    append(a, ids + 30, N - 30, YK_LOGITS_LAST, last);
    assert_same_numbers(last, logits + (N - 1) * VOCAB, VOCAB);
    yk_held_sequence_free(a);
    yk_held_sequence_free(b);
    fixture_close(engine);
  }
}

/* ---- Recurrent states -------------------------------------------------------------------------------------------- */

enum { N_HELD = 6, LONGEST = 220, N_MOVES = 70 };

typedef struct held_tokens {
  yk_held_sequence *sequence;
  int32_t ids[LONGEST];
  int n;
} held_tokens;

static uint32_t draw(uint32_t *seed, uint32_t below)
{
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 8) % below;
}

/* The logits after the ids, computed from their start alone. */
static void compute_fresh(yk_engine *plain, const int32_t *ids, int n, float *logits)
{
  yk_held_sequence *sequence = create(plain);
  append(sequence, ids, (size_t)n, YK_LOGITS_LAST, logits);
  yk_held_sequence_free(sequence);
}

static void check_append(yk_engine *plain, held_tokens *held, uint32_t *seed, const int32_t *text)
{
  static float logits[VOCAB], expected[VOCAB];
  int n = 1 + (int)draw(seed, draw(seed, 3) ? 90 : 3);
  bool is_known = draw(seed, 2); /* a continuation that other sequences have too */
  if (held->n + n > LONGEST) n = LONGEST - held->n;
  if (n == 0) return;
  for (int i = held->n; i < held->n + n; i++) held->ids[i] = is_known ? text[i] : (int32_t)draw(seed, VOCAB);
  append(held->sequence, held->ids + held->n, (size_t)n, YK_LOGITS_LAST, logits);
  held->n += n;
  compute_fresh(plain, held->ids, held->n, expected);
  assert_memory_equal(logits, expected, sizeof logits);
}

static void move(yk_engine *engine, yk_engine *plain, held_tokens *all, uint32_t *seed, const int32_t *text)
{
  held_tokens *held = &all[draw(seed, N_HELD)], *other = &all[draw(seed, N_HELD)];
  switch (draw(seed, 6)) {
  case 0:
    held->n -= (int)draw(seed, (uint32_t)(held->n < 80 ? held->n : 80) + 1);
    assert_int_equal(yk_held_sequence_truncate(held->sequence, (size_t)held->n, NULL), YK_OK);
    break;
  case 1:
    if (held == other) break;
    yk_held_sequence_free(other->sequence);
    *other = *held;
    assert_int_equal(yk_held_sequence_fork(held->sequence, &other->sequence, NULL), YK_OK);
    break;
  case 2:
    yk_held_sequence_free(held->sequence);
    held->sequence = create(engine);
    held->n = 0;
    break;
  default: check_append(plain, held, seed, text);
  }
}

enum { N_REQUESTS = 8, N_EARLY = 3, PROMPT = 180, ANSWER = 60 };

/* Prompts part at 150 tokens; each comes twice. */
static yk_request_options request_of(yk_engine *engine, const int32_t *text, int i, int32_t ids[PROMPT])
{
  memcpy(ids, text, PROMPT * sizeof *ids);
  for (int k = 150; k < PROMPT; k++) ids[k] = (ids[k] + i % (N_REQUESTS / 2)) % VOCAB;
  return fixture_request(engine, ids, PROMPT, ANSWER);
}

static yk_request *submit(yk_engine *engine, const int32_t *text, int i)
{
  int32_t ids[PROMPT];
  yk_request_options options = request_of(engine, text, i, ids);
  return fixture_submit(engine, &options);
}

/* Operations on held sequences while requests run, then more concurrent requests than the engine and the KV cache
 * hold. */
static void check_company(yk_engine *engine, yk_engine *plain, held_tokens *held, uint32_t *seed, const int32_t *text)
{
  static answer expected, found;
  int32_t ids[PROMPT];
  yk_request *requests[N_REQUESTS];
  for (int part = 0; part <= N_EARLY; part++) {
    for (int i = part * N_MOVES / (N_EARLY + 1); i < (part + 1) * N_MOVES / (N_EARLY + 1); i++)
      move(engine, plain, held, seed, text);
    requests[part] = submit(engine, text, part);
  }
  for (int i = N_EARLY + 1; i < N_REQUESTS; i++) requests[i] = submit(engine, text, i);
  for (int i = 0; i < N_REQUESTS; i++) {
    yk_request_options options = request_of(plain, text, i, ids);
    fixture_answer(plain, &options, &expected);
    fixture_read(requests[i], &found);
    assert_same_answer(&found, &expected);
  }
}

/* Appending, forking, truncating, preempting, losing slots, hits and misses give the bits of a fresh run. */
static void states_are_those_of_a_fresh_run(void **state)
{
  (void)state;
  static const char *const names[] = {"hybrid_qwen3_5", "hybrid_qwen3_5", "hybrid_qwen3_next", "nemotron_h"};
  static const int64_t state_cache_bytes[] = {-1, 0, 1 << 20, -1};
  int32_t text[LONGEST];
  fixture_prompt(11, VOCAB, text, LONGEST);
  for (uint32_t m = 0; each_case(m, m < 4 && fixture_same_bits()); m++) {
    yk_engine_options options = fixture_options(names[m], 1 + (int)m % 2);
    options.no_prefix_reuse = true;
    yk_engine *plain = fixture_open(&options);
    options.no_prefix_reuse = false;
    options.state_cache_bytes = state_cache_bytes[m];
    options.max_seqs = 3;
    options.kv_cache_bytes = fixture_kv_bytes(&options, 288);
    yk_engine *engine = fixture_open(&options);
    held_tokens held[N_HELD] = {{0}};
    uint32_t seed = m + 1;
    for (int i = 0; i < N_HELD; i++) held[i].sequence = create(engine);
    check_company(engine, plain, held, &seed, text);
    for (int i = 0; i < N_HELD; i++) yk_held_sequence_free(held[i].sequence);
    yk_engine_stats stats;
    yk_engine_get_stats(engine, &stats);
    assert_int_equal(stats.state_hits > 0, state_cache_bytes[m] != 0);
    assert_true(stats.preemptions > 0 || state_cache_bytes[m] == 0);
    fixture_close(plain);
    fixture_close(engine);
  }
}

static uint64_t rows_computed(yk_engine *engine)
{
  yk_engine_stats stats;
  yk_engine_get_stats(engine, &stats);
  return stats.prefill_step_tokens + stats.decode_step_tokens;
}

/* Forks continue from copies of states and of the unfilled block: they compute their own tokens alone, and leave the
 * sequence that they come from as it was. */
static void forks_are_copied(void **state)
{
  (void)state;
  static const char *const names[] = {"hybrid_qwen3_5", "hybrid_qwen3_next", "qwen3"};
  enum { SHARED = 103, OWN = 4 };
  static float logits[VOCAB], expected[2][VOCAB];
  int32_t ids[SHARED + 2 * OWN];
  fixture_prompt(12, VOCAB, ids, SHARED + 2 * OWN);
  for (size_t m = 0; each_case(m, m < sizeof names / sizeof *names); m++) {
    yk_engine_options options = fixture_options(names[m], 1 + (int)m % 2);
    yk_engine *engine = fixture_open(&options);
    yk_held_sequence *sequence = create(engine), *forks[2];
    for (int i = 0; i < 2; i++) {
      append(sequence, ids, SHARED, YK_LOGITS_NONE, NULL);
      append(sequence, ids + SHARED + i * OWN, OWN, YK_LOGITS_LAST, expected[i]);
      assert_int_equal(yk_held_sequence_truncate(sequence, 0, NULL), YK_OK);
    }
    append(sequence, ids, SHARED, YK_LOGITS_NONE, NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(yk_held_sequence_fork(sequence, &forks[i], NULL), YK_OK);
    const uint64_t n_before = rows_computed(engine);
    for (int i = 0; i < 2; i++) {
      append(forks[i], ids + SHARED + i * OWN, OWN, YK_LOGITS_LAST, logits);
      assert_same_numbers(logits, expected[i], VOCAB);
    }
    append(sequence, ids + SHARED, OWN, YK_LOGITS_LAST, logits);
    assert_same_numbers(logits, expected[0], VOCAB);
    assert_int_equal(rows_computed(engine) - n_before, 3 * OWN);
    for (int i = 0; i < 2; i++) yk_held_sequence_free(forks[i]);
    yk_held_sequence_free(sequence);
    fixture_close(engine);
  }
}

static void bad_calls_are_refused_and_leave_the_sequence_alone(void **state)
{
  (void)state;
  int32_t ids[300] = {0};
  yk_engine_options options = fixture_options("qwen3", 1);
  yk_engine *engine = fixture_open(&options);
  yk_held_sequence *sequence = create(engine);
  yk_err err = YK_ERR_INIT;
  append(sequence, ids, 3, YK_LOGITS_NONE, NULL);
  assert_int_equal(yk_held_sequence_append(sequence, ids, 0, YK_LOGITS_NONE, NULL, &err), YK_E_INVAL);
  assert_string_equal(err.message, "ids: expected at least one token, found none");
  yk_err_clear(&err);
  assert_int_equal(yk_held_sequence_append(sequence, ids, 254, YK_LOGITS_NONE, NULL, &err), YK_E_CAPACITY);
  assert_string_equal(err.message, "sequence: expected at most 256 tokens, found 257");
  yk_err_clear(&err);
  assert_int_equal(yk_held_sequence_append(sequence, ids, 1, YK_LOGITS_LAST, NULL, &err), YK_E_INVAL);
  yk_err_clear(&err);
  ids[1] = 200;
  assert_int_equal(yk_held_sequence_append(sequence, ids, 2, YK_LOGITS_NONE, NULL, &err), YK_E_INVAL);
  assert_string_equal(err.message, "ids: token id 200 at index 1 is outside the vocabulary (0 to 199)");
  yk_err_clear(&err);
  assert_int_equal(yk_held_sequence_truncate(sequence, 4, &err), YK_E_INVAL);
  assert_string_equal(err.message, "n_tokens: expected 0 to 3, found 4");
  assert_int_equal(yk_held_sequence_length(sequence), 3);
  yk_held_sequence_free(sequence);
  yk_held_sequence_free(NULL);
  fixture_close(engine);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(logits_are_those_of_requests),
                                     cmocka_unit_test(listed_ids_have_the_log_probabilities_of_the_logits),
                                     cmocka_unit_test(going_back_and_branching_change_nothing),
                                     cmocka_unit_test(small_steps_back_change_nothing),
                                     cmocka_unit_test(lost_blocks_are_computed_again),
                                     cmocka_unit_test(states_are_those_of_a_fresh_run),
                                     cmocka_unit_test(forks_are_copied),
                                     cmocka_unit_test(bad_calls_are_refused_and_leave_the_sequence_alone)};
  int status = fixture_gate();
  return status ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
