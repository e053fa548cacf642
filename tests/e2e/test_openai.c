/* Bodies of requests on an engine: every refusal, by any part, is in OpenAI's form with its field; accepted bodies are
 * answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_tree.h"
#include "e2e/engine_fixture.h"
#include "each_case.h"
#include "openai/answer.h"
#include "unit/single_quotes.h"
#include "yoke/process.h"

static int open_engine(void **state)
{
  yk_engine_options options = fixture_options("qwen3", 2); /* 200 tokens, a context of 256, no tokenizer */
  *state = fixture_open(&options);
  return 0;
}

static int close_engine(void **state)
{
  fixture_close(*state);
  return 0;
}

typedef struct session {
  yk_openai_request request;
  yk_openai_answer *answer;
  yk_token_texts *texts;
  size_t n_submitted;
  yk_request *requests[8];
} session;

static yk_status submit_all(yk_engine *engine, session *s, yk_err *err)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  YK_TRY(yk_openai_request_tokenize(&s->request, engine, err));
  assert_true(yk_openai_request_choices(&s->request) <= 8);
  for (size_t i = 0; i < yk_openai_request_choices(&s->request); i++) {
    yk_request_options options;
    yk_openai_request_options_of(&s->request, i, info.max_model_tokens, &options);
    YK_TRY(yk_engine_submit(engine, &options, &s->requests[i], err));
    s->n_submitted++;
  }
  return YK_OK;
}

/* body: with ' in place of ". */
static yk_status start(yk_engine *engine, const char *body, session *s, yk_err *err)
{
  char *json = double_quoted(body);
  yk_json_doc *document;
  yk_json_rules rules = yk_openai_body_rules(YK_FORM_COMPLETION, 1 << 20);
  yk_openai_defaults defaults;
  *s = (session){0};
  yk_openai_defaults_init(engine, YK_FORM_COMPLETION, &defaults);
  yk_status status = yk_json_parse("body", json, strlen(json), &rules, &document, err);
  if (status == YK_OK)
    status = yk_openai_request_parse(document, yk_json_root(document), YK_FORM_COMPLETION, &defaults, &s->request, err);
  if (status == YK_OK) status = submit_all(engine, s, err);
  free(json);
  return status;
}

static void stop(session *s)
{
  for (size_t i = 0; i < s->n_submitted; i++) yk_request_free(s->requests[i]);
  yk_openai_answer_free(s->answer);
  yk_token_texts_free(s->texts);
  yk_openai_request_free(&s->request);
}

static void bad_requests_are_refused_by_name(void **state)
{
  static const char *const rows[][3] = {
      {"{'prompt': [5, 200]}", "prompt", "token id 200 at index 1 is outside the vocabulary (0 to 199)"},
      {"{'prompt': [5], 'stop_token_ids': [200]}", "stop_token_ids", "token id 200"},
      {"{'prompt': [5], 'logit_bias': {'200': 1}}", "logit_bias", "token id 200"},
      {"{'prompt': [5], 'logit_bias': {'5': 101}}", "logit_bias", "-100 to 100, found 101"},
      {"{'prompt': []}", "prompt", "at least one token, found none"},
      {"{'prompt': ''}", "prompt", "the model has no tokenizer; give token ids"},
      {"{'prompt': [5], 'stop': 'x'}", "stop", "the model has no tokenizer; use stop_token_ids"},
      {"{'prompt': [5], 'max_tokens': 0}", "max_tokens", "1 to 255, found 0"},
      {"{'prompt': [5], 'max_tokens': 257}", "max_tokens", "1 to 255, found 257"},
      {"{'prompt': [5], 'min_tokens': 17}", "min_tokens", "0 to 16, found 17"},
      {"{'prompt': [5], 'n': 0}", "n", "1 to 128, found 0"},
      {"{'prompt': [5], 'logprobs': 21}", "logprobs", "-1 to 20, found 21"},
      {"{'prompt': [5], 'prompt_logprobs': 21}", "prompt_logprobs", "-1 to 20, found 21"},
      {"{'prompt': [5], 'temperature': -1}", "temperature", "0 to 100, found -1"},
      {"{'prompt': [5], 'temperature': NaN}", "temperature", "0 to 100, found nan"},
      {"{'prompt': [5], 'top_p': 0}", "top_p", "more than 0 and at most 1, found 0"},
      {"{'prompt': [5], 'top_p': 1.5}", "top_p", "more than 0 and at most 1"},
      {"{'prompt': [5], 'top_k': -2}", "top_k", "-1 to 2147483647, found -2"},
      {"{'prompt': [5], 'min_p': 2}", "min_p", "0 to 1, found 2"},
      {"{'prompt': [5], 'repetition_penalty': 0}", "repetition_penalty", "more than 0"},
      {"{'prompt': [5], 'frequency_penalty': 3}", "frequency_penalty", "-2 to 2, found 3"},
      {"{'prompt': [5], 'presence_penalty': -3}", "presence_penalty", "-2 to 2, found -3"},
  };
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    session s;
    yk_err err = YK_ERR_INIT;
    yk_openai_error error;
    assert_int_not_equal(start(*state, rows[i][0], &s, &err), YK_OK);
    yk_openai_error_of(&err, s.request.param, &error);
    if (error.http_status != 400 || strcmp(error.param, rows[i][1]) != 0 || !strstr(error.message, rows[i][2]))
      fail_msg("%s: %d, param %s, %s", rows[i][0], error.http_status, error.param, error.message);
    stop(&s);
  }
}

static void a_prompt_longer_than_the_context(void **state)
{
  char body[2048] = "{'prompt': [5";
  for (int i = 1; i < 256; i++) strcat(body, ",5");
  strcat(body, "]}");
  session s;
  yk_err err = YK_ERR_INIT;
  yk_openai_error error;
  assert_int_equal(start(*state, body, &s, &err), YK_E_CAPACITY);
  yk_openai_error_of(&err, s.request.param, &error);
  assert_int_equal(error.http_status, 400);
  assert_string_equal(error.code, "context_length_exceeded");
  assert_string_equal(error.param, "prompt");
  stop(&s);
}

static void begin_answer(yk_engine *engine, session *s)
{
  assert_int_equal(yk_token_texts_create(engine, &s->texts, NULL), YK_OK);
  yk_openai_answer_options options = {
      .id = "cmpl-1", .model = "m", .created_s = 7, .texts = s->texts, .with_cached_tokens = true};
  assert_int_equal(yk_openai_answer_create(&s->request, &options, &s->answer, NULL), YK_OK);
}

/* Read until every choice has ended. */
static void read_all(session *s, yk_strbuf *out)
{
  bool ended[8] = {false};
  for (size_t n_left = s->n_submitted; n_left > 0;) {
    for (size_t i = 0; i < s->n_submitted; i++) {
      yk_err err = YK_ERR_INIT;
      if (ended[i]) continue;
      if (yk_openai_answer_read(s->answer, i, s->requests[i], false, out, &ended[i], &err) != YK_OK)
        fail_msg("%s", err.message);
      n_left -= ended[i];
    }
  }
  assert_int_equal(yk_openai_answer_finish(s->answer, out, NULL), YK_OK);
}

static json_t *token_ids(const json_t *choice)
{
  return json_object_get(choice, "token_ids");
}

/* The same tokens streamed as whole, choice by choice; the fields that lm-evaluation-harness reads are present. */
static void streams_and_whole_answers_agree(void **state)
{
  static const char body[] = "{'prompt': [[5, 6, 7], [8]], 'n': 2, 'max_tokens': 9, 'temperature': 0, 'ignore_eos': "
                             "true, 'logprobs': 1, 'echo': true%s}";
  char text[512];
  json_t *whole;
  session s;
  yk_strbuf out = YK_STRBUF_INIT;
  snprintf(text, sizeof text, body, "");
  assert_int_equal(start(*state, text, &s, NULL), YK_OK);
  begin_answer(*state, &s);
  read_all(&s, &out);
  assert_int_equal(yk_tree_parse("answer", out.data, out.length, &whole, NULL), YK_OK);
  stop(&s);
  json_t *choices = json_object_get(whole, "choices"), *choice;
  size_t index;
  json_array_foreach(choices, index, choice)
  {
    json_t *logprobs = json_object_get(json_object_get(choice, "logprobs"), "token_logprobs");
    size_t n_prompt = index < 2 ? 3 : 1;
    assert_int_equal(json_integer_value(json_object_get(choice, "index")), index);
    assert_int_equal(json_array_size(token_ids(choice)), 9);
    assert_int_equal(json_array_size(logprobs), n_prompt + 9);
    for (size_t i = 0; i < n_prompt + 9; i++) assert_int_equal(json_is_null(json_array_get(logprobs, i)), i == 0);
  }
  yk_strbuf_clear(&out);
  snprintf(text, sizeof text, body, ", 'stream': true");
  assert_int_equal(start(*state, text, &s, NULL), YK_OK);
  begin_answer(*state, &s);
  read_all(&s, &out);
  json_t *streamed[4] = {json_array(), json_array(), json_array(), json_array()};
  for (char *at = out.data; strncmp(at, "data: [DONE]", 12) != 0; at = strstr(at, "\n\n") + 2) {
    json_t *event;
    assert_int_equal(yk_tree_parse("event", at + 6, (size_t)(strstr(at, "\n\n") - at) - 6, &event, NULL), YK_OK);
    choice = json_array_get(json_object_get(event, "choices"), 0);
    json_array_extend(streamed[json_integer_value(json_object_get(choice, "index"))], token_ids(choice));
    json_decref(event);
  }
  for (size_t i = 0; i < 4; i++) {
    if (test_backend_chosen().kind != YK_DEVICE_CUDA)
      assert_true(json_equal(streamed[i], token_ids(json_array_get(choices, i))));
    assert_int_equal(json_array_size(streamed[i]), 9);
    json_decref(streamed[i]);
  }
  stop(&s);
  yk_strbuf_free(&out);
  json_decref(whole);
}

static void a_cancelled_request_is_an_error(void **state)
{
  session s;
  bool ended = false;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(start(*state, "{'prompt': [5], 'max_tokens': 250, 'ignore_eos': true}", &s, NULL), YK_OK);
  begin_answer(*state, &s);
  yk_request_cancel(s.requests[0]);
  yk_status status = YK_OK;
  while (!ended && status == YK_OK)
    status = yk_openai_answer_read(s.answer, 0, s.requests[0], false, NULL, &ended, &err);
  if (status != YK_OK) { /* else it was done before */
    assert_int_equal(status, YK_E_CANCELLED);
    assert_true(ended);
    assert_string_equal(err.message, "the request was cancelled");
  }
  stop(&s);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_requests_are_refused_by_name), cmocka_unit_test(a_prompt_longer_than_the_context),
      cmocka_unit_test(streams_and_whole_answers_agree), cmocka_unit_test(a_cancelled_request_is_an_error)};
  int status = fixture_gate();
  return status ? status : cmocka_run_group_tests(tests, open_engine, close_engine);
}
