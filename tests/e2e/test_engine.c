/* The answer to a request does not depend on the engine's other work: chunks, other requests, preemption, prefixes,
 * cancellations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/engine_fixture.h"
#include "each_case.h"
#include "sanitized.h"
#include "yoke/process.h"

/* All threads synchronise in every step: few steps suffice for the thread sanitizer. */
enum { VOCAB = 128, N_PROMPTS = 8, OUTPUT = TEST_WATCHES_THREADS ? 8 : 20, LONG_OUTPUT = 5 * OUTPUT };

/* Every layer of mistral has a sliding window. 5 experts distributed whole are uneven, and so are deepseek_v2's 5
 * heads. */
static const struct {
  const char *name;
  int n_ranks; /* for tests that try one count */
  bool expert_parallel;
} MODELS[] = {{"qwen3", 1, false},    {"mistral", 1, false},    {"llama_uneven", 1, false},
              {"moe_qwen3", 2, true}, {"deepseek_v2", 3, true}, {"deepseek_v3", 1, false}};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS, N_DENSE = 3 };

/* Mixtures of experts come last, for devices that guarantee the same bits: rounding turns near ties of their
 * routers. */
static size_t n_models(void)
{
  return fixture_same_bits() ? N_MODELS : N_DENSE;
}

/* Threads do not depend on the model: under the thread sanitizer, one with several ranks. */
static bool is_tried(size_t model)
{
  return !TEST_WATCHES_THREADS || strcmp(MODELS[model].name, "moe_qwen3") == 0;
}

static yk_engine_options options_on(size_t model, int n_ranks)
{
  yk_engine_options options = fixture_options(MODELS[model].name, n_ranks);
  options.expert_parallel = MODELS[model].expert_parallel;
  return options;
}

static yk_engine_options options_of(size_t model)
{
  return options_on(model, MODELS[model].n_ranks);
}

static void prompt_of(uint32_t i, int32_t *ids, int32_t *n)
{
  *n = 3 + (int32_t)i * 13;
  fixture_prompt(i, VOCAB, ids, *n);
}

/* Every prompt alone, one after another, on an otherwise idle engine. */
static void answer_alone(size_t model, answer *out)
{
  yk_engine_options options = options_of(model);
  options.no_prefix_reuse = true;
  options.max_batched_tokens = 256;
  yk_engine *engine = fixture_open(&options);
  for (uint32_t i = 0; i < N_PROMPTS; i++) {
    int32_t ids[256], n;
    prompt_of(i, ids, &n);
    yk_request_options request = fixture_request(engine, ids, (size_t)n, LONG_OUTPUT);
    fixture_answer(engine, &request, &out[i]);
    assert_int_equal(out[i].finish, YK_FINISH_LENGTH);
    assert_int_equal(out[i].n, LONG_OUTPUT);
  }
  fixture_close(engine);
}

/* Computed once: the first n_output tokens of every prompt's answer alone. */
static void answers_alone(size_t model, int32_t n_output, answer *out)
{
  static answer known[N_MODELS][N_PROMPTS];
  if (known[model][0].n == 0) answer_alone(model, known[model]);
  memcpy(out, known[model], sizeof known[model]);
  for (int i = 0; i < N_PROMPTS; i++) out[i].n = n_output;
}

/* All prompts at once. */
static void generate_together(yk_engine *engine, int32_t n_output, answer *out)
{
  yk_request *requests[N_PROMPTS];
  for (uint32_t i = 0; i < N_PROMPTS; i++) {
    int32_t ids[256], n;
    prompt_of(i, ids, &n);
    yk_request_options request = fixture_request(engine, ids, (size_t)n, n_output);
    requests[i] = fixture_submit(engine, &request);
  }
  for (int i = 0; i < N_PROMPTS; i++) fixture_read(requests[i], &out[i]);
}

/* The same on a separate engine. */
static yk_engine_stats answers_together(const yk_engine_options *options, int32_t n_output, answer *out)
{
  yk_engine *engine = fixture_open(options);
  generate_together(engine, n_output, out);
  yk_engine_stats stats;
  yk_engine_get_stats(engine, &stats);
  fixture_close(engine);
  return stats;
}

static void company_and_chunks_change_nothing(void **state)
{
  (void)state;
  static const int32_t budgets[] = {1, 7, 64, 256};
  size_t n_budgets = fixture_opens_slowly() ? 1 : 4;
  static answer alone[N_PROMPTS], together[N_PROMPTS];
  for (size_t m = 0; each_case(m, m < n_models()); m++) {
    if (!is_tried(m)) continue;
    answers_alone(m, OUTPUT, alone);
    for (size_t b = m >= N_DENSE; b < n_budgets; b++) { /* steps of one row take long */
      yk_engine_options options = options_of(m);
      options.max_batched_tokens = budgets[b];
      answers_together(&options, OUTPUT, together);
      for (int i = 0; i < N_PROMPTS; i++) assert_same_answer(&together[i], &alone[i]);
    }
  }
}

static void preemption_changes_nothing(void **state)
{
  (void)state;
  /* A long output needs more blocks than admission leaves free. */
  static answer alone[N_PROMPTS], together[N_PROMPTS];
  for (size_t m = 0; each_case(m, m < n_models()); m++) {
    if (!is_tried(m)) continue;
    answers_alone(m, LONG_OUTPUT, alone);
    yk_engine_options options = options_of(m);
    options.kv_cache_bytes = fixture_kv_bytes(&options, 256 + 64); /* little more than one longest sequence */
    yk_engine_stats stats = answers_together(&options, LONG_OUTPUT, together);
    /* If every layer has a sliding window, blocks before the window are freed in time. */
    bool slides = strcmp(MODELS[m].name, "mistral") == 0;
    assert_int_equal(stats.preemptions > 0, !slides);
    for (int i = 0; i < N_PROMPTS; i++) assert_same_answer(&together[i], &alone[i]);
  }
}

enum { N_REPORTS = 6, REPORT_PROMPT = 90, REPORT_OUTPUT = 60 };

/* Prompts with their log-probabilities, in small steps and, if memory is scarce, with preemptions. */
static void report_prompts(size_t model, bool is_scarce, answer *out)
{
  yk_engine_options options = options_of(model);
  options.max_batched_tokens = 24;
  if (is_scarce) options.kv_cache_bytes = fixture_kv_bytes(&options, 256);
  yk_engine *engine = fixture_open(&options);
  yk_request *requests[N_REPORTS];
  for (uint32_t i = 0; i < N_REPORTS; i++) {
    int32_t ids[REPORT_PROMPT];
    fixture_prompt(i, VOCAB, ids, REPORT_PROMPT);
    yk_request_options request = fixture_request(engine, ids, REPORT_PROMPT, REPORT_OUTPUT);
    request.sampling.n_prompt_logprobs = 0;
    requests[i] = fixture_submit(engine, &request);
  }
  for (int i = 0; i < N_REPORTS; i++) fixture_read(requests[i], &out[i]);
  yk_engine_stats stats;
  yk_engine_get_stats(engine, &stats);
  assert_int_equal(stats.preemptions > 0, is_scarce);
  fixture_close(engine);
}

/* Log-probabilities of a prompt come once each, in order, also after a preemption in the middle. */
static void preempted_prompts_report_once(void **state)
{
  (void)state;
  static answer plain[N_REPORTS], preempted[N_REPORTS];
  for (size_t m = 0; each_case(m, m < n_models()); m++) {
    if (!is_tried(m)) continue;
    if (strcmp(MODELS[m].name, "mistral") == 0) continue; /* its blocks are freed in time */
    report_prompts(m, false, plain);
    report_prompts(m, true, preempted);
    for (int i = 0; i < N_REPORTS; i++) {
      assert_same_answer(&preempted[i], &plain[i]);
      assert_int_equal(preempted[i].n_prompt, REPORT_PROMPT - 1);
      assert_memory_equal(preempted[i].prompt_ids, plain[i].prompt_ids, sizeof(int32_t) * (REPORT_PROMPT - 1));
      assert_same_numbers(preempted[i].prompt_logprobs, plain[i].prompt_logprobs, REPORT_PROMPT - 1);
    }
  }
}

/* In another engine, or in the same one if engines are slow to open. */
static void answers_twice(const yk_engine_options *options, answer *first, answer *second)
{
  if (!fixture_opens_slowly()) {
    answers_together(options, OUTPUT, first);
    answers_together(options, OUTPUT, second);
    return;
  }
  yk_engine *engine = fixture_open(options);
  generate_together(engine, OUTPUT, first);
  generate_together(engine, OUTPUT, second);
  fixture_close(engine);
}

static void runs_repeat_on_any_rank_count(void **state)
{
  (void)state;
  static answer alone[N_PROMPTS], first[N_PROMPTS], second[N_PROMPTS];
  for (size_t m = 0; each_case(m, m < n_models()); m++) {
    if (!is_tried(m)) continue;
    answers_alone(m, OUTPUT, alone);
    for (int n_ranks = 1; each_case(n_ranks, n_ranks <= fixture_most_ranks()); n_ranks++) {
      if (m >= N_DENSE && n_ranks % 3 != 2) continue; /* of mixtures 2, 5 and 8: families.py tests the others */
      yk_engine_options options = options_on(m, n_ranks);
      answers_twice(&options, first, second);
      for (int i = 0; i < N_PROMPTS; i++) {
        assert_same_answer(&first[i], &second[i]);
        assert_close_answer(&first[i], &alone[i]);
      }
    }
  }
}

static yk_engine *open_with_wide_steps(size_t model)
{
  yk_engine_options options = options_of(model);
  options.max_batched_tokens = 512;
  return fixture_open(&options);
}

static void check_equal_beginnings(yk_engine *engine)
{
  int32_t ids[100];
  static answer cold, warm, longer, fresh;
  yk_engine_stats before, after;
  yk_engine_get_stats(engine, &before);
  fixture_prompt(5, VOCAB, ids, 100);
  yk_request_options request = fixture_request(engine, ids, 80, OUTPUT);
  fixture_answer(engine, &request, &cold);
  fixture_answer(engine, &request, &warm);
  assert_same_answer(&warm, &cold);
  assert_int_equal(cold.usage.reused_tokens, 0);
  assert_int_equal(warm.usage.reused_tokens, 64); /* whole blocks, and the last row is always computed */
  request = fixture_request(engine, ids, 100, OUTPUT);
  fixture_answer(engine, &request, &longer);
  assert_int_equal(longer.usage.reused_tokens, 80);
  request.sampling.n_prompt_logprobs = 0; /* every row has wanted logits, so none may be skipped */
  fixture_answer(engine, &request, &fresh);
  assert_int_equal(fresh.usage.reused_tokens, 0);
  assert_same_answer(&longer, &fresh);
  yk_engine_get_stats(engine, &after);
  assert_int_equal(after.prefix_reused_tokens - before.prefix_reused_tokens, 144);
  assert_int_equal(yk_engine_reset_prefixes(engine, NULL), YK_OK);
  request = fixture_request(engine, ids, 80, OUTPUT);
  fixture_answer(engine, &request, &fresh);
  assert_int_equal(fresh.usage.reused_tokens, 0);
  assert_same_answer(&fresh, &cold);
  fixture_answer(engine, &request, &fresh);
  assert_int_equal(fresh.usage.reused_tokens, 64);
}

/* Requests with one salt never find prefixes of requests with another. */
static void check_salts(yk_engine *engine)
{
  int32_t ids[100];
  static answer plain, found;
  static const struct {
    const char *salt;
    size_t n_bytes;
    int32_t reused;
  } rows[] = {{"a", 1, 0}, {"b", 1, 0}, {"a\0c", 3, 0}, {"a", 1, 64}, {NULL, 0, 64}, {"b", 1, 64}, {"a\0c", 3, 64}};
  fixture_prompt(16, VOCAB, ids, 100);
  yk_request_options request = fixture_request(engine, ids, 80, OUTPUT);
  fixture_answer(engine, &request, &plain);
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    request.cache_salt = rows[i].salt;
    request.cache_salt_bytes = rows[i].n_bytes;
    fixture_answer(engine, &request, &found);
    assert_int_equal(found.usage.reused_tokens, rows[i].reused);
    assert_same_answer(&found, &plain);
  }
  yk_request *refused;
  yk_err err = YK_ERR_INIT;
  request.cache_salt = "";
  request.cache_salt_bytes = 0;
  assert_int_equal(yk_engine_submit(engine, &request, &refused, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, "cache_salt"));
}

/* The last id of a bad word is banned after the word's other ids, and only there. */
static void check_bad_words(yk_engine *engine)
{
  int32_t ids[20];
  static answer plain, without;
  fixture_prompt(17, VOCAB, ids, 20);
  yk_request_options request = fixture_request(engine, ids, 20, OUTPUT);
  fixture_answer(engine, &request, &plain);
  const int32_t *expected_ids = plain.ids,
                elsewhere[] = {expected_ids[2], expected_ids[2], expected_ids[2], expected_ids[2], expected_ids[3]};
  const yk_token_ids words[] = {{expected_ids + 2, 2}, {elsewhere, 5}, {expected_ids, 1}};
  request.sampling.bad_words = words;
  request.sampling.n_bad_words = 2;
  fixture_answer(engine, &request, &without);
  for (int i = 0; i < 3; i++) assert_int_equal(without.ids[i], expected_ids[i]);
  for (int i = 1; i < OUTPUT; i++)
    assert_false(without.ids[i - 1] == expected_ids[2] && without.ids[i] == expected_ids[3]);
  request.sampling.bad_words = words + 2;
  request.sampling.n_bad_words = 1;
  fixture_answer(engine, &request, &without);
  for (int i = 0; i < OUTPUT; i++) assert_int_not_equal(without.ids[i], expected_ids[0]);
}

/* n samples are n requests at once: all except the first find the prompt's blocks in the same step. */
static void check_samples_of_one_prompt(yk_engine *engine)
{
  int32_t ids[64];
  static answer samples[4], again;
  yk_request *requests[4];
  fixture_prompt(6, VOCAB, ids, 64);
  yk_request_options request = fixture_request(engine, ids, 64, OUTPUT);
  request.sampling.temperature = 1;
  request.sampling.has_seed = true;
  /* Sample 2 draws far from the borders of its tokens: rounding moves none of the first twelve. */
  request.sampling.seed = 27;
  for (int i = 0; i < 4; i++) {
    request.sampling.sample_index = i;
    requests[i] = fixture_submit(engine, &request);
  }
  int32_t reused = 0;
  for (int i = 0; i < 4; i++) {
    fixture_read(requests[i], &samples[i]);
    reused += samples[i].usage.reused_tokens;
  }
  assert_int_equal(reused, 3 * 48);
  for (int i = 1; i < 4; i++) assert_memory_not_equal(samples[i].ids, samples[0].ids, sizeof(int32_t) * OUTPUT);
  request.sampling.sample_index = 2; /* the same seed and index alone give the same tokens */
  fixture_answer(engine, &request, &again);
  assert_same_answer(&again, &samples[2]);
}

static void equal_beginnings_are_computed_once(void **state)
{
  (void)state;
  for (size_t m = 0; each_case(m, m < n_models()); m++) {
    if (!is_tried(m)) continue;
    if (strcmp(MODELS[m].name, "mistral") == 0) continue; /* blocks before the window are freed */
    yk_engine *engine = open_with_wide_steps(m);
    check_equal_beginnings(engine);
    check_salts(engine);
    check_bad_words(engine);
    check_samples_of_one_prompt(engine);
    fixture_close(engine);
  }
}

static void cancelling_some_leaves_the_others_alone(void **state)
{
  (void)state;
  static answer alone[N_PROMPTS], out;
  answers_alone(0, OUTPUT, alone);
  yk_engine_options options = fixture_options("qwen3", 1);
  yk_engine *engine = fixture_open(&options);
  yk_request *requests[N_PROMPTS];
  for (uint32_t i = 0; i < N_PROMPTS; i++) {
    int32_t ids[256], n;
    prompt_of(i, ids, &n);
    yk_request_options request = fixture_request(engine, ids, (size_t)n, i % 2 ? OUTPUT : 120);
    requests[i] = fixture_submit(engine, &request);
  }
  for (int i = 0; i < N_PROMPTS; i += 2) yk_request_cancel(requests[i]);
  for (int i = 0; i < N_PROMPTS; i++) {
    fixture_read(requests[i], &out);
    if (i % 2)
      assert_same_answer(&out, &alone[i]);
    else
      assert_true(out.finish == YK_FINISH_CANCELLED || out.n == 120);
  }
  fixture_close(engine);
}

static void destroying_ends_requests_with_an_error(void **state)
{
  (void)state;
  int32_t ids[4] = {1, 2, 3, 4};
  static answer out;
  yk_engine_options options = fixture_options("qwen3", 2);
  yk_engine *engine = fixture_open(&options);
  yk_request *requests[30];
  yk_request_options request = fixture_request(engine, ids, 4, 200);
  for (int i = 0; i < 30; i++) requests[i] = fixture_submit(engine, &request);
  yk_engine_destroy(engine);
  for (int i = 0; i < 30; i++) {
    yk_request_cancel(requests[i]); /* too late, without effect */
    fixture_read(requests[i], &out);
    assert_int_equal(out.finish, YK_FINISH_ERROR);
    assert_int_equal(out.error.code, YK_E_CANCELLED);
  }
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(company_and_chunks_change_nothing),
                                     cmocka_unit_test(preemption_changes_nothing),
                                     cmocka_unit_test(preempted_prompts_report_once),
                                     cmocka_unit_test(runs_repeat_on_any_rank_count),
                                     cmocka_unit_test(equal_beginnings_are_computed_once),
                                     cmocka_unit_test(cancelling_some_leaves_the_others_alone),
                                     cmocka_unit_test(destroying_ends_requests_with_an_error)};
  int status = fixture_gate();
  return status ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
