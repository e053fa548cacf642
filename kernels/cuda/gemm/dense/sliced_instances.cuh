/* sliced_instances.cuh - instances of the kernel with a fixed division of K, for one encoding and type. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SLICED_INSTANCES_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_SLICED_INSTANCES_CUH

#include "kernels/cuda/gemm/dense/sliced_kernel.cuh"
#include "kernels/cuda/gemm/dense/sliced_mma_kernel.cuh"
#include "kernels/cuda/gemm/kernel_table.cuh"

namespace yk_gemm {

struct sliced_family {
  template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, int GROUPS, size_t TILE> static const void *kernel()
  {
    constexpr sliced_shape S = SLICED_SHAPES[TILE];
    if constexpr (!has_groups(ENCODING, GROUPS))
      return nullptr;
    else
      return reinterpret_cast<const void *>(
          sliced_kernel<DTYPE, panel_layout<ENCODING, GROUPS>, S.warpgroups, S.n, S.taken>);
  }
};

struct sliced_mma_family {
  template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, int GROUPS, size_t TILE> static const void *kernel()
  {
    constexpr small_batch_shape S = SMALL_BATCH_SHAPES[TILE];
    if constexpr (S.n != SLICED_MMA_TOKENS || !is_compiled(S, ENCODING, GROUPS))
      return nullptr;
    else
      return reinterpret_cast<const void *>(sliced_mma_kernel<DTYPE, panel_layout<ENCODING, GROUPS>, S.panels>);
  }
};

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> const tile_kernels &sliced_mma_kernels(int tile)
{
  return kernels_of_tile<sliced_mma_family, ENCODING, DTYPE>(tile, std::make_index_sequence<N_SMALL_BATCH_SHAPES>());
}

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> const tile_kernels &sliced_kernels(int tile)
{
  return kernels_of_tile<sliced_family, ENCODING, DTYPE>(tile, std::make_index_sequence<N_SLICED_SHAPES>());
}

} // namespace yk_gemm

#define YK_INSTANCE(ENCODING, DTYPE)                                                                                   \
  template const yk_gemm::tile_kernels &yk_gemm::sliced_kernels<ENCODING, DTYPE>(int tile);                            \
  template const yk_gemm::tile_kernels &yk_gemm::sliced_mma_kernels<ENCODING, DTYPE>(int tile);

#endif
