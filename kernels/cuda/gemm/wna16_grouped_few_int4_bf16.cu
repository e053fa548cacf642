/* wna16_grouped_few_int4_bf16.cu - the kernels of few rows a matrix for weights of 4-bit integers and bfloat16
 * activations. */
#include "kernels/cuda/gemm/wna16_grouped_few_kernel.cuh"

namespace yk_gemm {

template <> const tile_kernels &grouped_few_kernels<YK_WNA16_INT4, YK_BF16>(int tile)
{
  return grouped_few_kernels_of_tile<YK_WNA16_INT4, YK_BF16>(tile, std::make_index_sequence<N_GROUPED_FEW_SHAPES>());
}

} // namespace yk_gemm
