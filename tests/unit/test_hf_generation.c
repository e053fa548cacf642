/* generation_config.json: defaults of requests, values out of range, and refusals. */
#include "each_case.h"
#include "unit/hf_config_fixture.h"

static void generation_defaults(void **state)
{
  (void)state;
  yk_model_config config =
      load_good("{'eos_token_id': 5, 'bos_token_id': 3}",
                "{'do_sample': true, 'temperature': 0.6, 'top_k': 20, 'top_p': 0.95, 'min_p': 0.05,"
                " 'repetition_penalty': 1.1, 'max_new_tokens': 1, 'eos_token_id': [7, 5, 9], 'bos_token_id': 4}",
                NULL);
  const yk_generation_defaults *generation = &config.generation;
  assert_true(generation->temperature == 0.6f && generation->top_k == 20 && generation->top_p == 0.95f);
  assert_true(generation->min_p == 0.05f && generation->repetition_penalty == 1.1f);
  assert_int_equal(generation->max_new_tokens, 1);
  assert_int_equal(config.bos_id, 3);
  assert_int_equal(config.n_eos_ids, 3);
  assert_int_equal(config.eos_ids[0], 5);
  assert_int_equal(config.eos_ids[1], 7);
  assert_int_equal(config.eos_ids[2], 9);

  config = load_good("{'eos_token_id': null, 'bos_token_id': null}", "{'do_sample': false, 'top_k': 5000}", NULL);
  assert_true(config.generation.temperature == 0);
  assert_int_equal(config.generation.top_k, 200); /* no more than the vocabulary */
  assert_int_equal(config.n_eos_ids, 0);
  assert_int_equal(config.bos_id, -1);
  assert_true(load_good("{}", "{'temperature': 0.5}", NULL).generation.temperature == 0.5f);
  assert_int_equal(load_good("{}", "{'eos_token_id': 11}", NULL).eos_ids[0], 11); /* and not Llama's 2 as well */
}

static void keep_warning(void *user, yk_log_level level, const char *message)
{
  assert_int_equal(level, YK_LOG_WARN);
  assert_string_equal(user, ""); /* one for each value */
  snprintf(user, YK_ERR_MESSAGE_BYTES, "%s", message);
}

/* Requests with such defaults would be refused: the nearest legal value is used, with a remark. */
static void generation_values_are_clipped(void **state)
{
  (void)state;
  static const struct {
    const char *generation;
    yk_generation_defaults expected;
    const char *words;
  } cases[] = {
#define DEFAULTS .temperature = 1, .top_p = 1, .repetition_penalty = 1
      {"{'temperature': -0.5}", {.top_p = 1, .repetition_penalty = 1}, "temperature|0 to 100, found -0.5|0 is taken"},
      {"{'temperature': 200}", {.temperature = 100, .top_p = 1, .repetition_penalty = 1}, "found 200|100 is taken"},
      {"{'top_p': 0}", {.temperature = 1, .top_p = 1e-6f, .repetition_penalty = 1}, "top_p|found 0|1e-06 is taken"},
      {"{'top_p': 1.5}", {DEFAULTS}, "generation_config.json|top_p|1e-06 to 1, found 1.5|1 is taken"},
      {"{'min_p': -1}", {DEFAULTS}, "min_p|0 to 1, found -1|0 is taken"},
      {"{'min_p': 1.5}", {DEFAULTS, .min_p = 1}, "min_p|found 1.5|1 is taken"},
      {"{'top_k': -2}", {DEFAULTS}, "top_k|-1 to|found -2|0 (none) is taken"},
      {"{'top_k': 1e12}", {DEFAULTS, .top_k = 200}, "top_k|found 1000000000000|2147483647 is taken"},
      {"{'repetition_penalty': 0}",
       {.temperature = 1, .top_p = 1, .repetition_penalty = 1e-6f},
       "repetition_penalty|found 0|1e-06 is taken"},
      {"{'repetition_penalty': 12.5}",
       {.temperature = 1, .top_p = 1, .repetition_penalty = 10},
       "repetition_penalty|1e-06 to 10, found 12.5|10 is taken"},
      {"{'max_new_tokens': -3}", {DEFAULTS}, "max_new_tokens|1 to 2147483647, found -3|0 (none) is taken"},
      {"{'max_new_tokens': 1e10}", {DEFAULTS, .max_new_tokens = INT32_MAX}, "max_new_tokens|2147483647 is taken"},
      {"{'max_new_tokens': 0, 'top_k': -1, 'top_p': 1, 'min_p': 0, 'temperature': 100}",
       {.temperature = 100, .top_p = 1, .repetition_penalty = 1},
       ""},
      {"{'max_new_tokens': null, 'top_k': null, 'top_p': null}", {DEFAULTS}, ""},
#undef DEFAULTS
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    char warning[YK_ERR_MESSAGE_BYTES] = "";
    yk_log log = {YK_LOG_WARN, keep_warning, warning};
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_ok(cases[i].generation, load_logged("{}", cases[i].generation, NULL, &log, &config, &err), &err);
    const yk_generation_defaults *g = &config.generation, *e = &cases[i].expected;
    if (g->temperature != e->temperature || g->top_p != e->top_p || g->min_p != e->min_p || g->top_k != e->top_k ||
        g->repetition_penalty != e->repetition_penalty || g->max_new_tokens != e->max_new_tokens)
      fail_msg("%s: temperature %g, top_p %g, min_p %g, top_k %d, repetition_penalty %g, max_new_tokens %d",
               cases[i].generation, (double)g->temperature, (double)g->top_p, (double)g->min_p, g->top_k,
               (double)g->repetition_penalty, g->max_new_tokens);
    expect_words(cases[i].generation, cases[i].words, warning);
  }
}

/* An id outside the vocabulary never occurs. */
static void ids_outside_the_vocabulary_are_left_out(void **state)
{
  (void)state;
  static const struct {
    const char *config, *generation, *words;
  } cases[] = {
      {"{'eos_token_id': 7}", "{'eos_token_id': 200}",
       "generation_config.json: eos_token_id: expected 0 to 199 (vocab_size - 1), found 200: ignored"},
      {"{'eos_token_id': 7}", "{'eos_token_id': [7, -1]}", "generation_config.json: eos_token_id|found -1: ignored"},
      {"{'eos_token_id': 7}", "{'eos_token_id': [-1, 7, 200]}", "eos_token_id|found -1 (2 in all): ignored"},
      {"{'eos_token_id': 7, 'bos_token_id': 4294967296}", "{}", "config.json: bos_token_id|found 4294967296: ignored"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    char warning[YK_ERR_MESSAGE_BYTES] = "";
    yk_log log = {YK_LOG_WARN, keep_warning, warning};
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_ok(cases[i].config, load_logged(cases[i].config, cases[i].generation, NULL, &log, &config, &err), &err);
    expect_words(cases[i].config, cases[i].words, warning);
    assert_int_equal(config.n_eos_ids, 1);
    assert_int_equal(config.eos_ids[0], 7);
  }
  yk_model_config config = load_good("{'eos_token_id': -1}", "{}", NULL);
  assert_int_equal(config.n_eos_ids, 0); /* nor Llama's 2 */
}

static void bad_generation_settings(void **state)
{
  (void)state;
  static const struct {
    const char *config, *generation, *words;
  } cases[] = {
      {"{}", "[]", "generation_config.json|expected an object, found array"},
      {"{}", "{'temperature': '1'}", "generation_config.json|\"temperature\"|found string"},
      {"{}", "{'top_k': 1.5}", "generation_config.json|\"top_k\"|expected an integer"},
      {"{}", "{'do_sample': 1}", "generation_config.json|\"do_sample\""},
      {"{}", "{'eos_token_id': ['x']}", "generation_config.json|\"eos_token_id\"|found string"},
      {"{'eos_token_id': [1, -5]}", "{}", "config.json|\"eos_token_id\"|from 0 on, or -1 for none, found -5"},
      {"{}", "{'bos_token_id': -2}", "generation_config.json|\"bos_token_id\"|found -2"},
      {"{'eos_token_id': [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}", "{}", "\"eos_token_id\"|at most 16"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    yk_status status = load(cases[i].config, cases[i].generation, NULL, &config, &err);
    expect_error(cases[i].generation, YK_E_FORMAT, cases[i].words, status, &err);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(generation_defaults),
      cmocka_unit_test(generation_values_are_clipped),
      cmocka_unit_test(ids_outside_the_vocabulary_are_left_out),
      cmocka_unit_test(bad_generation_settings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
