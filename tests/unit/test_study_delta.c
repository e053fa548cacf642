/* Gated delta nets in studies: shapes and limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "each_case.h"
#include "study/limits.h"
#include "unit/study_fixture.h"

/* Qwen3.5-27B on one H200: sums of floors, computed independently. */
static void test_limits_of_delta_nets(void **state)
{
  (void)state;
  yk_model_shapes shapes = {.n_layers = 64,
                            .hidden_size = 5120,
                            .intermediate_size = 17408,
                            .n_heads = 24,
                            .n_kv_heads = 4,
                            .head_dim = 256,
                            .vocab_size = 248320,
                            .n_delta_layers = 48,
                            .delta_key_heads = 16,
                            .delta_value_heads = 48,
                            .delta_key_dim = 128,
                            .delta_value_dim = 128,
                            .has_attention_gates = true,
                            .element_bytes = ALIKE((4 + 20.0 / 128) / 8)};
  static const struct {
    double batch, step_s;
  } steps[] = {{1, 3.570688e-3}, {64, 10.439617e-3}};
  const yk_machine_rates machine = {.memory_bytes_per_s = 4.35e12, .gemm_flops = 6.4e14};
  yk_limit limit, longer;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    yk_limit_load load = {.ranks = 1, .batch = steps[i].batch, .input_len = 512, .output_len = 100, .element_bytes = 2};
    yk_limit_compute(&shapes, &machine, &load, &limit);
    near(limit.decode_step_s, steps[i].step_s, 1e-4);
  }
  /* States do not grow with the context: only the 16 layers of attention read more. */
  yk_limit_load load = {.ranks = 1, .batch = 64, .input_len = 1024, .output_len = 2, .element_bytes = 2};
  yk_limit_compute(&shapes, &machine, &load, &limit);
  load.input_len = 2048;
  yk_limit_compute(&shapes, &machine, &load, &longer);
  near(longer.decode_step_s - limit.decode_step_s, 16 * 64 * 1024.0 * 2 * 4 * 256 * 2 / 4.35e12, 1e-6);
}

static void test_shapes_of_delta_nets(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int64_t n_layers, n_delta_layers, key_heads, value_heads, key_dim, value_dim, intermediate_size, expert_size;
    bool has_gates, is_quantised;
  } cases[] = {{"hybrid_qwen3_5", 4, 3, 3, 9, 16, 16, 96, 0, true, false},
               {"hybrid_qwen3_5_int4", 4, 3, 4, 8, 16, 16, 96, 0, true, true},
               {"hybrid_qwen3_5_moe", 2, 1, 3, 6, 16, 16, 0, 32, true, false},
               {"hybrid_qwen3_next", 2, 1, 2, 4, 128, 128, 0, 32, true, false},
               {"llama", 3, 0, 0, 0, 0, 0, 96, 0, false, true}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    const yk_model_shapes s = golden_shapes(cases[i].name);
    assert_int_equal(s.n_layers, cases[i].n_layers);
    assert_int_equal(s.n_delta_layers, cases[i].n_delta_layers);
    assert_int_equal(s.delta_key_heads, cases[i].key_heads);
    assert_int_equal(s.delta_value_heads, cases[i].value_heads);
    assert_int_equal(s.delta_key_dim, cases[i].key_dim);
    assert_int_equal(s.delta_value_dim, cases[i].value_dim);
    assert_int_equal(s.intermediate_size, cases[i].intermediate_size);
    assert_int_equal(s.expert_size, cases[i].expert_size);
    assert_int_equal(s.has_attention_gates, cases[i].has_gates);
    assert_int_equal(s.element_bytes[YK_LINEAR_FFN] > 0, cases[i].is_quantised);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits_of_delta_nets),
                                     cmocka_unit_test(test_shapes_of_delta_nets)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
