/* kernel_table.cuh - the compiled kernels of a family for one encoding and type, by tile and number of scale groups.
 * A family is a struct with a static function template kernel<ENCODING, DTYPE, GROUPS, TILE> that returns a kernel, or
 * NULL if it is not compiled. */
#ifndef YK_KERNELS_CUDA_GEMM_KERNEL_TABLE_CUH
#define YK_KERNELS_CUDA_GEMM_KERNEL_TABLE_CUH

#include <utility>

#include "kernels/cuda/gemm/common.cuh"

namespace yk_gemm {

template <typename FAMILY, yk_gemm_encoding ENCODING, yk_dtype DTYPE, size_t... TILES>
const tile_kernels &kernels_of_tile(int tile, std::index_sequence<TILES...>)
{
  static const tile_kernels table[] = {
      {{FAMILY::template kernel<ENCODING, DTYPE, 1, TILES>(), FAMILY::template kernel<ENCODING, DTYPE, 2, TILES>(),
        FAMILY::template kernel<ENCODING, DTYPE, 4, TILES>(),
        FAMILY::template kernel<ENCODING, DTYPE, 8, TILES>()}}...};
  return table[tile];
}

} // namespace yk_gemm

#endif
