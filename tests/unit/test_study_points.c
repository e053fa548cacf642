/* Values, points and their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "study/order.h"
#include "study/sweep.h"

static void expect_values(const char *text, const double *expected, size_t n)
{
  yk_values values = {0};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_values_parse(text, 1, 1e6, true, &values, &err), YK_OK);
  assert_int_equal(values.n, n);
  for (size_t i = 0; i < n; i++) assert_true(values.at[i] == expected[i]);
  yk_values_free(&values);
}

static void test_values(void **state)
{
  (void)state;
  expect_values("7", (double[]){7}, 1);
  expect_values("1,2,4", (double[]){1, 2, 4}, 3);
  expect_values("1-256*2", (double[]){1, 2, 4, 8, 16, 32, 64, 128, 256}, 9);
  expect_values("1-200*2", (double[]){1, 2, 4, 8, 16, 32, 64, 128}, 8);
  expect_values("8-64+8", (double[]){8, 16, 24, 32, 40, 48, 56, 64}, 8);
  expect_values("1-4", (double[]){1, 2, 3, 4}, 4);
  expect_values("4,1-4,4,9", (double[]){4, 1, 2, 3, 9}, 5); /* each once */
  expect_values("5-5*3", (double[]){5}, 1);
}

static void test_rates(void **state)
{
  (void)state;
  yk_values values = {0};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_values_parse("0.1-0.3+0.1,0.5-4*2", 0, 1e6, false, &values, &err), YK_OK);
  assert_int_equal(values.n, 7);
  assert_true(values.at[2] > 0.2999 && values.at[2] < 0.3001 && values.at[6] == 4);
  yk_values_free(&values);
}

static void test_bad_values(void **state)
{
  (void)state;
  static const char *const bad[] = {"",        ",",     "1,",       ",1",     "x",        "1-",     "4-1",
                                    "1-4*1",   "1-4+0", "1.5",      "-1",     "0",        "1--4",   "1-4*",
                                    "1-4*2*2", "nan",   "1e3",      "0x10",   "1 ,2",     "1-9+-1", "2e9999",
                                    ".5",      "1..5",  "10000000", "1-6000", "1-1e300*2"};
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof *bad); i++) {
    yk_values values = {0};
    yk_err err = YK_ERR_INIT;
    if (yk_values_parse(bad[i], 1, 1e6, true, &values, &err) != YK_E_INVAL) fail_msg("\"%s\" was taken", bad[i]);
    assert_true(err.message[0] != '\0' && values.at == NULL && values.n == 0);
  }
}

static void parse(yk_values *values, const char *text)
{
  assert_int_equal(yk_values_parse(text, 1, 1e6, true, values, NULL), YK_OK);
}

static yk_sweep make_sweep(void)
{
  yk_sweep sweep = {0};
  parse(&sweep.ranks, "1,2");
  parse(&sweep.loads, "1,8");
  parse(&sweep.input_lens, "16");
  parse(&sweep.output_lens, "4,5,6");
  assert_int_equal(yk_sweep_add_option(&sweep, "max-num-batched-tokens=64-256*2,64", NULL), YK_OK);
  assert_int_equal(yk_sweep_add_option(&sweep, "--kv-cache-bytes=1GiB,2GiB", NULL), YK_OK);
  return sweep;
}

static void test_grid(void **state)
{
  (void)state;
  yk_sweep sweep = make_sweep();
  yk_study_grid grid;
  char text[200];
  assert_int_equal(sweep.options[0].n_values, 3);
  assert_string_equal(sweep.options[0].values[2], "256");
  assert_string_equal(sweep.options[1].name, "kv-cache-bytes");
  assert_int_equal(yk_study_grid_make(&sweep, &grid, NULL), YK_OK);
  assert_int_equal(grid.n_configs, 12);
  assert_int_equal(grid.n_points, 72);
  for (size_t i = 0; i < grid.n_points; i++) {
    json_t *own = yk_study_point_json(&grid, i);
    assert_int_equal(grid.points[i].config, i / 6);
    for (size_t j = 0; j < i; j++) {
      json_t *other = yk_study_point_json(&grid, j);
      assert_false(json_equal(own, other));
      json_decref(other);
    }
    json_decref(own);
  }
  assert_string_equal(yk_study_point_describe(&grid, 7, text, sizeof text),
                      "2 ranks, max-num-batched-tokens 64, kv-cache-bytes 1GiB, batch 8, 16 in, 4 out");
  yk_study_point_describe(&grid, 7, text, 20); /* cut, not beyond */
  assert_int_equal(strlen(text), 19);
  yk_study_grid_free(&grid);
  yk_sweep_free(&sweep);
}

static void test_bad_sweeps(void **state)
{
  (void)state;
  static const char *const bad[] = {"", "x", "=1", "--=1", "x=", "x=1,", "x=,1", "x=1,,2", "twice=2"};
  yk_sweep sweep = {0};
  yk_study_grid grid;
  assert_int_equal(yk_sweep_add_option(&sweep, "twice=1", NULL), YK_OK);
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof *bad); i++) {
    if (yk_sweep_add_option(&sweep, bad[i], NULL) != YK_E_INVAL) fail_msg("\"%s\" was taken", bad[i]);
    assert_int_equal(sweep.n_options, 1);
  }
  for (char name[] = "a=1"; sweep.n_options < YK_SWEEP_MAX_OPTIONS; name[0]++)
    assert_int_equal(yk_sweep_add_option(&sweep, name, NULL), YK_OK);
  assert_int_equal(yk_sweep_add_option(&sweep, "more=1", NULL), YK_E_INVAL);
  assert_int_equal(yk_study_grid_make(&sweep, &grid, NULL), YK_E_INVAL); /* nothing to measure */
  parse(&sweep.ranks, "1-8");
  parse(&sweep.loads, "1-50");
  parse(&sweep.input_lens, "1-5");
  parse(&sweep.output_lens, "1");
  assert_int_equal(yk_study_grid_make(&sweep, &grid, NULL), YK_OK); /* 2000, the largest number */
  yk_study_grid_free(&grid);
  parse(&sweep.output_lens, "1,2");
  assert_int_equal(yk_study_grid_make(&sweep, &grid, NULL), YK_E_INVAL);
  yk_sweep_free(&sweep);
}

/* Every possible point as often as requested; the points of one engine start are consecutive; the seed decides the
 * order. */
static void test_order(void **state)
{
  (void)state;
  enum { STARTS = 3, REPEATS = 4, BAD = 5 };
  yk_sweep sweep = make_sweep();
  yk_study_grid grid;
  yk_study_item *items, *again, *other;
  size_t n, n_again, n_other, n_engines = 0;
  assert_int_equal(yk_study_grid_make(&sweep, &grid, NULL), YK_OK);
  strcpy(grid.points[BAD].reason, "impossible");
  assert_int_equal(yk_study_order_make(&grid, STARTS, REPEATS, true, 1, &items, &n, NULL), YK_OK);
  assert_int_equal(yk_study_order_make(&grid, STARTS, REPEATS, true, 1, &again, &n_again, NULL), YK_OK);
  assert_int_equal(yk_study_order_make(&grid, STARTS, REPEATS, true, 2, &other, &n_other, NULL), YK_OK);
  assert_int_equal(n, (grid.n_points - 1) * (STARTS * REPEATS + 1));
  assert_int_equal(n_again, n);
  assert_memory_equal(again, items, n * sizeof *items);
  assert_true(memcmp(other, items, n * sizeof *items) != 0);
  unsigned char *seen = calloc(grid.n_points * STARTS * (REPEATS + 1), 1);
  for (size_t i = 0; i < n; i++) {
    const yk_study_item *item = &items[i];
    int repeat = item->is_profile ? REPEATS : item->repeat;
    unsigned char *here = &seen[(item->point * STARTS + (size_t)item->start) * (REPEATS + 1) + (size_t)repeat];
    assert_int_equal(*here, 0);
    *here = 1;
    assert_int_not_equal(item->point, BAD);
    assert_true(!item->is_profile || item->start == STARTS - 1);
    n_engines += i == 0 || grid.points[items[i - 1].point].config != grid.points[item->point].config;
  }
  assert_int_equal(n_engines, grid.n_configs * STARTS);
  free(seen);
  free(items);
  free(again);
  free(other);
  yk_study_grid_free(&grid);
  yk_sweep_free(&sweep);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),     cmocka_unit_test(test_rates),
                                     cmocka_unit_test(test_bad_values), cmocka_unit_test(test_grid),
                                     cmocka_unit_test(test_bad_sweeps), cmocka_unit_test(test_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
