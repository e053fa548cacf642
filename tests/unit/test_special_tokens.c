/* Tokens that only the files next to a tokenizer.json name, against golden/make_special_token_goldens.py; bad entries
 * of these files are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "each_case.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

#define TOKENIZERS YOKE_TESTS_DIR "/golden/tokenizer/"

static void write_file(const char *folder, const char *name, const char *text)
{
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* A tokenizer of a folder with a golden tokenizer.json and these files; map NULL: none. */
static yk_status load(const char *name, const char *config, const char *map, yk_tokenizer **out, yk_err *err)
{
  char folder[] = "/tmp/yoke-tokens-XXXXXX", path[512], link[64];
  *out = NULL;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, TOKENIZERS "%s/tokenizer.json", name);
  snprintf(link, sizeof link, "%s/tokenizer.json", folder);
  assert_int_equal(symlink(path, link), 0);
  write_file(folder, "tokenizer_config.json", config);
  if (map) write_file(folder, "special_tokens_map.json", map);
  yk_status status = yk_tokenizer_load(folder, out, err);
  unlink(link);
  snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/special_tokens_map.json", folder);
  unlink(path);
  assert_int_equal(rmdir(folder), 0);
  return status;
}

static void check_decoded(const yk_tokenizer *tokenizer, const int32_t *ids, size_t n_ids, bool skips, yk_json expected)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_err err = YK_ERR_INIT;
  yk_strbuf_append(&text, "", 0);
  if (yk_tokenizer_decode(tokenizer, ids, n_ids, skips, &text, &err) != YK_OK) fail_msg("%s", err.message);
  if (strcmp(text.data, yk_json_string(expected)) != 0)
    fail_msg("expected \"%s\", found \"%s\"", yk_json_string(expected), text.data);
  yk_strbuf_free(&text);
}

static void check_text(const yk_tokenizer *tokenizer, const char *name, yk_json golden)
{
  yk_json text = yk_json_get(golden, "text"), expected = yk_json_get(golden, "ids");
  int32_t *ids;
  size_t n_ids, i = 0;
  yk_err err = YK_ERR_INIT;
  if (yk_tokenizer_encode(tokenizer, yk_json_text(text), yk_json_length(text), false, &ids, &n_ids, &err) != YK_OK)
    fail_msg("%s", err.message);
  bool same = n_ids == yk_json_size(expected);
  YK_JSON_EACH(element, expected)
  {
    int64_t id;
    same = same && yk_json_to_i64(element, &id) && ids[i++] == id;
  }
  if (!same) fail_msg("%s: \"%s\": other ids", name, yk_json_string(text));
  check_decoded(tokenizer, ids, n_ids, false, yk_json_get(golden, "decoded"));
  check_decoded(tokenizer, ids, n_ids, true, yk_json_get(golden, "skipped"));
  free(ids);
}

static void test_against_transformers(void **state)
{
  yk_json_doc *goldens;
  yk_err err = YK_ERR_INIT;
  (void)state;
  if (yk_json_parse_file(YOKE_TESTS_DIR "/golden/special_tokens.json", NULL, &goldens, &err) != YK_OK)
    fail_msg("%s", err.message);
  assert_true(yk_json_size(yk_json_root(goldens)) >= 30);
  YK_JSON_EACH(golden, yk_json_root(goldens))
  {
    yk_strbuf config = YK_STRBUF_INIT, map = YK_STRBUF_INIT;
    yk_json given_map = yk_json_get(golden, "map"), eos_id = yk_json_get(golden, "eos_id");
    const char *name = yk_json_string(yk_json_get(golden, "tokenizer"));
    yk_tokenizer *tokenizer;
    int64_t expected = -1;
    yk_json_append(&config, yk_json_get(golden, "config"), 0);
    yk_json_append(&map, given_map, 0);
    if (load(name, config.data, yk_json_is_given(given_map) ? map.data : NULL, &tokenizer, &err) != YK_OK)
      fail_msg("%s: %s: %s", name, config.data, err.message);
    if (yk_json_is_given(eos_id)) assert_true(yk_json_to_i64(eos_id, &expected));
    assert_int_equal(yk_tokenizer_eos_id(tokenizer), expected);
    YK_JSON_EACH(text, yk_json_get(golden, "texts")) check_text(tokenizer, config.data, text);
    yk_tokenizer_free(tokenizer);
    yk_strbuf_free(&config);
    yk_strbuf_free(&map);
  }
  yk_json_free(goldens);
}

static void expect_refused(const char *config, const char *map, const char *part)
{
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  yk_status status = load("gpt2", config, map, &tokenizer, &err);
  if (status != YK_E_FORMAT || !strstr(err.message, part) || tokenizer)
    fail_msg("%s: expected \"%s\", found %d and \"%s\"", config, part, status, err.message);
}

static void test_bad_files(void **state)
{
  static const struct {
    const char *config, *part;
  } CASES[] = {
      {"{\"added_tokens_decoder\": {\"5\": {\"content\": \"<think>\"}}}",
       "added_tokens_decoder: \"<think>\" has id 5, expected 701"},
      {"{\"added_tokens_decoder\": {\"702\": {\"content\": \"<think>\"}}}",
       "\"<think>\" has id 702, expected 701, which must be free"},
      {"{\"added_tokens_decoder\": {\"701\": {\"content\": \"<|endoftext|>\"}}}",
       "\"<|endoftext|>\" has id 701, but 700 in tokenizer.json"},
      {"{\"added_tokens_decoder\": {\"99999999\": {\"content\": \"<think>\"}}}",
       "expected ids from 0 to 4194303, found \"99999999\""},
      {"{\"added_tokens_decoder\": {\"x\": {\"content\": \"<think>\"}}}", "found \"x\""},
      {"{\"added_tokens_decoder\": []}", "added_tokens_decoder: expected an object, found array"},
      {"{\"added_tokens_decoder\": {\"701\": \"<think>\"}}",
       "tokenizer_config.json: added_tokens_decoder: 701: key \"content\": expected a string, found nothing"},
      {"{\"eos_token\": {\"content\": \"<end>\", \"lstrip\": 3}}",
       "tokenizer_config.json: eos_token: key \"lstrip\": expected true or false, found integer"},
      {"{\"additional_special_tokens\": [{\"content\": \"<end>\", \"rstrip\": 3}]}",
       "tokenizer_config.json: a special token: key \"rstrip\": expected true or false, found integer"},
      {"{\"extra_special_tokens\": [3]}", "key \"extra_special_tokens\"[0]: expected a token, found integer"},
      {"{\"eos_token\": 3}", "key \"eos_token\": expected a string or an object"},
      {"{\"a\": }", "tokenizer_config.json: line 1"},
  };
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof CASES / sizeof *CASES); i++)
    expect_refused(CASES[i].config, NULL, CASES[i].part);
  expect_refused("{\"eos_token\": {\"content\": \"<end>\"}}",
                 "{\"eos_token\": {\"content\": \"<end>\", \"lstrip\": 3}}",
                 "special_tokens_map.json: eos_token: key \"lstrip\": expected true or false, found integer");
}

/* Python reads all of these, so checkpoints contain them. */
static void test_json_of_python(void **state)
{
  static const char *const CONFIGS[] = {
      "{\"model_max_length\": 1000000000000000019884624838656, \"eos_token\": \"<|endoftext|>\"}",
      "{\"model_max_length\": Infinity, \"x\": [NaN, -Infinity, 1e400], \"eos_token\": \"<|endoftext|>\"}",
      "\xEF\xBB\xBF{\"eos_token\": \"no\", \"eos_token\": \"<|endoftext|>\"}"};
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof CONFIGS / sizeof *CONFIGS); i++) {
    yk_tokenizer *tokenizer;
    yk_err err = YK_ERR_INIT;
    if (load("gpt2", CONFIGS[i], NULL, &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
    assert_int_equal(yk_tokenizer_eos_id(tokenizer), 700);
    yk_tokenizer_free(tokenizer);
  }
}

/* A class's own end token counts if it is in the vocabulary, and adds nothing otherwise. */
static void test_classes(void **state)
{
  yk_tokenizer *tokenizer;
  (void)state;
  assert_int_equal(load("gpt2", "{\"tokenizer_class\": \"GPT2Tokenizer\"}", NULL, &tokenizer, NULL), YK_OK);
  assert_int_equal(yk_tokenizer_eos_id(tokenizer), 700);
  yk_tokenizer_free(tokenizer);
  assert_int_equal(load("gpt2", "{\"tokenizer_class\": \"LlamaTokenizerFast\"}", NULL, &tokenizer, NULL), YK_OK);
  assert_int_equal(yk_tokenizer_eos_id(tokenizer), -1);
  assert_int_equal(yk_tokenizer_vocab_size(tokenizer), 701);
  yk_tokenizer_free(tokenizer);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_transformers),
      cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_json_of_python),
      cmocka_unit_test(test_classes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
