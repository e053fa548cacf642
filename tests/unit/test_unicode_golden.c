/* The classification of every code point by the public `tokenizers` package (checksums of
 * golden/make_unicode_goldens.py): the same here, for any version of Unicode in the installed PCRE2 and utf8proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "base/utf8.h"
#include "text/regex.h"
#include "text/tokenizer.h"
#include "text/unicode_form.h"

enum { CODE_POINTS = 0x110000, BLOCK = 4096, TEXT = 64, SHOWN_FAILURES = 5 };

pcre2_code *__real_pcre2_compile_8(PCRE2_SPTR pattern, PCRE2_SIZE n_bytes, uint32_t options, int *code,
                                   PCRE2_SIZE *offset, pcre2_compile_context *context);
pcre2_code *__wrap_pcre2_compile_8(PCRE2_SPTR pattern, PCRE2_SIZE n_bytes, uint32_t options, int *code,
                                   PCRE2_SIZE *offset, pcre2_compile_context *context);

/* Every pattern of this program passes through here (--wrap): none uses PCRE2's Unicode data, so that its version does
 * not affect matches. The escapes \x, \A, \z and \Z do not use it. */
pcre2_code *__wrap_pcre2_compile_8(PCRE2_SPTR pattern, PCRE2_SIZE n_bytes, uint32_t options, int *code,
                                   PCRE2_SIZE *offset, pcre2_compile_context *context)
{
  if (options & (PCRE2_UTF | PCRE2_UCP | PCRE2_CASELESS)) fail_msg("PCRE2 is to match Unicode: options %#x", options);
  for (size_t i = 0; i < n_bytes && !(options & PCRE2_LITERAL); i++) {
    bool needs_unicode =
        pattern[i] >= 0x80 || (pattern[i] == '\\' && (i + 1 == n_bytes || !strchr("xAzZ", pattern[i + 1])));
    if (needs_unicode)
      fail_msg("PCRE2 is to match Unicode: \"%.*s\" at byte %zu", (int)n_bytes, (const char *)pattern, i);
  }
  return __real_pcre2_compile_8(pattern, n_bytes, options, code, offset, context);
}

/* CRC-32 as zlib computes it, of sum's text followed by bytes. */
static uint32_t crc32_add(uint32_t sum, const void *bytes, size_t n_bytes)
{
  uint32_t table[256];
  for (uint32_t i = 0; i < 256; i++) {
    table[i] = i;
    for (int bit = 0; bit < 8; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320u : 0);
  }
  const unsigned char *at = bytes;
  sum = ~sum;
  for (size_t i = 0; i < n_bytes; i++) sum = sum >> 8 ^ table[(sum ^ at[i]) & 0xFF];
  return ~sum;
}

static bool is_surrogate(uint32_t c)
{
  return c >= 0xD800 && c < 0xE000;
}

/* The template with each '*' replaced by the code point. */
static void append_template(yk_strbuf *text, const char *template, uint32_t code_point)
{
  char bytes[YK_UTF8_MAX_BYTES];
  size_t length = yk_utf8_encode(code_point, bytes);
  for (const char *at = template; *at; at++) yk_strbuf_append(text, *at == '*' ? bytes : at, *at == '*' ? length : 1);
}

static size_t count_code_points(const char *text, size_t n_bytes)
{
  size_t n = 0;
  for (size_t i = 0; i < n_bytes; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
  return n;
}

/* Returns whether the pattern matches exactly the expected code points. */
static bool check_pattern(const json_t *golden, const yk_strbuf *text)
{
  const char *pattern = json_string_value(json_array_get(golden, 0));
  size_t n_bytes = json_string_length(json_array_get(golden, 0)), n = 0;
  yk_regex *regex;
  yk_err err = YK_ERR_INIT;
  yk_spans matches = {0};
  uint32_t sum = 0;
  if (yk_regex_compile("test", pattern, n_bytes, false, &regex, &err) != YK_OK) fail_msg("%s", err.message);
  if (yk_regex_find_all(regex, text->data, text->length, &matches, &err) != YK_OK) fail_msg("%s", err.message);
  yk_strbuf found = YK_STRBUF_INIT;
  for (size_t i = 0; i < matches.n; i++)
    yk_strbuf_append(&found, text->data + matches.items[i].begin, matches.items[i].end - matches.items[i].begin);
  n = count_code_points(found.data, found.length);
  sum = crc32_add(0, found.data, found.length);
  yk_strbuf_free(&found);
  free(matches.items);
  yk_regex_free(regex);
  json_int_t expected = json_integer_value(json_array_get(golden, 1));
  bool same = (json_int_t)n == expected && json_integer_value(json_array_get(golden, 2)) == sum;
  if (!same)
    print_error("%s: expected %lld code points, found %zu, or as many others\n", pattern, (long long)expected, n);
  return same;
}

static void test_patterns(void **state)
{
  const json_t *patterns = json_object_get(*state, "patterns"), *golden;
  yk_strbuf text = YK_STRBUF_INIT;
  for (uint32_t c = 0; c < CODE_POINTS; c++)
    if (!is_surrogate(c)) append_template(&text, "*", c);
  size_t i, n_failed = 0;
  json_array_foreach(patterns, i, golden) n_failed += !check_pattern(golden, &text);
  yk_strbuf_free(&text);
  assert_true(i > 200);
  assert_int_equal(n_failed, 0);
}

/* The check sum of the normal forms of a block of code points, surrogates left out, that begins at *c; moves *c on. */
static uint32_t form_sum(yk_unicode_form form, const json_t *frames, uint32_t *c)
{
  yk_strbuf text = YK_STRBUF_INIT, normal = YK_STRBUF_INIT;
  yk_err err = YK_ERR_INIT;
  for (int n = 0; n < BLOCK && *c < CODE_POINTS; (*c)++) {
    size_t i;
    const json_t *frame;
    if (is_surrogate(*c)) continue;
    json_array_foreach(frames, i, frame)
    {
      append_template(&text, json_string_value(frame), *c);
      yk_strbuf_append_str(&text, "\n");
    }
    n++;
  }
  if (yk_unicode_form_apply(form, text.data, text.length, &normal, &err) != YK_OK) fail_msg("%s", err.message);
  uint32_t sum = crc32_add(0, normal.data, normal.length);
  yk_strbuf_free(&text);
  yk_strbuf_free(&normal);
  return sum;
}

static void test_forms(void **state)
{
  static const char *const NAMES[] = {[YK_NFC] = "NFC", [YK_NFD] = "NFD", [YK_NFKC] = "NFKC", [YK_NFKD] = "NFKD"};
  const json_t *forms = json_object_get(*state, "forms"), *frames = json_object_get(*state, "frames"), *golden, *sum;
  size_t i, block, n_failed = 0;
  json_array_foreach(forms, i, golden)
  {
    uint32_t c = 0;
    assert_string_equal(json_string_value(json_array_get(golden, 0)), NAMES[i]);
    json_array_foreach(json_array_get(golden, 1), block, sum)
    {
      uint32_t begin = c;
      if (form_sum((yk_unicode_form)i, frames, &c) == json_integer_value(sum)) continue;
      if (n_failed++ < SHOWN_FAILURES) print_error("%s differs for one of U+%04X to U+%04X\n", NAMES[i], begin, c - 1);
    }
    assert_int_equal(c, CODE_POINTS);
  }
  assert_int_equal(i, 4);
  assert_int_equal(n_failed, 0);
}

static uint32_t ids_sum(const yk_tokenizer *tokenizer, const yk_strbuf *text)
{
  int32_t *ids;
  size_t n;
  yk_err err = YK_ERR_INIT;
  if (yk_tokenizer_encode(tokenizer, text->data, text->length, true, &ids, &n, &err) != YK_OK)
    fail_msg("%s", err.message);
  uint32_t sum = 0;
  yk_strbuf bytes = YK_STRBUF_INIT;
  for (size_t i = 0; i < n; i++) {
    uint32_t id = (uint32_t)ids[i];
    char little_endian[4] = {(char)id, (char)(id >> 8), (char)(id >> 16), (char)(id >> 24)};
    yk_strbuf_append(&bytes, little_endian, sizeof little_endian);
  }
  sum = crc32_add(0, bytes.data, bytes.length);
  yk_strbuf_free(&bytes);
  free(ids);
  return sum;
}

static bool check_tokenizer(const json_t *golden, const json_t *sample)
{
  const char *name = json_string_value(json_object_get(golden, "name"));
  const char *template = json_string_value(json_object_get(golden, "template"));
  const json_t *sums = json_object_get(golden, "sums"), *range;
  char *file = json_dumps(json_object_get(golden, "tokenizer"), 0);
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  if (yk_tokenizer_parse(name, file, strlen(file), &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  free(file);
  yk_strbuf text = YK_STRBUF_INIT;
  uint32_t begin = 0;
  size_t i, n = 0, n_failed = 0, n_ranges = json_array_size(sample);
  json_array_foreach(sample, i, range)
  {
    uint32_t last = (uint32_t)json_integer_value(json_array_get(range, 1));
    for (uint32_t c = (uint32_t)json_integer_value(json_array_get(range, 0)); c <= last; c++) {
      if (n % TEXT == 0) begin = c;
      append_template(&text, template, c);
      bool complete = ++n % TEXT == 0 || (i + 1 == n_ranges && c == last);
      if (!complete) continue;
      bool same = ids_sum(tokenizer, &text) == json_integer_value(json_array_get(sums, (n - 1) / TEXT));
      if (!same && n_failed++ < SHOWN_FAILURES)
        print_error("%s differs for a code point of U+%04X to U+%04X\n", name, begin, c);
      yk_strbuf_clear(&text);
    }
  }
  yk_strbuf_free(&text);
  yk_tokenizer_free(tokenizer);
  return n_failed == 0 && n > 30000 && (n + TEXT - 1) / TEXT == json_array_size(sums);
}

static void test_tokenizers(void **state)
{
  const json_t *tokenizers = json_object_get(*state, "tokenizers"), *sample = json_object_get(*state, "sample"),
               *golden;
  size_t i, n_failed = 0;
  json_array_foreach(tokenizers, i, golden) n_failed += !check_tokenizer(golden, sample);
  assert_true(i > 10);
  assert_int_equal(n_failed, 0);
}

static int load(void **state)
{
  yk_err err = YK_ERR_INIT;
  char *text;
  size_t n_bytes;
  json_t *golden = NULL;
  if (yk_file_read(YOKE_TESTS_DIR "/golden/unicode.json", 1 << 30, &text, &n_bytes, &err) != YK_OK) return -1;
  yk_status status = yk_tree_parse("unicode.json", text, n_bytes, &golden, &err);
  free(text);
  *state = golden;
  return status == YK_OK ? 0 : -1;
}

static int unload(void **state)
{
  json_decref(*state);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_patterns),
      cmocka_unit_test(test_forms),
      cmocka_unit_test(test_tokenizers),
  };
  return cmocka_run_group_tests(tests, load, unload);
}
