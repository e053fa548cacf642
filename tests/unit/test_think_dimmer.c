/* Text in <think> is dimmed, however the answer is split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/think_dimmer.h"

/* The answer in pieces of n bytes, after a prompt with the given end. "{" and "}" stand for the terminal's codes. */
static void expect(const char *tail, const char *answer, const char *expected)
{
  for (size_t n = 1; n <= strlen(answer) + 1; n++) {
    yk_strbuf out = YK_STRBUF_INIT, shown = YK_STRBUF_INIT;
    yk_think_dimmer dimmer;
    yk_think_dimmer_begin(&dimmer, tail, &out);
    for (size_t at = 0; at < strlen(answer); at += n)
      yk_think_dimmer_add(&dimmer, answer + at, strnlen(answer + at, n), &out);
    yk_think_dimmer_end(&dimmer, &out);
    yk_think_dimmer_end(&dimmer, &out); /* once is enough */
    yk_strbuf_append_str(&shown, "");
    for (const char *c = out.length ? out.data : ""; *c; c++) {
      bool dims = strncmp(c, "\033[2m", 4) == 0, ends = strncmp(c, "\033[22m", 5) == 0;
      yk_strbuf_append(&shown, dims ? "{" : ends ? "}" : c, 1);
      c += dims ? 3 : ends ? 4 : 0;
    }
    assert_string_equal(shown.data, expected);
    yk_strbuf_free(&out);
    yk_strbuf_free(&shown);
  }
}

static void test_answers(void **state)
{
  (void)state;
  expect("", "", "");
  expect("", "plain", "plain");
  expect("", "<think>a < b</think> c", "{<think>a < b</think>} c");
  expect("", "\n <think>a</think>b<think>c</think>", "\n {<think>a</think>}b<think>c</think>");
  expect("", "x <think>a</think>", "x <think>a</think>");
  expect("", "<<think>a</think>", "<<think>a</think>");
  expect("", "<thin", "<thin");
  expect("", "<thing>", "<thing>");
  expect("", "<think>a<</think</think>b", "{<think>a<</think</think>}b");
  expect("", "<think>cut", "{<think>cut}");
  expect("", "<think>cut</thi", "{<think>cut</thi}");
}

static void test_prompts_that_open(void **state)
{
  (void)state;
  expect("x<think>\n", "a</think>b", "{a</think>}b");
  expect("x<think>", "a", "{a}");
  expect("<think>\n\n", "", "{}");
  expect("<think>\n\n</think>\n\n", "a</think>", "a</think>");
  expect("think>", "<think>a", "{<think>a}");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers), cmocka_unit_test(test_prompts_that_open)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
