/* Memory that runs out in a benchmark's run or report: an error, and no memory or file left. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bench/point.h"
#include "bench/times.h"
#include "fault/counted_alloc.h"
#include "yoke/process.h"

/* Three requests of each kind of load. */
static yk_status bench(yk_engine *engine, int kind, yk_bench_figures *figures, yk_err *err)
{
  yk_bench_load load;
  yk_bench_load_init(&load);
  load.batch = kind == 0 ? 3 : 0;
  load.n_clients = kind == 1 ? 2 : 0;
  load.request_rate = kind == 2 ? 1e6 : 0;
  load.n_requests = 3;
  load.input = load.output = (yk_bench_lengths){4, 4};
  YK_TRY(yk_bench_run(engine, &load, figures, err));
  assert_int_equal(figures->total_output_tokens, 3 * 4);
  return YK_OK;
}

/* Figures and times as JSON. */
static yk_status sum_up(const yk_bench_figures *figures, const yk_profile *times, yk_err *err)
{
  const yk_engine_info info = {.n_ranks = 2, .n_stages = 2, .n_processes = 1};
  yk_bench_figures median, spread;
  YK_TRY(yk_bench_figures_median(figures, 1, &median, &spread, err));
  json_t *object = json_object(), *parts = yk_bench_times_json(times, &info);
  yk_status status =
      object && parts ? yk_bench_figures_json(&median, object, err) : yk_err_set(err, YK_E_NOMEM, "no memory");
  json_decref(object);
  json_decref(parts);
  return status;
}

/* Waits until the engine has released the requests of a failed run. Each call is one iteration of its loop: the first
 * may still add requests, the end of the second drops cancelled ones, and the third waits for that. */
static void wait_until_idle(yk_engine *engine)
{
  counted_alloc_reset(0);
  for (int i = 0; i < 2; i++) {
    yk_held_sequence *sequence;
    assert_int_equal(yk_held_sequence_create(engine, &sequence, NULL), YK_OK);
    yk_held_sequence_free(sequence);
  }
}

static yk_engine *open_engine(void)
{
  yk_engine_options options;
  yk_engine *engine;
  yk_engine_options_init(&options);
  options.model_dir = YOKE_TESTS_DIR "/golden/families/qwen3";
  options.device = YK_DEVICE_CPU;
  options.n_ranks = 2;
  options.n_cpu_threads = 2;
  options.max_model_tokens = 64;
  options.max_seqs = 4;
  counted_alloc_reset(0);
  assert_int_equal(yk_engine_create(&options, &engine, NULL), YK_OK);
  assert_int_equal(yk_engine_set_profile(engine, 1, NULL), YK_OK);
  return engine;
}

/* status: result when allocation fail_at of n fails. */
static void expect_error(yk_status status, const yk_err *err, int64_t fail_at, int64_t n)
{
  /* Threads race, so that fewer allocations may have been needed than at first: then no allocation failed. */
  if (status == YK_OK && counted_alloc_count() >= fail_at)
    fail_msg("allocation %d of %d failed unnoticed", (int)fail_at, (int)n);
  if (status != YK_OK) assert_int_equal(status, YK_E_NOMEM);
  assert_true((status != YK_OK) == (err->message[0] != '\0'));
}

static void bench_may_run_out(void **state)
{
  (void)state;
  yk_engine *engine = open_engine();
  yk_bench_figures figures, ignored;
  yk_profile times;
  int64_t n;
  for (int kind = 0; kind < 3; kind++) {
    counted_alloc_reset(0);
    assert_int_equal(bench(engine, kind, &figures, NULL), YK_OK);
    n = counted_alloc_count();
    assert_true(n > 10);
    for (int64_t fail_at = 1; fail_at <= n; fail_at++) {
      yk_err err = YK_ERR_INIT;
      counted_alloc_reset(fail_at);
      expect_error(bench(engine, kind, &ignored, &err), &err, fail_at, n);
      wait_until_idle(engine);
    }
  }
  yk_engine_get_profile(engine, &times);
  counted_alloc_reset(0);
  yk_engine_destroy(engine);
  assert_true(times.decode.n_steps > 0 && times.decode.n_all_reduces > 0);
  yk_bench_warn(&figures.warnings, "a warning");
  figures.n_gpus = 1;
  counted_alloc_reset(0);
  assert_int_equal(sum_up(&figures, &times, NULL), YK_OK);
  n = counted_alloc_count();
  for (int64_t fail_at = 1; fail_at <= n; fail_at++) {
    yk_err err = YK_ERR_INIT;
    counted_alloc_reset(fail_at);
    expect_error(sum_up(&figures, &times, &err), &err, fail_at, n);
  }
  counted_alloc_reset(0);
}

int main(void)
{
  yk_process_init();
  json_set_alloc_funcs(malloc, free); /* jansson's allocations are counted too */
  const struct CMUnitTest tests[] = {cmocka_unit_test(bench_may_run_out)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
