/* Ids and texts against those of the public `tokenizers` package (golden/make_tokenizer_goldens.py).
 * YOKE_TOKENIZER_GOLDENS names another folder of them, for longer runs. */
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
#include "text/detokenizer.h"
#include "text/tokenizer.h"

enum { SHOWN_FAILURES = 5 };

typedef struct kind {
  char name[64];
  char path[512];
} kind;

/* The tokenizer of a case, and the number of failures so far. */
typedef struct checker {
  const kind *checked;
  const yk_tokenizer *tokenizer;
  size_t line, n_cases, n_failed;
} checker;

static void fail_case(checker *check, const char *what, const json_t *expected, const char *found)
{
  if (check->n_failed++ >= SHOWN_FAILURES) return;
  char *text = json_dumps(expected, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
  print_error("%s line %zu: %s: expected %s, found %s\n", check->checked->name, check->line, what, text, found);
  free(text);
}

static json_t *ids_to_json(const int32_t *ids, size_t n)
{
  json_t *array = json_array();
  for (size_t i = 0; i < n; i++) json_array_append_new(array, json_integer(ids[i]));
  return array;
}

static void check_encode(checker *check, const json_t *text, bool add_special_tokens, const json_t *expected)
{
  int32_t *ids = NULL;
  size_t n = 0;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_tokenizer_encode(check->tokenizer, json_string_value(text), json_string_length(text),
                                         add_special_tokens, &ids, &n, &err);
  json_t *found = ids_to_json(ids, n);
  if (status != YK_OK || !json_equal(expected, found)) {
    char *dump = json_dumps(found, 0), *shown_text = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII), what[600];
    snprintf(what, sizeof what, "encode%s %.500s", add_special_tokens ? "" : " without special tokens", shown_text);
    fail_case(check, what, expected, status == YK_OK ? dump : err.message);
    free(dump);
    free(shown_text);
  }
  json_decref(found);
  free(ids);
}

static void check_decode(checker *check, const json_t *array, bool skip_special_tokens, const json_t *expected)
{
  size_t n = json_array_size(array);
  int32_t *ids = malloc((n + 1) * sizeof *ids);
  for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
  yk_strbuf text = YK_STRBUF_INIT;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_tokenizer_decode(check->tokenizer, ids, n, skip_special_tokens, &text, &err);
  json_t *found = json_stringn(text.data ? text.data : "", text.length);
  if (status != YK_OK || !found || !json_equal(expected, found)) {
    char *dump = found ? json_dumps(found, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : strdup("no UTF-8");
    fail_case(check, skip_special_tokens ? "decode without special tokens" : "decode", expected,
              status == YK_OK ? dump : err.message);
    free(dump);
  }
  json_decref(found);
  yk_strbuf_free(&text);
  free(ids);
}

static const json_t *member(const json_t *object, const char *key, const json_t *otherwise)
{
  const json_t *value = json_object_get(object, key);
  return value ? value : otherwise;
}

static void check_case(checker *check, const json_t *one)
{
  const json_t *text = json_object_get(one, "t"), *ids = json_object_get(one, text ? "i" : "x");
  const json_t *decoded = member(one, "d", text);
  if (text) {
    check_encode(check, text, true, ids);
    check_encode(check, text, false, member(one, "n", ids));
  }
  check_decode(check, ids, false, decoded);
  check_decode(check, ids, true, member(one, "s", decoded));
  check->n_cases++;
}

static void test_kind(void **state)
{
  const kind *checked = *state;
  yk_err err = YK_ERR_INIT;
  yk_tokenizer *tokenizer;
  if (yk_tokenizer_load(checked->path, &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  char path[600];
  snprintf(path, sizeof path, "%s/cases.jsonl", checked->path);
  char *lines;
  size_t n_bytes;
  if (yk_file_read(path, 1 << 30, &lines, &n_bytes, &err) != YK_OK) fail_msg("%s", err.message);
  checker check = {.checked = checked, .tokenizer = tokenizer};
  for (char *line = lines, *end; line < lines + n_bytes; line = end + 1) {
    end = memchr(line, '\n', (size_t)(lines + n_bytes - line));
    assert_non_null(end);
    check.line++;
    json_t *one;
    if (yk_tree_parse(path, line, (size_t)(end - line), &one, &err) != YK_OK) fail_msg("%s", err.message);
    check_case(&check, one);
    json_decref(one);
  }
  free(lines);
  yk_tokenizer_free(tokenizer);
  assert_true(check.n_cases > 100);
  if (check.n_failed) fail_msg("%s: %zu of %zu cases failed", checked->name, check.n_failed, check.n_cases);
}

int main(void)
{
  static kind kinds[128];
  static struct CMUnitTest tests[128];
  size_t n = 0;
  const char *folder = getenv("YOKE_TOKENIZER_GOLDENS");
  if (!folder) folder = YOKE_TESTS_DIR "/golden/tokenizer";
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && n < 128 && (entry = readdir(directory));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(kinds[n].name, sizeof kinds[n].name, "%.60s", entry->d_name);
    snprintf(kinds[n].path, sizeof kinds[n].path, "%.300s/%.200s", folder, entry->d_name);
    tests[n] = (struct CMUnitTest){kinds[n].name, test_kind, NULL, NULL, &kinds[n]};
    n++;
  }
  if (directory) closedir(directory);
  if (n < 4) {
    fprintf(stderr, "%s: expected the goldens of at least four kinds, found %zu\n", folder, n);
    return 1;
  }
  return _cmocka_run_group_tests("tokenizer_golden", tests, n, NULL, NULL);
}
