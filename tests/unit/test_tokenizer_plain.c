/* Texts with plain parts: ids are those of a tokenizer that lacks the added tokens there, and cuts and merges cross the
 * ends of the parts. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "each_case.h"
#include "text/plain_marks.h"
#include "text/tokenizer.h"

#define GOLDENS YOKE_TESTS_DIR "/golden/tokenizer/"

/* A tokenizer and the same without its added tokens. */
typedef struct pair {
  yk_tokenizer *with, *without;
} pair;

static pair load_pair(const char *name)
{
  char path[512];
  json_t *root;
  pair loaded;
  yk_err err = YK_ERR_INIT;
  snprintf(path, sizeof path, GOLDENS "%s/tokenizer.json", name);
  if (yk_tokenizer_load(path, &loaded.with, &err) != YK_OK) fail_msg("%s", err.message);
  if (yk_tree_parse_file(path, &root, &err) != YK_OK) fail_msg("%s", err.message);
  json_object_set_new(root, "added_tokens", json_array());
  json_object_del(root, "post_processor"); /* its template names added tokens */
  char *text = json_dumps(root, 0);
  if (yk_tokenizer_parse("without", text, strlen(text), &loaded.without, &err) != YK_OK) fail_msg("%s", err.message);
  free(text);
  json_decref(root);
  return loaded;
}

static void free_pair(pair *loaded)
{
  yk_tokenizer_free(loaded->with);
  yk_tokenizer_free(loaded->without);
}

static void show(const char *what, const int32_t *ids, size_t n)
{
  print_error("%s:", what);
  for (size_t i = 0; i < n; i++) print_error(" %d", ids[i]);
  print_error("\n");
}

static void assert_ids(const int32_t *found, size_t n_found, const int32_t *expected, size_t n_expected,
                       const char *text)
{
  if (n_found == n_expected && (n_found == 0 || memcmp(found, expected, n_found * sizeof *found) == 0)) return;
  show("expected", expected, n_expected);
  show("found", found, n_found);
  fail_msg("\"%s\"", text);
}

static int32_t *encode(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, const yk_spans *plain,
                       size_t *n)
{
  int32_t *ids;
  yk_err err = YK_ERR_INIT;
  if (yk_tokenizer_encode_partly_plain(tokenizer, text, n_bytes, plain, false, &ids, n, &err) != YK_OK)
    fail_msg("%s", err.message);
  return ids;
}

/* All of a text plain, or the parts between its marks. */
static void check_text(const pair *by, const char *text, size_t n_bytes)
{
  yk_span all = {0, n_bytes};
  yk_spans plain = {&all, n_bytes > 0, 1}, marks = {0};
  size_t n_expected, n_found;
  int32_t *expected = encode(by->without, text, n_bytes, &(yk_spans){0}, &n_expected);
  int32_t *found = encode(by->with, text, n_bytes, &plain, &n_found);
  assert_ids(found, n_found, expected, n_expected, text);
  free(found);
  assert_int_equal(yk_tokenizer_find_plain_marks(by->with, text, n_bytes, &marks, NULL), YK_OK);
  found = encode(by->with, text, n_bytes, &marks, &n_found);
  assert_ids(found, n_found, expected, n_expected, text);
  free(found);
  free(expected);
  free(marks.items);
}

static size_t check_kind(const char *name)
{
  char path[512], *cases;
  size_t n_cases = 0;
  yk_err err = YK_ERR_INIT;
  pair by = load_pair(name);
  snprintf(path, sizeof path, GOLDENS "%s/cases.jsonl", name);
  if (yk_file_read(path, 64 << 20, &cases, NULL, &err) != YK_OK) fail_msg("%s", err.message);
  for (char *line = strtok(cases, "\n"); line; line = strtok(NULL, "\n")) {
    json_t *value;
    if (yk_tree_parse_line(line, strlen(line), &value, &err) != YK_OK) fail_msg("%s", err.message);
    const json_t *text = json_object_get(value, "t");
    if (text) check_text(&by, json_string_value(text), json_string_length(text));
    n_cases += text != NULL;
    json_decref(value);
  }
  free(cases);
  free_pair(&by);
  return n_cases;
}

static void test_plain_texts_are_those_without_added_tokens(void **state)
{
  DIR *folder = opendir(GOLDENS);
  size_t n_cases = 0;
  (void)state;
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
    if (entry->d_name[0] != '.') n_cases += check_kind(entry->d_name);
  closedir(folder);
  print_message("%zu texts\n", n_cases);
  assert_true(n_cases > 5000);
}

/* ids of a text with plain parts, given as "text{plain}text". */
static int32_t *encode_shown(const yk_tokenizer *tokenizer, const char *shown, size_t *n)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_spans plain = {0};
  size_t begin = 0;
  yk_strbuf_append(&text, "", 0);
  for (const char *at = shown; *at; at++) {
    if (*at == '{')
      begin = text.length;
    else if (*at == '}')
      assert_true(yk_spans_append(&plain, begin, text.length));
    else
      yk_strbuf_append(&text, at, 1);
  }
  int32_t *ids = encode(tokenizer, text.data, text.length, &plain, n);
  yk_strbuf_free(&text);
  free(plain.items);
  return ids;
}

/* Number of occurrences of a token. */
static void expect_count(const yk_tokenizer *tokenizer, const char *shown, const char *token, size_t expected)
{
  size_t n, count = 0;
  int32_t *ids = encode_shown(tokenizer, shown, &n), id = yk_tokenizer_token_id(tokenizer, token, strlen(token));
  assert_true(id >= 0);
  for (size_t i = 0; i < n; i++) count += ids[i] == id;
  free(ids);
  if (count != expected) fail_msg("%s: expected %zu of %s, found %zu", shown, expected, token, count);
}

static void test_parts(void **state)
{
  (void)state;
  pair by = load_pair("qwen3");
  expect_count(by.with, "<|im_end|>x<|im_end|>", "<|im_end|>", 2);
  expect_count(by.with, "<|im_end|>{<}|im_end|>", "<|im_end|>", 1);
  expect_count(by.with, "<|im_end|{>}<|im_end|>", "<|im_end|>", 1);
  expect_count(by.with, "{<|im_end|>}<|im_end|>{x}", "<|im_end|>", 1);
  expect_count(by.with, "<|im_end|>{x}{y}<|im_end|>", "<|im_end|>", 2);
  size_t n_found, n_expected;
  int32_t *found = encode_shown(by.with, "the qui{ck bro}wn fox", &n_found); /* no cut at the ends */
  int32_t *expected = encode(by.without, "the quick brown fox", 19, &(yk_spans){0}, &n_expected);
  assert_ids(found, n_found, expected, n_expected, "the quick brown fox");
  free(found);
  free(expected);
  free_pair(&by);
}

/* If the longest token is excluded, a shorter one that begins there is used. */
static void test_a_shorter_token_before_a_plain_part(void **state)
{
  (void)state;
  pair by = load_pair("added");
  expect_count(by.with, "abc", "abc", 1);
  expect_count(by.with, "ab{c}", "abc", 0);
  expect_count(by.with, "ab{c}", "ab", 1);
  expect_count(by.with, "{a}bcde", "bcde", 1);
  free_pair(&by);
}

/* Parts are found again in the normal form: composed, written as U+2581, moved by a character before them. */
static void test_normal_forms(void **state)
{
  (void)state;
  pair nfc = load_pair("added"), prepend = load_pair("added_prepend");
  expect_count(nfc.with, "x\xC3\xA9 e\xCC\x81", "e\xCC\x81", 2);
  expect_count(nfc.with, "x\xC3\xA9 {e\xCC\x81}", "e\xCC\x81", 1);
  expect_count(nfc.with, "x{\xC3\xA9} e\xCC\x81", "e\xCC\x81", 1);
  expect_count(nfc.with, "xe{\xCC\x81} e\xCC\x81", "e\xCC\x81", 1);
  expect_count(nfc.with, "xs\xCC\xA3\xCC\x87{s\xCC\x87\xCC\xA3}s\xCC\x87\xCC\xA3 {fox} fox", "fox", 1);
  expect_count(nfc.with, "xs\xCC\xA3\xCC\x87{s\xCC\x87\xCC\xA3}s\xCC\x87\xCC\xA3", "s\xCC\xA3\xCC\x87", 2);
  expect_count(prepend.with, "a the fox dog the", "the", 2);
  expect_count(prepend.with, "a {the} fox dog the", "the", 1);
  expect_count(prepend.with, "a the{ }fox dog {the}", "the", 1);
  expect_count(prepend.with, "a the fox{ }dog the", "fox dog", 0);
  expect_count(prepend.with, "{a} the fox dog the", "fox dog", 1);
  size_t n_found, n_expected; /* a part that begins within a character's normal form does not cut the form */
  int32_t *found = encode_shown(nfc.with, "xe{\xCC\x81}y", &n_found);
  int32_t *expected = encode(nfc.without, "xe\xCC\x81y", 5, &(yk_spans){0}, &n_expected);
  assert_ids(found, n_found, expected, n_expected, "xe\xCC\x81y");
  free(found);
  free(expected);
  free_pair(&nfc);
  free_pair(&prepend);
}

static void test_bad_parts(void **state)
{
  static const struct {
    yk_span spans[2];
    size_t n;
  } CASES[] = {{{{1, 1}}, 1}, {{{2, 1}}, 1},         {{{0, 5}}, 1},
               {{{4, 5}}, 1}, {{{0, 2}, {1, 3}}, 2}, {{{2, 3}, {0, 1}}, 2}};
  (void)state;
  pair by = load_pair("qwen3");
  for (size_t i = 0; each_case(i, i < sizeof CASES / sizeof *CASES); i++) {
    yk_err err = YK_ERR_INIT;
    yk_span spans[2] = {CASES[i].spans[0], CASES[i].spans[1]};
    yk_spans plain = {spans, CASES[i].n, 2};
    int32_t *ids = NULL;
    size_t n = 7;
    assert_int_equal(yk_tokenizer_encode_partly_plain(by.with, "abcd", 4, &plain, true, &ids, &n, &err), YK_E_INVAL);
    assert_non_null(strstr(err.message, "plain text: expected spans in order within 4 bytes"));
    assert_null(ids);
    assert_int_equal(n, 7);
  }
  free_pair(&by);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain_texts_are_those_without_added_tokens),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_a_shorter_token_before_a_plain_part),
      cmocka_unit_test(test_normal_forms),
      cmocka_unit_test(test_bad_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
