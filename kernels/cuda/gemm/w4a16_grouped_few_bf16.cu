/* w4a16_grouped_few_bf16.cu - the kernels of few rows a matrix for bfloat16 activations. */
#include "kernels/cuda/gemm/w4a16_grouped_few_kernel.cuh"

namespace yk_gemm {

const void *grouped_few_kernel_bf16(int tile)
{
  return grouped_few_kernel_of<YK_BF16>(tile);
}

} // namespace yk_gemm
