/* The warm-up of a point: once on each start of an engine, and in no figure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "e2e/engine_fixture.h"
#include "study/engine_driver.h"
#include "yoke/process.h"

/* More output tokens than a warm-up has, so that the two can be distinguished. */
enum { BATCH = 3, INPUT = 5, OUTPUT = 20, WARM_UP_OUTPUT = 8 };

static yk_status get_options(void *user, size_t config, yk_engine_options *out, yk_err *err)
{
  (void)user, (void)config, (void)err;
  *out = fixture_options("qwen3", 1);
  return YK_OK;
}

/* Tokens that the engine has computed since it was started. */
static yk_engine_stats stats_of(const yk_study_engine *engine)
{
  yk_engine_stats stats;
  yk_engine_get_stats(engine->engine, &stats);
  return stats;
}

static void expect_tokens(const yk_study_engine *engine, int n_warm_ups, int n_runs)
{
  yk_engine_stats stats = stats_of(engine);
  assert_int_equal(stats.prompt_tokens, (n_warm_ups + n_runs) * BATCH * INPUT);
  assert_int_equal(stats.output_tokens, BATCH * (n_warm_ups * WARM_UP_OUTPUT + n_runs * OUTPUT));
}

static void expect_figures(json_t *figures)
{
  assert_int_equal(json_number_value(json_object_get(figures, "total_output_tokens")), BATCH * OUTPUT);
  json_decref(figures);
}

static uint64_t steps_of(const json_t *times, const char *kind)
{
  return (uint64_t)json_integer_value(json_object_get(json_object_get(times, kind), "n_steps"));
}

static void test_warm_up(void **state)
{
  (void)state;
  yk_sweep sweep = {0};
  yk_study_grid grid;
  yk_bench_load load;
  json_t *info, *figures;
  yk_bench_load_init(&load);
  assert_int_equal(yk_values_parse("1", 1, 8, true, &sweep.ranks, NULL), YK_OK);
  assert_int_equal(yk_values_parse("3", 1, 8, true, &sweep.loads, NULL), YK_OK);
  assert_int_equal(yk_values_parse("5", 1, 99, true, &sweep.input_lens, NULL), YK_OK);
  assert_int_equal(yk_values_parse("20", 1, 99, true, &sweep.output_lens, NULL), YK_OK);
  assert_int_equal(yk_study_grid_make(&sweep, &grid, NULL), YK_OK);
  const yk_study_options options = {.get = get_options, .load = &load};
  yk_study_engine engine = {.grid = &grid, .options = &options, .log = yk_log_stderr(YK_LOG_WARN)};
  const yk_study_driver driver = yk_study_engine_driver(&engine);
  for (int start = 0; start < 2; start++) {
    assert_int_equal(driver.start(driver.user, 0, &info, NULL), YK_OK);
    json_decref(info);
    for (int run = 1; run <= 2; run++) {
      assert_int_equal(driver.run(driver.user, 0, &figures, NULL), YK_OK);
      expect_figures(figures);
      expect_tokens(&engine, 1, run);
    }
    driver.stop(driver.user);
  }
  /* Before timed steps too. */
  assert_int_equal(driver.start(driver.user, 0, &info, NULL), YK_OK);
  json_decref(info);
  assert_int_equal(driver.profile(driver.user, 0, &figures, NULL), YK_OK);
  expect_tokens(&engine, 1, 1);
  /* A warm-up has at least one step for each output token; the number of steps of either load depends on timing. */
  uint64_t n_timed = steps_of(figures, "prefill") + steps_of(figures, "decode");
  assert_in_range(n_timed, WARM_UP_OUTPUT + 1, stats_of(&engine).steps - WARM_UP_OUTPUT);
  json_decref(figures);
  yk_study_engine_free(&engine);
  yk_study_grid_free(&grid);
  yk_sweep_free(&sweep);
}

int main(void)
{
  yk_process_init();
  int gate = fixture_gate();
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_warm_up)};
  return gate ? gate : cmocka_run_group_tests(tests, NULL, NULL);
}
