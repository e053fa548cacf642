/* wgmma_instances.cuh - instances of the kernels for more than 16 tokens, for one encoding and types of
 * activations and results. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_WGMMA_INSTANCES_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_WGMMA_INSTANCES_CUH

#include "kernels/cuda/gemm/dense/wgmma_kernel.cuh"
#include "kernels/cuda/gemm/kernel_table.cuh"

namespace yk_gemm {

template <yk_dtype RESULT> struct wgmma_family {
  template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, int GROUPS, size_t TILE> static const void *kernel()
  {
    constexpr wgmma_shape S = WGMMA_SHAPES[TILE];
    if constexpr (!is_compiled(S, ENCODING, GROUPS) || (RESULT == YK_F32 && GROUPS > 1))
      return nullptr;
    else
      return reinterpret_cast<const void *>(wgmma_kernel<DTYPE, RESULT, panel_layout<ENCODING, GROUPS>, S.warpgroups,
                                                         S.wgmma_m, S.n, S.taken, S.cluster>);
  }
};

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, yk_dtype RESULT> const tile_kernels &wgmma_kernels(int tile)
{
  return kernels_of_tile<wgmma_family<RESULT>, ENCODING, DTYPE>(tile, std::make_index_sequence<N_WGMMA_SHAPES>());
}

} // namespace yk_gemm

#define YK_INSTANCE(ENCODING, DTYPE, RESULT)                                                                           \
  template const yk_gemm::tile_kernels &yk_gemm::wgmma_kernels<ENCODING, DTYPE, RESULT>(int tile);

#endif
