/* Ids of bounded number: those of the whole text if they fit, and no long work if there are far too many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "each_case.h"
#include "text/encode_bounded.h"

#define GOLDENS YOKE_TESTS_DIR "/golden/tokenizer/"

/* Ingredients of texts: words, long runs, composed and composing characters, parts of added tokens. */
static const char *const parts[] = {"the quick brown fox ",
                                    "     ",
                                    "\n\n",
                                    "aaaaaaaaaaaaaaaa",
                                    "e\xCC\x81\xCC\xA3",
                                    "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB",
                                    "1234567890",
                                    "<|im_start|>",
                                    "<|im_",
                                    "<s>",
                                    "\xE4\xBD\xA0\xE5\xA5\xBD",
                                    "\xF0\x9F\x99\x82",
                                    "...",
                                    "don't",
                                    "\t",
                                    "=-=-=-=-"};

static yk_tokenizer *load(const char *name)
{
  char path[512];
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  snprintf(path, sizeof path, GOLDENS "%s/tokenizer.json", name);
  if (yk_tokenizer_load(path, &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  return tokenizer;
}

/* Mostly repetitions of few parts, whose tokens may be long. */
static yk_strbuf make_text(uint32_t *random, size_t n_bytes)
{
  yk_strbuf text = YK_STRBUF_INIT;
  while (text.length < n_bytes) {
    *random = *random * 1664525 + 1013904223;
    const char *part = parts[(*random >> 8) % (sizeof parts / sizeof *parts)];
    for (uint32_t n = (*random >> 16) % 400; n > 0; n--) yk_strbuf_append_str(&text, part);
  }
  return text;
}

/* A text that fits is encoded to the last token. */
static void check_fits(const yk_tokenizer *tokenizer, const yk_strbuf *text, const yk_spans *plain)
{
  int32_t *all, *bounded;
  size_t n_all, n_bounded;
  yk_err err = YK_ERR_INIT;
  yk_span before[2];
  memcpy(before, plain->items, sizeof before);
  assert_int_equal(
      yk_tokenizer_encode_partly_plain(tokenizer, text->data, text->length, plain, true, &all, &n_all, &err), YK_OK);
  for (int i = 0; i < 3; i++) {
    size_t max_ids = i == 0 ? n_all : i == 1 ? 0 : n_all + n_all / 3;
    yk_status status = yk_tokenizer_encode_bounded(tokenizer, text->data, text->length, plain, true, max_ids, &bounded,
                                                   &n_bounded, &err);
    if (status != YK_OK) fail_msg("%zu ids of %zu bytes: %s", n_all, text->length, err.message);
    assert_int_equal(n_bounded, n_all);
    assert_memory_equal(bounded, all, n_all * sizeof *all);
    assert_memory_equal(before, plain->items, sizeof before);
    free(bounded);
  }
  free(all);
}

static void fits(void **state)
{
  (void)state;
  static const char *const names[] = {"qwen3", "llama2", "llama3", "gpt2", "nfkc", "metaspace_first", "added", "o200k"};
  uint32_t random = 7;
  for (size_t i = 0; each_case(i, i < sizeof names / sizeof *names); i++) {
    yk_tokenizer *tokenizer = load(names[i]);
    for (int k = 0; k < 6; k++) {
      yk_strbuf text = make_text(&random, 40000);
      size_t middle = text.length / 2;
      while (((unsigned char)text.data[middle] & 0xC0) == 0x80) middle++;
      yk_span spans[2] = {{0, middle}, {middle, text.length}};
      yk_spans plain = {.items = spans, .n = (size_t)(k % 3)};
      check_fits(tokenizer, &text, &plain);
      yk_strbuf_free(&text);
    }
    yk_tokenizer_free(tokenizer);
  }
}

static void too_long(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer = load("qwen3");
  yk_strbuf text = YK_STRBUF_INIT;
  yk_err err = YK_ERR_INIT;
  int32_t *ids;
  size_t n_ids;
  while (text.length < 32 << 20) yk_strbuf_append_str(&text, "some words, and 17 numbers\n");
  yk_span span = {4, text.length};
  yk_spans plain = {.items = &span, .n = 1};
  int64_t began_ns = yk_clock_now_ns();
  assert_int_equal(
      yk_tokenizer_encode_bounded(tokenizer, text.data, text.length, &plain, true, 1000, &ids, &n_ids, &err),
      YK_E_CAPACITY);
  assert_true(yk_clock_seconds_since(began_ns) < 2); /* all of it takes ten times as long */
  assert_null(ids);
  assert_true(n_ids > 1000);
  assert_int_equal(span.end, text.length);
  assert_non_null(strstr(err.message, "prompt: expected at most 1000 tokens"));
  assert_non_null(strstr(err.message, "maximum context length"));
  yk_strbuf_free(&text);
  yk_tokenizer_free(tokenizer);
}

static const char *const all_names[] = {"added",
                                        "added_prepend",
                                        "deepseek_llm",
                                        "deepseek_v3",
                                        "gpt2",
                                        "llama2",
                                        "llama3",
                                        "metaspace_first",
                                        "metaspace_always",
                                        "nfkc",
                                        "partial_bytes",
                                        "metaspace_never",
                                        "metaspace_pieces",
                                        "o200k",
                                        "qwen3",
                                        "splits",
                                        "whitespace",
                                        "partial_bytes_fused"};

static void check_last(const yk_tokenizer *tokenizer, const yk_strbuf *text, const yk_spans *plain)
{
  int32_t *all, *last;
  size_t n_all, n_found;
  yk_err err = YK_ERR_INIT;
  yk_status status =
      yk_tokenizer_encode_partly_plain(tokenizer, text->data, text->length, plain, true, &all, &n_all, &err);
  for (size_t n_last = 1; n_last < 4000; n_last = 8 * n_last + 1) {
    assert_int_equal(
        yk_tokenizer_encode_last(tokenizer, text->data, text->length, plain, true, n_last, &last, &n_found, &err),
        status);
    if (status != YK_OK) continue;
    assert_int_equal(n_found, n_last < n_all ? n_last : n_all);
    if (n_found) assert_memory_equal(last, all + (n_all - n_found), n_found * sizeof *all);
    free(last);
  }
  if (status == YK_OK) free(all);
}

/* The special tokens around the text stay; the text is cut. */
static void check_truncated(const yk_tokenizer *tokenizer, const yk_strbuf *text)
{
  int32_t *all, *plain, *cut;
  size_t n_all, n_plain, n_cut;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_tokenizer_encode(tokenizer, text->data, text->length, true, &all, &n_all, &err);
  if (status != YK_OK) return;
  assert_int_equal(yk_tokenizer_encode(tokenizer, text->data, text->length, false, &plain, &n_plain, &err), YK_OK);
  size_t n_before = 0, n_special = n_all - n_plain;
  while (n_before < n_special && memcmp(all + n_before, plain, n_plain * sizeof *plain) != 0) n_before++;
  for (size_t n_most = 1; n_most < 4000; n_most = 8 * n_most + 1) {
    for (int keeps_end = 0; keeps_end < 2; keeps_end++) {
      if (yk_tokenizer_encode_truncated(tokenizer, text->data, text->length, true, n_most, keeps_end, &cut, &n_cut,
                                        &err) != YK_OK)
        fail_msg("%s", err.message);
      assert_int_equal(n_cut, n_most < n_all ? n_most : n_all);
      if (n_most > n_special) {
        size_t n_text = n_cut - n_special;
        const int32_t *kept = keeps_end ? plain + (n_plain - n_text) : plain;
        assert_memory_equal(cut, all, n_before * sizeof *all);
        assert_memory_equal(cut + n_before, kept, n_text * sizeof *all);
        assert_memory_equal(cut + n_before + n_text, all + n_before + n_plain, (n_special - n_before) * sizeof *all);
      }
      free(cut);
    }
  }
  free(all);
  free(plain);
}

/* The last ids are those of the whole text, in mixed texts and in runs whose grouping depends on their first
 * character. */
static void last(void **state)
{
  (void)state;
  uint32_t random = 11;
  for (size_t i = 0; each_case(i, i < sizeof all_names / sizeof *all_names); i++) {
    yk_tokenizer *tokenizer = load(all_names[i]);
    for (size_t k = 0; k < 24; k++) {
      yk_strbuf text = k < 16 ? (yk_strbuf)YK_STRBUF_INIT : make_text(&random, 40000);
      while (text.length < 15000 + k) yk_strbuf_append_str(&text, parts[k]);
      size_t middle = text.length / 2 + 1;
      while (((unsigned char)text.data[middle] & 0xC0) == 0x80) middle++;
      yk_span spans[2] = {{0, middle}, {middle, text.length}};
      yk_spans plain = {.items = spans, .n = k % 3};
      check_last(tokenizer, &text, &plain);
      check_truncated(tokenizer, &text);
      yk_strbuf_free(&text);
    }
    yk_tokenizer_free(tokenizer);
  }
}

static void last_of_long(void **state)
{
  (void)state;
  yk_tokenizer *tokenizer = load("qwen3");
  yk_strbuf text = YK_STRBUF_INIT;
  yk_err err = YK_ERR_INIT;
  int32_t *ids;
  size_t n_ids;
  while (text.length < 32 << 20) yk_strbuf_append_str(&text, "some words, and 17 numbers\n");
  int64_t began_ns = yk_clock_now_ns();
  assert_int_equal(yk_tokenizer_encode_last(tokenizer, text.data, text.length, NULL, true, 1000, &ids, &n_ids, &err),
                   YK_OK);
  assert_true(yk_clock_seconds_since(began_ns) < 2); /* all of it takes ten times as long */
  assert_int_equal(n_ids, 1000);
  free(ids);
  assert_int_equal(
      yk_tokenizer_encode_truncated(tokenizer, text.data, text.length, true, 1000, false, &ids, &n_ids, &err), YK_OK);
  assert_true(yk_clock_seconds_since(began_ns) < 4);
  assert_int_equal(n_ids, 1000);
  free(ids);
  yk_strbuf_free(&text);
  yk_tokenizer_free(tokenizer);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(fits), cmocka_unit_test(too_long), cmocka_unit_test(last),
                                     cmocka_unit_test(last_of_long)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
