/* test_op_cuda_activation.c - activations of linear layers on a GPU, with every path of its GEMMs. */
#include "op/op_cases_activation.h"
#include "op/op_cuda_paths.h"

/* Sums of rounded weights (test_op_cuda_linear.c), squared by squared ReLU and multiplied by another sum; and one
 * rounding, or two without a gate. */
static double tolerance_of(yk_dtype dtype, const linear_case *shape)
{
  const double sums = linear_tolerance(YK_F32, yk_range_size(shape->parts[0].k_slice));
  return (shape->activation.is_gated ? 14.0 : 10.0) * op_unit_roundoff(dtype) + 4.0 * sums;
}

static void test_every_activation(void **state)
{
  (void)state;
  for (int path = 0; each_case(path, path < N_CUDA_PATHS); path++)
    for (int d = 0; each_case(d, d < N_GPU_DTYPES); d++)
      check_activations(cuda_paths[path], gpu_dtypes[d], tolerance_of);
}

static void test_another_activation_is_seen(void **state)
{
  (void)state;
  check_activations_differ(&cuda_target, YK_F16);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_activation),
                                     cmocka_unit_test(test_another_activation_is_seen)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
