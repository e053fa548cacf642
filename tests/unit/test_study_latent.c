/* Latent attention in studies: shapes and limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "each_case.h"
#include "study/limits.h"
#include "unit/study_fixture.h"

/* DeepSeek-V2-Lite on one H200 and on two: sums of floors, computed independently. */
static void test_limits_of_latent_attention(void **state)
{
  (void)state;
  yk_model_shapes shapes = {.n_layers = 27,
                            .hidden_size = 2048,
                            .intermediate_size = 10944,
                            .n_heads = 16,
                            .n_kv_heads = 16,
                            .head_dim = 128,
                            .vocab_size = 102400,
                            .n_expert_layers = 26,
                            .n_experts = 64,
                            .top_k = 6,
                            .expert_size = 1408,
                            .shared_size = 2816,
                            .kv_rank = 512,
                            .nope_dim = 128,
                            .rope_dim = 64,
                            .value_dim = 128,
                            .element_bytes = ALIKE((4 + 20.0 / 128) / 8)};
  static const struct {
    double batch, one_s, two_s;
  } steps[] = {{1, 0.38859e-3, 0.198206e-3}, {64, 2.26367e-3, 1.263612e-3}};
  const yk_machine_rates machine = {.memory_bytes_per_s = 4.35e12, .gemm_flops = 6.4e14};
  yk_limit limit, longer;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    yk_limit_load load = {.ranks = 1, .batch = steps[i].batch, .input_len = 512, .output_len = 100, .element_bytes = 2};
    yk_limit_compute(&shapes, &machine, &load, &limit);
    near(limit.decode_step_s, steps[i].one_s, 1e-4);
    load.ranks = 2; /* each of which reads all latent vectors */
    yk_limit_compute(&shapes, &machine, &load, &limit);
    near(limit.decode_step_s, steps[i].two_s, 1e-4);
  }
  /* With 128 heads products bound decodes; prompts need fewer of them. */
  shapes.n_heads = 128;
  yk_limit_load load = {.ranks = 1, .batch = 64, .input_len = 4096, .output_len = 2, .element_bytes = 2};
  yk_limit_compute(&shapes, &machine, &load, &limit);
  load.output_len = 2 + 2 * 1024;
  yk_limit_compute(&shapes, &machine, &load, &longer);
  near(longer.decode_step_s - limit.decode_step_s, 27 * 64 * 1024.0 * 2 * 128 * 1088 / 6.4e14, 1e-6);
  load.input_len = 8192;
  load.output_len = 2;
  yk_limit_compute(&shapes, &machine, &load, &longer);
  near(longer.prefill_s - 2 * limit.prefill_s, 27 * 64 * 4096.0 * 4096 * 2 * 128 * 320 / 6.4e14, 1e-2);
  shapes.q_rank = 1536; /* q of two projections, one of them on every rank */
  yk_limit_compute(&shapes, &machine, &load, &limit);
  near(limit.prefill_s - longer.prefill_s, 27 * 64 * 8192.0 * 2 * (2048 * 1536 + (1536 - 2048) * 128 * 192.0) / 6.4e14,
       1e-6);
}

static void test_shapes_of_latent_attention(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int64_t kv_rank, q_rank, nope_dim, rope_dim, value_dim;
  } cases[] = {{"deepseek_v2", 32, 0, 16, 12, 36}, {"deepseek_v3", 32, 32, 16, 8, 16}, {"llama", 0, 0, 0, 0, 0}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    const yk_model_shapes s = golden_shapes(cases[i].name);
    assert_true(s.kv_rank == cases[i].kv_rank && s.q_rank == cases[i].q_rank && s.nope_dim == cases[i].nope_dim);
    assert_true(s.rope_dim == cases[i].rope_dim && s.value_dim == cases[i].value_dim);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits_of_latent_attention),
                                     cmocka_unit_test(test_shapes_of_latent_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
