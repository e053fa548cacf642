/* wgmma_instances.cuh - instances of the W4A8 kernel for one type of activations and one type of codes. */
#ifndef YK_KERNELS_CUDA_W4A8_WGMMA_INSTANCES_CUH
#define YK_KERNELS_CUDA_W4A8_WGMMA_INSTANCES_CUH

#include <utility>

#include "kernels/cuda/w4a8/wgmma.cuh"
#include "kernels/cuda/w4a8/wgmma_kernel.cuh"

namespace yk_w4a8 {

template <yk_dtype DTYPE, typename CODE, int GROUPS, size_t TILE> const void *kernel()
{
  constexpr tile_shape S = TILES[TILE];
  return reinterpret_cast<const void *>(
      wgmma_kernel<DTYPE, CODE, yk_gemm::panel_layout<YK_GEMM_INT4, GROUPS>, S.n, S.wgmma_n, S.cluster, S.ahead>);
}

template <yk_dtype DTYPE, typename CODE, size_t... I>
const yk_gemm::tile_kernels &kernels_of(int tile, std::index_sequence<I...>)
{
  static const yk_gemm::tile_kernels table[] = {
      {{kernel<DTYPE, CODE, 1, I>(), kernel<DTYPE, CODE, 2, I>(), kernel<DTYPE, CODE, 4, I>()}}...};
  return table[tile];
}

template <yk_dtype DTYPE, typename CODE> const yk_gemm::tile_kernels &wgmma_kernels(int tile)
{
  return kernels_of<DTYPE, CODE>(tile, std::make_index_sequence<N_TILES>());
}

} // namespace yk_w4a8

#define YK_INSTANCE(DTYPE, CODE) template const yk_gemm::tile_kernels &yk_w4a8::wgmma_kernels<DTYPE, CODE>(int tile);

#endif
