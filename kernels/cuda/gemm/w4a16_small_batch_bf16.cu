/* w4a16_small_batch_bf16.cu - the kernels of up to 32 tokens for bfloat16 activations. */
#include "kernels/cuda/gemm/w4a16_small_batch_kernel.cuh"

namespace yk_gemm {

const tile_kernels &small_batch_kernels_bf16(int tile)
{
  return small_batch_kernels<YK_BF16>(tile, std::make_index_sequence<N_SMALL_BATCH_SHAPES>());
}

} // namespace yk_gemm
