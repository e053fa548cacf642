#include "e2e/engine_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sanitized.h"

int fixture_gate(void)
{
  test_backend backend = test_backend_chosen();
  return test_backend_gate(backend.kind, backend.n_ranks);
}

int fixture_most_ranks(void)
{
  if (test_backend_chosen().n_ranks) return 1;
  return TEST_IS_SANITIZED ? 3 : 8;
}

bool fixture_opens_slowly(void)
{
  test_backend backend = test_backend_chosen();
  return backend.kind == YK_DEVICE_CUDA && backend.n_ranks > 1;
}

yk_engine_options fixture_options(const char *model, int n_ranks)
{
  static _Thread_local char dir[512];
  test_backend backend = test_backend_chosen();
  snprintf(dir, sizeof dir, "%s/golden/families/%s", test_data_dir(), model);
  yk_engine_options options;
  yk_engine_options_init(&options);
  options.model_dir = dir;
  options.device = backend.kind;
  options.n_ranks = backend.n_ranks ? backend.n_ranks : n_ranks;
  options.n_stages = backend.n_stages;
  options.n_cpu_threads = 1;
  options.dtype = backend.dtype;
  options.max_model_tokens = 256;
  options.max_batched_tokens = 64;
  options.max_seqs = 16;
  return options;
}

bool fixture_same_bits(void)
{
  return test_backend_chosen().tolerance == 0;
}

int64_t fixture_kv_bytes(const yk_engine_options *options, int32_t n_tokens)
{
  yk_plan plan;
  yk_err err = YK_ERR_INIT;
  if (yk_plan_make(options, 0, &plan, &err) != YK_OK) fail_msg("%s: %s", options->model_dir, err.message);
  int64_t most = 0;
  for (int rank = 0; rank < options->n_ranks; rank++)
    if (plan.kv_bytes_per_token[rank] > most) most = plan.kv_bytes_per_token[rank];
  return most * n_tokens;
}

yk_engine *fixture_open(const yk_engine_options *options)
{
  yk_engine *engine = NULL;
  yk_err err = YK_ERR_INIT;
  if (yk_engine_create(options, &engine, &err) != YK_OK) fail_msg("%s: %s", options->model_dir, err.message);
  return engine;
}

void fixture_close(yk_engine *engine)
{
  yk_engine_stats stats;
  yk_engine_get_stats(engine, &stats);
  assert_int_equal(stats.running, 0);
  assert_int_equal(stats.waiting, 0);
  assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
  yk_engine_destroy(engine);
}

yk_request_options fixture_request(yk_engine *engine, const int32_t *ids, size_t n_ids, int32_t max_tokens)
{
  yk_request_options options;
  yk_request_options_init(engine, &options);
  options.ids = ids;
  options.n_ids = n_ids;
  options.sampling.temperature = 0;
  options.sampling.max_tokens = max_tokens;
  options.sampling.ignore_eos = true;
  options.sampling.n_logprobs = 2;
  return options;
}

yk_request *fixture_submit(yk_engine *engine, const yk_request_options *options)
{
  yk_request *request = NULL;
  yk_err err = YK_ERR_INIT;
  if (yk_engine_submit(engine, options, &request, &err) != YK_OK) fail_msg("submit: %s", err.message);
  return request;
}

void fixture_take(answer *out, const yk_output *output)
{
  out->finish = output->finish;
  if (output->is_prompt) {
    assert_true(out->n_prompt < ANSWER_MAX_PROMPT);
    out->prompt_ids[out->n_prompt] = output->token_id;
    out->prompt_logprobs[out->n_prompt++] = output->logprob;
    return;
  }
  size_t used = strlen(out->text);
  assert_true(used + output->text_bytes < sizeof out->text);
  memcpy(out->text + used, output->text, output->text_bytes);
  if (!output->has_token) return;
  assert_true(out->n < ANSWER_MAX_TOKENS);
  out->ids[out->n] = output->token_id;
  out->best_ids[out->n] = output->n_top > 0 ? output->top_ids[0] : -1;
  out->margins[out->n] = output->n_top > 1 ? output->top_logprobs[0] - output->top_logprobs[1] : INFINITY;
  out->logprobs[out->n++] = output->logprob;
}

void fixture_read(yk_request *request, answer *out)
{
  memset(out, 0, sizeof *out);
  out->error = YK_ERR_INIT;
  while (out->finish == YK_FINISH_NONE) {
    const yk_output *output;
    if (yk_request_next(request, 60, &output, &out->error) == YK_OK)
      fixture_take(out, output);
    else
      out->finish = YK_FINISH_ERROR;
    assert_int_not_equal(out->error.code, YK_E_AGAIN);
  }
  yk_request_get_usage(request, &out->usage);
  yk_request_free(request);
}

void fixture_answer(yk_engine *engine, const yk_request_options *options, answer *out)
{
  fixture_read(fixture_submit(engine, options), out);
}

void fixture_prompt(uint32_t seed, int32_t vocab, int32_t *ids, int32_t n)
{
  for (int32_t i = 0; i < n; i++) ids[i] = (int32_t)(yk_rng_uniform(seed, 1, (uint32_t)i) * (float)vocab);
}

/* Largest allowed difference of two answers; with a tolerance of 0 none. */
typedef struct allowance {
  float tolerance, rare_tolerance;
} allowance;

static allowance of_same_request(void)
{
  test_backend backend = test_backend_chosen();
  return (allowance){backend.tolerance, backend.rare_tolerance};
}

static allowance of_other_sums(void)
{
  const float cpu_tolerance = 1e-3f;
  allowance same = of_same_request();
  return (allowance){fmaxf(same.tolerance, cpu_tolerance), fmaxf(same.rare_tolerance, cpu_tolerance)};
}

static void check_numbers(const float *found, const float *expected, size_t n, float tolerance)
{
  if (tolerance == 0) assert_memory_equal(found, expected, n * sizeof *found);
  for (size_t i = 0; i < n; i++)
    if (!(fabsf(found[i] - expected[i]) <= tolerance))
      fail_msg("number %zu: expected %g, found %g", i, (double)expected[i], (double)found[i]);
}

static bool is_best(const answer *a, int32_t step)
{
  return a->ids[step] == a->best_ids[step];
}

/* Whether the tokens may differ from this step on. */
static bool may_part(const answer *found, const answer *expected, int32_t step, float tolerance)
{
  if (tolerance == 0) return false;
  if (is_best(found, step) && is_best(expected, step)) return expected->margins[step] <= tolerance;
  return 2 * step >= expected->n;
}

/* Returns whether all tokens of found are the expected ones. If not, checks that they differ at an allowed step. */
static bool check_tokens(const answer *found, const answer *expected, allowance limit)
{
  assert_true(found->n <= expected->n);
  for (int32_t i = 0; i < found->n; i++) {
    if (found->ids[i] != expected->ids[i]) {
      if (!may_part(found, expected, i, limit.tolerance))
        fail_msg("step %d: expected token %d (margin %g), found %d", i, expected->ids[i], (double)expected->margins[i],
                 found->ids[i]);
      return false;
    }
    check_numbers(&found->logprobs[i], &expected->logprobs[i], 1,
                  is_best(expected, i) ? limit.tolerance : limit.rare_tolerance);
  }
  return true;
}

static void check_answer(const answer *found, const answer *expected, allowance limit)
{
  if (!check_tokens(found, expected, limit)) return;
  assert_int_equal(found->finish, expected->finish);
  assert_int_equal(found->n, expected->n);
}

void assert_same_answer(const answer *found, const answer *expected)
{
  check_answer(found, expected, of_same_request());
}

void assert_same_beginning(const answer *found, const answer *expected)
{
  check_tokens(found, expected, of_same_request());
}

void assert_close_answer(const answer *found, const answer *expected)
{
  check_answer(found, expected, of_other_sums());
}

void assert_same_numbers(const float *found, const float *expected, size_t n)
{
  check_numbers(found, expected, n, of_same_request().rare_tolerance);
}

void assert_close_numbers(const float *found, const float *expected, size_t n)
{
  check_numbers(found, expected, n, of_other_sums().rare_tolerance);
}

bool fixture_near_tie(const answer *expected, int32_t step)
{
  float tolerance = of_same_request().tolerance;
  return tolerance > 0 && expected->margins[step] <= tolerance;
}
