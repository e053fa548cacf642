/* 8-bit floats: every code has the value of its definition. */
#include <math.h>

#include "unit/loader_fixture.h"

#include "base/float8.h"
#include "each_case.h"

/* Sign, exponent and mantissa from the specification's table. */
static double by_definition(int code)
{
  int exponent = code >> 3 & 0xF, mantissa = code & 7;
  double magnitude = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
  return code & 0x80 ? -magnitude : magnitude;
}

static void every_code(void **state)
{
  (void)state;
  int n_nan = 0;
  for (int code = 0; code < 256; code++) {
    float found = yk_e4m3_to_f32((uint8_t)code);
    assert_int_equal(yk_e4m3_is_nan((uint8_t)code), isnan(found) != 0);
    n_nan += isnan(found) != 0;
    if (isnan(found)) continue;
    double expected = by_definition(code);
    assert_memory_equal(&(double){found}, &expected, sizeof expected); /* -0 differs from 0 */
    assert_true(yk_f16_to_f32(yk_e4m3_to_f16((uint8_t)code)) == expected / 256);
  }
  assert_int_equal(n_nan, 2);
}

static void numbers_of_the_specification(void **state)
{
  (void)state;
  static const struct {
    uint8_t code;
    float value;
  } cases[] = {{0x7E, 448.0f},  {0xFE, -448.0f},  {0x08, 0x1p-6f}, {0x07, 0.875f * 0x1p-6f},
               {0x01, 0x1p-9f}, {0x81, -0x1p-9f}, {0x38, 1.0f},    {0xB8, -1.0f}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++)
    assert_true(yk_e4m3_to_f32(cases[i].code) == cases[i].value);
  assert_true(isnan(yk_e4m3_to_f32(0x7F)) && isnan(yk_e4m3_to_f32(0xFF)));
}

/* Between two neighbouring codes: below the middle the lower, above it the upper, and in the middle the even one. */
static void numbers_become_the_nearest_code(void **state)
{
  (void)state;
  for (int sign = 0; sign < 256; sign += 128) {
    for (int code = 0; code < 0x7E; code++) {
      float low = yk_e4m3_to_f32((uint8_t)(sign + code)), high = yk_e4m3_to_f32((uint8_t)(sign + code + 1));
      float middle = (low + high) / 2;
      assert_int_equal(yk_e4m3_from_f32(low), sign + code);
      assert_int_equal(yk_e4m3_from_f32(nextafterf(middle, low)), sign + code);
      assert_int_equal(yk_e4m3_from_f32(middle), sign + code + code % 2);
      assert_int_equal(yk_e4m3_from_f32(nextafterf(middle, high)), sign + code + 1);
    }
    float factor = sign ? -1.0f : 1.0f;
    assert_int_equal(yk_e4m3_from_f32(factor * 448.0f), sign + 0x7E);
    assert_int_equal(yk_e4m3_from_f32(factor * 1e30f), sign + 0x7E);
    assert_int_equal(yk_e4m3_from_f32(factor * INFINITY), sign + 0x7E);
    assert_int_equal(yk_e4m3_from_f32(factor * 0.0f), sign);
    assert_int_equal(yk_e4m3_from_f32(factor * 1e-40f), sign);
  }
  assert_true(yk_e4m3_is_nan(yk_e4m3_from_f32(NAN)));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_code), cmocka_unit_test(numbers_of_the_specification),
                                     cmocka_unit_test(numbers_become_the_nearest_code)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
