/* The best possible performance of a machine: limits of points with known answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "study/limits.h"
#include "unit/study_fixture.h"

/* Qwen3-8B on one H200: its limit was computed independently (1.15 ms per token at a context of 1024). */
static const yk_model_shapes qwen3_8b = {.n_layers = 36,
                                         .hidden_size = 4096,
                                         .intermediate_size = 12288,
                                         .n_heads = 32,
                                         .n_kv_heads = 8,
                                         .head_dim = 128,
                                         .vocab_size = 151936,
                                         .element_bytes = ALIKE((4 + 20.0 / 128) / 8)};

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
  load.shared_prefix = 1023; /* eight separate rows, one prefix */
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

/* Requests that arrive and end, on one rank and on two ranks with all-reduces. */
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
    load.input_len = 1;                        /* tiny prompts: all is decode */
    load.output_len = 1000;
    yk_limit_compute(&qwen3_8b, &machine, &load, &batch);
    yk_limit_compute_flow(&qwen3_8b, &machine, &load, &flow);
    near(flow.decode_step_s, batch.decode_step_s, 1e-3);
    near(flow.total_s, flow.bound_s[0] + flow.bound_s[1] + flow.bound_s[2], 1e-12);
    assert_int_equal(flow.bound, YK_BOUND_MEMORY);
    load.input_len = 1024; /* mixed steps are never slower than separate ones, which read the weights twice */
    load.output_len = 64;
    yk_limit_compute(&qwen3_8b, &machine, &load, &batch);
    yk_limit_compute_flow(&qwen3_8b, &machine, &load, &flow);
    assert_true(flow.total_s < 0.99 * batch.total_s && flow.total_s > 0.6 * batch.total_s);
    load.shared_prefix = 1000; /* cached: only 24 tokens of each prompt are rows */
    yk_limit_compute_flow(&qwen3_8b, &machine, &load, &more);
    assert_true(more.total_s < 0.5 * flow.total_s);
    load.shared_prefix = 0;
    load.batch = 0.5; /* idle half of the time: no more than half of a single request's rate */
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

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits), cmocka_unit_test(test_flow_limits),
                                     cmocka_unit_test(test_machine)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
