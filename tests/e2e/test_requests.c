/* Parameters of one request, and refusals: each parameter by its effect, each refusal by its message. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/engine_fixture.h"
#include "yoke/process.h"

enum { VOCAB = 200, OUTPUT = 20 };

static int32_t prompt[64];

static int open_engine(void **state)
{
  fixture_prompt(3, VOCAB, prompt, 64);
  yk_engine_options options = fixture_options("qwen3", 2);
  *state = fixture_open(&options);
  return 0;
}

static int close_engine(void **state)
{
  fixture_close(*state);
  return 0;
}

static yk_request_options greedy(yk_engine *engine)
{
  return fixture_request(engine, prompt, 64, OUTPUT);
}

static void same_seed_same_tokens_other_seed_others(void **state)
{
  static answer a, b, c;
  yk_request_options request = greedy(*state);
  request.sampling.temperature = 1.5f;
  request.sampling.has_seed = true;
  request.sampling.seed = 1;
  fixture_answer(*state, &request, &a);
  fixture_answer(*state, &request, &b);
  request.sampling.seed = 2;
  fixture_answer(*state, &request, &c);
  assert_same_answer(&b, &a);
  assert_memory_not_equal(a.ids, c.ids, OUTPUT * sizeof a.ids[0]);
}

/* Steps of plain greedy rows use another path: each rank finds its best logit. */
static void greedy_tokens_do_not_depend_on_reports(void **state)
{
  static answer reported, plain;
  for (uint32_t seed = 0; seed < 8; seed++) {
    int32_t own[64];
    fixture_prompt(seed, VOCAB, own, 64);
    yk_request_options request = fixture_request(*state, own, 64, OUTPUT);
    fixture_answer(*state, &request, &reported);
    request.sampling.n_logprobs = -1;
    fixture_answer(*state, &request, &plain);
    assert_int_equal(plain.n, OUTPUT);
    for (int i = 0; i < OUTPUT && reported.margins[i] > 1e-3f; i++) assert_int_equal(plain.ids[i], reported.ids[i]);
  }
}

static void stop_ids_end_the_output_unless_too_early(void **state)
{
  static answer plain, stopped, later;
  yk_request_options request = greedy(*state);
  fixture_answer(*state, &request, &plain);
  int32_t stop = plain.ids[4];
  request.sampling.stop_ids = &stop;
  request.sampling.n_stop_ids = 1;
  fixture_answer(*state, &request, &stopped);
  assert_int_equal(stopped.finish, YK_FINISH_STOP);
  assert_same_beginning(&stopped, &plain);
  for (int i = 0; i < stopped.n; i++) assert_int_equal(stopped.ids[i] == stop, i == stopped.n - 1);
  request.sampling.min_tokens = 10;
  fixture_answer(*state, &request, &later);
  for (int i = 0; i < 10; i++) assert_int_not_equal(later.ids[i], stop);
}

static void biases_force_and_ban(void **state)
{
  static answer plain, forced, banned;
  yk_request_options request = greedy(*state);
  fixture_answer(*state, &request, &plain);
  yk_logit_bias bias = {77, 100};
  request.sampling.biases = &bias;
  request.sampling.n_biases = 1;
  fixture_answer(*state, &request, &forced);
  for (int i = 0; i < OUTPUT; i++) assert_int_equal(forced.ids[i], 77);
  assert_true(forced.logprobs[0] <= 0 && forced.logprobs[0] > -50); /* of the raw logits */
  bias = (yk_logit_bias){plain.ids[0], -100};
  fixture_answer(*state, &request, &banned);
  assert_int_not_equal(banned.ids[0], plain.ids[0]);
}

static int count_distinct(const answer *a)
{
  int n = 0;
  for (int i = 0; i < a->n; i++) {
    int j = 0;
    while (a->ids[j] != a->ids[i]) j++;
    n += j == i;
  }
  return n;
}

static void penalties_make_repetition_rarer(void **state)
{
  static answer plain, penalised;
  yk_request_options request = fixture_request(*state, prompt, 3, 150);
  fixture_answer(*state, &request, &plain);
  request.sampling.presence_penalty = 2;
  request.sampling.frequency_penalty = 2;
  fixture_answer(*state, &request, &penalised);
  assert_true(count_distinct(&penalised) > count_distinct(&plain));
  request.sampling.presence_penalty = request.sampling.frequency_penalty = 0;
  request.sampling.repetition_penalty = 10;
  fixture_answer(*state, &request, &penalised);
  assert_true(count_distinct(&penalised) > count_distinct(&plain));
}

/* Log-probabilities of a prompt equal those that generating it would have reported. */
static void prompt_logprobs_are_those_of_generating(void **state)
{
  static answer generated, scored;
  yk_request_options request = fixture_request(*state, prompt, 5, 60);
  fixture_answer(*state, &request, &generated);
  int32_t whole[65];
  memcpy(whole, prompt, 5 * sizeof whole[0]);
  memcpy(whole + 5, generated.ids, 60 * sizeof whole[0]);
  request = fixture_request(*state, whole, 65, 0);
  request.sampling.n_prompt_logprobs = 0;
  fixture_answer(*state, &request, &scored);
  assert_int_equal(scored.finish, YK_FINISH_LENGTH);
  assert_int_equal(scored.n, 0);
  assert_int_equal(scored.n_prompt, 64);
  assert_memory_equal(scored.prompt_ids, whole + 1, 64 * sizeof whole[0]);
  assert_same_numbers(scored.prompt_logprobs + 4, generated.logprobs, 60);
}

/* A refusal names the parameter and its legal range. */
static void refused(yk_engine *engine, const yk_request_options *request, yk_status code, const char *message)
{
  yk_request *out = NULL;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_engine_submit(engine, request, &out, &err), code);
  assert_string_equal(err.message, message);
  assert_null(out);
}

#define REFUSED(field, value, message)                                                                                 \
  do {                                                                                                                 \
    yk_request_options request = greedy(*state);                                                                       \
    request.sampling.field = (value);                                                                                  \
    refused(*state, &request, YK_E_INVAL, message);                                                                    \
  } while (0)

static void parameters_out_of_range_are_refused_by_name(void **state)
{
  REFUSED(temperature, -0.5f, "temperature: expected 0 to 100, found -0.5");
  REFUSED(temperature, NAN, "temperature: expected 0 to 100, found nan");
  REFUSED(temperature, INFINITY, "temperature: expected 0 to 100, found inf");
  REFUSED(top_p, 0, "top_p: expected more than 0 and at most 1, found 0");
  REFUSED(top_p, 1.5f, "top_p: expected more than 0 and at most 1, found 1.5");
  REFUSED(top_p, NAN, "top_p: expected more than 0 and at most 1, found nan");
  REFUSED(min_p, -1, "min_p: expected 0 to 1, found -1");
  REFUSED(top_k, -2, "top_k: expected -1 to 2147483647, found -2");
  REFUSED(max_tokens, 0, "max_tokens (with this prompt): expected 1 to 192, found 0");
  REFUSED(max_tokens, 193, "max_tokens (with this prompt): expected 1 to 192, found 193");
  REFUSED(max_tokens, -7, "max_tokens (with this prompt): expected 1 to 192, found -7");
  REFUSED(min_tokens, 21, "min_tokens: expected 0 to 20, found 21");
  REFUSED(n_logprobs, 21, "logprobs: expected -1 to 20, found 21");
  REFUSED(n_prompt_logprobs, -2, "prompt_logprobs: expected -1 to 20, found -2");
  REFUSED(sample_index, -1, "sample_index: expected 0 to 2147483647, found -1");
  REFUSED(repetition_penalty, 0, "repetition_penalty: expected more than 0 and at most 10, found 0");
  REFUSED(frequency_penalty, 2.5f, "frequency_penalty: expected -2 to 2, found 2.5");
  REFUSED(presence_penalty, NAN, "presence_penalty: expected -2 to 2, found nan");
}

static void ids_outside_the_vocabulary_are_refused(void **state)
{
  int32_t ids[3] = {1, 200, 2};
  yk_request_options request = fixture_request(*state, ids, 3, 5);
  refused(*state, &request, YK_E_INVAL, "prompt: token id 200 at index 1 is outside the vocabulary (0 to 199)");
  ids[1] = -1;
  refused(*state, &request, YK_E_INVAL, "prompt: token id -1 at index 1 is outside the vocabulary (0 to 199)");
  request = greedy(*state);
  request.sampling.stop_ids = ids;
  request.sampling.n_stop_ids = 3;
  refused(*state, &request, YK_E_INVAL, "stop ids: token id -1 at index 1 is outside the vocabulary (0 to 199)");
  yk_logit_bias biases[2] = {{300, 1}, {5, 1}};
  request = greedy(*state);
  request.sampling.biases = biases;
  request.sampling.n_biases = 2;
  refused(*state, &request, YK_E_INVAL, "logit_bias: token id 300 at index 0 is outside the vocabulary (0 to 199)");
  biases[0].token_id = 5;
  refused(*state, &request, YK_E_INVAL, "logit_bias: expected each token id once, found 5 twice");
  biases[0] = (yk_logit_bias){6, NAN};
  refused(*state, &request, YK_E_INVAL, "logit_bias: expected -100 to 100, found nan");
}

static void bad_words_and_salts_out_of_range_are_refused(void **state)
{
  enum { TOO_MANY = 1025 };
  static const char salt[YK_MAX_CACHE_SALT_BYTES + 1];
  static yk_token_ids words[TOO_MANY];
  const int32_t ids[] = {1, 200};
  for (int i = 0; i < TOO_MANY; i++) words[i] = (yk_token_ids){ids, 1};
  yk_request_options request = greedy(*state);
  request.sampling.bad_words = words;
  request.sampling.n_bad_words = TOO_MANY;
  refused(*state, &request, YK_E_INVAL, "number of bad_words: expected 0 to 1024, found 1025");
  request.sampling.n_bad_words = 2;
  words[1].n_ids = 2;
  refused(*state, &request, YK_E_INVAL, "bad_words: token id 200 at index 1 is outside the vocabulary (0 to 199)");
  words[1].n_ids = 0;
  refused(*state, &request, YK_E_INVAL, "bad_words: expected at least one token in each");
  request.sampling.bad_words = NULL;
  refused(*state, &request, YK_E_INVAL, "bad_words: expected an array of 2, found NULL");
  request.sampling.n_bad_words = 0;
  request.cache_salt = salt;
  request.cache_salt_bytes = sizeof salt;
  refused(*state, &request, YK_E_INVAL, "bytes of cache_salt: expected 1 to 1024, found 1025");
}

static void prompts_that_do_not_fit_are_refused(void **state)
{
  int32_t ids[300];
  fixture_prompt(1, VOCAB, ids, 300);
  yk_request_options request = fixture_request(*state, ids, 0, 5);
  refused(*state, &request, YK_E_INVAL, "prompt: expected at least one token, found none");
  request.n_ids = 256;
  refused(*state, &request, YK_E_CAPACITY,
          "prompt: expected at most 255 tokens, found 256: this model's maximum context length is 256, one kept for "
          "output");
  request.text = "words";
  refused(*state, &request, YK_E_UNSUPPORTED, "text: the checkpoint has no tokenizer.json; give token ids");
  const char *stop = "x";
  request = greedy(*state);
  request.sampling.stop_strings = &stop;
  request.sampling.n_stop_strings = 1;
  refused(*state, &request, YK_E_UNSUPPORTED, "stop strings: the checkpoint has no tokenizer.json; use stop ids");
}

static void a_refusal_leaves_others_untouched(void **state)
{
  static answer before, after;
  yk_request_options request = greedy(*state), bad = request;
  fixture_answer(*state, &request, &before);
  yk_request *running = fixture_submit(*state, &request);
  bad.sampling.top_p = 7;
  refused(*state, &bad, YK_E_INVAL, "top_p: expected more than 0 and at most 1, found 7");
  fixture_read(running, &after);
  assert_same_answer(&after, &before);
}

static void embed(yk_engine *engine, const yk_request_options *options, float *numbers, size_t n)
{
  const yk_output *output;
  yk_err err = YK_ERR_INIT;
  yk_request_usage usage;
  yk_request *request = fixture_submit(engine, options);
  if (yk_request_next(request, -1, &output, &err) != YK_OK) fail_msg("%s", err.message);
  assert_false(output->has_token);
  assert_int_equal(output->finish, YK_FINISH_STOP);
  assert_int_equal(output->n_embedding, n);
  memcpy(numbers, output->embedding, n * sizeof *numbers);
  yk_request_get_usage(request, &usage);
  assert_int_equal(usage.output_tokens, 0);
  yk_request_free(request);
}

/* Ids and text; a part of the numbers has length 1 as all of them have; a full context. */
static void embeddings(void **state)
{
  (void)state;
  static int32_t full[512];
  enum { SIZE = 64, PART = 5 };
  float all[SIZE], part[PART], same[SIZE];
  yk_engine_options options = fixture_options("../embeddings/tied", 1);
  yk_engine *engine = fixture_open(&options);
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  assert_int_equal(info.embedding_size, SIZE);
  assert_false(info.only_embeds);
  yk_request_options request = fixture_request(engine, prompt, 20, OUTPUT);
  request.embeds = true;
  request.sampling.max_tokens = 7; /* not used, as nothing of sampling */
  embed(engine, &request, all, SIZE);
  embed(engine, &request, same, SIZE); /* with a reused prefix */
  assert_same_numbers(same, all, SIZE);
  request.embedding_size = PART;
  embed(engine, &request, part, PART);
  double sum = 0, length = 0;
  for (int i = 0; i < SIZE; i++) sum += (double)all[i] * (double)all[i];
  for (int i = 0; i < PART; i++) length += (double)all[i] * (double)all[i];
  assert_float_equal(sum, 1, 1e-5);
  for (int i = 0; i < PART; i++) assert_float_equal((double)part[i], (double)all[i] / sqrt(length), 1e-5);
  request.ids = full;
  request.n_ids = 256;
  embed(engine, &request, part, PART);
  request.n_ids = 257;
  refused(engine, &request, YK_E_CAPACITY,
          "prompt: expected at most 256 tokens, found 257: this model's maximum context length is 256");
  request.n_ids = 5;
  request.embedding_size = SIZE + 1;
  refused(engine, &request, YK_E_INVAL, "embedding_size: expected 1 to 64, found 65");
  fixture_close(engine);
}

static void models_without_embeddings(void **state)
{
  yk_request_options request = greedy(*state);
  request.embeds = true;
  refused(*state, &request, YK_E_UNSUPPORTED,
          "embeds: this model makes no embeddings: its folder has no modules.json to define them");
}

/* No tokens and no logits without a head. */
static void models_that_only_embed(void **state)
{
  (void)state;
  yk_held_sequence *sequence;
  yk_err err = YK_ERR_INIT;
  float logits[1];
  yk_engine_options options = fixture_options("../embeddings/headless", 1);
  yk_engine *engine = fixture_open(&options);
  yk_request_options request = fixture_request(engine, prompt, 20, OUTPUT);
  refused(engine, &request, YK_E_UNSUPPORTED, "prompt: this model has no lm_head: it only makes embeddings");
  assert_int_equal(yk_held_sequence_create(engine, &sequence, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_append(sequence, prompt, 20, YK_LOGITS_NONE, NULL, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_append(sequence, prompt, 20, YK_LOGITS_LAST, logits, &err), YK_E_UNSUPPORTED);
  assert_string_equal(err.message, "which: this model has no lm_head, and no logits");
  yk_held_sequence_free(sequence);
  fixture_close(engine);
}

static void the_cpu_is_always_a_device(void **state)
{
  (void)state;
  yk_device_info devices[16];
  int n = 0;
  assert_int_equal(yk_device_list(devices, 16, &n, NULL), YK_OK);
  assert_true(n >= 1);
  assert_int_equal(devices[0].kind, YK_DEVICE_CPU);
  assert_true(devices[0].total_bytes > devices[0].free_bytes && devices[0].free_bytes > 0);
  int again = 0;
  assert_int_equal(yk_device_list(NULL, 0, &again, NULL), YK_OK);
  assert_int_equal(again, n);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_seed_same_tokens_other_seed_others),
                                     cmocka_unit_test(greedy_tokens_do_not_depend_on_reports),
                                     cmocka_unit_test(stop_ids_end_the_output_unless_too_early),
                                     cmocka_unit_test(biases_force_and_ban),
                                     cmocka_unit_test(penalties_make_repetition_rarer),
                                     cmocka_unit_test(prompt_logprobs_are_those_of_generating),
                                     cmocka_unit_test(parameters_out_of_range_are_refused_by_name),
                                     cmocka_unit_test(ids_outside_the_vocabulary_are_refused),
                                     cmocka_unit_test(bad_words_and_salts_out_of_range_are_refused),
                                     cmocka_unit_test(prompts_that_do_not_fit_are_refused),
                                     cmocka_unit_test(a_refusal_leaves_others_untouched),
                                     cmocka_unit_test(embeddings),
                                     cmocka_unit_test(models_without_embeddings),
                                     cmocka_unit_test(models_that_only_embed),
                                     cmocka_unit_test(the_cpu_is_always_a_device)};
  int status = fixture_gate();
  return status ? status : cmocka_run_group_tests(tests, open_engine, close_engine);
}
