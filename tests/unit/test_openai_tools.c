/* Tool calls in the text of an answer, independent of how the text is split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "openai/parse/answer_parser.h"
#include "unit/answer_cases.h"

static void check(yk_tool_format format, const char *text, const char *expected)
{
  answer_check(&(answer_way){.tools = format, .end = {.finish = YK_FINISH_STOP, .text = ""}}, text, expected);
}

#define CALL(name, arguments) "{\"name\": \"" name "\", \"arguments\": " arguments "}"
#define TAGGED(inside)        "<tool_call>" inside "</tool_call>"

static void hermes_calls(void **state)
{
  (void)state;
  const yk_tool_format f = YK_TOOLS_HERMES;
  check(f, TAGGED("\n" CALL("f", "{\"a\": 1}") "\n"), "{f|{\"a\": 1}}");
  check(f, "Let me see.\n" TAGGED(CALL("f", "{}")), "Let me see.\n{f|{}}");
  check(f, TAGGED(CALL("f", "{}")) "\n" TAGGED(CALL("g", "{\"x\": [1, {\"y\": \"}<\"}]}")),
        "{f|{}}{g|{\"x\": [1, {\"y\": \"}<\"}]}}");
  check(f, TAGGED(CALL("f", "{}")) " \n done", "{f|{}} \n done");
  check(f, TAGGED(CALL("f", "{}")) " \n ", "{f|{}}");
  check(f, TAGGED("{\"arguments\": {\"a\": \"\\\"\\u00e9\\\\\"}, \"name\": \"late\"}"),
        "{late|{\"a\": \"\\\"\\u00e9\\\\\"}}");
  check(f,
        TAGGED("{\"type\": \"function\", \"name\": \"f\", \"x\": [null, true, -1.5e+3], \"parameters\": {}, \"y\": 0}"),
        "{f|{}}");
  check(f, TAGGED("{\"name\": \"na\\u006de\", \"arguments\": {}}"), "{name|{}}");
  check(f, "<tool_call>" CALL("f", "{\"t\": \"</tool_call>\"}") " <tool_call>" CALL("g", "{}"),
        "{f|{\"t\": \"</tool_call>\"}}{g|{}}"); /* without closing tags */
  check(f, "é<tool_call>" CALL("f", "{\"t\": \"日本 😀\"}"), "é{f|{\"t\": \"日本 😀\"}}");
}

/* Text that is no call is returned byte for byte. */
static void hermes_content(void **state)
{
  (void)state;
  static const char *const texts[] = {"",
                                      "plain text",
                                      "a < b <tool <<tool_call",
                                      "<tool_call>",
                                      "<tool_call>words</tool_call>",
                                      TAGGED(""),
                                      TAGGED("[1]"),
                                      TAGGED("{\"arguments\": {}}"),
                                      TAGGED("{\"name\": \"\", \"arguments\": {}}"),
                                      TAGGED("{\"name\": 5, \"arguments\": {}}"),
                                      TAGGED("{\"name\": \"f\", \"arguments\": \"{}\"}"),
                                      TAGGED("{'name': 'f', 'arguments': {}}"),
                                      TAGGED("{\"name\": \"f\" \"arguments\": {}}"),
                                      TAGGED("{\"a\": {\"name\": \"f\", \"arguments\": {}}}"),
                                      TAGGED("{\"x\": 01, \"name\": \"f\", \"arguments\": {}}"),
                                      TAGGED("{\"x\": \"\n\", \"name\": \"f\", \"arguments\": {}}"),
                                      TAGGED("{\"x\": tru, \"name\": \"f\", \"arguments\": {}}"),
                                      TAGGED("{\"x\": [1}, \"name\": \"f\", \"arguments\": {}}"),
                                      TAGGED("{\"arguments\": {\"a\": 1}, \"name\": \"\"}"),
                                      "<tool_call>\n {\"name\": \"f",
                                      "</tool_call>",
                                      " \n<tool_call> {\"na"};
  for (size_t i = 0; each_case(i, i < sizeof texts / sizeof *texts); i++) check(YK_TOOLS_HERMES, texts[i], texts[i]);
}

static void hermes_recovers(void **state)
{
  (void)state;
  const yk_tool_format f = YK_TOOLS_HERMES;
  check(f, "<tool_call>{oops " TAGGED(CALL("f", "{}")), "<tool_call>{oops {f|{}}");
  check(f, "<tool_call><tool_call>" CALL("f", "{}"), "<tool_call>{f|{}}");
  check(f, "<<tool_call>" CALL("f", "{}"), "<{f|{}}");
  check(f, "<tool_<tool_call>" CALL("f", "{}"), "<tool_{f|{}}");
  check(f, TAGGED(CALL("f", "{}")) "<tool_cal" TAGGED(CALL("g", "{}")), "{f|{}}<tool_cal{g|{}}");
  check(f, TAGGED(CALL("f", "{}")) "<<tool_call>" CALL("g", "{}"), "{f|{}}<{g|{}}");
  /* A reported call is final: later text is its arguments, as the model wrote them. */
  check(f, TAGGED("{\"name\": \"f\", \"arguments\": {\"a\": oops}}") " x", "{f|{\"a\": oops}}! x");
  check(f, TAGGED("{\"name\": \"f\", \"arguments\": {\"a\": <</tool_cal}}") TAGGED(CALL("g", "{}")),
        "{f|{\"a\": <</tool_cal}}!{g|{}}");
  check(f, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1", "{f|{\"a\": 1!");
  check(f, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops</tool_", "{f|{\"a\": oops</tool_!");
  check(f, TAGGED("{\"name\": \"f\", \"arguments\": {}]") "x", "{f|{}}]</tool_call>x");
}

static void calls_without_arguments(void **state)
{
  (void)state;
  check(YK_TOOLS_HERMES, TAGGED("{\"name\": \"f\"}") "\n" TAGGED("{\"name\": \"g\", \"arguments\": null}"),
        "{f|{}}{g|{}}");
  check(YK_TOOLS_HERMES, TAGGED("{\"name\": \"f\", \"arguments\": nil}"),
        TAGGED("{\"name\": \"f\", \"arguments\": nil}"));
  check(YK_TOOLS_LLAMA3_JSON, "{\"name\": \"f\"}", "{\"name\": \"f\"}");
}

/* However an output is cut, a possible tag or the beginning of a call is no content. */
static void outputs_that_are_cut(void **state)
{
  (void)state;
  static const char *const rows[][2] = {
      {"a <tool_call>" CALL("f", "{\"a\": 1}") "</tool_", "a {f|{\"a\": 1}}"},
      {"a <tool_call>" CALL("f", "{\"a\": 1}") "\n<too", "a {f|{\"a\": 1}}"},
      {"a <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}", "a {f|{\"a\": 1}}"},
      {"a <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", "a {f|{\"a\": !"},
      {"a <tool_call>{\"name\": \"f\", \"arguments\": {", "a {f|{!"},
      {"a <tool_call>{\"name\": \"f\", \"arguments\": {oops</tool", "a {f|{oops!"},
      {"a <tool_call>{\"name\": \"f", "a "},
      {"a <tool_call>", "a "},
      {"a <tool_c", "a "},
      {"a <tool_c ", "a <tool_c "}};
  const answer_way cut = {.tools = YK_TOOLS_HERMES, .end = {.finish = YK_FINISH_LENGTH, .text = ""}};
  const answer_way stopped = {.tools = YK_TOOLS_HERMES,
                              .end = {.finish = YK_FINISH_STOP, .stop_string = "x", .text = ""}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    answer_check(&cut, rows[i][0], rows[i][1]);
    answer_check(&stopped, rows[i][0], rows[i][1]);
  }
  const answer_way llama = {.tools = YK_TOOLS_LLAMA3_JSON, .end = {.finish = YK_FINISH_LENGTH, .text = ""}};
  answer_check(&llama, "{\"answer\": 4", "{\"answer\": 4"); /* an answer in JSON */
  answer_check(&llama, "<|python_t", "");
}

/* Tags that are special tokens are found; other special tokens are hidden from clients that skip them. */
static void special_tokens(void **state)
{
  (void)state;
  static const char *const specials[] = {"<tool_call>", "</tool_call>", "<|x|>", NULL};
  static const char text[] = "a<|x|>b" TAGGED(CALL("f", "{\"t\": \"<|x|>\"}")) "<tool_call>oops<|x|></tool_call>";
  answer_way w = {.tools = YK_TOOLS_HERMES, .specials = specials, .end = {.finish = YK_FINISH_STOP, .text = ""}};
  answer_check(&w, text, "a<|x|>b{f|{\"t\": \"<|x|>\"}}<tool_call>oops<|x|></tool_call>");
  w.hides_special = true;
  answer_check(&w, text, "ab{f|{\"t\": \"\"}}oops");
  w.specials = NULL; /* the same as plain text is not hidden */
  answer_check(&w, text, "a<|x|>b{f|{\"t\": \"<|x|>\"}}<tool_call>oops<|x|></tool_call>");
}

static void llama_calls(void **state)
{
  (void)state;
  const yk_tool_format f = YK_TOOLS_LLAMA3_JSON;
  check(f, "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}", "{f|{\"a\": \"b\"}}");
  check(f, CALL("f", "{}"), "{f|{}}");
  check(f, "\n<|python_tag|> " CALL("f", "{}") "\n", "{f|{}}");
  check(f, "<|python_tag|>" CALL("f", "{}") "; " CALL("g", "{\"a\": {}}") ";", "{f|{}}{g|{\"a\": {}}}");
  check(f, CALL("f", "{}") "\n" CALL("g", "{}"), "{f|{}}{g|{}}");
  check(f, CALL("f", "{}") "; and " CALL("g", "{}"), "{f|{}}; and " CALL("g", "{}"));
  check(f, CALL("f", "{}") "; {\"name\": 5}", "{f|{}}; {\"name\": 5}");
  check(f, "{\"name\": \"f\", \"parameters\": {\"a\": oops}} x", "{f|{\"a\": oops}} x!");
}

static void llama_content(void **state)
{
  (void)state;
  static const char *const texts[] = {"",
                                      " \n",
                                      "plain text",
                                      "I call " CALL("f", "{}"),
                                      "<|python_tag",
                                      "<|python_tag|>",
                                      "<|python_tag|>print(1)",
                                      "<|python_tog|>" CALL("f", "{}"),
                                      "{\"answer\": 42}",
                                      "{\"name\": \"Bob\", \"age\": 5} " CALL("f", "{}"),
                                      "{",
                                      "[" CALL("f", "{}") "]"};
  for (size_t i = 0; each_case(i, i < sizeof texts / sizeof *texts); i++)
    check(YK_TOOLS_LLAMA3_JSON, texts[i], texts[i]);
}

static void only_the_first_call(void **state)
{
  (void)state;
  const answer_way hermes = {
      .tools = YK_TOOLS_HERMES, .only_first = true, .end = {.finish = YK_FINISH_STOP, .text = ""}};
  const answer_way llama = {
      .tools = YK_TOOLS_LLAMA3_JSON, .only_first = true, .end = {.finish = YK_FINISH_STOP, .text = ""}};
  answer_check(&hermes, "a" TAGGED(CALL("f", "{\"a\": 1}")) "\n" TAGGED(CALL("g", "{\"b\": 2}")) "\nz",
               "a{f|{\"a\": 1}}\nz");
  answer_check(&llama, CALL("f", "{}") ";" CALL("g", "{}"), "{f|{}}");
}

/* Calls nested beyond the limit are not calls; up to the limit calls are found. */
static void depth_is_bounded(void **state)
{
  (void)state;
  for (int depth = 62; depth <= 64; depth++) {
    char brackets[2 * 64 + 1] = "", text[256];
    memset(brackets, '[', (size_t)depth);
    memset(brackets + depth, ']', (size_t)depth);
    snprintf(text, sizeof text, "<tool_call>{\"name\": \"f\", \"x\": %s, \"arguments\": {}}", brackets);
    const char *expected = depth < 64 ? "{f|{}}" : text;
    answer_check_once(&(answer_way){.tools = YK_TOOLS_HERMES, .end = {.finish = YK_FINISH_STOP, .text = ""}}, text,
                      expected);
  }
}

/* The name is reported as soon as the arguments begin, and pieces of arguments as they arrive. */
static void calls_are_streamed(void **state)
{
  (void)state;
  static const char *const pieces[] = {"<tool_call>{\"name\": \"f\", \"arguments\": ", "{\"a\"", ": 1", "}}"};
  answer_record r = {0};
  yk_answer_parser *parser;
  const yk_answer_parser_options options = {.tools = YK_TOOLS_HERMES, .take = answer_take, .user = &r};
  assert_int_equal(yk_answer_parser_create(&options, &parser, NULL), YK_OK);
  for (int i = 0; i < 4; i++) {
    const yk_output output = {.text = pieces[i], .text_bytes = strlen(pieces[i])};
    assert_int_equal(yk_answer_parser_push(parser, &output, NULL), YK_OK);
    assert_int_equal(r.n_calls, i > 0);
    assert_int_equal(r.n_pieces, i);
  }
  yk_answer_parser_free(parser);
  yk_strbuf_free(&r.text);
}

static void formats_have_names(void **state)
{
  (void)state;
  char names[] = YK_TOOL_FORMAT_NAMES;
  for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", "))
    assert_int_not_equal(yk_tool_format_find(name), YK_TOOLS_NONE);
  assert_int_equal(yk_tool_format_find("hermes"), YK_TOOLS_HERMES);
  assert_int_equal(yk_tool_format_find("glm47"), YK_TOOLS_GLM45);
  assert_int_equal(yk_tool_format_find("qwen3_xml"), YK_TOOLS_QWEN3_CODER);
  assert_int_equal(yk_tool_format_find("llama4_pythonic"), YK_TOOLS_PYTHONIC);
  assert_int_equal(yk_tool_format_find("llama4_json"), YK_TOOLS_LLAMA3_JSON);
  assert_int_equal(yk_tool_format_find("none"), YK_TOOLS_NONE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(hermes_calls),         cmocka_unit_test(hermes_content),
                                     cmocka_unit_test(hermes_recovers),      cmocka_unit_test(calls_without_arguments),
                                     cmocka_unit_test(outputs_that_are_cut), cmocka_unit_test(special_tokens),
                                     cmocka_unit_test(llama_calls),          cmocka_unit_test(llama_content),
                                     cmocka_unit_test(only_the_first_call),  cmocka_unit_test(depth_is_bounded),
                                     cmocka_unit_test(calls_are_streamed),   cmocka_unit_test(formats_have_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
