/* Texts from outside in a log: one line, no commands to a terminal, nothing reordered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/quote.h"
#include "base/utf8.h"

static void check(const char *text, size_t n_bytes, const char *expected)
{
  yk_strbuf found = YK_STRBUF_INIT;
  yk_strbuf_append(&found, "", 0);
  yk_quote_append(&found, text, n_bytes);
  assert_string_equal(found.data, expected);
  yk_strbuf_free(&found);
}

#define CHECK(literal, expected) check(literal, sizeof(literal) - 1, expected)

static void unsafe_characters(void **state)
{
  (void)state;
  CHECK("", "");
  CHECK("plain \\n \"text\" \xC3\xA9 \xE4\xBD\xA0 \xF0\x9F\x99\x82",
        "plain \\n \"text\" \xC3\xA9 \xE4\xBD\xA0 \xF0\x9F\x99\x82");
  CHECK("a\r\nyoke: error: b\t\0c", "a\\r\\nyoke: error: b\\t\\x00c");
  CHECK("\x1b]0;title\a\x7f", "\\x1b]0;title\\x07\\x7f");
  CHECK("\xC2\x80\xC2\x9B\xC2\xA0", "\\u0080\\u009b\xC2\xA0");
  CHECK("\xFF\xC0\x80 \xE2\x82", "\\xff\\xc0\\x80 \\xe2\\x82");
  CHECK("\xED\xA0\x80", "\\xed\\xa0\\x80");
}

/* Each code point of one and two UTF-16 units, alone. */
static void every_character(void **state)
{
  (void)state;
  static const uint32_t bidirectional[] = {0x061C, 0x200E, 0x200F, 0x202A, 0x202B, 0x202C,
                                           0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069};
  for (uint32_t c = 0; c <= 0x10FFFF; c++) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    char text[YK_UTF8_MAX_BYTES], quoted[16];
    bool is_unsafe = c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029 || c == 0xFEFF;
    for (size_t i = 0; i < sizeof bidirectional / sizeof *bidirectional; i++) is_unsafe |= c == bidirectional[i];
    size_t n_bytes = yk_utf8_encode(c, text);
    assert_int_equal(yk_quote(text, n_bytes, quoted, sizeof quoted), n_bytes);
    if (is_unsafe)
      assert_int_equal(quoted[0], '\\');
    else
      assert_memory_equal(quoted, text, n_bytes);
    for (const char *at = quoted; is_unsafe && *at; at++) assert_in_range(*at, ' ', '~');
  }
}

static void cut_to_the_buffer(void **state)
{
  (void)state;
  char out[7];
  assert_int_equal(yk_quote("abcdefgh", 8, out, sizeof out), 6);
  assert_string_equal(out, "abcdef");
  assert_int_equal(yk_quote("abcd\x01", 5, out, sizeof out), 4);
  assert_string_equal(out, "abcd");
  assert_int_equal(yk_quote("abcd\xE4\xBD\xA0", 7, out, sizeof out), 4);
  assert_string_equal(out, "abcd");
  assert_int_equal(yk_quote("ab\x01", 3, out, sizeof out), 3);
  assert_string_equal(out, "ab\\x01");
  assert_int_equal(yk_quote("a", 1, out, 1), 0);
  assert_string_equal(out, "");
}

static void keep(void *user, yk_log_level level, const char *message)
{
  (void)level;
  snprintf(user, 4096, "%s", message);
}

static void logs(void **state)
{
  (void)state;
  static char last[4096], text[2048];
  const yk_log log = {YK_LOG_INFO, keep, last};
  yk_log_write(&log, YK_LOG_INFO, "GET %s", "/\r\nyoke: error: a");
  assert_string_equal(last, "GET /\\r\\nyoke: error: a");
  yk_log_text(&log, YK_LOG_INFO, "/\x1b[2J");
  assert_string_equal(last, "/\\x1b[2J");
  yk_log_text(&log, YK_LOG_INFO, "");
  assert_string_equal(last, "");
  memset(text, 'x', sizeof text - 1);
  yk_log_text(&log, YK_LOG_INFO, text);
  assert_string_equal(last, text);
  /* Cut within a character: the remaining part of the character is left out. */
  for (size_t i = 0; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xE4\xBD\xA0", 3);
  yk_log_write(&log, YK_LOG_INFO, "%s", text);
  assert_int_equal(strlen(last), 510);
  assert_memory_equal(last, text, 510);
  memset(text, '\x01', sizeof text - 1);
  yk_log_write(&log, YK_LOG_INFO, "%s", text);
  assert_int_equal(strlen(last), 508);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unsafe_characters),
      cmocka_unit_test(every_character),
      cmocka_unit_test(cut_to_the_buffer),
      cmocka_unit_test(logs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
