/* test_bench_figures.c - from the times of tokens to figures: hand-made cases, with statistics of numpy. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/measure.h"
#include "each_case.h"

#define MS INT64_C(1000000)

static void assert_near(double found, double expected)
{
  if (fabs(found - expected) > 1e-9 * fmax(1, fabs(expected))) fail_msg("expected %.12g, found %.12g", expected, found);
}

static double figure(const yk_bench_figures *figures, const char *name)
{
  for (int i = 0; i < YK_BENCH_METRICS; i++)
    if (strcmp(yk_bench_metrics()[i].name, name) == 0) return yk_bench_metric_of(figures, &yk_bench_metrics()[i]);
  fail_msg("no figure %s", name);
  return NAN;
}

/* numpy.percentile([1, 2, 4, 8, 16], [50, 90, 95, 99]), mean and std of the same. */
static void test_statistics(void **state)
{
  (void)state;
  double values[] = {16, 1, 8, 2, 4};
  yk_bench_statistics s = yk_bench_statistics_of(values, 5);
  assert_near(s.mean, 6.2);
  assert_near(s.median, 4);
  assert_near(s.std, 5.455272678794342);
  assert_near(s.p90, 12.8);
  assert_near(s.p95, 14.4);
  assert_near(s.p99, 15.68);
  double one = 3;
  s = yk_bench_statistics_of(&one, 1);
  assert_near(s.p99, 3);
  assert_near(s.std, 0);
  assert_true(isnan(yk_bench_statistics_of(NULL, 0).mean));
}

/* Two requests: sent at 0 and 10 ms, tokens at 20, 30, 50 and at 30, 70. */
static void test_counts_and_times(void **state)
{
  (void)state;
  int64_t first[] = {20 * MS, 30 * MS, 50 * MS}, second[] = {30 * MS, 70 * MS};
  yk_bench_record records[] = {
      {0, first, 3, 7, 0, true, 0.045}, {10 * MS, second, 2, 5, 0, true, 0.06}, {.n_input = 100, .running_s = 1}};
  yk_bench_load load;
  yk_bench_figures f;
  yk_bench_load_init(&load);
  load.batch = 0;
  load.n_clients = 2;
  assert_int_equal(yk_bench_measure(&load, records, 3, 0, &f, NULL), YK_OK);
  assert_near(figure(&f, "duration"), 0.07);
  assert_near(figure(&f, "completed"), 2); /* the third has not ended */
  assert_near(figure(&f, "total_input_tokens"), 12);
  assert_near(figure(&f, "total_output_tokens"), 5);
  assert_near(figure(&f, "request_throughput"), 2 / 0.07);
  assert_near(figure(&f, "running"), 0.105 / 0.07);
  assert_near(figure(&f, "output_throughput"), 5 / 0.07);
  assert_near(figure(&f, "total_token_throughput"), 17 / 0.07);
  assert_near(figure(&f, "mean_ttft_ms"), 20);
  assert_near(figure(&f, "mean_e2el_ms"), 55);
  assert_near(figure(&f, "median_e2el_ms"), 55);
  assert_near(figure(&f, "p90_e2el_ms"), 59);
  assert_near(figure(&f, "mean_tpot_ms"), 27.5); /* 15 and 40 */
  assert_near(figure(&f, "mean_itl_ms"), 70.0 / 3);
  assert_near(figure(&f, "p99_itl_ms"), 39.6);
  assert_true(isnan(figure(&f, "request_goodput")));
  assert_true(isnan(figure(&f, "decode_throughput")) && isnan(figure(&f, "prefill_throughput")));
}

static void test_goodput(void **state)
{
  (void)state;
  static const struct {
    double ttft, tpot, itl, e2el;
    int n_good;
  } cases[] = {{20, 0, 0, 0, 2}, {19.9, 0, 0, 0, 0}, {0, 15, 0, 0, 1},   {0, 14.9, 0, 0, 0},
               {0, 40, 0, 0, 2}, {0, 0, 20, 0, 1},   {0, 0, 19.9, 0, 0}, {0, 0, 0, 50, 1},
               {0, 0, 0, 60, 2}, {20, 40, 0, 55, 1}, {20, 14, 0, 99, 0}};
  int64_t first[] = {20 * MS, 30 * MS, 50 * MS}, second[] = {30 * MS, 70 * MS};
  yk_bench_record records[] = {{0, first, 3, 7, 0, true, 0}, {10 * MS, second, 2, 5, 0, true, 0}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof cases[0]); i++) {
    yk_bench_load load;
    yk_bench_figures f;
    yk_bench_load_init(&load);
    load.slo_ms[YK_BENCH_TTFT] = cases[i].ttft;
    load.slo_ms[YK_BENCH_TPOT] = cases[i].tpot;
    load.slo_ms[YK_BENCH_ITL] = cases[i].itl;
    load.slo_ms[YK_BENCH_E2EL] = cases[i].e2el;
    assert_int_equal(yk_bench_measure(&load, records, 2, 0, &f, NULL), YK_OK);
    assert_near(f.request_goodput, cases[i].n_good / 0.07);
  }
}

/* Three sequences begin one after another in steps of 10 ms, of which those with a prompt take 100 ms; the first ends
 * while the others continue. Only the steps between count, and tokens of one step come 1 ms after another. */
static void test_decode_window(void **state)
{
  (void)state;
  int64_t a[] = {100 * MS, 200 * MS, 300 * MS, 310 * MS, 320 * MS, 330 * MS};
  int64_t b[] = {201 * MS, 301 * MS, 311 * MS, 321 * MS, 331 * MS, 381 * MS};
  int64_t c[] = {302 * MS, 312 * MS, 322 * MS, 332 * MS, 382 * MS, 432 * MS};
  yk_bench_record records[] = {{0, a, 6, 10, 0, true, 0}, {0, b, 6, 20, 0, true, 0}, {0, c, 6, 30, 0, true, 0}};
  yk_bench_load load;
  yk_bench_figures f;
  yk_bench_load_init(&load);
  load.batch = 3;
  assert_int_equal(yk_bench_measure(&load, records, 3, 0, &f, NULL), YK_OK);
  assert_near(f.prefill_throughput, 60 / 0.302);
  assert_near(f.decode_throughput, 300); /* one token per 10 ms; the steps of 100 and of 50 ms are outside */

  records[0].n_tokens = 2; /* ends before the last has begun */
  assert_int_equal(yk_bench_measure(&load, records, 3, 0, &f, NULL), YK_OK);
  assert_true(isnan(f.decode_throughput));
  assert_near(f.prefill_throughput, 60 / 0.302);

  for (int i = 0; i < 3; i++) records[i].n_tokens = 1;
  assert_int_equal(yk_bench_measure(&load, records, 3, 0, &f, NULL), YK_OK);
  assert_true(isnan(f.decode_throughput) && isnan(f.times_ms[YK_BENCH_TPOT].mean));
  assert_near(f.times_ms[YK_BENCH_TTFT].mean, 201);
}

static void test_nothing_done(void **state)
{
  (void)state;
  yk_bench_load load;
  yk_bench_figures f;
  yk_bench_load_init(&load);
  assert_int_equal(yk_bench_measure(&load, NULL, 0, 5, &f, NULL), YK_OK);
  assert_near(f.completed, 0);
  assert_true(isnan(f.output_throughput) && isnan(f.times_ms[YK_BENCH_TTFT].p99));
}

static void test_median_of_runs(void **state)
{
  (void)state;
  static yk_bench_figures runs[4], median, spread;
  static const double durations[] = {4, 1, 2, 3}, decodes[] = {NAN, 10, NAN, 30}, clocks[] = {2000, 1990, 1970, 1950};
  for (int i = 0; i < 4; i++) {
    runs[i].duration_s = durations[i];
    runs[i].decode_throughput = decodes[i];
    runs[i].energy_j = NAN;
    runs[i].n_gpus = 1;
    runs[i].gpus[0] = (yk_bench_gpu_run){.id = 5, .energy_j = i == 1 ? NAN : 10 * i};
    runs[i].gpus[0].before.sm_clock_mhz = runs[i].gpus[0].after.sm_clock_mhz = clocks[i];
    yk_bench_warn(&runs[i].warnings, "run %d", i / 2);
  }
  assert_int_equal(yk_bench_figures_median(runs, 4, &median, &spread, NULL), YK_OK);
  assert_near(median.duration_s, 2.5);
  assert_near(spread.duration_s, 3);
  assert_near(median.decode_throughput, 20);
  assert_near(spread.decode_throughput, 20);
  assert_true(isnan(median.energy_j) && isnan(spread.energy_j));
  assert_near(median.gpus[0].energy_j, 20);
  assert_near(median.gpus[0].before.sm_clock_mhz, 2000);
  assert_int_equal(median.warnings.n, 3);
  assert_string_equal(median.warnings.text[1], "run 1");
  assert_string_equal(median.warnings.text[2], "GPU 5: the SM clock fell from 2000 to 1950 MHz");
}

static void test_drift(void **state)
{
  (void)state;
  yk_bench_warnings warnings = {0};
  yk_bench_gpu_run runs[3] = {{.id = 0, .before = {1000, 500, 40, 1, 1, 0}, .after = {1019, 500, 90, 9, 9, 0}},
                              {.id = 1, .before = {1000, 500, 40, 1, 1, 0}, .after = {1021, 489, 40, 1, 1, 0}},
                              {.id = 2, .before = {NAN, NAN, 40, 1, 1, 0}, .after = {1000, NAN, 40, 1, 1, 0x44}}};
  yk_bench_gpus_compare(runs, 3, &warnings);
  assert_int_equal(warnings.n, 4);
  assert_string_equal(warnings.text[0], "GPU 1: the SM clock rose from 1000 to 1021 MHz");
  assert_string_equal(warnings.text[1], "GPU 1: the memory clock fell from 500 to 489 MHz");
  assert_string_equal(warnings.text[2], "GPU 2 was slowed down: power cap");
  assert_string_equal(warnings.text[3], "GPU 2 was slowed down: heat (hardware)");
  for (int i = 0; i < 2 * YK_BENCH_MAX_WARNINGS; i++) yk_bench_warn(&warnings, "number %d", i);
  assert_int_equal(warnings.n, YK_BENCH_MAX_WARNINGS);
}

static void test_json(void **state)
{
  (void)state;
  static yk_bench_figures f;
  static const char *const statistics[] = {"mean", "median", "std", "p90", "p95", "p99"};
  static const char *const names[] = {
      "duration",        "completed",         "total_input_tokens",     "total_output_tokens", "request_throughput",
      "request_goodput", "output_throughput", "total_token_throughput", "prefill_throughput",  "decode_throughput"};
  char name[48];
  for (int i = 0; i < YK_BENCH_METRICS; i++) *(double *)(void *)((char *)&f + yk_bench_metrics()[i].offset) = i;
  f.energy_j = NAN;
  f.n_gpus = 1;
  f.gpus[0] = (yk_bench_gpu_run){.id = 3, .energy_j = 12, .after = {.throttle_reasons = 4}};
  yk_bench_warn(&f.warnings, "hot");
  json_t *object = json_object();
  assert_int_equal(yk_bench_figures_json(&f, object, NULL), YK_OK);
  for (size_t i = 0; each_case(i, i < sizeof names / sizeof names[0]); i++)
    assert_near(json_real_value(json_object_get(object, names[i])), figure(&f, names[i]));
  for (int time = 0; time < YK_BENCH_TIMES; time++)
    for (int i = 0; i < 6; i++) {
      snprintf(name, sizeof name, "%s_%s_ms", statistics[i], yk_bench_time_name((yk_bench_time)time));
      assert_near(json_real_value(json_object_get(object, name)), ((double *)&f.times_ms[time])[i]);
    }
  assert_int_equal(json_object_size(object), YK_BENCH_METRICS + 2); /* no name occurs twice */
  assert_true(json_is_null(json_object_get(object, "energy_j")));
  json_t *gpu = json_array_get(json_object_get(object, "gpus"), 0);
  assert_int_equal(json_integer_value(json_object_get(gpu, "id")), 3);
  assert_int_equal(json_integer_value(json_object_get(json_object_get(gpu, "after"), "throttle_reasons")), 4);
  assert_string_equal(json_string_value(json_array_get(json_object_get(object, "warnings"), 0)), "hot");
  json_decref(object);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_statistics),   cmocka_unit_test(test_counts_and_times),
                                     cmocka_unit_test(test_goodput),      cmocka_unit_test(test_decode_window),
                                     cmocka_unit_test(test_nothing_done), cmocka_unit_test(test_median_of_runs),
                                     cmocka_unit_test(test_drift),        cmocka_unit_test(test_json)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
