/* w4a16_wgmma_bf16.cu - the wgmma kernels for bfloat16 activations. */
#include "kernels/cuda/gemm/w4a16_wgmma_kernel.cuh"

namespace yk_gemm {

const tile_kernels &wgmma_kernels_bf16(int tile)
{
  return wgmma_kernels<YK_BF16>(tile, std::make_index_sequence<N_WGMMA_SHAPES>());
}

} // namespace yk_gemm
