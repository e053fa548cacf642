/* w4a16_small_batch_f16.cu - the kernels of up to 32 tokens for float16 activations. */
#include "kernels/cuda/gemm/w4a16_small_batch_kernel.cuh"

namespace yk_gemm {

const tile_kernels &small_batch_kernels_f16(int tile)
{
  return small_batch_kernels<YK_F16>(tile, std::make_index_sequence<N_SMALL_BATCH_SHAPES>());
}

} // namespace yk_gemm
