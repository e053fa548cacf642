/* wna16_small_batch_fp8_bf16.cu - the kernels of up to 32 tokens for weights of 8-bit floats and bfloat16 activations.
 * */
#include "kernels/cuda/gemm/wna16_small_batch_kernel.cuh"

namespace yk_gemm {

template <> const tile_kernels &small_batch_kernels<YK_WNA16_FP8, YK_BF16>(int tile)
{
  return small_batch_kernels_of_tile<YK_WNA16_FP8, YK_BF16>(tile, std::make_index_sequence<N_SMALL_BATCH_SHAPES>());
}

} // namespace yk_gemm
