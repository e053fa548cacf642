/* wna16_small_batch_int8_f16.cu - the kernels of up to 32 tokens for weights of 8-bit integers and float16 activations.
 * */
#include "kernels/cuda/gemm/wna16_small_batch_kernel.cuh"

namespace yk_gemm {

template <> const tile_kernels &small_batch_kernels<YK_WNA16_INT8, YK_F16>(int tile)
{
  return small_batch_kernels_of_tile<YK_WNA16_INT8, YK_F16>(tile, std::make_index_sequence<N_SMALL_BATCH_SHAPES>());
}

} // namespace yk_gemm
