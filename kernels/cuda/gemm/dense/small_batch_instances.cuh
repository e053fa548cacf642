/* small_batch_instances.cuh - instances of the kernels for up to 32 tokens, for one encoding and types of
 * activations and results. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SMALL_BATCH_INSTANCES_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_SMALL_BATCH_INSTANCES_CUH

#include "kernels/cuda/gemm/dense/small_batch_kernel.cuh"
#include "kernels/cuda/gemm/kernel_table.cuh"

namespace yk_gemm {

template <yk_dtype RESULT, fusion FUSION> struct small_batch_family {
  template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, int GROUPS, size_t TILE> static const void *kernel()
  {
    constexpr small_batch_shape S = SMALL_BATCH_SHAPES[TILE];
    if constexpr (!is_compiled(S, ENCODING, GROUPS) || (RESULT == YK_F32 && GROUPS > 1))
      return nullptr;
    else if constexpr (FUSION != fusion::NONE && (RESULT == YK_F32 || S.n > 8))
      return nullptr;
    else
      return reinterpret_cast<const void *>(
          small_batch_kernel<DTYPE, RESULT, panel_layout<ENCODING, GROUPS>, FUSION, S.n, S.panels, S.taken>);
  }
};

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, yk_dtype RESULT>
const tile_kernels &small_batch_kernels(fusion f, int tile)
{
  constexpr auto TILES = std::make_index_sequence<N_SMALL_BATCH_SHAPES>();
  switch (f) {
  case fusion::NORM: return kernels_of_tile<small_batch_family<RESULT, fusion::NORM>, ENCODING, DTYPE>(tile, TILES);
  case fusion::SUM: return kernels_of_tile<small_batch_family<RESULT, fusion::SUM>, ENCODING, DTYPE>(tile, TILES);
  default: return kernels_of_tile<small_batch_family<RESULT, fusion::NONE>, ENCODING, DTYPE>(tile, TILES);
  }
}

} // namespace yk_gemm

#define YK_INSTANCE(ENCODING, DTYPE, RESULT)                                                                           \
  template const yk_gemm::tile_kernels &yk_gemm::small_batch_kernels<ENCODING, DTYPE, RESULT>(yk_gemm::fusion f,       \
                                                                                              int tile);

#endif
