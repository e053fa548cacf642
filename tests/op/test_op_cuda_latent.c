/* test_op_cuda_latent.c - latent attention on a GPU. */
#include "kernels/cuda/device/state.h"
#include "op/op_cases_latent.h"
#include "op/op_cuda_target.h"

static void test_table(void **state)
{
  (void)state;
  check_latent_table(&cuda_target, N_GPU_DTYPES, false);
}

/* What the tensor core kernels take: DeepSeek's sizes, tiles of 16 and of 64 queries, whole and shared items. */
static const latent_shape deepseek_shapes[] = {
    {{16, 128, 64, 512, 128}, 5, {{0, 1}, {62, 1}, {63, 1}, {64, 1}, {700, 1}}}, /* decode: splits of unlike lengths */
    {{10, 128, 64, 512, 128}, 2, {{127, 1}, {128, 1}}},                          /* fewer heads than a tile */
    {{20, 128, 64, 512, 128}, 4, {{0, 1}, {64, 1}, {300, 1}, {900, 1}}},         /* decode, 64 queries a tile */
    {{70, 128, 64, 512, 128}, 2, {{300, 1}, {90, 1}}},                           /* two tiles of heads */
    {{16, 128, 64, 512, 128}, 4, {{200, 21}, {0, 50}, {33, 1}, {250, 3}}},       /* chunks: several rows a tile */
    {{3, 128, 64, 512, 128}, 3, {{0, 70}, {100, 25}, {1, 1}}},                   /* tiles of 21 rows */
    /* Keys and values of each head: alone; beside rows without them, before, between and behind. */
    {{2, 128, 64, 512, 128}, 1, {{0, 171}}},
    {{2, 128, 64, 512, 128}, 6, {{90, 1}, {0, 256}, {40, 20}, {500, 172}, {70, 1}, {0, 3}}},
};

enum { N_DEEPSEEK_SHAPES = sizeof deepseek_shapes / sizeof *deepseek_shapes };

static void test_deepseek(void **state)
{
  (void)state;
  check_latent_shapes(&cuda_target, deepseek_shapes, N_DEEPSEEK_SHAPES, N_GPU_DTYPES, false);
}

/* As a GPU without wgmma. */
static yk_status create_without_wgmma(const void *variant, yk_dtype dtype, int n_threads,
                                      const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  YK_TRY(cuda_target_create(variant, dtype, n_threads, limits, out, err));
  yk_cuda_device_of(*out)->attention.encode_tensor_map = NULL;
  return YK_OK;
}

static void test_without_wgmma(void **state)
{
  (void)state;
  static const op_target target = {.name = "cuda without wgmma", .create = create_without_wgmma};
  check_latent_shapes(&target, deepseek_shapes, N_DEEPSEEK_SHAPES, 1, false);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  check_latent_faults(&cuda_target, YK_BF16);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_deepseek),
                                     cmocka_unit_test(test_without_wgmma),
                                     cmocka_unit_test(test_planted_faults_are_seen)};
  int gate = gpu_gate(1);
  return gate ? gate : cmocka_run_group_tests(tests, NULL, NULL);
}
