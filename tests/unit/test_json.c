/* The reader of JSON: the grammar of Python's json module, numbers as text, bounds, and errors with their position. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "each_case.h"

static yk_json_doc *parse(const char *text)
{
  yk_err err = YK_ERR_INIT;
  yk_json_doc *doc = NULL;
  if (yk_json_parse("t.json", text, strlen(text), NULL, &doc, &err) != YK_OK) fail_msg("%s: %s", text, err.message);
  return doc;
}

/* The value of a text, written again in one line. */
static void check_same(const char *text, const char *expected)
{
  yk_strbuf found = YK_STRBUF_INIT;
  yk_json_doc *doc = parse(text);
  yk_json_append(&found, yk_json_root(doc), 0);
  assert_string_equal(found.data, expected);
  yk_strbuf_free(&found);
  yk_json_free(doc);
}

static void check_refused_by(const yk_json_rules *rules, const char *text, size_t n_bytes, const char *message)
{
  yk_err err = YK_ERR_INIT;
  yk_json_doc *doc = NULL;
  assert_int_equal(yk_json_parse("t.json", text, n_bytes, rules, &doc, &err), YK_E_FORMAT);
  assert_null(doc);
  assert_string_equal(err.message, message);
}

static void check_refused(const char *text, const char *message)
{
  check_refused_by(NULL, text, strlen(text), message);
}

static void texts_that_python_reads(void **state)
{
  (void)state;
  check_same("1000000000000000019884624838656", "1000000000000000019884624838656");
  check_same("[NaN, Infinity,-Infinity , 1e400, -0, 18446744073709551615, 0.10]",
             "[NaN, Infinity, -Infinity, 1e400, -0, 18446744073709551615, 0.10]");
  check_same("\xef\xbb\xbf{\"a\": 1}", "{\"a\": 1}");
  check_same(" {\"a\":1,\"b\":{},\"a\":{\"c\":[2]},\"d\":[]}\r\n\t", "{\"b\": {}, \"a\": {\"c\": [2]}, \"d\": []}");
  check_same("\"\\ud83c\\udf89 \\u00e9 \\n\\/ \\u0000.\"", "\"\xf0\x9f\x8e\x89 \xc3\xa9 \\n/ \\u0000.\"");
  check_same("[\"\\ud83c\", \"\\udf89x\", \"\\ud83c\\ud83c\\udf89\"]",
             "[\"\xef\xbf\xbd\", \"\xef\xbf\xbdx\", \"\xef\xbf\xbd\xf0\x9f\x8e\x89\"]"); /* halves of a pair */
  check_same("[true,false,null,\"\",[],{}]", "[true, false, null, \"\", [], {}]");
}

static void texts_that_nobody_reads(void **state)
{
  (void)state;
  check_refused("[1,]", "t.json: line 1 column 4: expected a value, found ']'");
  check_refused("{\"a\":1,}", "t.json: line 1 column 8: expected a key in double quotes, found '}'");
  check_refused("{'a':1}", "t.json: line 1 column 2: expected a key in double quotes, found '''");
  check_refused("{\"a\"\n  1}", "t.json: line 2 column 3: expected ':', found '1'");
  check_refused("{\"a\": \"x\\ny\",\n\n \"b\" 2}", "t.json: line 3 column 6: expected ':', found '2'");
  check_refused("", "t.json: line 1 column 1: expected a value, found the end of the text");
  check_refused("[1", "t.json: line 1 column 3: expected ',' or ']', found the end of the text");
  check_refused("{\"a\":1", "t.json: line 1 column 7: expected ',' or '}', found the end of the text");
  check_refused("1 2", "t.json: line 1 column 3: expected the end of the text, found '2'");
  check_refused("\"a", "t.json: line 1 column 3: expected '\"', found the end of the text");
  check_refused("\"a\tb\"", "t.json: line 1 column 3: expected a control character to be escaped, found byte 0x09");
  check_refused("\"\\x\"", "t.json: line 1 column 3: expected an escape of \", \\, /, b, f, n, r, t or u, found 'x'");
  check_refused("\"\\u12g4\"", "t.json: line 1 column 4: expected four hexadecimal digits, found '1'");
  for (size_t i = 0; i < 9; i++) {
    static const char *const numbers[] = {"01", "1.", ".5", "+1", "-", "1e", "1e+", "0x10", "infinity"};
    yk_err err = YK_ERR_INIT;
    yk_json_doc *doc;
    assert_int_equal(yk_json_parse("t", numbers[i], strlen(numbers[i]), NULL, &doc, &err), YK_E_FORMAT);
  }
  static const char *const encodings[] = {"\"\x80\"",         "\"\xc1\x81\"",         "\"\xe0\x9f\xbf\"",
                                          "\"\xed\xa0\x80\"", "\"\xf0\x8f\xbf\xbf\"", "\"\xf4\x90\x80\x80\"",
                                          "\"\xf5\"",         "\"\xe2\x82\"",         "\"\xc3"};
  for (size_t i = 0; each_case(i, i < sizeof encodings / sizeof encodings[0]); i++) {
    yk_err err = YK_ERR_INIT;
    yk_json_doc *doc;
    assert_int_equal(yk_json_parse("t", encodings[i], strlen(encodings[i]), NULL, &doc, &err), YK_E_FORMAT);
    assert_non_null(strstr(err.message, "expected UTF-8"));
  }
  check_refused_by(NULL, "[1\0]", 4, "t.json: line 1 column 3: expected ',' or ']', found byte 0x00");
}

static void rules_bound_a_text(void **state)
{
  (void)state;
  char deep[2 * YK_JSON_MAX_DEPTH + 3];
  memset(deep, '[', YK_JSON_MAX_DEPTH);
  memset(deep + YK_JSON_MAX_DEPTH, ']', YK_JSON_MAX_DEPTH);
  deep[2 * YK_JSON_MAX_DEPTH] = '\0';
  yk_json_free(parse(deep));
  memset(deep, '[', YK_JSON_MAX_DEPTH + 1);
  check_refused(deep,
                "t.json: line 1 column 2049: expected at most 2048 objects and arrays inside each other, found more");

  const yk_json_rules few = {.max_depth = 2, .max_values = 4};
  check_refused_by(&few, "[[[", 3,
                   "t.json: line 1 column 3: expected at most 2 objects and arrays inside each other, "
                   "found more");
  check_refused_by(&few, "[1,2,3,4]", 9, "t.json: line 1 column 9: expected at most 4 keys and values, found more");

  const yk_json_rules unique = {.max_depth = 4, .unique_keys = true};
  check_refused_by(&unique, "{\"a\":\n1,\"a\":2}", 14,
                   "t.json: line 2 column 8: duplicate object key \"a\" in the object that ends here");
  const yk_json_rules line = {.max_depth = 4, .is_line = true};
  check_refused_by(&line, "{]", 2, "JSON: column 2: expected a key in double quotes, found ']'");
}

static bool keeps_a(const char *key)
{
  return strcmp(key, "a") == 0;
}

static void members_that_nobody_wants_are_checked_and_left_out(void **state)
{
  (void)state;
  const yk_json_rules rules = {.max_depth = 8, .max_values = 9, .keeps = keeps_a};
  yk_err err = YK_ERR_INIT;
  yk_json_doc *doc;
  const char *text = "{\"x\":[1,2,3,4,5,6,7,8,9,{\"a\":1}],\"a\":{\"x\":3},\"y\":null}";
  assert_int_equal(yk_json_parse("t", text, strlen(text), &rules, &doc, &err), YK_OK);
  yk_json root = yk_json_root(doc);
  assert_int_equal(yk_json_size(root), 3);
  assert_int_equal(yk_json_kind_of(yk_json_get(root, "x")), YK_JSON_SKIPPED);
  assert_int_equal(yk_json_kind_of(yk_json_get(root, "y")), YK_JSON_NULL);
  assert_string_equal(yk_json_text(yk_json_get(yk_json_get(root, "a"), "x")), "3");
  yk_json_free(doc);
  check_refused_by(&rules, "{\"x\":[1,}", 9, "t.json: line 1 column 9: expected a value, found '}'");
}

/* Enough members that they are sorted, each key twice. */
static void the_last_of_equal_keys_counts(void **state)
{
  (void)state;
  enum { N_KEYS = 3000 };
  yk_strbuf text = YK_STRBUF_INIT;
  for (int i = 0; i < 2 * N_KEYS; i++)
    yk_strbuf_append_fmt(&text, "%s\"k%d\": [%d, {\"k0\": 0}]", i ? "," : "{", i % N_KEYS, i);
  yk_strbuf_append_str(&text, "}");
  yk_json_doc *doc = parse(text.data);
  yk_json root = yk_json_root(doc);
  assert_int_equal(yk_json_size(root), N_KEYS);
  int n = 0;
  YK_JSON_EACH_KEY(key, root)
  {
    int64_t value;
    char name[16];
    snprintf(name, sizeof name, "k%d", n);
    assert_true(yk_json_equals(key, name));
    assert_true(yk_json_to_i64(yk_json_at(yk_json_member(key), 0), &value));
    assert_int_equal(value, N_KEYS + n++);
  }
  assert_int_equal(n, N_KEYS);
  yk_json_free(doc);
  yk_strbuf_free(&text);
}

static void numbers_keep_their_text_and_become_numbers_when_read(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    bool is_integer, is_i64, is_u64;
    int64_t i64;
    uint64_t u64;
    double f64;
  } cases[] = {
      {"12", true, true, true, 12, 12, 12},
      {"-12", true, true, false, -12, 0, -12},
      {"1e4", false, true, true, 10000, 10000, 1e4},
      {"10.0", false, true, true, 10, 10, 10},
      {"0.5", false, false, false, 0, 0, 0.5},
      {"9223372036854775807", true, true, true, INT64_MAX, INT64_MAX, 0x1p63},
      {"9223372036854775808", true, false, true, 0, UINT64_C(9223372036854775808), 0x1p63},
      {"18446744073709551615", true, false, true, 0, UINT64_MAX, 0x1p64},
      {"18446744073709551616", true, false, false, 0, 0, 0x1p64},
      {"1e400", false, false, false, 0, 0, INFINITY},
      {"-Infinity", false, false, false, 0, 0, -INFINITY},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof cases[0]); i++) {
    yk_json_doc *doc = parse(cases[i].text);
    yk_json value = yk_json_root(doc);
    int64_t i64;
    uint64_t u64;
    double f64;
    assert_int_equal(yk_json_is_integer(value), cases[i].is_integer);
    assert_int_equal(yk_json_to_i64(value, &i64), cases[i].is_i64);
    assert_int_equal(yk_json_to_u64(value, &u64), cases[i].is_u64);
    assert_true(yk_json_to_f64(value, &f64) && f64 == cases[i].f64);
    if (cases[i].is_i64) assert_true(i64 == cases[i].i64);
    if (cases[i].is_u64) assert_true(u64 == cases[i].u64);
    assert_string_equal(yk_json_text(value), cases[i].text);
    yk_json_free(doc);
  }
}

static void typed_readers_name_key_range_and_finding(void **state)
{
  (void)state;
  yk_json_doc *doc =
      parse("{\"i\": 7, \"big\": 1000000000000000019884624838656, \"nan\": NaN, \"s\": \"x\", \"n\": null, "
            "\"r\": 1.5, \"t\": true}");
  yk_json root = yk_json_root(doc);
  int64_t i64 = 3;
  int32_t i32 = 4;
  double f64 = 5;
  bool flag = false;
  const char *text;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_json_get_i64(root, "f", "i", true, 0, 9, &i64, &err), YK_OK);
  assert_int_equal(i64, 7);
  assert_int_equal(yk_json_get_i32(root, "f", "n", false, 0, 9, &i32, &err), YK_OK);
  assert_int_equal(yk_json_get_f64(root, "f", "gone", false, 0, 9, &f64, &err), YK_OK);
  assert_true(i32 == 4 && f64 == 5);
  assert_int_equal(yk_json_get_i32(root, "f", "i", true, 0, 9, &i32, &err), YK_OK);
  assert_int_equal(i32, 7);
  assert_int_equal(yk_json_get_bool(root, "f", "t", true, &flag, &err), YK_OK);
  assert_true(flag);
  assert_int_equal(yk_json_get_str(root, "f", "s", true, &text, &err), YK_OK);
  assert_string_equal(text, "x");
  static const struct {
    const char *key, *message;
  } integers[] = {
      {"big", "f: key \"big\": expected 0 to 9, found 1000000000000000019884624838656"},
      {"s", "f: key \"s\": expected an integer, found string"},
      {"r", "f: key \"r\": expected an integer, found number"},
      {"nan", "f: key \"nan\": expected an integer, found number"},
      {"n", "f: key \"n\" is missing, expected an integer"},
  };
  for (size_t i = 0; each_case(i, i < sizeof integers / sizeof integers[0]); i++) {
    yk_err refused = YK_ERR_INIT;
    assert_int_equal(yk_json_get_i64(root, "f", integers[i].key, true, 0, 9, &i64, &refused), YK_E_FORMAT);
    assert_string_equal(refused.message, integers[i].message);
  }
  assert_int_equal(yk_json_get_f64(root, NULL, "nan", true, 0, 9, &f64, &err), YK_E_FORMAT);
  assert_string_equal(err.message, "key \"nan\": expected 0 to 9, found NaN");
  yk_json_free(doc);
}

static void a_document_takes_eight_bytes_a_value(void **state)
{
  (void)state;
  enum { N_VALUES = 1 << 20 };
  char *text = malloc(2 * N_VALUES + 2);
  assert_non_null(text);
  for (int i = 0; i < N_VALUES; i++) memcpy(text + 2 * i, i ? ",1" : "[1", 2);
  memcpy(text + 2 * N_VALUES, "]", 2);
  yk_json_doc *doc = parse(text);
  assert_int_equal(yk_json_size(yk_json_root(doc)), N_VALUES);
  assert_true(yk_json_at(yk_json_root(doc), N_VALUES - 1).doc == doc);
  assert_false(yk_json_at(yk_json_root(doc), N_VALUES).doc);
  yk_json_free(doc);
  free(text);
}

static void equal_values(void **state)
{
  (void)state;
  static const struct {
    const char *a, *b;
    bool is_same;
  } cases[] = {
      {"{\"a\":1,\"b\":[2]}", "{\"b\":[2.0],\"a\":1e0}", true},
      {"[1,2]", "[1]", false},
      {"18446744073709551615", "18446744073709551616", false},
      {"{\"a\":1}", "{\"b\":1}", false},
      {"NaN", "NaN", true},
      {"\"a\"", "\"a\\u0000\"", false},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof cases[0]); i++) {
    yk_json_doc *a = parse(cases[i].a), *b = parse(cases[i].b);
    assert_int_equal(yk_json_same(yk_json_root(a), yk_json_root(b)), cases[i].is_same);
    yk_json_free(a);
    yk_json_free(b);
  }
}

static void absent_values_are_harmless(void **state)
{
  (void)state;
  yk_json none = YK_JSON_NONE;
  int64_t i64;
  assert_false(yk_json_get(none, "a").doc || yk_json_first(none).doc || yk_json_first_key(none).doc);
  assert_false(yk_json_at(none, 0).doc || yk_json_root(NULL).doc || yk_json_is_given(none));
  assert_null(yk_json_string(none));
  assert_int_equal(yk_json_size(none), 0);
  assert_false(yk_json_to_i64(none, &i64));
  assert_string_equal(yk_json_type_name(none), "nothing");
  yk_json_free(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_that_python_reads),
      cmocka_unit_test(texts_that_nobody_reads),
      cmocka_unit_test(rules_bound_a_text),
      cmocka_unit_test(members_that_nobody_wants_are_checked_and_left_out),
      cmocka_unit_test(the_last_of_equal_keys_counts),
      cmocka_unit_test(numbers_keep_their_text_and_become_numbers_when_read),
      cmocka_unit_test(typed_readers_name_key_range_and_finding),
      cmocka_unit_test(a_document_takes_eight_bytes_a_value),
      cmocka_unit_test(equal_values),
      cmocka_unit_test(absent_values_are_harmless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
