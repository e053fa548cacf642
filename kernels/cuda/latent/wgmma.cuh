/* wgmma.cuh - latent attention on Hopper: queries, attention, outputs, a launch each. */
#ifndef YK_KERNELS_CUDA_LATENT_WGMMA_CUH
#define YK_KERNELS_CUDA_LATENT_WGMMA_CUH

#include <algorithm>

#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/latent/head_products.cuh"
#include "kernels/cuda/latent/wgmma_few_kernel.cuh"
#include "kernels/cuda/latent/wgmma_many_kernel.cuh"

namespace yk_latent {

template <typename T> cudaError_t launch_absorb(const params &p, cudaStream_t stream)
{
  const auto kernel = absorb_kernel<T>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(absorb_shared));
  if (error != cudaSuccess) return error;
  const dim3 grid(p.layout.n_heads, KV_RANK / ABSORB_COLUMNS, divide_up(p.n_rows, ABSORB_ROWS));
  return launch_dependent(kernel, {grid, ABSORB_THREADS, sizeof(absorb_shared), 1}, stream, p);
}

/* One thread block a multiprocessor: thread blocks of all tiles of heads go through the same tokens at once. */
template <typename SHARED, typename T>
cudaError_t launch_attend(void (*kernel)(params, CUtensorMap), void *encode_tensor_map, int n_multiprocessors,
                          const params &p, cudaStream_t stream)
{
  CUtensorMap map;
  cudaError_t error =
      yk_cuda::encode_matrix<T>(encode_tensor_map, p.cache, WIDTH, INT32_MAX, WIDTH, YK_KV_BLOCK_TOKENS, &map);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SHARED));
  if (error != cudaSuccess) return error;
  const int n_blocks = std::max(std::min(n_multiprocessors, YK_CUDA_LATENT_SPLIT_BLOCKS / 2) / p.n_head_tiles, 1);
  const int cluster = p.n_head_tiles % 2 == 0 ? 2 : 1;
  return launch_dependent(kernel, {dim3(p.n_head_tiles, n_blocks), WGMMA_THREADS, sizeof(SHARED), cluster}, stream, p,
                          map);
}

inline cudaError_t launch_output_tiles(void (*kernel)(params), size_t bytes, int columns, int rows, const params &p,
                                       cudaStream_t stream)
{
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  const dim3 grid(p.layout.n_heads, p.layout.value_dim / columns, divide_up(p.n_rows, rows));
  return launch_dependent(kernel, {grid, OUTPUT_THREADS, bytes, 1}, stream, p);
}

template <typename T, int QUERIES, int COLUMNS> cudaError_t launch_wide_output(const params &p, cudaStream_t stream)
{
  using shared = wide_output_shared<COLUMNS>;
  return launch_output_tiles(wide_output_kernel<T, QUERIES, COLUMNS>, sizeof(shared), COLUMNS, shared::ROWS, p, stream);
}

/* Tiles of 64 rows where there are more than two of 16, and thread blocks enough to fill most of the GPU. */
template <typename T, int QUERIES>
cudaError_t launch_output(int n_multiprocessors, const params &p, cudaStream_t stream)
{
  const int n_heads = p.layout.n_heads, value_dim = p.layout.value_dim, n_tiles = divide_up(p.n_rows, 64);
  const int enough = n_multiprocessors * 3 / 4;
  if (p.n_rows > 2 * output_shared::ROWS && value_dim % 128 == 0 && n_heads * (value_dim / 128) * n_tiles >= enough)
    return launch_wide_output<T, QUERIES, 128>(p, stream);
  if (p.n_rows > 2 * output_shared::ROWS && n_heads * (value_dim / 64) * n_tiles >= enough)
    return launch_wide_output<T, QUERIES, 64>(p, stream);
  return launch_output_tiles(output_kernel<T, QUERIES>, sizeof(output_shared), OUTPUT_COLUMNS, output_shared::ROWS, p,
                             stream);
}

template <typename T>
cudaError_t launch_wgmma(void *encode_tensor_map, int n_multiprocessors, const params &p, cudaStream_t stream)
{
  const bool is_few = p.tile_rows * p.tile_heads <= FEW_QUERIES;
  cudaError_t error = launch_absorb<T>(p, stream);
  if (error != cudaSuccess) return error;
  error = is_few ? launch_attend<few_shared, T>(few_kernel<T>, encode_tensor_map, n_multiprocessors, p, stream)
                 : launch_attend<many_shared, T>(many_kernel<T>, encode_tensor_map, n_multiprocessors, p, stream);
  if (error != cudaSuccess) return error;
  return is_few ? launch_output<T, FEW_QUERIES>(n_multiprocessors, p, stream)
                : launch_output<T, MANY_QUERIES>(n_multiprocessors, p, stream);
}

} // namespace yk_latent

#endif
