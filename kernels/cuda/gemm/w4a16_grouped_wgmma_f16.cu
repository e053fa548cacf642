/* w4a16_grouped_wgmma_f16.cu - the grouped wgmma kernels for float16 activations. */
#include "kernels/cuda/gemm/w4a16_grouped_wgmma_kernel.cuh"

namespace yk_gemm {

const void *grouped_wgmma_kernel_f16(int tile)
{
  return grouped_wgmma_kernel_of<YK_F16>(tile);
}

} // namespace yk_gemm
