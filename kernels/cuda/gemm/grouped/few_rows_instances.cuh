/* few_rows_instances.cuh - instances of the kernels for few rows per matrix, for one encoding and type. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_FEW_ROWS_INSTANCES_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_FEW_ROWS_INSTANCES_CUH

#include "kernels/cuda/gemm/grouped/few_rows_kernel.cuh"
#include "kernels/cuda/gemm/kernel_table.cuh"

namespace yk_gemm {

struct grouped_few_family {
  template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, int GROUPS, size_t TILE> static const void *kernel()
  {
    constexpr grouped_few_shape S = GROUPED_FEW_SHAPES[TILE];
    if constexpr (!has_groups(ENCODING, GROUPS))
      return nullptr;
    else
      return reinterpret_cast<const void *>(
          grouped_few_kernel<DTYPE, panel_layout<ENCODING, GROUPS>, S.n, S.panels, S.taken>);
  }
};

template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> const tile_kernels &grouped_few_kernels(int tile)
{
  return kernels_of_tile<grouped_few_family, ENCODING, DTYPE>(tile, std::make_index_sequence<N_GROUPED_FEW_SHAPES>());
}

} // namespace yk_gemm

#define YK_INSTANCE(ENCODING, DTYPE)                                                                                   \
  template const yk_gemm::tile_kernels &yk_gemm::grouped_few_kernels<ENCODING, DTYPE>(int tile);

#endif
