/* wna16_grouped_few_fp8_bf16.cu - the kernels of few rows a matrix for weights of 8-bit floats and bfloat16
 * activations. */
#include "kernels/cuda/gemm/wna16_grouped_few_kernel.cuh"

namespace yk_gemm {

template <> const tile_kernels &grouped_few_kernels<YK_WNA16_FP8, YK_BF16>(int tile)
{
  return grouped_few_kernels_of_tile<YK_WNA16_FP8, YK_BF16>(tile, std::make_index_sequence<N_GROUPED_FEW_SHAPES>());
}

} // namespace yk_gemm
