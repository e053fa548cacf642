/* Losses, comparison and tables of studies with known answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "bench/times.h"
#include "study/compare.h"
#include "study/csv.h"
#include "study/parts.h"
#include "study/scaling.h"
#include "unit/study_fixture.h"

/* One rank: 800 us of products and 200 of host. Two: 450 of products, 60 of transfer, 40 of waiting, 200 of host. The
 * profiled steps may be slower than the runs: only their shares count. */
static void test_losses(void **state)
{
  (void)state;
  json_t *one = make_point(1, 4, 1e6 / 1000, 0.001), *two = make_point(2, 4, 1e6 / 750, 0.001);
  json_t *points = json_pack("[o, o]", two, one);
  set_time(one, "gemm_qkv", 2 * 300);
  set_time(one, "attention", 2 * 500);
  set_time(one, "host", 2 * 200);
  set_time(two, "gemm_qkv", 170);
  set_time(two, "attention", 280);
  set_time(two, "all_reduce_transfer", 60);
  set_time(two, "all_reduce_wait", 40);
  set_time(two, "host", 150);
  set_time(two, "sampling", 50);
  assert_int_equal(yk_scaling_add(points, NULL), YK_OK);
  near(number_of(two, "speedup"), 1000.0 / 750, 1e-12);
  near(number_of(two, "efficiency"), 500.0 / 750, 1e-12);
  near(number_of(one, "efficiency"), 1, 1e-12);
  const json_t *losses = json_object_get(two, "losses");
  near(number_of(losses, "smaller_gemms"), (450 - 400) / 750.0, 1e-9);
  near(number_of(losses, "all_reduce"), 60 / 750.0, 1e-9);
  near(number_of(losses, "imbalance"), 40 / 750.0, 1e-9);
  near(number_of(losses, "unsplit"), (200 - 100) / 750.0, 1e-9);
  assert_int_equal(json_array_size(json_object_get(two, "speedup_interval")), 2);
  near(json_number_value(json_array_get(json_object_get(two, "efficiency_interval"), 1)),
       json_number_value(json_array_get(json_object_get(two, "speedup_interval"), 1)) / 2, 1e-12);
  json_decref(points);
}

/* For any times, the losses sum to 1 - efficiency, also against two ranks. */
static void test_losses_add_up(void **state)
{
  (void)state;
  for (int i = 0; i < 50; i++) {
    double shares[2][YK_TIME_PARTS], losses[YK_LOSSES], sum = 0;
    for (int k = 0; k < 2; k++) {
      double total = 0;
      for (int part = 0; part < YK_TIME_PARTS; part++) total += shares[k][part] = (i * 7 + k * 5 + part * 3) % 11 + 1;
      for (int part = 0; part < YK_TIME_PARTS; part++) shares[k][part] /= total;
    }
    yk_study_losses_compute(2, 5e-3 + i * 1e-4, shares[0], 6, 2e-3, shares[1], losses);
    for (int loss = 0; loss < YK_LOSSES; loss++) sum += losses[loss];
    near(1 - sum, 2.0 / 6 * (5e-3 + i * 1e-4) / 2e-3, 1e-9);
  }
}

static void test_times(void **state)
{
  (void)state;
  yk_profile profile = {.n_ranks = 2};
  profile.decode.n_steps = 4;
  profile.decode.step_s = 8e-3;
  profile.decode.part_s[0][YK_TIME_GEMM_O] = 4e-3;
  profile.decode.part_s[1][YK_TIME_GEMM_O] = 2e-3;
  profile.decode.n_all_reduces = 8;
  profile.decode.slowest[1] = 6;
  profile.decode.slowest[0] = 2;
  yk_engine_info info = {.n_ranks = 2, .n_stages = 1, .n_processes = 2, .rank_hosts = {"a", "b"}};
  json_t *times = yk_bench_times_json(&profile, &info);
  const json_t *place = json_array_get(json_object_get(times, "places"), 1);
  assert_string_equal(json_string_value(json_object_get(place, "host")), "b");
  near(number_of(place, "process"), 1, 0);
  near(number_of(place, "stage"), 0, 0);
  near(number_of(json_object_get(times, "decode"), "step"), 2000, 1e-12);
  near(number_of(json_object_get(times, "decode"), "gemm_o"), 750, 1e-12);
  near(number_of(json_array_get(json_object_get(times, "by_rank"), 1), "gemm_o"), 500, 1e-12);
  near(json_number_value(json_array_get(json_object_get(times, "slowest"), 1)), 0.75, 1e-12);
  assert_true(json_is_null(json_object_get(times, "prefill")));
  json_decref(times);
}

static json_t *make_study(json_t *first, json_t *second)
{
  return json_pack("{s:i, s:[o, o]}", "yoke_study", 1, "points", first, second);
}

static void test_compare(void **state)
{
  (void)state;
  json_t *a = make_study(make_point(1, 4, 100, 0.002), make_point(2, 4, 180, 0.002));
  json_t *b = make_study(make_point(2, 4, 160, 0.002), make_point(4, 4, 300, 0.002));
  yk_compared *compared;
  size_t n;
  assert_int_equal(yk_study_compare(a, b, "output_throughput", &compared, &n, NULL), YK_OK);
  assert_int_equal(n, 3);
  assert_true(compared[0].a && !compared[0].b && !compared[2].a && compared[2].b);
  assert_string_equal(compared[1].name, "2 ranks, batch 4, 16 in, 8 out");
  near(compared[1].ratio, 160.0 / 180, 1e-12);
  near(compared[1].slowdown_percent, 100 - 16000.0 / 180, 1e-9);
  assert_true(compared[1].is_significant && compared[1].interval.high < 1);
  yk_study_compare_free(compared, n);
  assert_int_equal(yk_study_compare(a, b, "mean_tpot_ms", &compared, &n, NULL), YK_OK); /* of times, less is better */
  near(compared[1].slowdown_percent, 12.5, 1e-9);
  yk_study_compare_free(compared, n);
  assert_int_equal(yk_study_compare(a, b, "nothing", &compared, &n, NULL), YK_E_INVAL);
  json_decref(b);
  b = make_study(make_point(2, 4, 160, 0.1), make_point(2, 8, 160, 0.1)); /* equally slow within the noise */
  assert_int_equal(yk_study_compare(a, b, "output_throughput", &compared, &n, NULL), YK_OK);
  assert_true(compared[1].has_interval && !compared[1].is_significant);
  yk_study_compare_free(compared, n);
  json_decref(b);
  b = make_study(make_point(2, 4, 160, 0.1), make_point(1, 4, 100, 0.9)); /* starts apart by a factor */
  assert_int_equal(yk_study_compare(b, a, "output_throughput", &compared, &n, NULL), YK_OK);
  assert_true(compared[1].has_starts && !compared[1].has_interval && !compared[1].is_significant);
  yk_study_compare_free(compared, n);
  json_decref(b);
  b = make_study(make_point(2, 4, 160, 0.1), make_point(2, 4, 160, 0.1));
  assert_int_equal(yk_study_compare(a, b, "output_throughput", &compared, &n, NULL), YK_E_FORMAT);
  json_decref(b);
  json_decref(a);
}

static void test_csv(void **state)
{
  (void)state;
  yk_strbuf out = YK_STRBUF_INIT;
  json_t *study = json_pack("{s:[{s:i, s:{s:s}, s:f, s:{s:[f,f]}, s:{s:f}, s:[], s:n}, {s:i, s:f}]}", "points", "ranks",
                            1, "options", "na\"me", "1,2", "duration", 1.5, "intervals", "duration", 1.0, 2.0, "losses",
                            "unsplit", -0.25, "runs", "late_ms", "ranks", 2, "extra", 3.0);
  assert_int_equal(yk_study_csv(study, &out, NULL), YK_OK);
  assert_string_equal(out.data, "ranks,\"na\"\"me\",duration,duration_low,duration_high,losses_unsplit,extra\r\n"
                                "1,\"1,2\",1.5,1,2,-0.25,\r\n2,,,,,,3\r\n");
  yk_strbuf_free(&out);
  json_decref(study);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_losses), cmocka_unit_test(test_losses_add_up),
                                     cmocka_unit_test(test_times), cmocka_unit_test(test_compare),
                                     cmocka_unit_test(test_csv)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
