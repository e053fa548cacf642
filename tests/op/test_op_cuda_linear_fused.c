/* test_op_cuda_linear_fused.c - linear layers on a GPU with a norm of their inputs, or a sum into their outputs. */
#include "op/op_cases_linear_fused.h"
#include "op/op_cuda_formats.h"

/* A GPU of 9.0 fuses most forwards of one and two rows; with the kernels of mma.sync all are run apart. */
static void check_fused(const op_target *target, large_format format)
{
  yk_device *dev = op_device_new(target, YK_F16, 1, 16);
  const bool has_wgmma = yk_cuda_device_of(dev)->wna16.path == YK_GEMM_WGMMA;
  dev->ops->destroy(dev);
  const fused_count count = check_fused_linears(target, format, INT64_MAX);
  printf("%d norms and %d sums in the layer\n", count.norms, count.sums);
  if (has_wgmma)
    assert_true(count.norms >= 8 && count.sums >= 8);
  else
    assert_true(count.norms == 0 && count.sums == 0);
}

int main(int argc, char **argv)
{
  return check_formats(argc, argv, check_fused);
}
