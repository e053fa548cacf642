/* test_op_cuda_experts_large.c - grouped forwards and mixtures of the shapes of served models on a GPU, or on one with
 * less of something (op_cuda_paths.h), which the first argument names. */
#include "op/op_cases_grouped_large.h"
#include "op/op_cuda_mixture.h"
#include "op/op_cuda_paths.h"

/* Both types alternately. */
static void test_grouped(void **state)
{
  for (int c = 0; each_case(c, c < N_LARGE_GROUPEDS); c++)
    check_large_grouped(*state, gpu_dtypes[c % 2], &large_groupeds[c], EXPERTS_INT4, 700 + (uint32_t)c);
}

static void test_grouped_fp4(void **state)
{
  for (int c = 0; each_case(c, c < N_LARGE_FP4_GROUPEDS); c++)
    check_large_grouped(*state, gpu_dtypes[c % 2], &large_fp4_groupeds[c], EXPERTS_FP4, 770 + (uint32_t)c);
}

static void test_grouped_16_bits(void **state)
{
  for (int c = 0; each_case(c, c < N_LARGE_GROUPEDS); c += 3)
    check_large_grouped(*state, gpu_dtypes[c % 2], &large_groupeds[c], EXPERTS_16_BITS, 740 + (uint32_t)c);
}

#define LARGEST     YK_GROUP_SCORE_MAXIMUM
#define LARGEST_TWO YK_GROUP_SCORE_LARGEST_TWO
#define QWEN3_30B                                                                                                      \
  {                                                                                                                    \
    128, 8, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 0, 128                                                        \
  }
#define DEEPSEEK_V2_LITE                                                                                               \
  {                                                                                                                    \
    64, 6, YK_SCORE_SOFTMAX, 1, 1, LARGEST, false, 1.0f, 0, 64                                                         \
  }

/* The routings of models, on one rank and on one of several; a shared expert with few and many rows. */
static const mixture_case large_mixtures[] = {
    {1, 2048, 768, 0, 128, 0, .is_in_one = true, .route = QWEN3_30B},
    {1, 2048, 768, 0, 32, 0, .is_in_one = true, .route = QWEN3_30B},
    {1, 2048, 768, 0, 128, 0, .has_bias = true, .is_in_one = true,
     .route = {128, 8, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 43, 42}},
    {1, 2048, 1408, 2816, 64, 64, .is_in_one = true, .route = DEEPSEEK_V2_LITE},
    {1, 2048, 1408, 5632, 128, 128, .has_gate = true, .is_in_one = true,
     .route = {60, 4, YK_SCORE_SOFTMAX, 1, 1, LARGEST, false, 1.0f, 0, 60}},
    {1, 4096, 7168, 0, 128, 0, .is_in_one = true, .route = {8, 2, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 0, 8}},
    {1, 4160, 192, 384, 64, 64, .has_bias = true, .is_in_one = true,
     .route = {160, 6, YK_SCORE_SOFTMAX, 8, 3, LARGEST, false, 16.0f, 0, 160}},
    {1, 1056, 416, 96, 32, 32, .has_gate = true, .is_in_one = true,
     .route = {250, 8, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 100, 50}},
    {1, 7168, 256, 256, 128, 128, .is_in_one = true,
     .route = {256, 8, YK_SCORE_SIGMOID, 8, 4, LARGEST_TWO, true, 2.5f, 0, 256}},
    {1, 64, 64, 64, 32, 32, .is_in_one = true,
     .route = {12, 3, YK_SCORE_SIGMOID, 4, 2, LARGEST_TWO, true, 1.8f, 0, 12}},
    {2, 2048, 1408, 2816, 64, 64, .route = DEEPSEEK_V2_LITE},
    {10, 2048, 768, 0, 128, 0, .route = QWEN3_30B},
    {48, 2048, 768, 1536, 128, 128, .route = {16, 2, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 0, 16}},
    {48, 704, 128, 320, 32, 32, .route = {7, 1, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 0, 7}},
    {128, 2048, 1408, 2816, 64, 64, .has_gate = true,
     .route = {16, 4, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 4, 8}},
    {128, 2048, 768, 0, 128, 0, .route = QWEN3_30B},
};
enum { N_LARGE_MIXTURES = sizeof large_mixtures / sizeof *large_mixtures };

static void test_mixtures(void **state)
{
  for (int c = 0; each_case(c, c < N_LARGE_MIXTURES); c++)
    for (int d = 0; d < N_GPU_DTYPES; d++) check_cuda_mixture(*state, gpu_dtypes[d], &large_mixtures[c]);
}

int main(int argc, char **argv)
{
  const op_target *target = cuda_target_of(argc, argv);
  int gate = gpu_gate(1);
  if (!target || gate != GPU_GO) return target ? gate : GPU_FAIL;
  const struct CMUnitTest tests[] = {ON_TARGET(test_grouped, target), ON_TARGET(test_grouped_fp4, target),
                                     ON_TARGET(test_grouped_16_bits, target), ON_TARGET(test_mixtures, target)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
