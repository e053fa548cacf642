/* w4a16_grouped_wgmma_bf16.cu - the grouped wgmma kernels for bfloat16 activations. */
#include "kernels/cuda/gemm/w4a16_grouped_wgmma_kernel.cuh"

namespace yk_gemm {

const void *grouped_wgmma_kernel_bf16(int tile)
{
  return grouped_wgmma_kernel_of<YK_BF16>(tile);
}

} // namespace yk_gemm
