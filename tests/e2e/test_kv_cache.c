/* An 8-bit KV cache under all operations on blocks: the answer to a request does not depend on chunks, other requests,
 * preemption, reuse or forks, and differs on other rank counts only by rounding. */
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

enum { VOCAB = 128, N_PROMPTS = 5, OUTPUT = 60 };

/* A format with computed scales, and one with the checkpoint's, which has 3 KV heads: uneven on 2 ranks. */
static const struct {
  const char *model, *dtype;
  yk_kv_cache_choice choice;
} cases[] = {{"mistral", "int8_per_token_head", YK_KV_CACHE_INT8},
             {"llama_uneven", "fp8_per_token_head", YK_KV_CACHE_FP8},
             {"format_kv_c8", "int8", YK_KV_CACHE_AUTO}};
enum { N_CASES = sizeof cases / sizeof *cases };

static yk_engine_options options_of(int i, int n_ranks)
{
  yk_engine_options options = fixture_options(cases[i].model, n_ranks);
  options.kv_cache_dtype = cases[i].choice;
  return options;
}

static int32_t prompt_of(uint32_t i, int32_t *ids)
{
  int32_t n = 3 + (int32_t)i * 17;
  fixture_prompt(i, VOCAB, ids, n);
  return n;
}

static void generate_alone(yk_engine *engine, answer *out)
{
  for (uint32_t i = 0; i < N_PROMPTS; i++) {
    int32_t ids[256], n = prompt_of(i, ids);
    yk_request_options request = fixture_request(engine, ids, (size_t)n, OUTPUT);
    fixture_answer(engine, &request, &out[i]);
  }
}

static void generate_together(yk_engine *engine, answer *out)
{
  yk_request *requests[N_PROMPTS];
  for (uint32_t i = 0; i < N_PROMPTS; i++) {
    int32_t ids[256], n = prompt_of(i, ids);
    yk_request_options request = fixture_request(engine, ids, (size_t)n, OUTPUT);
    requests[i] = fixture_submit(engine, &request);
  }
  for (int i = 0; i < N_PROMPTS; i++) fixture_read(requests[i], &out[i]);
}

/* Alone on one rank, computed once. */
static const answer *answers_of(int i)
{
  static answer known[N_CASES][N_PROMPTS];
  if (known[i][0].n) return known[i];
  yk_engine_options options = options_of(i, 1);
  options.no_prefix_reuse = true;
  yk_engine *engine = fixture_open(&options);
  generate_alone(engine, known[i]);
  fixture_close(engine);
  return known[i];
}

/* A code that is rounded the other way moves its value by a step. If sums differ in their last bits, answers are
 * therefore only close, up to a near tie. */
static void assert_near(const answer *found, const answer *expected)
{
  const float tolerance = 0.1f;
  for (int32_t t = 0; t < expected->n && expected->margins[t] > tolerance; t++) {
    assert_int_equal(found->ids[t], expected->ids[t]);
    assert_true(fabsf(found->logprobs[t] - expected->logprobs[t]) <= tolerance);
  }
}

/* GPUs split their sums by the shape of a step. */
static void assert_alike(const answer *found, const answer *expected)
{
  if (test_backend_chosen().tolerance > 0)
    assert_near(found, expected);
  else
    assert_same_answer(found, expected);
}

static void chunks_company_and_preemption_change_nothing(void **state)
{
  (void)state;
  static answer found[N_PROMPTS];
  for (int i = 0; i < N_CASES; i++) {
    yk_engine_options options = options_of(i, 1);
    options.max_batched_tokens = 23;
    options.max_model_tokens = 160;
    options.kv_cache_bytes = fixture_kv_bytes(&options, 176);
    yk_engine *engine = fixture_open(&options);
    generate_together(engine, found);
    yk_engine_stats stats;
    yk_engine_get_stats(engine, &stats);
    assert_true(stats.preemptions > 0 || strcmp(cases[i].model, "mistral") == 0); /* blocks before windows are freed */
    fixture_close(engine);
    for (int p = 0; p < N_PROMPTS; p++) assert_alike(&found[p], &answers_of(i)[p]);
  }
}

static void reused_blocks_change_nothing(void **state)
{
  (void)state;
  static answer found[N_PROMPTS];
  for (int i = 0; i < N_CASES; i++) {
    yk_engine_options options = options_of(i, 1);
    yk_engine *engine = fixture_open(&options);
    for (int again = 0; again < 2; again++) {
      generate_alone(engine, found);
      for (int p = 0; p < N_PROMPTS; p++) assert_alike(&found[p], &answers_of(i)[p]);
    }
    yk_engine_stats stats;
    yk_engine_get_stats(engine, &stats);
    assert_true(stats.prefix_reused_tokens > 0);
    fixture_close(engine);
  }
}

static void other_rank_counts_come_near(void **state)
{
  (void)state;
  static answer found[N_PROMPTS];
  for (int i = 0; i < N_CASES; i++)
    for (int n_ranks = 2; each_case(n_ranks, n_ranks <= 3 && n_ranks <= fixture_most_ranks()); n_ranks++) {
      yk_engine_options options = options_of(i, n_ranks);
      yk_engine *engine = fixture_open(&options);
      generate_together(engine, found);
      fixture_close(engine);
      for (int p = 0; p < N_PROMPTS; p++) assert_near(&found[p], &answers_of(i)[p]);
    }
}

static void append(yk_held_sequence *sequence, const int32_t *ids, size_t n, yk_logits_of which, float *logits)
{
  yk_err err = YK_ERR_INIT;
  if (yk_held_sequence_append(sequence, ids, n, which, logits, &err) != YK_OK) fail_msg("%s", err.message);
}

/* A fork shares whole blocks; later differences and truncations of either do not change the other's logits. */
static void forks_and_truncation_change_nothing(void **state)
{
  (void)state;
  enum { N = 50, WIDEST = 256 };
  for (int i = 0; i < N_CASES; i++) {
    float whole[WIDEST], found[WIDEST];
    int32_t ids[N], other[N];
    fixture_prompt(5, VOCAB, ids, N);
    fixture_prompt(6, VOCAB, other, N);
    yk_engine_options options = options_of(i, 1);
    yk_engine *engine = fixture_open(&options);
    yk_engine_info info;
    yk_engine_get_info(engine, &info);
    assert_true(info.vocab_size <= WIDEST);
    assert_string_equal(info.kv_cache_dtype, cases[i].dtype);
    yk_held_sequence *a = NULL, *b = NULL;
    assert_int_equal(yk_held_sequence_create(engine, &a, NULL), YK_OK);
    append(a, ids, N, YK_LOGITS_LAST, whole);
    assert_int_equal(yk_held_sequence_truncate(a, 37, NULL), YK_OK);
    assert_int_equal(yk_held_sequence_fork(a, &b, NULL), YK_OK);
    append(a, other, 13, YK_LOGITS_NONE, NULL);
    append(b, ids + 37, N - 37, YK_LOGITS_LAST, found);
    assert_same_numbers(found, whole, (size_t)info.vocab_size);
    yk_held_sequence_free(a);
    yk_held_sequence_free(b);
    fixture_close(engine);
  }
}

/* The formats that the choices select, and the bytes of a token: codes and a scale for each head, of K and of V. */
static void choices(void **state)
{
  (void)state;
  static const struct {
    const char *model;
    yk_kv_cache_choice choice;
    const char *dtype;
    int64_t head_bytes; /* of head_dim 16 */
  } rows[] = {{"format_kv_c8", YK_KV_CACHE_AUTO, "int8", 20},
              {"format_kv_c8", YK_KV_CACHE_INT8, "int8", 20},
              {"format_kv_c8", YK_KV_CACHE_FP8, "fp8_per_token_head", 20},
              {"format_kv_c8", YK_KV_CACHE_INT8_PER_TOKEN_HEAD, "int8_per_token_head", 20},
              {"format_kv_c8", YK_KV_CACHE_F32, "float32", 64},
              {"format_kv_fp8", YK_KV_CACHE_AUTO, "fp8", 20},
              {"format_kv_fp8", YK_KV_CACHE_FP8_PER_TOKEN_HEAD, "fp8_per_token_head", 20},
              {"llama", YK_KV_CACHE_AUTO, "float32", 64},
              {"llama", YK_KV_CACHE_INT8, "int8_per_token_head", 20}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    yk_engine_options options = fixture_options(rows[i].model, 1);
    yk_plan plan;
    options.device = YK_DEVICE_CPU;
    options.dtype = YK_DTYPE_F32;
    options.n_ranks = 1;
    options.kv_cache_dtype = rows[i].choice;
    assert_int_equal(yk_plan_make(&options, 0, &plan, NULL), YK_OK);
    assert_string_equal(plan.kv_cache_dtype, rows[i].dtype);
    int64_t heads = strcmp(rows[i].model, "llama") == 0          ? 3 * 2
                    : strcmp(rows[i].model, "format_kv_c8") == 0 ? 2 * 3
                                                                 : 4;
    assert_int_equal(plan.kv_bytes_per_token[0], 2 * heads * rows[i].head_bytes);
  }
}

/* GPUs have a staging buffer for one layer's blocks in 16 bits in addition to the caches. */
static void staging_on_gpus(void **state)
{
  (void)state;
  yk_engine_options options = fixture_options("llama", 1);
  yk_plan plan;
  options.device = YK_DEVICE_CUDA;
  options.dtype = YK_DTYPE_F16;
  options.n_ranks = 1;
  options.kv_cache_dtype = YK_KV_CACHE_FP8;
  assert_int_equal(yk_plan_make(&options, INT64_C(8) << 30, &plan, NULL), YK_OK);
  assert_int_equal(plan.kv_bytes_per_token[0], 2 * 2 * (3 * 20 + 32));
}

static void other_floats_are_refused(void **state)
{
  (void)state;
  yk_engine_options options = fixture_options("llama", 1);
  yk_engine *engine;
  yk_err err = YK_ERR_INIT;
  options.device = YK_DEVICE_CPU;
  options.dtype = YK_DTYPE_F32;
  options.kv_cache_dtype = YK_KV_CACHE_BF16;
  assert_int_equal(yk_engine_create(&options, &engine, &err), YK_E_UNSUPPORTED);
  assert_string_equal(err.message,
                      "kv_cache_dtype bfloat16: activations are float32; supported: float32, auto, int8, fp8, "
                      "int8_per_token_head, fp8_per_token_head");
}

int main(void)
{
  yk_process_init();
  int gate = fixture_gate();
  if (gate) return gate;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_company_and_preemption_change_nothing),
      cmocka_unit_test(reused_blocks_change_nothing),
      cmocka_unit_test(other_rank_counts_come_near),
      cmocka_unit_test(forks_and_truncation_change_nothing),
      cmocka_unit_test(choices),
      cmocka_unit_test(staging_on_gpus),
      cmocka_unit_test(other_floats_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
