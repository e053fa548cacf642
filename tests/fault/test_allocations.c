/* An allocation that fails anywhere gives an error and nothing else; a decode step never allocates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "each_case.h"
#include "fault/counted_alloc.h"
#include "sanitized.h"
#include "yoke/yoke.h"

static yk_engine_options options_of(const char *dir)
{
  yk_engine_options options;
  yk_engine_options_init(&options);
  options.model_dir = dir;
  options.device = YK_DEVICE_CPU;
  options.n_ranks = 2;
  options.n_cpu_threads = 4;
  options.max_model_tokens = 256;
  options.max_batched_tokens = 32;
  options.max_seqs = 4;
  return options;
}

static void read_all(yk_request *request, int *n_errors)
{
  const yk_output *output;
  yk_err err = YK_ERR_INIT;
  yk_status status;
  do status = yk_request_next(request, 60, &output, &err);
  while (status == YK_OK && output->finish == YK_FINISH_NONE);
  if (status != YK_OK) {
    assert_int_equal(status, err.code);
    assert_int_not_equal(status, YK_E_AGAIN);
    assert_true(err.message[0] != '\0');
    (*n_errors)++;
  }
  yk_request_free(request);
}

static void use_requests(yk_engine *engine, int *n_errors)
{
  static const char *const stop = "never said";
  yk_logit_bias bias = {3, 1};
  int32_t stop_id = 5;
  yk_request *requests[2] = {0};
  for (int i = 0; i < 2; i++) {
    yk_request_options options;
    yk_request_options_init(engine, &options);
    options.text = "348+275=";
    options.sampling.max_tokens = 10;
    options.sampling.ignore_eos = true;
    options.sampling.min_tokens = 3;
    options.sampling.frequency_penalty = 0.5f;
    options.sampling.stop_strings = &stop;
    options.sampling.n_stop_strings = 1;
    options.sampling.stop_ids = &stop_id;
    options.sampling.n_stop_ids = 1;
    options.sampling.biases = &bias;
    options.sampling.n_biases = 1;
    yk_err err = YK_ERR_INIT;
    if (yk_engine_submit(engine, &options, &requests[i], &err) == YK_OK) continue;
    assert_true(err.message[0] != '\0');
    requests[i] = NULL;
    (*n_errors)++;
  }
  for (int i = 0; i < 2; i++)
    if (requests[i]) read_all(requests[i], n_errors);
}

static void use_sequence(yk_engine *engine, int *n_errors)
{
  yk_held_sequence *sequence = NULL, *branch = NULL;
  int32_t ids[20] = {1, 2, 3};
  if (yk_held_sequence_create(engine, &sequence, NULL) != YK_OK) {
    (*n_errors)++;
    return;
  }
  *n_errors += yk_held_sequence_append(sequence, ids, 20, YK_LOGITS_NONE, NULL, NULL) != YK_OK;
  *n_errors += yk_held_sequence_fork(sequence, &branch, NULL) != YK_OK;
  yk_held_sequence_free(branch);
  yk_held_sequence_free(sequence);
}

static void use_text(yk_engine *engine, int *n_errors)
{
  static const int32_t ids[] = {5, 6, 7, 300, 301};
  yk_text_stream *stream = NULL;
  char *text = NULL;
  const char *piece;
  size_t n_bytes;
  *n_errors += yk_engine_detokenize(engine, ids, 5, true, &text, &n_bytes, NULL) != YK_OK;
  free(text);
  if (yk_text_stream_create(engine, true, &stream, NULL) != YK_OK) {
    (*n_errors)++;
    return;
  }
  *n_errors += yk_text_stream_push(stream, ids, 5, &piece, &n_bytes, NULL) != YK_OK;
  *n_errors += yk_text_stream_finish(stream, &piece, &n_bytes, NULL) != YK_OK;
  yk_text_stream_free(stream);
}

/* One life of an engine. Returns the number of failed calls and requests. */
static int live(const yk_engine_options *options)
{
  yk_engine *engine = NULL;
  yk_err err = YK_ERR_INIT;
  int n_errors = 0;
  if (yk_engine_create(options, &engine, &err) != YK_OK) {
    assert_true(err.message[0] != '\0');
    return 1;
  }
  use_requests(engine, &n_errors);
  use_sequence(engine, &n_errors);
  use_text(engine, &n_errors);
  yk_engine_destroy(engine);
  return n_errors;
}

enum { FAIL_EVERY = TEST_IS_SANITIZED ? 5 : 1 };

static void any_allocation_may_fail(void **state)
{
  (void)state;
  yk_engine_options options = options_of(YOKE_TESTS_DIR "/models/demo");
  counted_alloc_reset(0);
  assert_int_equal(live(&options), 0);
  int64_t n_allocations = counted_alloc_count();
  assert_true(n_allocations > 100);
  for (int64_t fail_at = 1; fail_at <= n_allocations; fail_at += FAIL_EVERY) {
    counted_alloc_reset(fail_at);
    int n_errors = live(&options);
    /* Threads race, so a life may need one allocation less than the first did: then no allocation failed. */
    if (n_errors == 0 && counted_alloc_count() >= fail_at) fail_msg("allocation %d failed unnoticed", (int)fail_at);
  }
  counted_alloc_reset(0);
  assert_int_equal(live(&options), 0);
}

/* Loading alone: weights that are repacked, sorted or dequantised, and configurations with rules. */
static void any_allocation_of_loading_may_fail(void **state)
{
  (void)state;
  static const struct {
    const char *dir;
    yk_weights_choice weights;
    bool expert_parallel;
    const char *adapter;
  } models[] = {{YOKE_TESTS_DIR "/golden/families/format_compressed_mixed", YK_WEIGHTS_AUTO, false, NULL},
                {YOKE_TESTS_DIR "/golden/families/format_gptq_act_order", YK_WEIGHTS_AUTO, false, NULL},
                {YOKE_TESTS_DIR "/golden/families/format_compressed_act_order", YK_WEIGHTS_F16, false, NULL},
                {YOKE_TESTS_DIR "/golden/families/chatglm3_awq", YK_WEIGHTS_AUTO, false, NULL},
                {YOKE_TESTS_DIR "/golden/families/format_kv_c8", YK_WEIGHTS_AUTO, false, NULL},
                {YOKE_TESTS_DIR "/golden/families/format_msmodelslim_w8a16", YK_WEIGHTS_AUTO, false, NULL},
                {YOKE_TESTS_DIR "/golden/families/deepseek_v2_act_order", YK_WEIGHTS_AUTO, false, NULL},
                {YOKE_TESTS_DIR "/golden/families/moe_glm4", YK_WEIGHTS_F16, true, NULL},
                {YOKE_TESTS_DIR "/golden/families/qwen2_bf16", YK_WEIGHTS_AUTO, false,
                 YOKE_TESTS_DIR "/golden/adapters/patterns"}};
  for (size_t i = 0; each_case(i, i < sizeof models / sizeof *models); i++) {
    yk_engine_options options = options_of(models[i].dir);
    options.weights = models[i].weights;
    options.expert_parallel = models[i].expert_parallel;
    const yk_adapter_path adapter = {"x", models[i].adapter};
    options.max_adapters = models[i].adapter != NULL;
    options.n_adapters = (size_t)options.max_adapters;
    options.adapters = &adapter;
    yk_engine *engine;
    int64_t n_allocations = 1;
    for (int64_t fail_at = 0; fail_at <= n_allocations; fail_at += fail_at == 0 ? 1 : FAIL_EVERY) {
      yk_err err = YK_ERR_INIT;
      counted_alloc_reset(fail_at);
      yk_status status = yk_engine_create(&options, &engine, &err);
      if (fail_at == 0) n_allocations = counted_alloc_count();
      if (status == YK_OK) {
        bool was_made_to_fail = fail_at > 0 && counted_alloc_count() >= fail_at;
        yk_engine_destroy(engine);
        if (was_made_to_fail) fail_msg("%s: allocation %d failed unnoticed", models[i].dir, (int)fail_at);
      } else {
        assert_true(fail_at > 0 && err.message[0] != '\0');
      }
    }
  }
}

enum { N_OUTPUT_TOKENS = 240 };

static int32_t output_tokens_of(yk_request *request)
{
  yk_request_usage usage;
  yk_request_get_usage(request, &usage);
  return usage.output_tokens;
}

static void wait_for_output(yk_request *request, int32_t n_tokens)
{
  while (output_tokens_of(request) < n_tokens) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* Allocations while a request has its tokens 120 to 160; -1 if this thread ran so late that the end of the request,
 * which allocates, may be among them. */
static int64_t count_allocations_of_steps(yk_engine *engine)
{
  yk_request_options options;
  yk_request_options_init(engine, &options);
  options.text = "348+275=";
  options.sampling.max_tokens = N_OUTPUT_TOKENS;
  options.sampling.ignore_eos = true;
  options.sampling.presence_penalty = 0.1f;
  yk_request *request;
  assert_int_equal(yk_engine_submit(engine, &options, &request, NULL), YK_OK);
  /* Unread output grows in one of two buffers; let both grow first, then empty them. */
  const yk_output *output;
  for (int end = 60; end <= 120; end += 60) {
    wait_for_output(request, end);
    for (int i = 0; i < 60; i++) assert_int_equal(yk_request_next(request, 60, &output, NULL), YK_OK);
  }
  int64_t before = counted_alloc_count();
  wait_for_output(request, 160);
  int64_t n = counted_alloc_count() - before;
  if (output_tokens_of(request) == N_OUTPUT_TOKENS) n = -1;
  int n_errors = 0;
  read_all(request, &n_errors);
  assert_int_equal(n_errors, 0);
  return n;
}

static void a_decode_step_allocates_nothing(void **state)
{
  (void)state;
  enum { MAX_TRIES = 50 };
  yk_engine_options options = options_of(YOKE_TESTS_DIR "/models/demo");
  yk_engine *engine;
  counted_alloc_reset(0);
  assert_int_equal(yk_engine_create(&options, &engine, NULL), YK_OK);
  int64_t n = -1;
  for (int i = 0; i < MAX_TRIES && n < 0; i++) n = count_allocations_of_steps(engine);
  assert_int_equal(n, 0);
  yk_engine_destroy(engine);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(any_allocation_may_fail),
                                     cmocka_unit_test(any_allocation_of_loading_may_fail),
                                     cmocka_unit_test(a_decode_step_allocates_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
