/* The stop string that is complete first ends a text, however pieces are cut, and text that may belong to one is not
 * output early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "text/stop_strings.h"

static yk_stop_strings *make(const char *const *strings, size_t n)
{
  yk_stop_strings *stops = NULL;
  assert_int_equal(yk_stop_strings_create(strings, n, &stops, NULL), YK_OK);
  return stops;
}

/* The definition: bytes before the stop string that is complete first, the first of the list if several are; the length
 * of the text if there is none. */
static size_t bytes_before_stop(const char *const *strings, size_t n, const char *text, size_t *which)
{
  for (size_t end = 1; end <= strlen(text); end++)
    for (size_t i = 0; i < n; i++) {
      size_t length = strlen(strings[i]);
      *which = i;
      if (length <= end && memcmp(text + end - length, strings[i], length) == 0) return end - length;
    }
  *which = n;
  return strlen(text);
}

/* Output text, for pieces of the given size; *stopped: whether a stop string was found. */
static void run(const char *const *strings, size_t n, const char *text, size_t piece_bytes, char *out, bool *stopped)
{
  size_t which, before = bytes_before_stop(strings, n, text, &which);
  yk_stop_strings *stops = make(strings, n);
  yk_strbuf given = YK_STRBUF_INIT;
  *stopped = false;
  for (size_t at = 0; text[at] && !*stopped;) {
    size_t n_bytes = strnlen(text + at, piece_bytes);
    *stopped = yk_stop_strings_push(stops, text + at, n_bytes, true, &given);
    at += n_bytes;
    assert_true(given.length <= before);
  }
  assert_int_equal(*stopped, which < n);
  if (*stopped) assert_string_equal(yk_stop_strings_found(stops), strings[which]);
  if (!*stopped) yk_stop_strings_flush(stops, &given);
  strcpy(out, given.data ? given.data : "");
  yk_strbuf_free(&given);
  yk_stop_strings_free(stops);
}

static void expect(const char *const *strings, size_t n, const char *text, const char *expected, bool expect_stop)
{
  for (size_t piece = 1; piece <= strlen(text); piece++) {
    char out[256];
    bool stopped;
    run(strings, n, text, piece, out, &stopped);
    assert_string_equal(out, expected);
    assert_int_equal(stopped, expect_stop);
  }
}

static void text_ends_before_the_first_complete_stop_string(void **state)
{
  (void)state;
  expect((const char *const[]){"END"}, 1, "one ENtwo END three", "one ENtwo ", true);
  expect((const char *const[]){"END"}, 1, "one two EN", "one two EN", false);
  expect((const char *const[]){"three", "two"}, 2, "one two three", "one ", true);
  expect((const char *const[]){"aab"}, 1, "aaaab", "aa", true); /* a prefix inside a prefix */
  expect((const char *const[]){"\n\n"}, 1, "line\nline\n\nrest", "line\nline", true);
  expect((const char *const[]){"\xE2\x82\xAC"}, 1, "5 \xE2\x82\xAC", "5 ", true);
  expect((const char *const[]){"lo wo", "o"}, 2, "hello world", "hell", true);
  expect((const char *const[]){"hello w", "ello"}, 2, "hello world", "h", true);
  expect((const char *const[]){"lo", "ello"}, 2, "hello world", "hel", true); /* both end here: the list's order */
  expect((const char *const[]){"ello", "lo"}, 2, "hello world", "h", true);
  expect(NULL, 0, "anything", "anything", false);
}

static void only_a_possible_beginning_is_held_back(void **state)
{
  (void)state;
  yk_stop_strings *stops = make((const char *const[]){"stop"}, 1);
  yk_strbuf out = YK_STRBUF_INIT;
  assert_false(yk_stop_strings_push(stops, "go st", 5, true, &out));
  assert_string_equal(out.data, "go ");
  assert_false(yk_stop_strings_push(stops, "art", 3, true, &out));
  assert_string_equal(out.data, "go start");
  assert_false(yk_stop_strings_push(stops, " stop ", 6, false, &out)); /* not armed: it passes */
  assert_string_equal(out.data, "go start stop ");
  yk_strbuf_free(&out);
  yk_stop_strings_free(stops);
}

static void the_stop_string_is_reported(void **state)
{
  (void)state;
  for (int includes = 0; includes < 2; includes++) {
    yk_stop_strings *stops = make((const char *const[]){"never", "wo t", "two"}, 3);
    yk_strbuf out = YK_STRBUF_INIT;
    if (includes) yk_stop_strings_include(stops);
    assert_false(yk_stop_strings_push(stops, "one tw", 6, true, &out));
    assert_null(yk_stop_strings_found(stops));
    assert_true(yk_stop_strings_push(stops, "o three", 7, true, &out));
    assert_string_equal(yk_stop_strings_found(stops), "two");
    assert_string_equal(out.data, includes ? "one two" : "one ");
    yk_strbuf_free(&out);
    yk_stop_strings_free(stops);
  }
}

/* Against the definition, on random texts over two letters, where almost everything is a stop string. */
static void random_texts_agree_with_the_definition(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < 3000; seed++) {
    char text[25] = "", first[6] = "", second[6] = "", expected[25], out[256];
    for (uint32_t i = 0; i < 24; i++) text[i] = yk_rng_uniform(seed, 0, i) < 0.5f ? 'a' : 'b';
    for (uint32_t i = 0; i < 2 + seed % 4; i++) first[i] = yk_rng_uniform(seed, 1, i) < 0.5f ? 'a' : 'b';
    for (uint32_t i = 0; i < 2 + seed % 3; i++) second[i] = yk_rng_uniform(seed, 2, i) < 0.5f ? 'a' : 'b';
    const char *const strings[] = {first, second};
    size_t which;
    for (size_t n = 1; n <= 2; n++)
      for (size_t piece = 1; piece <= 24; piece += 1 + seed % 5) {
        bool stopped;
        memcpy(expected, text, sizeof text);
        expected[bytes_before_stop(strings, n, text, &which)] = '\0';
        run(strings, n, text, piece, out, &stopped);
        assert_string_equal(out, expected);
      }
  }
}

static void empty_stop_strings_are_refused(void **state)
{
  (void)state;
  yk_stop_strings *stops = NULL;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_stop_strings_create((const char *const[]){"a", ""}, 2, &stops, &err), YK_E_INVAL);
  assert_string_equal(err.message, "stop string 1: expected at least one character, found none");
  assert_null(stops);
}

static void stop_strings_that_are_not_utf8_are_refused(void **state)
{
  (void)state;
  yk_stop_strings *stops = NULL;
  yk_err err = YK_ERR_INIT;
  const char *const cut[] = {"a", "\xC3\xA9\xC3"};
  assert_int_equal(yk_stop_strings_create(cut, 2, &stops, &err), YK_E_INVAL);
  assert_string_equal(err.message, "stop string 1: expected UTF-8, found byte 0xC3 at offset 2");
  assert_null(stops);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(text_ends_before_the_first_complete_stop_string),
                                     cmocka_unit_test(only_a_possible_beginning_is_held_back),
                                     cmocka_unit_test(the_stop_string_is_reported),
                                     cmocka_unit_test(random_texts_agree_with_the_definition),
                                     cmocka_unit_test(empty_stop_strings_are_refused),
                                     cmocka_unit_test(stop_strings_that_are_not_utf8_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
