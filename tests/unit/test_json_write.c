/* JSON written piece by piece has the same bytes as jansson's. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/json_write.h"
#include "base/rng.h"
#include "each_case.h"

enum { FLAGS = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9) };

/* Takes ownership of value. */
static void assert_same_as(const yk_strbuf *found, json_t *value)
{
  char *expected = json_dumps(value, FLAGS);
  assert_non_null(expected);
  assert_string_equal(found->data, expected);
  free(expected);
  json_decref(value);
}

static void check_string(const char *text, size_t n_bytes)
{
  yk_strbuf found = YK_STRBUF_INIT;
  yk_json_append_string(&found, text, n_bytes);
  assert_same_as(&found, json_stringn(text, n_bytes));
  yk_strbuf_free(&found);
}

static void strings(void **state)
{
  (void)state;
  char text[3];
  for (int c = 0; c < 0x80; c++) {
    memcpy(text, (char[]){'a', (char)c, 'b'}, 3);
    check_string(text, 3);
    check_string(text + 1, 1);
  }
  check_string("", 0);
  check_string("\"\\/\n\n\\", 6);
  check_string("h\xC3\xA9 \xE2\x80\xA8 \xF0\x9F\x98\x80", 12);
}

static void check_real(double value)
{
  yk_strbuf found = YK_STRBUF_INIT;
  yk_json_append_real(&found, value);
  assert_same_as(&found, isfinite(value) ? json_real(value) : json_null());
  yk_strbuf_free(&found);
}

static void reals(void **state)
{
  (void)state;
  static const double values[] = {0,       -0.0,     1,         -1,   1.5,         1e9,
                                  1e10,    -1e-5,    1e-10,     1e20, 1.5e300,     DBL_MAX,
                                  DBL_MIN, INFINITY, -INFINITY, NAN,  123456789.0, 1234567890.0};
  for (size_t i = 0; each_case(i, i < sizeof values / sizeof *values); i++) check_real(values[i]);
  for (uint32_t i = 0; i < 20000; i++) {
    uint32_t random[4] = {i, 0, 0, 0};
    yk_philox(random, 1, 2);
    float value;
    memcpy(&value, &random[0], sizeof value);
    check_real((double)value);
    check_real(-(double)(random[1] % 1000000) / 12345);
  }
}

static void integers(void **state)
{
  (void)state;
  static const int64_t values[] = {0, 1, -1, 9, 10, 1234567890123, INT64_MAX, INT64_MIN, INT32_MIN};
  for (size_t i = 0; each_case(i, i < sizeof values / sizeof *values); i++) {
    yk_strbuf found = YK_STRBUF_INIT;
    yk_json_append_i64(&found, values[i]);
    assert_same_as(&found, json_integer(values[i]));
    yk_strbuf_free(&found);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(strings), cmocka_unit_test(reals), cmocka_unit_test(integers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
