/* kernel_table.cuh - the compiled kernels of a family for one encoding and type, by tile and number of scale groups.
 * A family is a struct with a static function template kernel<ENCODING, DTYPE, GROUPS, TILE> that returns a kernel, or
 * NULL if it is not compiled. */
#ifndef YK_KERNELS_CUDA_GEMM_KERNEL_TABLE_CUH
#define YK_KERNELS_CUDA_GEMM_KERNEL_TABLE_CUH

#include <utility>

#include "kernels/cuda/gemm/common.cuh"

namespace yk_gemm {

/* A build that no GPU runs has every encoding, type and number of groups with the first tile, and every tile once for
 * each encoding: these contain all code of the others. */
template <typename FAMILY, yk_gemm_encoding ENCODING, yk_dtype DTYPE, int GROUPS, size_t TILE>
const void *compiled_kernel()
{
#ifdef YOKE_SAMPLE_OF_KERNELS
  constexpr bool is_left_out = TILE > 0 && (DTYPE != YK_F16 || GROUPS != 1);
#else
  constexpr bool is_left_out = false;
#endif
  if constexpr (is_left_out)
    return nullptr;
  else
    return FAMILY::template kernel<ENCODING, DTYPE, GROUPS, TILE>();
}

template <typename FAMILY, yk_gemm_encoding ENCODING, yk_dtype DTYPE, size_t... TILES>
const tile_kernels &kernels_of_tile(int tile, std::index_sequence<TILES...>)
{
  static const tile_kernels table[] = {
      {{compiled_kernel<FAMILY, ENCODING, DTYPE, 1, TILES>(), compiled_kernel<FAMILY, ENCODING, DTYPE, 2, TILES>(),
        compiled_kernel<FAMILY, ENCODING, DTYPE, 4, TILES>(),
        compiled_kernel<FAMILY, ENCODING, DTYPE, 8, TILES>()}}...};
  return table[tile];
}

} // namespace yk_gemm

#endif
