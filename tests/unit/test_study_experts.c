/* Mixtures of experts in studies: their shapes, limits, and predictions, also with whole experts distributed over
 * ranks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "study/limits.h"
#include "study/predict.h"
#include "unit/study_fixture.h"

static const yk_model_shapes qwen3_30b = {.n_layers = 48,
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
                                          .element_bytes = ALIKE((4 + 20.0 / 128) / 8)};

/* Qwen3-30B-A3B on one H200: expected numbers of different experts, and sums of floors, computed independently. */
static void test_limits_of_experts(void **state)
{
  (void)state;
  static const double rates[][2] = {{1, 2080}, {8, 4580}, {32, 8690}, {64, 14300}};
  const yk_machine_rates machine = {.memory_bytes_per_s = 4.35e12, .gemm_flops = 6.4e14};
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
    const yk_limit_load load = {
        .ranks = 1, .batch = rates[i][0], .input_len = 512, .output_len = 100, .element_bytes = 2};
    yk_limit limit;
    yk_limit_compute(&qwen3_30b, &machine, &load, &limit);
    near(rates[i][0] / limit.decode_step_s, rates[i][1], 0.02);
  }
}

static void test_limits_of_whole_experts(void **state)
{
  (void)state;
  const yk_machine_rates machine = {.memory_bytes_per_s = 4e12, .gemm_flops = 6e14};
  yk_model_shapes five = qwen3_30b;
  five.n_experts = 5;
  five.top_k = 3;
  const struct {
    const yk_model_shapes *shapes;
    int ranks;
    double most; /* experts of a rank, against an even share */
  } cases[] = {{&qwen3_30b, 1, 1},
               {&qwen3_30b, 8, 1},
               {&qwen3_30b, 3, 43 * 3 / 128.0},
               {&five, 2, 3 * 2 / 5.0},
               {&five, 8, 8 / 5.0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_limit even, whole, none;
    yk_model_shapes without = *cases[i].shapes;
    without.expert_size = 0;
    yk_limit_load load = {
        .ranks = cases[i].ranks, .batch = 16, .input_len = 512, .output_len = 100, .element_bytes = 2};
    yk_limit_compute(&without, &machine, &load, &none);
    yk_limit_compute(cases[i].shapes, &machine, &load, &even);
    load.expert_parallel = true;
    yk_limit_compute(cases[i].shapes, &machine, &load, &whole);
    near(whole.decode_step_s - none.decode_step_s, cases[i].most * (even.decode_step_s - none.decode_step_s), 1e-9);
    near(whole.prefill_s - none.prefill_s, cases[i].most * (even.prefill_s - none.prefill_s), 1e-9);
  }
  yk_machine_rates cpu = machine; /* all ranks share its memory: their shares do not matter */
  yk_limit even, whole;
  yk_limit_load load = {.ranks = 2, .batch = 16, .input_len = 512, .output_len = 100, .element_bytes = 2};
  cpu.is_shared = true;
  yk_limit_compute(&five, &cpu, &load, &even);
  load.expert_parallel = true;
  yk_limit_compute(&five, &cpu, &load, &whole);
  near(whole.total_s, even.total_s, 1e-12);
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
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    const yk_model_shapes s = golden_shapes(cases[i].name);
    assert_true(s.n_expert_layers == cases[i].n_layers && s.n_experts == cases[i].n_experts);
    assert_true(s.top_k == cases[i].top_k && s.expert_size == cases[i].size && s.shared_size == cases[i].shared);
  }
}

/* 8 whole experts: of 3 ranks two have 3 and one has 2, of 5 three have 2. An FFN of 960 us on one rank, attention of
 * 240 and 40 of host. A study whose ranks have shares of all experts is predicted as even. */
static void test_prediction_of_whole_experts(void **state)
{
  (void)state;
  static const int measured[] = {1, 2, 4}, counts[] = {3, 5};
  for (int is_whole = 0; is_whole <= 1; is_whole++) {
    json_t *points = json_array(), *predictions, *left_out;
    for (int i = 0; i < 3; i++) {
      double ffn_us = 960.0 / measured[i], attention_us = 240.0 / measured[i];
      json_t *point = make_point(measured[i], 4, 1e6 / (ffn_us + attention_us + 40), 0.001);
      set_time(point, "gemm_gate_up", ffn_us);
      set_time(point, "gemm_o", attention_us);
      set_time(point, "host", 40);
      if (is_whole) json_object_set_new(point, "expert_parallel", json_true());
      json_array_append_new(points, point);
    }
    json_t *study =
        json_pack("{s:i, s:o, s:{s:i, s:i, s:i, s:i, s:i}}", "yoke_study", 1, "points", points, "model", "n_heads", 120,
                  "n_kv_heads", 120, "intermediate_size", 7680, "n_experts", 8, "group_size", 0);
    assert_int_equal(yk_study_predict(study, counts, 2, &predictions, &left_out, NULL), YK_OK);
    for (size_t i = 0; i < 2; i++) {
      double most = is_whole ? (i == 0 ? 3.0 : 2.0) / 8 : 1.0 / counts[i];
      near(number_of(json_array_get(predictions, i), "output_throughput"), 1e6 / (960 * most + 240.0 / counts[i] + 40),
           1e-9);
    }
    for (size_t i = 0; i < 2; i++) assert_true(fabs(number_of(json_array_get(left_out, i), "error")) < 1e-9);
    json_decref(predictions);
    json_decref(left_out);
    json_decref(study);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_limits_of_experts), cmocka_unit_test(test_limits_of_whole_experts),
      cmocka_unit_test(test_shapes_of_experts), cmocka_unit_test(test_prediction_of_whole_experts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
