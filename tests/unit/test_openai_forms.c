/* Errors in OpenAI's form, and the forms of /tokenize, /detokenize and /v1/models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "openai/tokens.h"
#include "unit/single_quotes.h"

/* expected: with ' for ". */
static void expect(yk_strbuf *found, const char *expected)
{
  char *copy = double_quoted(expected);
  assert_string_equal(found->data ? found->data : "", copy);
  yk_strbuf_clear(found);
  free(copy);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static yk_openai_error error_of(yk_status status, const char *message, const char *param)
{
  yk_err err = YK_ERR_INIT;
  yk_openai_error error;
  yk_err_set(&err, status, "%s", message);
  yk_openai_error_of(&err, param, &error);
  return error;
}

static void statuses(void **state)
{
  (void)state;
  static const struct {
    yk_status status;
    int http_status;
    const char *type, *code, *message;
  } rows[] = {{YK_E_INVAL, 400, "invalid_request_error", NULL, "words"},
              {YK_E_FORMAT, 400, "invalid_request_error", NULL, "words"},
              {YK_E_UNSUPPORTED, 400, "invalid_request_error", NULL, "words"},
              {YK_E_CAPACITY, 400, "invalid_request_error", "context_length_exceeded", "words"},
              {YK_E_CANCELLED, 503, "server_error", NULL, "words"},
              {YK_E_DEVICE, 500, "server_error", NULL, "words"},
              {YK_E_COMM, 500, "server_error", NULL, "words"},
              {YK_E_TIMEOUT, 500, "server_error", NULL, "words"},
              {YK_E_NOMEM, 500, "server_error", NULL, "out of memory"},
              {YK_E_IO, 500, "server_error", NULL, "input/output error"},
              {YK_E_INTERNAL, 500, "server_error", NULL, "internal error"}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    yk_openai_error error = error_of(rows[i].status, "words", "n");
    assert_int_equal(error.http_status, rows[i].http_status);
    assert_string_equal(error.type, rows[i].type);
    assert_string_equal(error.message, rows[i].message);
    assert_string_equal(error.param, rows[i].http_status == 400 ? "n" : "");
    if (rows[i].code) assert_string_equal(error.code, rows[i].code);
    if (!rows[i].code) assert_null(error.code);
  }
}

/* The fields to which the engine's messages belong. */
static void params_of_the_engine(void **state)
{
  (void)state;
  static const char *const rows[][2] = {{"temperature: expected 0 to 100, found -1", "temperature"},
                                        {"max_tokens (with this prompt): expected 1 to 5, found 9", "max_tokens"},
                                        {"prompt: token id 200 at index 1 is outside", "prompt"},
                                        {"prompt 3: prompt: token id 200", "prompt"},
                                        {"prompt_logprobs: expected -1 to 20, found 21", "prompt_logprobs"},
                                        {"stop ids: token id 200 at index 0", "stop_token_ids"},
                                        {"number of stop ids: expected 0 to 256, found 300", "stop_token_ids"},
                                        {"number of stop strings: expected 0 to 256, found 300", "stop"},
                                        {"number of logit_bias entries: expected", "logit_bias"},
                                        {"logit_bias: token id 300", "logit_bias"},
                                        {"text: expected UTF-8", "prompt"},
                                        {"promptly: no field", ""},
                                        {"position 5: bad words ban every token", ""}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++)
    assert_string_equal(error_of(YK_E_INVAL, rows[i][0], NULL).param, rows[i][1]);
  assert_string_equal(error_of(YK_E_INVAL, "temperature: x", "n").param, "n");
}

/* The reason for a missing tokenizer may name files. */
static void no_paths(void **state)
{
  (void)state;
  yk_openai_error error = error_of(YK_E_UNSUPPORTED, "text: /models/x/tokenizer.json: broken; give token ids", NULL);
  assert_string_equal(error.message, "prompt: the model has no tokenizer; give token ids");
  assert_string_equal(error.param, "prompt");
  error = error_of(YK_E_UNSUPPORTED, "stop strings: /models/x/tokenizer.json: broken; use stop ids", NULL);
  assert_string_equal(error.message, "stop: the model has no tokenizer; use stop_token_ids");
  assert_string_equal(error.param, "stop");
}

static void errors_as_json(void **state)
{
  (void)state;
  yk_strbuf out = YK_STRBUF_INIT;
  yk_openai_error error = error_of(YK_E_INVAL, "a \"b\"\n\xC3\xA9", "n");
  yk_openai_error_append(&error, &out);
  expect(&out, "{'error':{'message':'a \\'b\\'\\n\xC3\xA9','type':'invalid_request_error','param':'n','code':null}}");
  error = error_of(YK_E_INVAL, "cut \xC3", NULL);
  yk_openai_error_append(&error, &out);
  expect(&out, "{'error':{'message':'cut ?','type':'invalid_request_error','param':null,'code':null}}");
  yk_openai_error_http(&error, 401, NULL, NULL, "no %s", "key");
  yk_openai_error_append(&error, &out);
  expect(&out, "{'error':{'message':'no key','type':'authentication_error','param':null,'code':'invalid_api_key'}}");
  yk_openai_error_http(&error, 404, "model_not_found", "model", "no model");
  yk_openai_error_append(&error, &out);
  expect(&out,
         "{'error':{'message':'no model','type':'invalid_request_error','param':'model','code':'model_not_found'}}");
  yk_openai_error_http(&error, 429, NULL, NULL, "later");
  assert_string_equal(error.type, "rate_limit_error");
  assert_string_equal(error.code, "rate_limit_exceeded");
  yk_openai_error_http(&error, 503, NULL, NULL, "loading");
  assert_string_equal(error.type, "server_error");
  assert_int_equal(error.http_status, 503);
  yk_strbuf_free(&out);
}

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

static yk_json_doc *document_of(const char *body)
{
  yk_json_doc *document;
  yk_json_rules rules = yk_tokens_body_rules(1 << 20);
  char *json = double_quoted(body);
  assert_int_equal(yk_json_parse("body", json, strlen(json), &rules, &document, NULL), YK_OK);
  free(json);
  return document;
}

static void tokenize_requests(void **state)
{
  (void)state;
  yk_tokenize_request request;
  yk_json_doc *document = document_of("{'prompt': 'hello', 'model': 'm', 'unknown': 1}");
  assert_int_equal(yk_tokenize_request_parse(yk_json_root(document), &request, NULL), YK_OK);
  assert_string_equal(request.text, "hello");
  assert_string_equal(request.model, "m");
  assert_true(request.n_bytes == 5 && request.add_special_tokens && !request.return_token_strs);
  assert_null(request.chat.messages.doc);
  yk_json_free(document);
  document = document_of("{'messages': [{'role': 'user', 'content': 'x'}], 'add_generation_prompt': false, "
                         "'return_token_strs': true, 'tools': [{'type': 'function', 'function': {'name': 'f'}}], "
                         "'chat_template_kwargs': {}}");
  assert_int_equal(yk_tokenize_request_parse(yk_json_root(document), &request, NULL), YK_OK);
  assert_true(!request.text && !request.model && !request.chat.add_special_tokens && request.return_token_strs);
  assert_true(request.chat.messages.doc && request.chat.tools.doc && request.chat.template_kwargs.doc);
  assert_true(!request.chat.add_generation_prompt && !request.chat.continue_final_message);
  yk_json_free(document);
  document = document_of("{'messages': [{'role': 'user', 'content': 'x'}], 'add_generation_prompt': false, "
                         "'continue_final_message': true, 'add_special_tokens': true}");
  assert_int_equal(yk_tokenize_request_parse(yk_json_root(document), &request, NULL), YK_OK);
  assert_true(request.chat.continue_final_message && request.chat.add_special_tokens);
  yk_json_free(document);
}

static void tokenize_refusals(void **state)
{
  (void)state;
  static const char *const rows[][3] = {
      {"[]", "", "expected an object"},
      {"{}", "prompt", "expected, but missing"},
      {"{'prompt': 5}", "prompt", "found integer"},
      {"{'prompt': 'p', 'messages': [{'role': 'user', 'content': 'x'}]}", "prompt", "found both"},
      {"{'messages': []}", "messages", "at least one"},
      {"{'prompt': 'p', 'add_special_tokens': 1}", "add_special_tokens", "true or false"},
      {"{'prompt': 'p', 'model': 1}", "model", "a string"},
      {"{'messages': [{'role': 'user', 'content': 'x'}], 'continue_final_message': true}", "continue_final_message",
       "add_generation_prompt"}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    yk_err err = YK_ERR_INIT;
    yk_tokenize_request request;
    yk_json_doc *document = document_of(rows[i][0]);
    assert_int_not_equal(yk_tokenize_request_parse(yk_json_root(document), &request, &err), YK_OK);
    assert_string_equal(request.param, rows[i][1]);
    assert_non_null(strstr(err.message, rows[i][2]));
    yk_json_free(document);
  }
}

static void detokenize_requests(void **state)
{
  (void)state;
  static const char *const bad[] = {"[]", "{}", "{'tokens': 'x'}", "{'tokens': [1, 'x']}", "{'tokens': [-1]}"};
  yk_detokenize_request request;
  yk_json_doc *document = document_of("{'tokens': [5, 6], 'model': 'm'}");
  assert_int_equal(yk_detokenize_request_parse(yk_json_root(document), &request, NULL), YK_OK);
  assert_true(request.n_ids == 2 && request.ids[1] == 6 && strcmp(request.model, "m") == 0);
  free(request.ids);
  yk_json_free(document);
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof *bad); i++) {
    document = document_of(bad[i]);
    assert_int_not_equal(yk_detokenize_request_parse(yk_json_root(document), &request, NULL), YK_OK);
    assert_string_equal(request.param, i ? "tokens" : "");
    free(request.ids);
    yk_json_free(document);
  }
}

static void answers(void **state)
{
  (void)state;
  yk_token_texts *texts;
  yk_strbuf out = YK_STRBUF_INIT;
  assert_int_equal(yk_token_texts_create(NULL, &texts, NULL), YK_OK);
  assert_int_equal(yk_tokenize_answer_append((int32_t[]){5, 6}, 2, 100, NULL, &out, NULL), YK_OK);
  expect(&out, "{'count':2,'max_model_len':100,'tokens':[5,6]}");
  assert_int_equal(yk_tokenize_answer_append((int32_t[]){5, 6}, 2, 100, texts, &out, NULL), YK_OK);
  expect(&out, "{'count':2,'max_model_len':100,'tokens':[5,6],'token_strs':['token_id:5','token_id:6']}");
  assert_int_equal(yk_tokenize_answer_append(NULL, 0, 100, NULL, &out, NULL), YK_OK);
  expect(&out, "{'count':0,'max_model_len':100,'tokens':[]}");
  yk_detokenize_answer_append("a\n", 2, &out);
  expect(&out, "{'prompt':'a\\n'}");
  const yk_adapter_name adapter = {"c"};
  const yk_served_names names = {(const char *[]){"its/name", "b"}, 2, &adapter, 1};
  yk_models_append(&names, 7, 100, &out);
#define LIMITS "'created_at':'1970-01-01T00:00:07Z','lifecycle':'active','max_input_tokens':100,'max_tokens':100}"
  expect(&out, "{'object':'list','data':[{'id':'its/name','object':'model','created':7,'owned_by':'yoke','root':"
               "'its/name','parent':null,'max_model_len':100,'type':'model','display_name':'its/name'," LIMITS
               ",{'id':'b','object':'model','created':7,'owned_by':'yoke',"
               "'root':'b','parent':null,'max_model_len':100,'type':'model','display_name':'b'," LIMITS
               ",{'id':'c','object':'model','created':7,'owned_by':'yoke',"
               "'root':'c','parent':'its/name','max_model_len':100,'type':'model','display_name':'c'," LIMITS
               "],'has_more':false,'first_id':'its/name','last_id':'c','models':[]}");
  yk_strbuf_free(&out);
  yk_token_texts_free(texts);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(statuses),
                                     cmocka_unit_test(params_of_the_engine),
                                     cmocka_unit_test(no_paths),
                                     cmocka_unit_test(errors_as_json),
                                     cmocka_unit_test(tokenize_requests),
                                     cmocka_unit_test(tokenize_refusals),
                                     cmocka_unit_test(detokenize_requests),
                                     cmocka_unit_test(answers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
