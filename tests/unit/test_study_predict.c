/* Predictions over studies with known answers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "study/pieces.h"
#include "study/predict.h"
#include "study/split.h"
#include "unit/study_fixture.h"

static yk_pieces piece(int ranks, double head_s, double transfer_s, double wait_s, double rest_s, double machine_s,
                       bool is_machine_measured)
{
  return (yk_pieces){.ranks = ranks,
                     .split_s = {[YK_TIME_LM_HEAD] = head_s},
                     .transfer_s = transfer_s,
                     .wait_s = wait_s,
                     .rest_s = rest_s,
                     .machine_transfer_s = machine_s,
                     .is_machine_measured = is_machine_measured};
}

static void test_pieces(void **state)
{
  (void)state;
  const yk_split even = {0};
  const yk_pieces measured[] = {piece(1, 100 + 10, 0, 0, 20, 0, false), piece(2, 50 + 10, 6, 4, 22, 3, true),
                                piece(4, 25 + 10, 9, 2, 24, 4.5, true)};
  yk_pieces eight = {.ranks = 8, .machine_transfer_s = 6, .is_machine_measured = true};
  yk_pieces_fit(&even, measured, 3, &eight);
  near(eight.split_s[YK_TIME_LM_HEAD], 22.5, 1e-9);
  near(eight.transfer_s, 12, 1e-9); /* twice the machine's figure, as at the measured points */
  near(eight.wait_s, 3, 1e-9);
  near(eight.rest_s, 22, 1e-9);
  near(yk_pieces_total(&eight), 59.5, 1e-9);
  eight = (yk_pieces){.ranks = 8, .machine_transfer_s = 6}; /* from a link's rate: scaled by bytes */
  yk_pieces_fit(&even, measured, 3, &eight);
  near(eight.transfer_s, 15 / (0.5 + 0.75) * 7 / 8, 1e-9);
  yk_pieces linked[] = {measured[0], measured[1], measured[2]};
  linked[2].is_machine_measured = false;
  eight.is_machine_measured = true;
  yk_pieces_fit(&even, linked, 3, &eight);
  near(eight.transfer_s, 15 / (0.5 + 0.75) * 7 / 8, 1e-9);
  eight = (yk_pieces){.ranks = 8, .machine_transfer_s = 6};
  yk_pieces_fit(&even, measured, 1, &eight);
  near(eight.split_s[YK_TIME_LM_HEAD], 110.0 / 8, 1e-9);
  near(eight.transfer_s, 6, 1e-9);
  assert_true(fabs(eight.wait_s) < 1e-9);
  eight = (yk_pieces){.ranks = 1};
  yk_pieces_fit(&even, measured + 1, 2, &eight);
  assert_true(eight.transfer_s == 0 && fabs(eight.wait_s) < 1e-9);
  const yk_pieces rising[] = {piece(1, 10, 0, 0, 0, 0, false), piece(2, 30, 0, 0, 0, 0, false)}; /* b below 0 */
  eight = (yk_pieces){.ranks = 8};
  yk_pieces_fit(&even, rising, 2, &eight);
  assert_true(eight.split_s[YK_TIME_LM_HEAD] >= 10 && eight.split_s[YK_TIME_LM_HEAD] <= 30);
  const yk_pieces steep[] = {piece(1, 30, 0, 0, 0, 0, false), piece(2, 10, 0, 0, 0, 0, false)}; /* a below 0 */
  yk_pieces_fit(&even, steep, 2, &eight);
  assert_true(eight.split_s[YK_TIME_LM_HEAD] > 0 && eight.split_s[YK_TIME_LM_HEAD] < 10);
}

/* Three of four layers have 16 key heads of gated delta nets, the others 16 query heads and 2 KV heads. 3 ranks have 6,
 * 5, 5 and 6, 5, 5 and read 1, 2, 1; 4 ranks have a quarter of the states and half of K and V each. */
static void test_split_of_states(void **state)
{
  (void)state;
  json_t *model = json_pack("{s:i, s:i, s:i, s:i, s:i, s:f}", "n_heads", 16, "n_kv_heads", 2, "intermediate_size", 512,
                            "group_size", 0, "n_state_heads", 16, "states_share", 0.75);
  const yk_split split = yk_split_read(model, false);
  const double states[YK_SPLIT_PARTS] = {[YK_SPLIT_STATES] = 16}, kv[YK_SPLIT_PARTS] = {[YK_TIME_ATTENTION] = 2};
  double mean[YK_SPLIT_PARTS], own[YK_SPLIT_PARTS];
  yk_split_mean(&split, 4, mean);
  near(mean[YK_SPLIT_STATES], 0.25, 1e-12);
  near(mean[YK_TIME_ATTENTION], 0.5, 1e-12);
  near(mean[YK_TIME_GEMM_QKV], 0.75 / 4 + 0.25 * (4 + 2) / 20, 1e-12);
  near(mean[YK_TIME_GEMM_O], 0.25, 1e-12);
  near(yk_split_slowest(&split, 3, states), 6, 1e-12);
  near(yk_split_slowest(&split, 3, kv), 2, 1e-12);
  yk_split_shares(&split, 0, 3, own);
  near(own[YK_TIME_GEMM_O], 6.0 / 16, 1e-12);
  assert_int_equal(yk_split_part_of(YK_TIME_STATES), YK_SPLIT_STATES);
  assert_int_equal(yk_split_part_of(YK_TIME_HOST), -1);
  json_object_set_new(model, "states_share", json_real(2)); /* impossible: as without such layers */
  const yk_split poor = yk_split_read(model, false);
  yk_split_mean(&poor, 4, mean);
  near(mean[YK_TIME_GEMM_QKV], (4.0 + 2) / 20, 1e-12);
  json_decref(model);
}

/* 32 query heads and 8 KV heads: 3 ranks read 3, 4, 3 KV heads, 5 read 2, 3, 2, 2, 2, and 6 read 2 each. 96 groups of
 * FFN columns: 5 ranks have 20, 19, 19, 19, 19. */
static void test_split(void **state)
{
  (void)state;
  json_t *model =
      json_pack("{s:i, s:i, s:i, s:i}", "n_heads", 32, "n_kv_heads", 8, "intermediate_size", 12288, "group_size", 128);
  const yk_split split = yk_split_read(model, true);
  const struct {
    int ranks;
    double mean_kv, most_kv, most_ffn;
  } cases[] = {{1, 1, 1, 1},
               {2, 0.5, 0.5, 0.5},
               {3, 10.0 / 24, 4.0 / 8, 1.0 / 3},
               {5, 11.0 / 40, 3.0 / 8, 20.0 / 96},
               {6, 2.0 / 8, 2.0 / 8, 16.0 / 96}};
  const double in_attention[YK_SPLIT_PARTS] = {[YK_TIME_ATTENTION] = 7}, in_ffn[YK_SPLIT_PARTS] = {0, 0, 5, 4};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double mean[YK_SPLIT_PARTS];
    yk_split_mean(&split, cases[i].ranks, mean);
    near(mean[YK_TIME_ATTENTION], cases[i].mean_kv, 1e-12);
    near(mean[YK_TIME_GEMM_QKV], (32.0 / cases[i].ranks + 16 * cases[i].mean_kv) / 48, 1e-12);
    near(mean[YK_TIME_GEMM_O], 1.0 / cases[i].ranks, 1e-12);
    near(mean[YK_TIME_GEMM_DOWN], 1.0 / cases[i].ranks, 1e-12);
    near(yk_split_slowest(&split, cases[i].ranks, in_attention), 7 * cases[i].most_kv, 1e-12);
    near(yk_split_slowest(&split, cases[i].ranks, in_ffn), 9 * cases[i].most_ffn, 1e-12);
  }
  /* Ranks synchronise once per sublayer: on 3 ranks the first two have 11 query heads, the second also has 4 KV
   * heads. */
  const double both[YK_SPLIT_PARTS] = {[YK_TIME_GEMM_O] = 32, [YK_TIME_ATTENTION] = 8, [YK_TIME_LM_HEAD] = 3};
  near(yk_split_slowest(&split, 3, both), 11 + 4 + 1, 1e-12);
  static const char *const keys[] = {"n_heads", "n_kv_heads", "intermediate_size", "group_size"};
  for (size_t i = 0; i < 4; i++)
    for (int wrong = 0; wrong < 3; wrong++) {
      json_t *poor = json_copy(model);
      json_object_set_new(poor, keys[i],
                          wrong == 0   ? json_integer(-1)
                          : wrong == 1 ? json_integer(1L << 40)
                                       : json_null());
      bool is_known = yk_split_read(poor, false).n_heads > 0;
      assert_int_equal(is_known, i == 3 && wrong == 2); /* no group: not quantised */
      json_decref(poor);
    }
  json_object_set_new(model, "n_kv_heads", json_integer(5));
  assert_int_equal(yk_split_read(model, true).n_heads, 0);
  json_decref(model);
}

/* Attention of 800 us on one rank, an FFN of 960 and 40 of host. On three ranks, the others wait for the one that reads
 * 4 KV heads. */
static void test_predict_uneven(void **state)
{
  (void)state;
  static const int measured[] = {1, 2, 3, 4}, counts[] = {3, 5, 6};
  static const double kv[] = {1, 1.0 / 2, 10.0 / 24, 1.0 / 4}, slowest[] = {1, 1.0 / 2, 4.0 / 8, 1.0 / 4};
  json_t *points = json_array(), *predictions, *left_out;
  for (int i = 0; i < 4; i++) {
    double step_us = 800 * slowest[i] + 960.0 / measured[i] + 40;
    json_t *point = make_point(measured[i], 4, 1e6 / step_us, 0.001);
    set_time(point, "attention", 800 * kv[i]);
    set_time(point, "gemm_gate_up", 960.0 / measured[i]);
    set_time(point, "all_reduce_wait", 800 * (slowest[i] - kv[i]));
    set_time(point, "host", 40);
    json_array_append_new(points, point);
  }
  json_t *study = json_pack("{s:i, s:o, s:{s:i, s:i, s:i, s:i}}", "yoke_study", 1, "points", points, "model", "n_heads",
                            32, "n_kv_heads", 8, "intermediate_size", 12288, "group_size", 128);
  assert_int_equal(yk_study_predict(study, counts, 3, &predictions, &left_out, NULL), YK_OK);
  const double expected_us[] = {800 * 4.0 / 8 + 320 + 40, 800 * 3.0 / 8 + 960 * 20.0 / 96 + 40, 200 + 160 + 40};
  for (size_t i = 0; i < 3; i++)
    near(number_of(json_array_get(predictions, i), "output_throughput"), 1e6 / expected_us[i], 1e-9);
  assert_int_equal(json_array_size(left_out), 3);
  for (size_t i = 0; i < 3; i++) assert_true(fabs(number_of(json_array_get(left_out, i), "error")) < 1e-9);
  json_decref(predictions);
  json_decref(left_out);
  json_object_del(study, "model"); /* heads unknown: as if all were even, and three ranks would wait less */
  json_array_remove(points, 2);
  assert_int_equal(yk_study_predict(study, counts, 1, &predictions, &left_out, NULL), YK_OK);
  near(number_of(json_array_get(predictions, 0), "output_throughput"), 1e6 / (800.0 / 3 + 320 + 40), 1e-9);
  json_decref(predictions);
  json_decref(left_out);
  json_decref(study);
}

/* Points that scale as 60 / N + 40 exactly are predicted exactly, and reported as such. */
static void test_predict(void **state)
{
  (void)state;
  json_t *points = json_array(), *predictions, *left_out;
  for (int ranks = 1; ranks <= 4; ranks *= 2) {
    json_t *point = make_point(ranks, 4, 1e6 / (60.0 / ranks + 40), 0.001);
    set_time(point, "gemm_down", 60.0 / ranks);
    set_time(point, "host", 40);
    json_array_append_new(points, point);
  }
  json_t *study = json_pack("{s:i, s:o}", "yoke_study", 1, "points", points);
  const int ranks[] = {8, 3};
  assert_int_equal(yk_study_predict(study, ranks, 2, &predictions, &left_out, NULL), YK_OK);
  assert_int_equal(json_array_size(predictions), 2);
  assert_int_equal(json_array_size(left_out), 2);
  const json_t *eight = json_array_get(predictions, 0);
  near(number_of(eight, "output_throughput"), 1e6 / 47.5, 1e-9);
  near(number_of(eight, "speedup"), 100 / 47.5, 1e-9);
  assert_true(json_is_real(json_object_get(eight, "error")) && number_of(eight, "error") < 1e-9);
  near(number_of(json_array_get(predictions, 1), "output_throughput"), 1e6 / 60, 1e-9);
  json_decref(predictions);
  json_decref(left_out);
  json_array_remove(points, 2);
  json_array_remove(points, 1);
  assert_int_equal(yk_study_predict(study, ranks, 1, &predictions, &left_out, NULL), YK_OK);
  assert_true(json_is_null(json_object_get(json_array_get(predictions, 0), "error"))); /* nothing to leave out */
  json_decref(predictions);
  json_decref(left_out);
  json_array_clear(points);
  assert_int_equal(yk_study_predict(study, ranks, 1, &predictions, &left_out, NULL), YK_E_INVAL);
  json_decref(study);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces), cmocka_unit_test(test_split),
                                     cmocka_unit_test(test_split_of_states), cmocka_unit_test(test_predict_uneven),
                                     cmocka_unit_test(test_predict)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
