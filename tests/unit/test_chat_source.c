/* Sources of templates and special tokens, and the files that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "chat/template_source.h"
#include "each_case.h"
#include "unit/template_fixture.h"

static void assert_json(const yk_json_doc *found, const char *expected)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_json_doc *doc = chat_json(expected);
  yk_json_append(&text, yk_json_root(found), 0);
  if (!yk_json_same(yk_json_root(found), yk_json_root(doc))) fail_msg("expected %s, found %s", expected, text.data);
  yk_strbuf_free(&text);
  yk_json_free(doc);
}

/* Find the template of a folder; each expected part may be NULL. */
static void expect_source(const char *const texts[CHAT_FILES], const char *text, const char *tool_use,
                          const char *tokens)
{
  chat_folder made = chat_folder_make(texts);
  yk_template_source source;
  yk_err err = YK_ERR_INIT;
  if (yk_template_source_find(made.folder, NULL, &source, &err) != YK_OK) fail_msg("%s", err.message);
  assert_string_equal(source.text, text);
  if (tool_use) assert_string_equal(source.tool_use, tool_use);
  assert_true(tool_use || !source.tool_use);
  if (tokens) assert_json(source.special_tokens, tokens);
  assert_non_null(strstr(source.origin, made.folder));
  yk_template_source_free(&source);
  chat_folder_remove(&made);
}

static void test_where_templates_stand(void **state)
{
  (void)state;
  expect_source((const char *[]){"file", NULL, "{\"chat_template\": \"config\"}", NULL}, "file", NULL, "{}");
  expect_source((const char *[]){"file", "tools", NULL, NULL}, "file", "tools", "{}");
  expect_source((const char *[]){NULL, "tools", "{\"chat_template\": \"config\"}", NULL}, "config", NULL, NULL);
  expect_source((const char *[]){NULL, NULL,
                                 "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"r\"},"
                                 "{\"name\": \"default\", \"template\": \"d\"}]}",
                                 NULL},
                "d", NULL, NULL);
  expect_source((const char *[]){NULL, NULL,
                                 "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"t\"},"
                                 "{\"name\": \"default\", \"template\": \"d\"}]}",
                                 NULL},
                "d", "t", NULL);
}

static void test_special_tokens(void **state)
{
  static const char MAP[] =
      "{\"bos_token\": \"<m>\", \"additional_special_tokens\": [\"<a>\", {\"content\": \"<b>\"}]}";
  (void)state;
  expect_source((const char *[]){"", NULL,
                                 "{\"bos_token\": {\"content\": \"<s>\", \"special\": true}, \"eos_token\": \"</s>\","
                                 "\"pad_token\": null, \"unk_token\": \"\", \"other_token\": 3}",
                                 NULL},
                "", NULL, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
  expect_source(
      (const char *[]){"", NULL,
                       "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\","
                       "\"additional_special_tokens\": [\"<x>\", \"<a>\"]}",
                       MAP},
      "", NULL,
      "{\"additional_special_tokens\":[\"<x>\",\"<a>\",\"<b>\"],\"bos_token\":\"<m>\",\"eos_token\":\"</s>\"}");
  expect_source((const char *[]){"", NULL,
                                 "{\"bos_token\": \"<s>\", \"added_tokens_decoder\": {},"
                                 "\"extra_special_tokens\": {\"image_token\": \"<i>\"}}",
                                 MAP},
                "", NULL, "{\"bos_token\":\"<s>\",\"image_token\":\"<i>\"}");
}

/* Against golden/make_class_token_goldens.py. */
static void test_tokens_of_classes(void **state)
{
  yk_json_doc *goldens;
  yk_err err = YK_ERR_INIT;
  (void)state;
  if (yk_json_parse_file(YOKE_TESTS_DIR "/golden/chat/class_tokens.json", NULL, &goldens, &err) != YK_OK)
    fail_msg("%s", err.message);
  assert_true(yk_json_size(yk_json_root(goldens)) >= 40);
  YK_JSON_EACH(golden, yk_json_root(goldens))
  {
    yk_strbuf config = YK_STRBUF_INIT, tokens = YK_STRBUF_INIT;
    const char *separator = "{";
    yk_json_append(&config, yk_json_get(golden, "config"), 0);
    YK_JSON_EACH_KEY(key, yk_json_get(golden, "tokens"))
    {
      if (!yk_json_is(yk_json_member(key), YK_JSON_STRING)) continue;
      yk_strbuf_append_str(&tokens, separator);
      yk_json_append(&tokens, key, 0);
      yk_strbuf_append_str(&tokens, ": ");
      yk_json_append(&tokens, yk_json_member(key), 0);
      separator = ", ";
    }
    yk_strbuf_append_str(&tokens, separator[0] == '{' ? "{}" : "}");
    expect_source((const char *[]){"", NULL, config.data, NULL}, "", NULL, tokens.data);
    yk_strbuf_free(&config);
    yk_strbuf_free(&tokens);
  }
  yk_json_free(goldens);
  expect_source((const char *[]){"", NULL, "{\"tokenizer_class\": \"LlamaTokenizerSlow\"}", NULL}, "", NULL, "{}");
  expect_source((const char *[]){"", NULL, "{\"tokenizer_class\": \"LlamaTokenizer\", \"bos_token\": \"\"}",
                                 "{\"unk_token\": null, \"eos_token\": \"<e>\"}"},
                "", NULL, "{\"eos_token\":\"<e>\"}");
}

static void expect_bad_source(const char *const texts[CHAT_FILES], const char *given, yk_status code, const char *part)
{
  chat_folder made = chat_folder_make(texts);
  yk_template_source source;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_template_source_find(made.folder, given, &source, &err);
  if (status != code || !strstr(err.message, part))
    fail_msg("expected status %d and \"%s\", found %d and \"%s\"", code, part, status, err.message);
  assert_null(source.text);
  chat_folder_remove(&made);
}

static void test_bad_files(void **state)
{
  static const struct {
    const char *config, *given;
    yk_status code;
    const char *part;
  } CASES[] = {
      {NULL, NULL, YK_E_UNSUPPORTED, "has no chat template (chat_template.jinja, or in tokenizer_config.json)"},
      {"{\"chat_template\": null}", NULL, YK_E_UNSUPPORTED, "builtin:minicpm"},
      {"{\"chat_template\": 3}", NULL, YK_E_FORMAT, "chat_template \"default\": expected a template, found integer"},
      {"{\"chat_template\": \"a\\u0000b\"}", NULL, YK_E_FORMAT, "found a NUL character"},
      {"{\"chat_template\": []}", NULL, YK_E_FORMAT, "none of the 0 is named \"default\""},
      {"{\"chat_template\": [{\"name\": \"rag\", \"template\": \"\"}]}", NULL, YK_E_FORMAT, "none of the 1"},
      {"{\"chat_template\": [{\"template\": \"\"}]}", NULL, YK_E_FORMAT, "chat_template[0]: expected an object with a"},
      {"{\"chat_template\": [3]}", NULL, YK_E_FORMAT, "chat_template[0]: expected an object with a \"name\""},
      {"{\"chat_template\": [{\"name\": \"default\"}]}", NULL, YK_E_FORMAT,
       "\"default\": expected a template, found nothing"},
      {"[]", NULL, YK_E_FORMAT, "tokenizer_config.json: expected an object, found array"},
      {"{\"a\": ", NULL, YK_E_FORMAT, "tokenizer_config.json: line 1"},
      {"{\"bos_token\": 3}", NULL, YK_E_FORMAT, "key \"bos_token\": expected a string or an object with \"content\""},
      {"{\"additional_special_tokens\": {}}", NULL, YK_E_FORMAT, "expected a list, found object"},
      {"{\"additional_special_tokens\": [1]}", NULL, YK_E_FORMAT, "[0]: expected a token, found integer"},
      {"{\"extra_special_tokens\": {\"x\": 1}}", NULL, YK_E_FORMAT, "key \"x\": expected a string"},
      {NULL, "builtin:none", YK_E_INVAL, "expected a file or one of builtin:chatml, builtin:llama2"},
      {NULL, "/nonexistent/template", YK_E_IO, "/nonexistent/template"},
      {NULL, "/tmp", YK_E_IO, "/tmp"},
  };
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof CASES / sizeof *CASES); i++)
    expect_bad_source((const char *[]){NULL, NULL, CASES[i].config, NULL}, CASES[i].given, CASES[i].code,
                      CASES[i].part);
  expect_bad_source((const char *[]){NULL, NULL, NULL, "{\"eos_token\": []}"}, NULL, YK_E_FORMAT,
                    "special_tokens_map.json: key \"eos_token\"");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_where_templates_stand),
      cmocka_unit_test(test_special_tokens),
      cmocka_unit_test(test_tokens_of_classes),
      cmocka_unit_test(test_bad_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
