/* test_op_cuda_w8a8.c - the cases of op_cases_w8a8.h and op_cases_w8a8_grouped.h on a GPU, by wgmma and by mma.sync,
 * and compared with the CPU device. */
#include "op/op_cases_w8a8_grouped.h"
#include "op/op_cpu_target.h"
#include "op/op_cuda_paths.h"

/* K ranges of several thread blocks, rows and columns beyond a tile, fused parts, tiles of one to three warpgroups. The
 * tile of a GEMM also depends on the GPU: test_large_cases has shapes for all of them. */
static const w8a8_case gpu_cases[] = {
    {.k = 4096, .n = {520}, .n_parts = 1, .inputs = {PER_TOKEN}, .n_tokens = 5},
    {.k = 4096, .n = {520}, .n_parts = 1, .inputs = {PER_TOKEN}, .use_bias = true, .n_tokens = 3},
    {.k = 1032,
     .n = {200, 200},
     .n_parts = 2,
     .inputs = {STATIC(0.03f, 9), STATIC(0.03f, 9)},
     .activation = YK_GATED_SILU,
     .n_tokens = 8},
    {.k = 1000, .n = {520}, .n_parts = 1, .inputs = {PER_TOKEN}, .use_bias = true, .n_tokens = 300},
    {.k = 2056, .n = {264}, .n_parts = 1, .inputs = {STATIC(0.03f, 5)}, .use_bias = true, .n_tokens = 129},
    {.k = 512,
     .n = {256, 64, 72}, /* q, k, v */
     .n_parts = 3,
     .inputs = {STATIC(0.02f, 11), STATIC(0.02f, 11), STATIC(0.02f, 11)},
     .use_bias = true,
     .n_tokens = 130},
    {.k = 1032, .n = {200, 200}, .n_parts = 2, .inputs = {PER_TOKEN, PER_TOKEN}, .activation = YK_GATED_SILU},
    {.k = 72,
     .n = {13, 13},
     .n_parts = 2,
     .inputs = {STATIC(0.04f, 127), STATIC(0.04f, 127)},
     .activation = YK_GATED_SILU,
     .use_bias = true,
     .n_tokens = 17},
    {.k = 128, .n = {6152}, .n_parts = 1, .inputs = {PER_TOKEN}, .n_tokens = 129},
    {.k = 256, .n = {136}, .n_parts = 1, .inputs = {PER_TOKEN}, .n_tokens = 4200}, /* more than a block of rows */
};
enum { N_GPU_CASES = sizeof gpu_cases / sizeof *gpu_cases, N_COMMON_CASES = 4 };

static void test_cases(void **state)
{
  (void)state;
  for (int t = 0; t < N_CUDA_PATHS; t++) {
    check_w8a8_cases(cuda_paths[t], gpu_dtypes, N_GPU_DTYPES, w8a8_cases, N_COMMON_CASES);
    check_w8a8_cases(cuda_paths[t], gpu_dtypes, N_GPU_DTYPES, gpu_cases,
                     gpu_is_small() ? N_GPU_CASES - 1 : N_GPU_CASES);
  }
}

/* Every tile, and tiles that are partly filled on each side; both types alternately. */
static void test_large_cases(void **state)
{
  static const struct {
    int64_t k, n;
    bool is_gated;
  } shapes[] = {{128, 64, false},  {40, 8, false},     {4096, 1536, false}, {1000, 520, false}, {12288, 96, false},
                {1032, 200, true}, {4096, 4096, true}, {3072, 4096, false}, {128, 6152, false}};
  static const int32_t token_counts[] = {1, 3, 8, 17, 33, 65, 100, 130, 200, 257, 300, 1000};
  (void)state;
  for (size_t s = 0; each_case(s, s < sizeof shapes / sizeof *shapes); s++)
    for (size_t i = 0; each_case(i, i < sizeof token_counts / sizeof *token_counts); i++) {
      w8a8_case shape = {.k = shapes[s].k,
                         .n = {shapes[s].n, shapes[s].n},
                         .n_parts = shapes[s].is_gated ? 2 : 1,
                         .inputs = {PER_TOKEN, PER_TOKEN},
                         .n_tokens = token_counts[i]};
      if (shapes[s].is_gated) shape.activation = (yk_activation)YK_GATED_SILU;
      for (int t = 0; t < N_CUDA_PATHS; t++)
        check_w8a8_cases(cuda_paths[t], &gpu_dtypes[(s + i + (size_t)t) % N_GPU_DTYPES], 1, &shape, 1);
    }
}

static void test_the_comparison_sees_faults(void **state)
{
  (void)state;
  assert_true(w8a8_error(&cuda_target, YK_F16, &w8a8_cases[2], W8A8_NO_ZERO) > 0.1);
  assert_true(w8a8_error(&cuda_target, YK_F16, &w8a8_cases[3], W8A8_FIRST_PARTS_INPUTS) > 1e-2);
  assert_true(w8a8_error(&cuda_target, YK_F16, &w8a8_cases[0], W8A8_INPUTS_AS_FLOATS) > 1e-3);
}

static void test_rows_do_not_depend_on_their_batch(void **state)
{
  (void)state;
  for (int t = 0; t < N_CUDA_PATHS; t++) check_w8a8_batches(cuda_paths[t]);
}

static void test_ranks_agree_with_one_rank(void **state)
{
  (void)state;
  for (int t = 0; t < N_CUDA_PATHS; t++) check_w8a8_ranks(cuda_paths[t], gpu_dtypes, N_GPU_DTYPES);
}

/* Sums of several thread blocks, and rows beyond a tile. */
static void test_ranks_of_large_layers(void **state)
{
  static const int64_t shapes[][2] = {{4096, 1536}, {1000, 520}, {12288, 96}, {3072, 4096}, {128, 6152}}; /* k, n */
  (void)state;
  for (size_t s = 0; each_case(s, s < sizeof shapes / sizeof *shapes); s++)
    for (int t = 0; each_case(t, t < N_CUDA_PATHS); t++) {
      const int64_t k = shapes[s][0];
      const w8a8_case shape = {.k = k, .n = {shapes[s][1]}, .n_parts = 1, .inputs = {PER_TOKEN}, .use_bias = s % 2};
      const w8a8_sharing sharing = {2, {0, k / 3, k}};
      assert_true(w8a8_ranks_agree(cuda_paths[t], gpu_dtypes[(s + (size_t)t) % N_GPU_DTYPES], &shape, &sharing, false));
    }
}

static void test_ranks_that_cut_experts(void **state)
{
  (void)state;
  for (int t = 0; t < N_CUDA_PATHS; t++) check_w8a8_grouped_ranks(cuda_paths[t], gpu_dtypes, N_GPU_DTYPES);
}

/* Integers are exact, and the following operations round equally. */
static void test_bits_of_the_cpu(void **state)
{
  const op_target cpu = {.name = "cpu", .create = cpu_target_create, .variant = yk_cpu_simd_find("portable")};
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++)
    for (int c = 0; c < 6; c++) {
      const op_target *both[] = {&cuda_target, &cpu};
      op_array y[2];
      for (int i = 0; i < 2; i++) {
        yk_device *dev = op_device_new(both[i], gpu_dtypes[d], 2, 16);
        w8a8_run run = w8a8_run_new(dev, &gpu_cases[c]);
        y[i] = w8a8_forward(dev, &run, 0, run.n_tokens);
        dev->ops->free(dev, y[i].dev);
        w8a8_run_free(dev, &run);
        dev->ops->destroy(dev);
      }
      if (memcmp(y[0].bytes, y[1].bytes, y[0].n * 2) != 0) fail_msg("case %d, %s", c, yk_dtype_name(gpu_dtypes[d]));
      for (int i = 0; i < 2; i++) {
        free(y[i].bytes);
        free(y[i].values);
      }
    }
}

static void test_refusals(void **state)
{
  (void)state;
  check_w8a8_refusals(&cuda_target, YK_F16);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),
      cmocka_unit_test(test_large_cases),
      cmocka_unit_test(test_the_comparison_sees_faults),
      cmocka_unit_test(test_rows_do_not_depend_on_their_batch),
      cmocka_unit_test(test_ranks_agree_with_one_rank),
      cmocka_unit_test(test_ranks_of_large_layers),
      cmocka_unit_test(test_ranks_that_cut_experts),
      cmocka_unit_test(test_bits_of_the_cpu),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
