/* Shared libraries that are loaded when they are needed: found, missing, too old. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/library.h"

#define LIBRARY "libm.so.6"

typedef struct functions {
  double (*cosine)(double x);
  double (*root)(double x);
} functions;

static void functions_are_found(void **state)
{
  (void)state;
  const yk_library_symbol symbols[] = {{"cos", offsetof(functions, cosine)}, {"sqrt", offsetof(functions, root)}};
  functions table = {0};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_library_load(LIBRARY, symbols, 2, &table, &err), YK_OK);
  assert_true(table.cosine(0) == 1);
  assert_true(table.root(9) == 3);
}

static void a_missing_library_is_named(void **state)
{
  (void)state;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_library_load("libyoke_needs_none.so.7", NULL, 0, NULL, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "libyoke_needs_none.so.7: cannot open shared object file"));
}

static void a_missing_function_is_named(void **state)
{
  (void)state;
  const yk_library_symbol symbols[] = {{"cos_of_the_next_version", offsetof(functions, cosine)},
                                       {"sqrt", offsetof(functions, root)}};
  functions table = {0};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_library_load(LIBRARY, symbols, 2, &table, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, LIBRARY ": undefined symbol: cos_of_the_next_version"));
}

static void macros_become_names(void **state)
{
  (void)state;
#define OLD_NAME new_name
  assert_string_equal(YK_LIBRARY_STRING(OLD_NAME), "new_name");
  assert_string_equal(YK_LIBRARY_STRING(name), "name");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_are_found), cmocka_unit_test(a_missing_library_is_named),
      cmocka_unit_test(a_missing_function_is_named), cmocka_unit_test(macros_become_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
