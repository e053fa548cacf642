/* Conversations, templates and options of a renderer that are refused, each by its message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "unit/template_fixture.h"

#define DEMO YOKE_TESTS_DIR "/models/demo"

static void test_bad_conversations(void **state)
{
  static const char HI[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";
  static const struct {
    chat_rendering of;
    const char *part;
  } CASES[] = {
      {{"{}", 0, 0, 0}, "messages: expected a list of at least one message, found object"},
      {{"[]", 0, 0, 0}, "messages: expected a list of at least one message, found none"},
      {{"[3]", 0, 0, 0}, "messages[0]: expected an object, found integer"},
      {{"[{\"content\": \"\"}]", 0, 0, 0}, "messages[0].role: expected a string, found nothing"},
      {{"[{\"role\": \"<|im_end|>\", \"content\": \"\"}]", 0, 0, 0},
       "messages[0].role: expected one of system, developer"},
      {{"[{\"role\": \"user\"}]", 0, 0, 0},
       "messages[0].content: expected a string or a list of text parts, found nothing"},
      {{"[{\"role\": \"user\", \"content\": null}]", 0, 0, 0}, "found null"},
      {{"[{\"role\": \"user\", \"content\": {}}]", 0, 0, 0}, "found object"},
      {{"[{\"role\": \"user\", \"content\": [3]}]", 0, 0, 0},
       "messages[0].content[0]: expected an object with a \"type\""},
      {{"[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]", 0, 0, 0},
       "messages[0].content[0].type: expected \"text\", found \"image_url\""},
      {{"[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]", 0, 0, 0},
       "messages[0].content[0].text: expected a string, found nothing"},
      {{HI, "{}", 0, 0}, "tools: expected a list, found object"},
      {{HI, "[\"f\"]", 0, 0}, "tools[0]: expected an object, found string"},
      {{HI, 0, "3", 0}, "documents: expected a list, found integer"},
      {{HI, 0, "[null]", 0}, "documents[0]: expected an object, found null"},
      {{HI, 0, 0, "[]"}, "template arguments: expected an object, found array"},
      {{HI, 0, 0, "{\"messages\": []}"}, "template arguments: \"messages\": expected as a field of the request"},
  };
  (void)state;
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(chat_renderer_of("{{ messages[0].content }}", NULL, &tokenizer, &renderer, &err), YK_OK);
  for (size_t i = 0; each_case(i, i < sizeof CASES / sizeof *CASES); i++)
    chat_expect_rendering(renderer, CASES[i].of, YK_E_INVAL, CASES[i].part);
  chat_expect_rendering(renderer, (chat_rendering){NULL, 0, 0, 0}, YK_E_INVAL, "found nothing");
  chat_expect_rendering(renderer, (chat_rendering){HI, 0, 0, 0}, YK_OK, "hi");
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
}

static void test_deep_data(void **state)
{
  char text[8192] = "[{\"role\": \"user\", \"content\": \"hi\", \"deep\": ";
  size_t n = strlen(text);
  (void)state;
  memset(text + n, '[', 1500);
  memset(text + n + 1500, ']', 1500);
  memcpy(text + n + 3000, "}]", 3);
  chat_check_rendering("x", NULL, (chat_rendering){text, 0, 0, 0}, YK_E_INVAL, "RecursionError");
}

static void test_builtin_forms_refuse(void **state)
{
  static const struct {
    const char *form, *messages, *tools, *part;
  } CASES[] = {
      {"builtin:chatml", "[{\"role\": \"tool\", \"content\": \"\"}]", NULL,
       "builtin:chatml: expected system, user or assistant"},
      {"builtin:llama3", "[{\"role\": \"assistant\", \"tool_calls\": [{}]}]", NULL,
       "builtin:llama3 has no form for tools"},
      {"builtin:minicpm", "[{\"role\": \"user\", \"content\": \"\"}]", "[{}]",
       "tools: builtin:minicpm has no form for them"},
      {"builtin:llama2", "[{\"role\": \"assistant\", \"content\": \"\"}]", NULL,
       "messages[0].role: builtin:llama2 expects \"user\""},
      {"builtin:llama2", "[{\"role\": \"system\", \"content\": \"\"}, {\"role\": \"system\", \"content\": \"\"}]", NULL,
       "messages[1].role: builtin:llama2 expects \"user\" here, found \"system\""},
  };
  (void)state;
  yk_tokenizer *tokenizer;
  assert_int_equal(yk_tokenizer_load(DEMO, &tokenizer, NULL), YK_OK);
  for (size_t i = 0; each_case(i, i < sizeof CASES / sizeof *CASES); i++) {
    yk_chat_renderer *renderer;
    yk_chat_options options;
    yk_chat_options_init(&options);
    options.model_dir = DEMO;
    options.chat_template = CASES[i].form;
    options.tokenizer = tokenizer;
    assert_int_equal(yk_chat_renderer_create(&options, &renderer, NULL), YK_OK);
    chat_expect_rendering(renderer, (chat_rendering){CASES[i].messages, CASES[i].tools, 0, 0}, YK_E_INVAL,
                          CASES[i].part);
    yk_chat_renderer_free(renderer);
  }
  yk_tokenizer_free(tokenizer);
}

static void test_bad_templates(void **state)
{
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  (void)state;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(chat_renderer_of("a\n{% if %}", NULL, &tokenizer, &renderer, &err), YK_E_FORMAT);
  assert_non_null(strstr(err.message, "chat_template.jinja: chat template: line 2: "));
  assert_null(renderer);
  yk_tokenizer_free(tokenizer);
  err = YK_ERR_INIT;
  assert_int_equal(chat_renderer_of("a", "{{ b|nothing }}", &tokenizer, &renderer, &err), YK_E_FORMAT);
  assert_non_null(strstr(err.message, "No filter named 'nothing'"));
  yk_tokenizer_free(tokenizer);
  err = YK_ERR_INIT;
  assert_int_equal(chat_renderer_of("\xFF", NULL, &tokenizer, &renderer, &err), YK_E_FORMAT);
  assert_non_null(strstr(err.message, "expected UTF-8"));
  yk_tokenizer_free(tokenizer);
}

static void test_bad_options(void **state)
{
  yk_chat_renderer *renderer;
  yk_chat_options options;
  yk_tokenizer *tokenizer;
  (void)state;
  assert_int_equal(yk_tokenizer_load(DEMO, &tokenizer, NULL), YK_OK);
  static const struct {
    double time_limit_s;
    int64_t memory_limit_bytes;
    const char *part;
  } CASES[] = {{0, 512 << 20, "time_limit_s: expected 0.01 to 3600, found 0"},
               {-1, 512 << 20, "time_limit_s"},
               {0.0 / 0.0, 512 << 20, "time_limit_s"},
               {5, 1, "memory_limit_bytes: expected 67108864 to"},
               {5, INT64_MAX, "memory_limit_bytes"}};
  for (size_t i = 0; each_case(i, i < sizeof CASES / sizeof *CASES); i++) {
    yk_err err = YK_ERR_INIT;
    yk_chat_options_init(&options);
    options.model_dir = DEMO;
    options.tokenizer = tokenizer;
    options.time_limit_s = CASES[i].time_limit_s;
    options.memory_limit_bytes = CASES[i].memory_limit_bytes;
    assert_int_equal(yk_chat_renderer_create(&options, &renderer, &err), YK_E_INVAL);
    assert_non_null(strstr(err.message, CASES[i].part));
  }
  yk_chat_options_init(&options);
  assert_int_equal(yk_chat_renderer_create(&options, &renderer, NULL), YK_E_INVAL);
  yk_chat_renderer_free(NULL);
  yk_tokenizer_free(tokenizer);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_conversations),    cmocka_unit_test(test_deep_data),
      cmocka_unit_test(test_builtin_forms_refuse), cmocka_unit_test(test_bad_templates),
      cmocka_unit_test(test_bad_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
