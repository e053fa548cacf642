/* w4a16_grouped_few_f16.cu - the kernels of few rows a matrix for float16 activations. */
#include "kernels/cuda/gemm/w4a16_grouped_few_kernel.cuh"

namespace yk_gemm {

const void *grouped_few_kernel_f16(int tile)
{
  return grouped_few_kernel_of<YK_F16>(tile);
}

} // namespace yk_gemm
