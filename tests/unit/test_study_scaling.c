/* Limits, losses, comparison and prediction over studies whose answers are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/times.h"
#include "study/compare.h"
#include "study/csv.h"
#include "study/limits.h"
#include "study/parts.h"
#include "study/pieces.h"
#include "study/predict.h"
#include "study/scaling.h"
#include "study/split.h"

static void near(double found, double expected, double relative)
{
  if (!(fabs(found - expected) <= relative * fabs(expected))) fail_msg("expected %.12g, found %.12g", expected, found);
}

static double number_of(const json_t *object, const char *key)
{
  return json_number_value(json_object_get(object, key));
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

/* Qwen3-8B on one H200: what is known of it was computed by other means (1.15 ms a token at a context of 1024). */
static const yk_model_shapes qwen3_8b = {.n_layers = 36,
                                         .hidden_size = 4096,
                                         .intermediate_size = 12288,
                                         .n_heads = 32,
                                         .n_kv_heads = 8,
                                         .head_dim = 128,
                                         .vocab_size = 151936,
                                         .linear_element_bytes = (4 + 20.0 / 128) / 8};

static void test_limits(void **state)
{
  (void)state;
  yk_machine_rates machine = {.memory_bytes_per_s = 4.35e12, .gemm_flops = 6.4e14};
  yk_limit_load load = {.ranks = 1, .batch = 1, .input_len = 1000, .output_len = 48, .element_bytes = 2};
  yk_limit one, two, many, plain;
  yk_limit_compute(&qwen3_8b, &machine, &load, &one);
  near(one.decode_step_s, 1.15e-3, 0.03);
  assert_int_equal(one.bound, YK_BOUND_MEMORY);
  near(one.total_s, one.prefill_s + 47 * one.decode_step_s, 1e-12);
  near(one.total_s, one.bound_s[0] + one.bound_s[1] + one.bound_s[2], 1e-12);
  load.ranks = 2; /* half of everything, and the all-reduces: 73 of 5 us */
  machine.n_all_reduces = 1;
  machine.all_reduces[0].ranks = 2;
  machine.all_reduces[0].bytes = 8192;
  machine.all_reduces[0].us = 5;
  yk_limit_compute(&qwen3_8b, &machine, &load, &two);
  near(two.decode_step_s, one.decode_step_s / 2 + 73 * 5e-6, 1e-9);
  load = (yk_limit_load){.ranks = 1, .batch = 8, .input_len = 1024, .output_len = 1, .element_bytes = 2};
  yk_limit_compute(&qwen3_8b, &machine, &load, &many);
  near(8 * 1024 / many.prefill_s, 45e3, 0.05);
  yk_limit shared;
  load.shared_prefix = 1023; /* eight rows of their own, one prefix */
  yk_limit_compute(&qwen3_8b, &machine, &load, &shared);
  near(shared.prefill_s, many.prefill_s * (8 + 1023) / 8192, 0.02);
  assert_int_equal(many.bound, YK_BOUND_GEMM);
  load = (yk_limit_load){
      .ranks = 1, .batch = 1, .input_len = 1000, .output_len = 48, .element_bytes = 2, .no_quantisation = true};
  yk_limit_compute(&qwen3_8b, &machine, &load, &plain);
  assert_true(plain.decode_step_s > 2.8 * one.decode_step_s);
  load.ranks = 4; /* which share a CPU's memory */
  machine.is_shared = true;
  machine.n_all_reduces = 0;
  yk_limit_compute(&qwen3_8b, &machine, &load, &two);
  near(two.decode_step_s, plain.decode_step_s, 1e-12);
}

/* Qwen3-30B-A3B on one H200: expected numbers of different experts, and sums of floors, that were computed apart. */
static void test_limits_of_experts(void **state)
{
  (void)state;
  const yk_model_shapes shapes = {.n_layers = 48,
                                  .hidden_size = 2048,
                                  .intermediate_size = 6144,
                                  .n_heads = 32,
                                  .n_kv_heads = 4,
                                  .head_dim = 128,
                                  .vocab_size = 151936,
                                  .n_expert_layers = 48,
                                  .n_experts = 128,
                                  .top_k = 8,
                                  .expert_size = 768,
                                  .linear_element_bytes = (4 + 20.0 / 128) / 8};
  static const double rates[][2] = {{1, 2080}, {8, 4580}, {32, 8690}, {64, 14300}};
  const yk_machine_rates machine = {.memory_bytes_per_s = 4.35e12, .gemm_flops = 6.4e14};
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
    const yk_limit_load load = {
        .ranks = 1, .batch = rates[i][0], .input_len = 512, .output_len = 100, .element_bytes = 2};
    yk_limit limit;
    yk_limit_compute(&shapes, &machine, &load, &limit);
    near(rates[i][0] / limit.decode_step_s, rates[i][1], 0.02);
  }
}

static void test_shapes_of_experts(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int64_t n_layers, n_experts, top_k, size, shared;
  } cases[] = {{"moe_qwen3", 2, 5, 3, 96, 0},
               {"moe_qwen2", 1, 7, 2, 40, 56},
               {"moe_mixtral", 2, 4, 2, 72, 0},
               {"moe_glm4", 2, 6, 3, 24, 24},
               {"llama", 0, 0, 0, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char dir[256];
    yk_model_shapes s;
    yk_err err = YK_ERR_INIT;
    snprintf(dir, sizeof dir, "%s/golden/families/%s", YOKE_TESTS_DIR, cases[i].name);
    if (yk_model_shapes_read(dir, &s, &err) != YK_OK) fail_msg("%s", err.message);
    assert_true(s.n_expert_layers == cases[i].n_layers && s.n_experts == cases[i].n_experts);
    assert_true(s.top_k == cases[i].top_k && s.expert_size == cases[i].size && s.shared_size == cases[i].shared);
  }
}

/* Requests that come and go, on one rank and on two whose all-reduces count. */
static void test_flow_limits(void **state)
{
  (void)state;
  yk_machine_rates machine = {.memory_bytes_per_s = 4.35e12, .gemm_flops = 6.4e14, .link_bytes_per_s = 3e11};
  for (int ranks = 1; ranks <= 2; ranks++) {
    yk_limit flow, batch, more;
    yk_limit_load load = {.ranks = ranks, .batch = 8, .input_len = 1024, .output_len = 1, .element_bytes = 2};
    yk_limit_compute(&qwen3_8b, &machine, &load, &batch);
    yk_limit_compute_flow(&qwen3_8b, &machine, &load, &flow);
    near(flow.total_s, batch.prefill_s, 1e-9); /* one token each: all is prefill */
    load.input_len = 1;                        /* prompts that are next to nothing: all is decode */
    load.output_len = 1000;
    yk_limit_compute(&qwen3_8b, &machine, &load, &batch);
    yk_limit_compute_flow(&qwen3_8b, &machine, &load, &flow);
    near(flow.decode_step_s, batch.decode_step_s, 1e-3);
    near(flow.total_s, flow.bound_s[0] + flow.bound_s[1] + flow.bound_s[2], 1e-12);
    assert_int_equal(flow.bound, YK_BOUND_MEMORY);
    load.input_len = 1024; /* steps that mix are never slower than those that do not, which read the weights apart */
    load.output_len = 64;
    yk_limit_compute(&qwen3_8b, &machine, &load, &batch);
    yk_limit_compute_flow(&qwen3_8b, &machine, &load, &flow);
    assert_true(flow.total_s < 0.99 * batch.total_s && flow.total_s > 0.6 * batch.total_s);
    load.shared_prefix = 1000; /* found computed: only 24 tokens of each prompt are rows */
    yk_limit_compute_flow(&qwen3_8b, &machine, &load, &more);
    assert_true(more.total_s < 0.5 * flow.total_s);
    load.shared_prefix = 0;
    load.batch = 0.5; /* half the time nothing runs: no more than half of what one request gets */
    yk_limit_compute_flow(&qwen3_8b, &machine, &load, &flow);
    load.batch = 1;
    yk_limit_compute_flow(&qwen3_8b, &machine, &load, &more);
    assert_true(0.5 / flow.total_s > 0.5 / more.total_s && 0.5 / flow.total_s < 0.6 / more.total_s);
  }
}

static void test_machine(void **state)
{
  (void)state;
  yk_machine_rates machine;
  json_t *object =
      json_pack("{s:f, s:f, s:f, s:s, s:[{s:i,s:i,s:f},{s:i,s:i,s:f},{s:i,s:i,s:f},{s:i}]}", "memory_bytes_per_s", 1e9,
                "gemm_flops", 1e10, "link_bytes_per_s", 1e6, "device", "cpu", "all_reduce", "ranks", 2, "bytes", 1000,
                "us", 10.0, "ranks", 2, "bytes", 100000, "us", 1000.0, "ranks", 3, "bytes", 1, "us", 7.0, "ranks", 4);
  assert_true(yk_machine_rates_read(object, &machine));
  assert_true(machine.is_shared);
  assert_int_equal(machine.n_all_reduces, 3);
  near(yk_machine_all_reduce_s(&machine, 2, 1000), 10e-6, 1e-12);
  near(yk_machine_all_reduce_s(&machine, 2, 10000), 100e-6, 1e-9); /* half way in both logarithms */
  near(yk_machine_all_reduce_s(&machine, 2, 10), 10e-6, 1e-12);
  near(yk_machine_all_reduce_s(&machine, 2, 200000), 2000e-6, 1e-12);
  near(yk_machine_all_reduce_s(&machine, 4, 1000), 1.5e-3, 1e-12);
  assert_true(yk_machine_all_reduce_s(&machine, 1, 1000) == 0);
  machine.link_bytes_per_s = 0;
  assert_true(yk_machine_all_reduce_s(&machine, 4, 1000) < 0);
  json_object_del(object, "gemm_flops");
  assert_false(yk_machine_rates_read(object, &machine));
  assert_false(yk_machine_rates_read(NULL, &machine));
  json_decref(object);
}

/* ---- Losses ------------------------------------------------------------------------------------------------------ */

/* A point whose runs have these throughputs, two starts of two runs. */
static json_t *make_point(int ranks, int batch, double throughput, double spread)
{
  json_t *runs = json_array();
  for (int i = 0; i < 4; i++)
    json_array_append_new(runs, json_pack("{s:i, s:i, s:f, s:f}", "start", i / 2, "repeat", i % 2, "output_throughput",
                                          throughput * (1 + (i / 2 ? spread : -spread)), "mean_tpot_ms",
                                          1000 / throughput * (1 + (i / 2 ? spread : -spread))));
  return json_pack("{s:i, s:i, s:i, s:i, s:{}, s:f, s:o}", "ranks", ranks, "batch", batch, "input_len", 16,
                   "output_len", 8, "options", "output_throughput", throughput, "runs", runs);
}

static void set_time(json_t *point, const char *part, double us)
{
  json_t *times = json_object_get(point, "time_us");
  if (!times) {
    times = json_pack("{s:i}", "n_steps", 10);
    json_object_set_new(point, "time_us", times);
  }
  json_object_set_new(times, part, json_real(us));
}

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

/* Whatever the times, the losses add up to 1 - efficiency, also against two ranks. */
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
  json_t *times = yk_bench_times_json(&profile);
  near(number_of(json_object_get(times, "decode"), "step"), 2000, 1e-12);
  near(number_of(json_object_get(times, "decode"), "gemm_o"), 750, 1e-12);
  near(number_of(json_array_get(json_object_get(times, "by_rank"), 1), "gemm_o"), 500, 1e-12);
  near(json_number_value(json_array_get(json_object_get(times, "slowest"), 1)), 0.75, 1e-12);
  assert_true(json_is_null(json_object_get(times, "prefill")));
  json_decref(times);
}

/* ---- Comparison -------------------------------------------------------------------------------------------------- */

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
  b = make_study(make_point(2, 4, 160, 0.1), make_point(2, 8, 160, 0.1)); /* as slow, but who knows */
  assert_int_equal(yk_study_compare(a, b, "output_throughput", &compared, &n, NULL), YK_OK);
  assert_true(compared[1].has_interval && !compared[1].is_significant);
  yk_study_compare_free(compared, n);
  json_decref(b);
  b = make_study(make_point(2, 4, 160, 0.1), make_point(2, 4, 160, 0.1));
  assert_int_equal(yk_study_compare(a, b, "output_throughput", &compared, &n, NULL), YK_E_FORMAT);
  json_decref(b);
  json_decref(a);
}

/* ---- Prediction -------------------------------------------------------------------------------------------------- */

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
  near(eight.transfer_s, 12, 1e-9); /* twice the machine's own, as measured */
  near(eight.wait_s, 3, 1e-9);
  near(eight.rest_s, 22, 1e-9);
  near(yk_pieces_total(&eight), 59.5, 1e-9);
  eight = (yk_pieces){.ranks = 8, .machine_transfer_s = 6}; /* from a link's rate: the bytes say more */
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

/* 32 query heads and 8 KV heads: 3 ranks read 3, 4, 3 KV heads, 5 read 2, 3, 2, 2, 2, and 6 read 2 each. 96 groups of
 * FFN columns: 5 ranks have 20, 19, 19, 19, 19. */
static void test_split(void **state)
{
  (void)state;
  json_t *model =
      json_pack("{s:i, s:i, s:i, s:i}", "n_heads", 32, "n_kv_heads", 8, "intermediate_size", 12288, "group_size", 128);
  const yk_split split = yk_split_read(model);
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
  /* Ranks meet once a sublayer: on 3 ranks the first two have 11 query heads, the second has 4 KV heads too. */
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
      bool is_known = yk_split_read(poor).n_heads > 0;
      assert_int_equal(is_known, i == 3 && wrong == 2); /* no group: not quantised */
      json_decref(poor);
    }
  json_object_set_new(model, "n_kv_heads", json_integer(5));
  assert_int_equal(yk_split_read(model).n_heads, 0);
  json_decref(model);
}

/* Attention of 800 us on one rank, an FFN of 960 and 40 of host. Of three ranks, the one that reads 4 KV heads lets the
 * others wait. */
static void test_predict_uneven(void **state)
{
  (void)state;
  static const int measured[] = {1, 2, 3, 4}, asked[] = {3, 5, 6};
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
  assert_int_equal(yk_study_predict(study, asked, 3, &predictions, &left_out, NULL), YK_OK);
  const double expected_us[] = {800 * 4.0 / 8 + 320 + 40, 800 * 3.0 / 8 + 960 * 20.0 / 96 + 40, 200 + 160 + 40};
  for (size_t i = 0; i < 3; i++)
    near(number_of(json_array_get(predictions, i), "output_throughput"), 1e6 / expected_us[i], 1e-9);
  assert_int_equal(json_array_size(left_out), 3);
  for (size_t i = 0; i < 3; i++) assert_true(fabs(number_of(json_array_get(left_out, i), "error")) < 1e-9);
  json_decref(predictions);
  json_decref(left_out);
  json_object_del(study, "model"); /* nothing known of heads: as if all were even, and three ranks would wait less */
  json_array_remove(points, 2);
  assert_int_equal(yk_study_predict(study, asked, 1, &predictions, &left_out, NULL), YK_OK);
  near(number_of(json_array_get(predictions, 0), "output_throughput"), 1e6 / (800.0 / 3 + 320 + 40), 1e-9);
  json_decref(predictions);
  json_decref(left_out);
  json_decref(study);
}

/* Points that scale as 60 / N + 40 exactly are predicted exactly, and said to be. */
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits_of_experts),
                                     cmocka_unit_test(test_shapes_of_experts),
                                     cmocka_unit_test(test_limits),
                                     cmocka_unit_test(test_flow_limits),
                                     cmocka_unit_test(test_machine),
                                     cmocka_unit_test(test_losses),
                                     cmocka_unit_test(test_losses_add_up),
                                     cmocka_unit_test(test_times),
                                     cmocka_unit_test(test_compare),
                                     cmocka_unit_test(test_pieces),
                                     cmocka_unit_test(test_predict),
                                     cmocka_unit_test(test_split),
                                     cmocka_unit_test(test_predict_uneven),
                                     cmocka_unit_test(test_csv)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
