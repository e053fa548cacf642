/* Sizes and formats for limits, as the loader reads them, and limits of windows and of Mamba2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "each_case.h"
#include "study/limits.h"
#include "unit/study_fixture.h"

/* Bits of a weight with a share of the bits of each group's scale and zero. */
#define IN_GROUPS(bits, of_group, size) (((bits) + (double)(of_group) / (size)) / 8)

static void test_formats(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    double element_bytes[YK_LINEAR_GROUPS];
    int64_t group_size;
  } cases[] = {{"hybrid_qwen3_5", {0, 0, 0, 0}, 0},
               {"hybrid_qwen3_5_int4", {IN_GROUPS(4, 20, 32), IN_GROUPS(4, 20, 32), IN_GROUPS(4, 20, 32), 0}, 32},
               {"hybrid_qwen3_5_gptq", {0, 0.6, IN_GROUPS(4, 20, 32), 0}, 32}, /* b and a are floats */
               {"hybrid_qwen3_5_fp8", {1.0039, 1.0192, 1.0039, 0}, 32},
               {"gpt_oss", {0, 0, 0, IN_GROUPS(4, 8, 32)}, 32},
               {"format_nvfp4", {IN_GROUPS(4, 8, 16), 0, IN_GROUPS(4, 8, 16), 0}, 16},
               {"qwen3_group128", {IN_GROUPS(4, 20, 128), 0, IN_GROUPS(4, 20, 128), 0}, 128},
               {"deepseek_v3", {IN_GROUPS(4, 20, 32), 0, IN_GROUPS(4, 20, 32), IN_GROUPS(4, 20, 32)}, 32}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    const yk_model_shapes s = golden_shapes(cases[i].name);
    for (int k = 0; k < YK_LINEAR_GROUPS; k++) near(s.element_bytes[k], cases[i].element_bytes[k], 1e-3);
    assert_int_equal(s.group_size, cases[i].group_size);
  }
}

static void test_kinds_of_layers(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int64_t attention, local, window, mamba, dense, experts, sublayers;
  } cases[] = {{"llama", 3, 0, 0, 0, 3, 0, 6},         {"gpt_oss", 2, 1, 24, 0, 0, 2, 4},
               {"gemma4", 5, 3, 16, 0, 5, 0, 10},      {"gemma4_moe", 4, 2, 16, 0, 4, 4, 8},
               {"nemotron_h", 1, 0, 0, 2, 2, 0, 5},    {"nemotron_latent", 1, 0, 0, 2, 0, 2, 5},
               {"hybrid_qwen3_5", 1, 0, 0, 0, 4, 0, 8}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    const yk_model_shapes s = golden_shapes(cases[i].name);
    assert_int_equal(yk_model_attention_layers(&s), cases[i].attention);
    assert_true(s.n_local_layers == cases[i].local && s.window_tokens == cases[i].window);
    assert_int_equal(s.n_mamba_layers, cases[i].mamba);
    assert_true(yk_model_dense_layers(&s) == cases[i].dense && s.n_expert_layers == cases[i].experts);
    assert_int_equal(yk_model_sublayers(&s), cases[i].sublayers);
  }
  const yk_model_shapes gemma = golden_shapes("gemma4");
  assert_true(gemma.local_kv_heads == 3 && gemma.local_head_dim == 16);
  assert_true(gemma.n_kv_heads == 2 && gemma.head_dim == 32);
  const yk_model_shapes stage = yk_model_shapes_of_stage(&gemma, 2);
  assert_true(stage.n_layers == 3 && stage.n_local_layers == 2 && stage.vocab_size == 0);
}

/* One layer without a window and one with 1024 tokens, whose heads are half as wide: beyond the window only the first
 * reads more. */
static void test_limits_of_windows(void **state)
{
  (void)state;
  const yk_model_shapes shapes = {.n_layers = 2,
                                  .hidden_size = 64,
                                  .intermediate_size = 64,
                                  .n_heads = 8,
                                  .n_kv_heads = 4,
                                  .head_dim = 128,
                                  .n_local_layers = 1,
                                  .window_tokens = 1024,
                                  .local_kv_heads = 8,
                                  .local_head_dim = 64,
                                  .vocab_size = 64};
  const yk_machine_rates machine = {.memory_bytes_per_s = 1e12, .gemm_flops = 1e18};
  yk_limit_load load = {.ranks = 1, .batch = 64, .input_len = 511, .output_len = 2, .element_bytes = 2};
  yk_limit limits[3];
  for (int i = 0; i < 3; i++) {
    yk_limit_compute(&shapes, &machine, &load, &limits[i]);
    load.input_len = i == 0 ? 1023 : 2047;
  }
  const double of_whole = 64 * 512.0 * 2 * 4 * 128 * 2 / 1e12, of_local = 64 * 512.0 * 2 * 8 * 64 * 2 / 1e12;
  near(limits[1].decode_step_s - limits[0].decode_step_s, of_whole + of_local, 1e-9);
  near(limits[2].decode_step_s - limits[1].decode_step_s, 2 * of_whole, 1e-9);
  const yk_machine_rates slow = {.memory_bytes_per_s = 1e18, .gemm_flops = 1e12}; /* n^2 / 2 pairs, then 1024 a row */
  load = (yk_limit_load){.ranks = 1, .batch = 1, .input_len = 2048, .output_len = 1, .element_bytes = 2};
  yk_model_shapes without = shapes;
  without.n_local_layers = 0;
  without.local_head_dim = 0;
  yk_limit_compute(&shapes, &slow, &load, &limits[0]);
  yk_limit_compute(&without, &slow, &load, &limits[1]);
  const double of_heads = 4 * 8 / 1e12, half = 2048 * 2048.0 / 2, windowed = 1024 * 2048.0 - 1024 * 1024.0 / 2;
  const double projections = 2 * 2048.0 * 64 * 2 * (8 + 4) * 128 / 1e12,
               local = 2 * 2048.0 * 64 * 2 * (8 + 8) * 64 / 1e12;
  near(limits[1].prefill_s - limits[0].prefill_s, of_heads * (half * 128 - windowed * 64) + projections - local, 1e-6);
}

/* States of Mamba2: 64 heads of 64 by 128 floats, read and written once a step. */
static void test_limits_of_mamba(void **state)
{
  (void)state;
  const yk_model_shapes shapes = {.n_layers = 2,
                                  .n_single_mixers = 2,
                                  .hidden_size = 64,
                                  .n_heads = 1,
                                  .n_kv_heads = 1,
                                  .head_dim = 1,
                                  .vocab_size = 64,
                                  .n_mamba_layers = 2,
                                  .mamba_heads = 64,
                                  .mamba_groups = 8,
                                  .mamba_head_dim = 64,
                                  .mamba_state_dim = 128};
  const yk_machine_rates machine = {.memory_bytes_per_s = 1e12, .gemm_flops = 1e18};
  yk_limit limits[2];
  for (int i = 0; i < 2; i++) {
    const yk_limit_load load = {.ranks = 1, .batch = 10 + 10 * i, .input_len = 8, .output_len = 2, .element_bytes = 2};
    yk_limit_compute(&shapes, &machine, &load, &limits[i]);
  }
  near(limits[1].decode_step_s - limits[0].decode_step_s, 2 * 10 * 2.0 * 64 * 64 * 128 * 4 / 1e12, 1e-9);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats), cmocka_unit_test(test_kinds_of_layers),
                                     cmocka_unit_test(test_limits_of_windows), cmocka_unit_test(test_limits_of_mamba)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
