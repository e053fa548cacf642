/* A model's plan has the bytes that CPU ranks allocate for weights: 4-bit weights, weights dequantised at load, and
 * sorted weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "each_case.h"
#include "kernels/cpu/cpu_memory.h"
#include "yoke/yoke.h"

enum { N_LAYERS = 6, HIDDEN = 256, FFN = 640, HEAD_DIM = 64, Q = 512, KV = 128, VOCAB = 1024 }; /* the demo model */

static atomic_llong n_allocated; /* of linear layers, over all ranks */

yk_status __real_yk_cpu_weights_alloc(yk_cpu_chunk **current, size_t n_bytes, yk_cpu_chunk **owner, void **out,
                                      yk_err *err);
yk_status __wrap_yk_cpu_weights_alloc(yk_cpu_chunk **current, size_t n_bytes, yk_cpu_chunk **owner, void **out,
                                      yk_err *err);
yk_status __wrap_yk_cpu_weights_alloc(yk_cpu_chunk **current, size_t n_bytes, yk_cpu_chunk **owner, void **out,
                                      yk_err *err)
{
  atomic_fetch_add(&n_allocated, (long long)n_bytes);
  return __real_yk_cpu_weights_alloc(current, n_bytes, owner, out, err);
}

static int64_t planned_bytes(const yk_engine_options *options)
{
  yk_plan plan;
  int64_t n_bytes = 0;
  assert_int_equal(yk_plan_make(options, 0, &plan, NULL), YK_OK);
  for (int rank = 0; rank < plan.n_ranks; rank++) n_bytes += plan.memory[rank].weight_bytes;
  return n_bytes;
}

static void planned_is_allocated(void **state)
{
  (void)state;
  const int64_t norms = N_LAYERS * (2 * HIDDEN + 2 * HEAD_DIM) + HIDDEN;
  const int64_t linear = (int64_t)N_LAYERS * HIDDEN * (2 * Q + 2 * KV + 3 * FFN);
  for (int n_ranks = 1; each_case(n_ranks, n_ranks <= 2); n_ranks++)
    for (int weights = YK_WEIGHTS_AUTO; weights <= YK_WEIGHTS_F16; weights++) {
      yk_engine_options options;
      yk_engine *engine;
      yk_err err = YK_ERR_INIT;
      yk_engine_options_init(&options);
      options.model_dir = YOKE_TESTS_DIR "/models/demo";
      options.device = YK_DEVICE_CPU;
      options.n_ranks = n_ranks;
      options.weights = (yk_weights_choice)weights;
      options.max_model_tokens = 128;
      atomic_store(&n_allocated, 0);
      if (yk_engine_create(&options, &engine, &err) != YK_OK) fail_msg("%s", err.message);
      yk_engine_destroy(engine);
      int64_t allocated = atomic_load(&n_allocated);
      assert_int_equal(planned_bytes(&options), allocated + (n_ranks * norms + (int64_t)VOCAB * HIDDEN) * 2);
      if (weights == YK_WEIGHTS_F16) assert_int_equal(allocated, linear * 2);
      if (weights == YK_WEIGHTS_AUTO) assert_true(allocated < linear);
    }
}

/* lm_head in 8 bits separate from the embedding, which is also lm_head in the checkpoint: bytes, and a scale a
 * token. */
static void planned_is_allocated_for_lm_head(void **state)
{
  (void)state;
  yk_engine_options options;
  int64_t allocated[2];
  yk_engine_options_init(&options);
  options.model_dir = YOKE_TESTS_DIR "/models/demo";
  options.device = YK_DEVICE_CPU;
  options.max_model_tokens = 128;
  for (int choice = YK_LM_HEAD_AUTO; choice <= YK_LM_HEAD_INT8; choice++) {
    yk_engine *engine;
    yk_err err = YK_ERR_INIT;
    options.lm_head = (yk_lm_head_choice)choice;
    atomic_store(&n_allocated, 0);
    if (yk_engine_create(&options, &engine, &err) != YK_OK) fail_msg("%s", err.message);
    yk_engine_destroy(engine);
    allocated[choice] = atomic_load(&n_allocated);
    const int64_t norms = N_LAYERS * (2 * HIDDEN + 2 * HEAD_DIM) + HIDDEN;
    assert_int_equal(planned_bytes(&options), allocated[choice] + (norms + (int64_t)VOCAB * HIDDEN) * 2);
  }
  assert_int_equal(allocated[1] - allocated[0], VOCAB * (HIDDEN + (int64_t)sizeof(float)));
}

static void check_planned(const char *name, int n_ranks, bool expert_parallel, int64_t others_bytes)
{
  yk_engine_options options;
  yk_engine *engine;
  yk_err err = YK_ERR_INIT;
  char dir[512];
  snprintf(dir, sizeof dir, "%s/golden/families/%s", YOKE_TESTS_DIR, name);
  yk_engine_options_init(&options);
  options.model_dir = dir;
  options.device = YK_DEVICE_CPU;
  options.n_ranks = n_ranks;
  options.expert_parallel = expert_parallel;
  options.max_model_tokens = 128;
  atomic_store(&n_allocated, 0);
  if (yk_engine_create(&options, &engine, &err) != YK_OK) fail_msg("%s", err.message);
  yk_engine_destroy(engine);
  assert_int_equal(planned_bytes(&options), atomic_load(&n_allocated) + others_bytes);
}

/* Inputs sorted by group, with their order and padding, also of experts; kv_b of latent attention, which is kept as 16
 * bits, and a counter for each expert. */
static void planned_is_allocated_in_order(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int64_t norms, embedding, kv_b, counters; /* bytes; norms of every rank */
  } models[] = {{"format_gptq_act_order", (2 * 2 * 96 + 96) * 2, 200 * 96 * 2, 0, 0},
                {"format_compressed_act_order", (2 * 2 * 64 + 64) * 2, 200 * 64 * 2, 0, 0},
                {"deepseek_v2_act_order", (2 * (2 * 64 + 32 + 32) + 64) * 2, 200 * 64 * 2, 2 * 32 * 128 * 2, 6 * 8}};
  for (size_t m = 0; each_case(m, m < sizeof models / sizeof *models); m++)
    for (int n_ranks = 1; each_case(n_ranks, n_ranks <= 8); n_ranks++) {
      int64_t others = n_ranks * models[m].norms + models[m].embedding + models[m].kv_b + models[m].counters;
      check_planned(models[m].name, n_ranks, false, others);
      if (models[m].counters > 0) check_planned(models[m].name, n_ranks, true, others);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(planned_is_allocated),
                                     cmocka_unit_test(planned_is_allocated_for_lm_head),
                                     cmocka_unit_test(planned_is_allocated_in_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
