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

template <typename T, int QUERIES, int ROWS> cudaError_t launch_output_rows(const params &p, cudaStream_t stream)
{
  const auto kernel = output_kernel<T, QUERIES, ROWS>;
  const size_t bytes = sizeof(output_shared<ROWS>);
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  const dim3 grid(p.layout.n_heads, p.layout.value_dim / OUTPUT_COLUMNS, divide_up(p.n_rows, ROWS));
  return launch_dependent(kernel, {grid, OUTPUT_THREADS, bytes, 1}, stream, p);
}

/* Tiles of 16 rows, unless they would be so many that reading each head's weights for all of them counts. */
template <typename T, int QUERIES>
cudaError_t launch_output(int n_multiprocessors, const params &p, cudaStream_t stream)
{
  const int n_blocks = p.layout.n_heads * (p.layout.value_dim / OUTPUT_COLUMNS) * divide_up(p.n_rows, 16);
  return n_blocks <= 4 * n_multiprocessors ? launch_output_rows<T, QUERIES, 16>(p, stream)
                                           : launch_output_rows<T, QUERIES, 64>(p, stream);
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
