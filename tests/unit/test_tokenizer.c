/* The tokenizer's interface apart from the ids themselves: errors, look-ups, threads, long texts. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "each_case.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

#define GOLDENS YOKE_TESTS_DIR "/golden/tokenizer/"

static yk_tokenizer *load(const char *path)
{
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  if (yk_tokenizer_load(path, &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  return tokenizer;
}

static yk_tokenizer *parse(const char *json)
{
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  if (yk_tokenizer_parse("test", json, strlen(json), &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  return tokenizer;
}

static void assert_message(const yk_err *err, yk_status code, const char *part)
{
  if (err->code != code || !strstr(err->message, part))
    fail_msg("expected status %d and \"%s\", found %d and \"%s\"", code, part, err->code, err->message);
}

static void test_malformed_utf8_names_the_offset(void **state)
{
  static const struct {
    const char *text;
    size_t n_bytes;
    const char *offset;
  } CASES[] = {
      {"\xFF", 1, "0xFF at offset 0"},         {"ab\x80", 3, "0x80 at offset 2"},
      {"\xC0\xAF", 2, "0xC0 at offset 0"},     {"x\xE2\x82", 3, "0xE2 at offset 1"},
      {"\xED\xA0\x80", 3, "0xED at offset 0"}, {"\xE0\x80\x80", 3, "0xE0 at offset 0"},
      {"\xF4\x90\x80\x80", 4, "at offset 0"},  {"\xF0\x8F\xBF\xBF", 4, "at offset 0"},
      {"a\0b\xF8\x80", 5, "0xF8 at offset 3"}, {"\xE4\xB8\xAD\xE4\xB8", 5, "0xE4 at offset 3"},
  };
  (void)state;
  yk_tokenizer *tokenizer = load(GOLDENS "qwen3");
  for (size_t i = 0; each_case(i, i < sizeof CASES / sizeof *CASES); i++) {
    int32_t *ids = NULL;
    size_t n = 7;
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_tokenizer_encode(tokenizer, CASES[i].text, CASES[i].n_bytes, true, &ids, &n, &err), YK_E_INVAL);
    assert_message(&err, YK_E_INVAL, CASES[i].offset);
    assert_null(ids);
    assert_int_equal(n, 7);
  }
  yk_tokenizer_free(tokenizer);
}

static void test_ids_outside_the_vocabulary_are_refused(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer = load(GOLDENS "qwen3/tokenizer.json");
  int32_t size = yk_tokenizer_vocab_size(tokenizer);
  assert_int_equal(size, 1509);
  int32_t bad[] = {-1, size, INT32_MAX, INT32_MIN};
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof *bad); i++) {
    yk_strbuf text = YK_STRBUF_INIT;
    yk_err err = YK_ERR_INIT;
    char expected[64];
    snprintf(expected, sizeof expected, "token id %d is outside the vocabulary of 1509", bad[i]);
    assert_int_equal(yk_tokenizer_decode(tokenizer, (int32_t[]){64, bad[i]}, 2, false, &text, &err), YK_E_INVAL);
    assert_message(&err, YK_E_INVAL, expected);
    yk_strbuf_free(&text);
  }
  yk_tokenizer_free(tokenizer);
}

static void test_a_gap_in_the_vocabulary_decodes_to_nothing(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer =
      parse("{\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"vocab\":{\"a\":0,\"b\":9},\"merges\":[]}}");
  yk_strbuf text = YK_STRBUF_INIT;
  size_t n_bytes;
  assert_int_equal(yk_tokenizer_vocab_size(tokenizer), 10);
  assert_null(yk_tokenizer_token_text(tokenizer, 5, &n_bytes));
  assert_int_equal(yk_tokenizer_decode(tokenizer, (int32_t[]){0, 5, 9}, 3, false, &text, NULL), YK_OK);
  assert_string_equal(text.data, "ab");
  yk_strbuf_free(&text);
  yk_tokenizer_free(tokenizer);
}

static void test_look_ups(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer = load(GOLDENS "qwen3");
  size_t n_bytes = 0;
  int32_t im_end = yk_tokenizer_token_id(tokenizer, "<|im_end|>", 10),
          think = yk_tokenizer_token_id(tokenizer, "<think>", 7);
  assert_int_equal(im_end, 1502);
  assert_int_equal(think, 1506);
  assert_int_equal(yk_tokenizer_token_id(tokenizer, "<|im_end|", 9), -1);
  assert_int_equal(yk_tokenizer_token_id(tokenizer, "", 0), -1);
  const char *text = yk_tokenizer_token_text(tokenizer, im_end, &n_bytes);
  assert_int_equal(n_bytes, 10);
  assert_memory_equal(text, "<|im_end|>", 10);
  int32_t space = yk_tokenizer_token_id(tokenizer, "\xC4\xA0", 2); /* U+0120 stands for a space */
  assert_true(space >= 0);
  assert_memory_equal(yk_tokenizer_token_text(tokenizer, space, &n_bytes), "\xC4\xA0", 2);
  assert_null(yk_tokenizer_token_text(tokenizer, -1, &n_bytes));
  assert_null(yk_tokenizer_token_text(tokenizer, 1509, &n_bytes));
  yk_tokenizer_free(tokenizer);
}

static void test_empty_text(void **state)
{
  (void)state;
  yk_tokenizer *qwen = load(GOLDENS "qwen3"), *llama = load(GOLDENS "llama2");
  int32_t *ids = NULL;
  size_t n = 7;
  assert_int_equal(yk_tokenizer_encode(qwen, "", 0, true, &ids, &n, NULL), YK_OK);
  assert_int_equal(n, 0);
  free(ids);
  assert_int_equal(yk_tokenizer_encode(llama, "", 0, true, &ids, &n, NULL), YK_OK);
  assert_int_equal(n, 1);
  assert_int_equal(ids[0], 1); /* BOS */
  free(ids);
  yk_strbuf text = YK_STRBUF_INIT;
  assert_int_equal(yk_tokenizer_decode(llama, NULL, 0, true, &text, NULL), YK_OK);
  assert_int_equal(text.length, 0);
  yk_strbuf_free(&text);
  yk_tokenizer_free(qwen);
  yk_tokenizer_free(llama);
}

/* decode appends: the buffer's earlier content stays. */
static void test_decode_appends(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer = load(GOLDENS "qwen3");
  int32_t *ids = NULL;
  size_t n = 0;
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_str(&text, "said: ");
  assert_int_equal(yk_tokenizer_encode(tokenizer, "it's", 4, true, &ids, &n, NULL), YK_OK);
  assert_int_equal(yk_tokenizer_decode(tokenizer, ids, n, true, &text, NULL), YK_OK);
  assert_string_equal(text.data, "said: it's");
  free(ids);
  yk_strbuf_free(&text);
  yk_tokenizer_free(tokenizer);
}

static void write_file(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void test_files_that_are_not_there(void **state)
{
  (void)state;
  char folder[] = "/tmp/yoke-tokenizer-XXXXXX", path[128];
  yk_tokenizer *tokenizer = NULL;
  yk_err err = YK_ERR_INIT;
  assert_non_null(mkdtemp(folder));
  assert_int_equal(yk_tokenizer_load(folder, &tokenizer, &err), YK_E_IO);
  assert_message(&err, YK_E_IO, "tokenizer.json");
  yk_err_clear(&err);
  snprintf(path, sizeof path, "%s/tokenizer.model", folder);
  write_file(path, "\n");
  assert_int_equal(yk_tokenizer_load(folder, &tokenizer, &err), YK_E_UNSUPPORTED);
  assert_message(&err, YK_E_UNSUPPORTED, "tokenizer.model");
  assert_message(&err, YK_E_UNSUPPORTED, "save_pretrained('.')\" in that directory"); /* the message is not truncated */
  yk_err_clear(&err);
  unlink(path);
  snprintf(path, sizeof path, "%s/tekken.json", folder);
  write_file(path, "\n");
  assert_int_equal(yk_tokenizer_load(folder, &tokenizer, &err), YK_E_UNSUPPORTED);
  assert_message(&err, YK_E_UNSUPPORTED, "tekken.json");
  assert_message(&err, YK_E_UNSUPPORTED, "name its folder with --tokenizer");
  yk_err_clear(&err);
  unlink(path);
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  assert_int_equal(yk_tokenizer_load(path, &tokenizer, &err), YK_E_IO);
  yk_err_clear(&err);
  write_file(path, "{\"model\":{\"vocab\":{},\"merges\":[]");
  assert_int_equal(yk_tokenizer_load(folder, &tokenizer, &err), YK_E_FORMAT);
  assert_message(&err, YK_E_FORMAT, path);
  assert_null(tokenizer);
  unlink(path);
  rmdir(folder);
}

/* One thread of many on the same tokenizer: every result must be the same as alone. */
typedef struct worker {
  pthread_t thread;
  const yk_tokenizer *tokenizer;
  size_t n_wrong;
} worker;

static const char SHARED_TEXT[] =
    "The quick brown fox, caf\xC3\xA9 e\xCC\x81 <|im_end|>\n\n \xE4\xB8\xAD\xE6\x96\x87 12345 it's";

static void *work(void *argument)
{
  worker *own = argument;
  int32_t *expected = NULL, *ids = NULL;
  size_t n_expected = 0, n = 0;
  yk_tokenizer_encode(own->tokenizer, SHARED_TEXT, sizeof SHARED_TEXT - 1, true, &expected, &n_expected, NULL);
  for (int i = 0; i < 50; i++) {
    yk_status status = yk_tokenizer_encode(own->tokenizer, SHARED_TEXT, sizeof SHARED_TEXT - 1, true, &ids, &n, NULL);
    yk_strbuf text = YK_STRBUF_INIT;
    if (status == YK_OK) status = yk_tokenizer_decode(own->tokenizer, ids, n, false, &text, NULL);
    if (status != YK_OK || n != n_expected || memcmp(ids, expected, n * sizeof *ids) != 0 ||
        !strstr(text.data, "<|im_end|>"))
      own->n_wrong++;
    yk_strbuf_free(&text);
    free(ids);
  }
  free(expected);
  return NULL;
}

static void test_many_threads_at_once(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer = load(GOLDENS "qwen3");
  worker workers[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){.tokenizer = tokenizer};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(workers[i].n_wrong, 0);
  }
  yk_tokenizer_free(tokenizer);
}

/* A megabyte of one repeated pattern is decoded to itself. An algorithm that is quadratic in the length of a piece, of
 * a run of marks or of white space exceeds the test's time limit. */
static void check_long(const yk_tokenizer *tokenizer, const char *unit, const char *expected_unit)
{
  enum { N_BYTES = 1 << 20 };
  size_t unit_bytes = strlen(unit), n_units = N_BYTES / unit_bytes, expected_bytes = strlen(expected_unit);
  yk_strbuf long_text = YK_STRBUF_INIT, decoded = YK_STRBUF_INIT;
  for (size_t i = 0; i < n_units; i++) yk_strbuf_append(&long_text, unit, unit_bytes);
  int32_t *ids = NULL;
  size_t n = 0;
  yk_err err = YK_ERR_INIT;
  if (yk_tokenizer_encode(tokenizer, long_text.data, long_text.length, false, &ids, &n, &err) != YK_OK)
    fail_msg("%s", err.message);
  assert_int_equal(yk_tokenizer_decode(tokenizer, ids, n, false, &decoded, NULL), YK_OK);
  assert_int_equal(decoded.length, n_units * expected_bytes);
  for (size_t i = 0; i < n_units; i++)
    if (memcmp(decoded.data + i * expected_bytes, expected_unit, expected_bytes) != 0) fail_msg("unit %zu differs", i);
  free(ids);
  yk_strbuf_free(&long_text);
  yk_strbuf_free(&decoded);
}

static void test_long_texts(void **state)
{
  (void)state;
  yk_tokenizer *qwen = load(GOLDENS "qwen3"), *llama = load(GOLDENS "llama2"), *added = load(GOLDENS "added_prepend");
  check_long(qwen, "a", "a");
  check_long(qwen, " ", " ");
  check_long(qwen, "\n", "\n");
  check_long(qwen, "<|", "<|");
  check_long(qwen, "\xE4\xB8\xAD", "\xE4\xB8\xAD");
  check_long(llama, "a", "a");
  check_long(llama, "en", "en");
  check_long(llama, "\xF0\x9F\xA6\x8A", "\xF0\x9F\xA6\x8A");
  check_long(added, "<pad>", "<pad>");
  yk_tokenizer_free(added);
  yk_tokenizer_free(llama);
  yk_tokenizer_free(qwen);
}

/* Marks of two classes, alternating: canonical order puts all of the lower class first. */
static void test_long_run_of_marks(void **state)
{
  enum { N_PAIRS = 250000 };
  (void)state;
  yk_tokenizer *tokenizer = load(GOLDENS "qwen3");
  yk_strbuf text = YK_STRBUF_INIT, decoded = YK_STRBUF_INIT;
  for (int i = 0; i < N_PAIRS; i++) yk_strbuf_append_str(&text, "\xCC\x81\xCC\x96"); /* U+0301 (230), U+0316 (220) */
  int32_t *ids = NULL;
  size_t n = 0;
  assert_int_equal(yk_tokenizer_encode(tokenizer, text.data, text.length, false, &ids, &n, NULL), YK_OK);
  assert_int_equal(yk_tokenizer_decode(tokenizer, ids, n, false, &decoded, NULL), YK_OK);
  assert_int_equal(decoded.length, text.length);
  for (size_t i = 0; i < 2 * N_PAIRS; i++)
    assert_memory_equal(decoded.data + 2 * i, i < N_PAIRS ? "\xCC\x96" : "\xCC\x81", 2);
  free(ids);
  yk_strbuf_free(&text);
  yk_strbuf_free(&decoded);
  yk_tokenizer_free(tokenizer);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_malformed_utf8_names_the_offset),
      cmocka_unit_test(test_ids_outside_the_vocabulary_are_refused),
      cmocka_unit_test(test_a_gap_in_the_vocabulary_decodes_to_nothing),
      cmocka_unit_test(test_look_ups),
      cmocka_unit_test(test_empty_text),
      cmocka_unit_test(test_decode_appends),
      cmocka_unit_test(test_files_that_are_not_there),
      cmocka_unit_test(test_many_threads_at_once),
      cmocka_unit_test(test_long_texts),
      cmocka_unit_test(test_long_run_of_marks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
