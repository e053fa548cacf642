/* wna16_grouped_wgmma_int8_f16.cu - the kernels of more than a few rows a matrix for weights of 8-bit integers and
 * float16 activations. */
#include "kernels/cuda/gemm/wna16_grouped_wgmma_kernel.cuh"

namespace yk_gemm {

template <> const tile_kernels &grouped_wgmma_kernels<YK_WNA16_INT8, YK_F16>(int tile)
{
  return grouped_wgmma_kernels_of_tile<YK_WNA16_INT8, YK_F16>(tile, std::make_index_sequence<N_GROUPED_WGMMA_SHAPES>());
}

} // namespace yk_gemm
