/* Patterns written for Oniguruma mean the same on PCRE2: where the two differ, Oniguruma's result is expected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "text/regex.h"

/* The matches of a pattern in a text, written as [a][b]. */
static void check(const char *pattern, const char *text, const char *expected)
{
  yk_regex *regex;
  yk_err err = YK_ERR_INIT;
  yk_spans matches = {0};
  if (yk_regex_compile("test", pattern, strlen(pattern), false, &regex, &err) != YK_OK) fail_msg("%s", err.message);
  if (yk_regex_find_all(regex, text, strlen(text), &matches, &err) != YK_OK) fail_msg("%s", err.message);
  yk_strbuf found = YK_STRBUF_INIT;
  yk_strbuf_append_str(&found, "");
  for (size_t i = 0; i < matches.n; i++)
    yk_strbuf_append_fmt(&found, "[%.*s]", (int)(matches.items[i].end - matches.items[i].begin),
                         text + matches.items[i].begin);
  if (strcmp(found.data, expected) != 0)
    fail_msg("%s on \"%s\": expected %s, found %s", pattern, text, expected, found.data);
  yk_strbuf_free(&found);
  free(matches.items);
  yk_regex_free(regex);
}

static void test_escapes(void **state)
{
  (void)state;
  check("\\s", "a \t\xC2\x85\xE1\xA0\x8E\xE3\x80\x80",
        "[ ][\t][\xC2\x85][\xE3\x80\x80]"); /* U+180E is no white space */
  check("\\S", " \xE1\xA0\x8E", "[\xE1\xA0\x8E]");
  check("[\\S]", " \xE1\xA0\x8E", "[\xE1\xA0\x8E]");
  check("[^\\s]", " \xE1\xA0\x8E", "[\xE1\xA0\x8E]");
  check("\\w+", "a_1\xCC\x81 \xC2\xB2-\xE2\x85\xA7", "[a_1\xCC\x81][\xC2\xB2][\xE2\x85\xA7]");
  check("[\\w]+", "a\xC2\xB2", "[a]"); /* the numbers of Latin-1 are word characters only outside a set */
  check("[\\W]", "a\xC2\xB2", "[\xC2\xB2]");
  check("\\h", "aGf x", "[a][f]");
  check("[\\h]", "\t aG", "[a]");
  check("\\v", "\n\x0B\x0C", "[\x0B]");
  check("\\d", "1\xD9\xA1\xC2\xBD", "[1][\xD9\xA1]");
  check("\\x41|\\x{e9}|\\u00df", "A\xC3\xA9\xC3\x9F", "[A][\xC3\xA9][\xC3\x9F]");
  check("\\p{Han}", "\xE4\xB8\xAD\xE3\x80\x81", "[\xE4\xB8\xAD]"); /* U+3001 is used with Han but is not part of it */
  check("\\P{L}|\\p{^N}", "a1", "[a][1]");
}

static void test_lines_case_and_empty_matches(void **state)
{
  (void)state;
  check("\\s+$", "a  \n b", "[  ]"); /* $ is the end of any line */
  check("^b", "a\nb", "[b]");
  check(".", "a\n\r", "[a][\r]");
  check("(?i:'s)", "'S'\xC5\xBF's", "['S]['\xC5\xBF]['s]"); /* U+017F folds to s */
  check("(?i)k", "kK\xE2\x84\xAA", "[k][K][\xE2\x84\xAA]");
  check("a*", "baac", "[][aa][]"); /* none right after a match */
  check("(?=b)",
        "\xC3\xA9"
        "bb",
        "[][]");
  check("x{0}{", "{", "[{]");
}

static void test_literal(void **state)
{
  (void)state;
  yk_regex *regex;
  yk_spans matches = {0};
  assert_int_equal(yk_regex_compile("test", ".*(\0", 4, true, &regex, NULL), YK_OK);
  assert_int_equal(yk_regex_find_all(regex, "a.*(\0b.*(", 9, &matches, NULL), YK_OK);
  assert_int_equal(matches.n, 1);
  assert_int_equal(matches.items[0].begin, 1);
  assert_int_equal(matches.items[0].end, 5);
  free(matches.items);
  yk_regex_free(regex);
}

/* A long text that an ordinary pattern backtracks over once is within the limits. */
static void test_long_run_is_within_limits(void **state)
{
  static const char PATTERN[] = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+|[^\\s]";
  (void)state;
  enum { N = 1 << 20 };
  char *text = malloc(N);
  assert_non_null(text);
  memset(text, ' ', N);
  text[N - 1] = 'x';
  yk_regex *regex;
  yk_err err = YK_ERR_INIT;
  yk_spans matches = {0};
  assert_int_equal(yk_regex_compile("test", PATTERN, sizeof PATTERN - 1, false, &regex, &err), YK_OK);
  if (yk_regex_find_all(regex, text, N, &matches, &err) != YK_OK) fail_msg("%s", err.message);
  assert_int_equal(matches.n, 3);
  assert_int_equal(matches.items[0].end, N - 2);
  free(matches.items);
  yk_regex_free(regex);
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_escapes),
      cmocka_unit_test(test_lines_case_and_empty_matches),
      cmocka_unit_test(test_literal),
      cmocka_unit_test(test_long_run_is_within_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
