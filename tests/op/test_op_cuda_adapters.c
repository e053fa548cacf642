/* test_op_cuda_adapters.c - low-rank adapters of linear layers on a GPU, with every path of its GEMMs. */
#include "op/op_cases_adapters.h"
#include "op/op_cuda_paths.h"

/* More than in test_op_cuda_linear.c and test_op_cuda_activation.c: a result is rounded once before products are added
 * (gates and ups too), and the operands of the second product are rounded to TF32. */
static double tolerance_of(yk_dtype dtype, const linear_case *shape)
{
  const double sums = linear_tolerance(YK_F32, yk_range_size(shape->parts[0].k_slice));
  const bool is_activated = shape->activation.kind != YK_ACTIVATION_NONE;
  return (shape->activation.is_gated ? 20.0
          : is_activated             ? 14.0
                                     : 6.0) *
             op_unit_roundoff(dtype) +
         0x1p-10 + 4.0 * sums;
}

/* Up to 64 rows: one launch; 600: more than a block of rows that passes through the scratch, and tiles of many rows. */
static void test_adapters(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {1, 7, 16, 64, 300, 600};
  for (int path = 0; each_case(path, path < N_CUDA_PATHS); path++)
    for (int d = 0; d < N_GPU_DTYPES; d++)
      for (int t = 0; each_case(t, t < (gpu_is_small() ? 4 : 6)); t++)
        check_adapters(cuda_paths[path], gpu_dtypes[d], token_counts[t], false, tolerance_of);
}

static void test_replaced(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) check_adapter_replaced(&cuda_target, gpu_dtypes[d]);
}

static void test_integer_sums(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) check_adapted_sums(&cuda_target, gpu_dtypes[d]);
}

static void test_refusals(void **state)
{
  (void)state;
  check_adapter_refusals(&cuda_target, YK_F16);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_adapters), cmocka_unit_test(test_replaced),
                                     cmocka_unit_test(test_integer_sums), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
