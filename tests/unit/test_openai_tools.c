/* Tool calls in the text of an answer, independent of how the text is split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "openai/tool_calls.h"

/* Events in readable form: content unchanged, a call as {name|arguments}, a cut call as {name|arguments!. */
typedef struct record {
  yk_strbuf text;
  bool in_call, has_broken;
  int32_t n_calls;
  int n_pieces; /* of arguments */
} record;

static void take(void *user, const yk_tool_event *event)
{
  record *r = user;
  if (event->kind == YK_TOOL_ARGUMENTS) {
    assert_true(r->in_call);
    assert_int_equal(event->call, r->n_calls - 1);
    assert_true(event->n_bytes > 0);
    r->n_pieces++;
  } else if (event->kind == YK_TOOL_END) {
    assert_true(r->in_call);
    assert_int_equal(event->call, r->n_calls - 1);
    yk_strbuf_append_str(&r->text, event->is_whole ? "}" : "!");
    r->has_broken |= !event->is_whole;
    r->in_call = false;
    return;
  } else {
    assert_false(r->in_call);
  }
  if (event->kind == YK_TOOL_BEGIN) {
    assert_int_equal(event->call, r->n_calls++);
    r->in_call = true;
    yk_strbuf_append_str(&r->text, "{");
  }
  yk_strbuf_append(&r->text, event->text, event->n_bytes);
  if (event->kind == YK_TOOL_BEGIN) yk_strbuf_append_str(&r->text, "|");
}

/* Options of the parser, and the end of the answer. */
typedef struct way {
  yk_tool_format format;
  bool only_first;
  bool is_special; /* tags and <|x|> are special tokens */
  bool hides_special;
  yk_output end;
} way;

static const char *const specials[] = {"<tool_call>", "</tool_call>", "<|x|>"};

/* The spans of special tokens in the text from begin to end. */
static size_t find_special(const char *text, size_t begin, size_t end, yk_text_span *out)
{
  size_t n = 0;
  for (size_t at = 0; text[at]; at++)
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
      size_t stop = at + strlen(specials[i]);
      if (strncmp(text + at, specials[i], strlen(specials[i])) != 0 || at >= end || stop <= begin) continue;
      out[n++] = (yk_text_span){at > begin ? at - begin : 0, (stop < end ? stop : end) - begin};
    }
  return n;
}

/* The pieces end at the offsets of `cuts`, and at the end. */
static record parse(const way *w, const char *text, const size_t *cuts, size_t n_cuts)
{
  record r = {0};
  yk_tool_parser *parser;
  yk_text_span special[64];
  size_t begin = 0, length = strlen(text);
  const yk_tool_options options = {w->format, w->only_first, w->hides_special, take, &r};
  assert_int_equal(yk_tool_parser_create(&options, &parser, NULL), YK_OK);
  for (size_t i = 0; i <= n_cuts; i++) {
    size_t end = i < n_cuts ? cuts[i] : length;
    yk_output output = {.has_token = true, .text = text + begin, .text_bytes = end - begin, .special = special};
    if (w->is_special) output.n_special = find_special(text, begin, end, special);
    assert_int_equal(yk_tool_parser_push(parser, &output, NULL), YK_OK);
    begin = end;
  }
  assert_int_equal(yk_tool_parser_push(parser, &w->end, NULL), YK_OK);
  assert_false(r.in_call);
  assert_int_equal(yk_tool_parser_has_calls(parser), r.n_calls > 0 && !r.has_broken);
  yk_tool_parser_free(parser);
  return r;
}

static void check_cuts(const way *w, const char *text, const size_t *cuts, size_t n_cuts, const char *expected)
{
  record r = parse(w, text, cuts, n_cuts);
  assert_string_equal(r.text.data ? r.text.data : "", expected);
  yk_strbuf_free(&r.text);
}

/* Whole, cut once or twice anywhere, and byte by byte. */
static void check_as(const way *w, const char *text, const char *expected)
{
  size_t n = strlen(text), cuts[1024];
  assert_true(n < 1024);
  check_cuts(w, text, NULL, 0, expected);
  for (size_t i = 0; i <= n; i++) check_cuts(w, text, &i, 1, expected);
  for (size_t i = 0; i <= n; i += 3)
    for (size_t j = i; j <= n; j += 2) check_cuts(w, text, (size_t[]){i, j}, 2, expected);
  for (size_t i = 0; i < n; i++) cuts[i] = i;
  check_cuts(w, text, cuts, n, expected);
}

static void check(yk_tool_format format, const char *text, const char *expected)
{
  check_as(&(way){.format = format, .end = {.finish = YK_FINISH_STOP, .text = ""}}, text, expected);
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
  const way cut = {.format = YK_TOOLS_HERMES, .end = {.finish = YK_FINISH_LENGTH, .text = ""}};
  const way stopped = {.format = YK_TOOLS_HERMES, .end = {.finish = YK_FINISH_STOP, .stop_string = "x", .text = ""}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    check_as(&cut, rows[i][0], rows[i][1]);
    check_as(&stopped, rows[i][0], rows[i][1]);
  }
  const way llama = {.format = YK_TOOLS_LLAMA3_JSON, .end = {.finish = YK_FINISH_LENGTH, .text = ""}};
  check_as(&llama, "{\"answer\": 4", "{\"answer\": 4"); /* an answer in JSON */
  check_as(&llama, "<|python_t", "");
}

/* Tags that are special tokens are found; other special tokens are hidden from clients that skip them. */
static void special_tokens(void **state)
{
  (void)state;
  static const char text[] = "a<|x|>b" TAGGED(CALL("f", "{\"t\": \"<|x|>\"}")) "<tool_call>oops<|x|></tool_call>";
  way w = {.format = YK_TOOLS_HERMES, .is_special = true, .end = {.finish = YK_FINISH_STOP, .text = ""}};
  check_as(&w, text, "a<|x|>b{f|{\"t\": \"<|x|>\"}}<tool_call>oops<|x|></tool_call>");
  w.hides_special = true;
  check_as(&w, text, "ab{f|{\"t\": \"\"}}oops");
  w.is_special = false; /* the same as plain text is not hidden */
  check_as(&w, text, "a<|x|>b{f|{\"t\": \"<|x|>\"}}<tool_call>oops<|x|></tool_call>");
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
  const way hermes = {.format = YK_TOOLS_HERMES, .only_first = true, .end = {.finish = YK_FINISH_STOP, .text = ""}};
  const way llama = {.format = YK_TOOLS_LLAMA3_JSON, .only_first = true, .end = {.finish = YK_FINISH_STOP, .text = ""}};
  check_as(&hermes, "a" TAGGED(CALL("f", "{\"a\": 1}")) "\n" TAGGED(CALL("g", "{\"b\": 2}")) "\nz",
           "a{f|{\"a\": 1}}\nz");
  check_as(&llama, CALL("f", "{}") ";" CALL("g", "{}"), "{f|{}}");
}

/* Calls nested beyond the limit are not calls; up to the limit calls are found. */
static void depth_is_bounded(void **state)
{
  (void)state;
  for (int depth = 62; depth <= 64; depth++) {
    char text[512] = "<tool_call>{\"name\": \"f\", \"x\": ", expected[512];
    for (int i = 0; i < depth; i++) strcat(text, "[");
    for (int i = 0; i < depth; i++) strcat(text, "]");
    strcat(text, ", \"arguments\": {}}");
    snprintf(expected, sizeof expected, "%s", depth < 64 ? "{f|{}}" : text);
    check_cuts(&(way){.format = YK_TOOLS_HERMES, .end = {.finish = YK_FINISH_STOP, .text = ""}}, text, NULL, 0,
               expected);
  }
}

/* The name is reported as soon as the arguments begin, and pieces of arguments as they arrive. */
static void calls_are_streamed(void **state)
{
  (void)state;
  static const char *const pieces[] = {"<tool_call>{\"name\": \"f\", \"arguments\": ", "{\"a\"", ": 1", "}}"};
  record r = {0};
  yk_tool_parser *parser;
  const yk_tool_options options = {.format = YK_TOOLS_HERMES, .take = take, .user = &r};
  assert_int_equal(yk_tool_parser_create(&options, &parser, NULL), YK_OK);
  for (int i = 0; i < 4; i++) {
    const yk_output output = {.text = pieces[i], .text_bytes = strlen(pieces[i])};
    assert_int_equal(yk_tool_parser_push(parser, &output, NULL), YK_OK);
    assert_int_equal(r.n_calls, i > 0);
    assert_int_equal(r.n_pieces, i);
  }
  yk_tool_parser_free(parser);
  yk_strbuf_free(&r.text);
}

static void formats_have_names(void **state)
{
  (void)state;
  yk_tool_parser *parser;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_tool_format_find("hermes"), YK_TOOLS_HERMES);
  assert_int_equal(yk_tool_format_find("llama3_json"), YK_TOOLS_LLAMA3_JSON);
  assert_int_equal(yk_tool_format_find("mistral"), YK_TOOLS_NONE);
  assert_int_equal(yk_tool_parser_create(&(yk_tool_options){.take = take}, &parser, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, yk_tool_format_names()));
  assert_null(parser);
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
