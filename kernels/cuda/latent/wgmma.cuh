/* wgmma.cuh - latent attention on Hopper: decode in one launch, other steps in three launches: queries, attention,
 * outputs. */
#ifndef YK_KERNELS_CUDA_LATENT_WGMMA_CUH
#define YK_KERNELS_CUDA_LATENT_WGMMA_CUH

#include <algorithm>

#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/latent/head_products.cuh"
#include "kernels/cuda/latent/wgmma_few_kernel.cuh"
#include "kernels/cuda/latent/wgmma_many_kernel.cuh"
#include "kernels/cuda/ptx/count_clusters.cuh"

namespace yk_latent {

template <typename T> cudaError_t launch_absorb(const params &p, cudaStream_t stream)
{
  const auto kernel = absorb_kernel<T>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(absorb_shared));
  if (error != cudaSuccess) return error;
  const dim3 grid(p.layout.n_heads, KV_RANK / ABSORB_COLUMNS, ceil_div(p.n_rows, ABSORB_ROWS));
  return launch_dependent(kernel, {grid, ABSORB_THREADS, sizeof(absorb_shared), 1}, stream, p);
}

template <typename T> cudaError_t encode_cache(void *encode_tensor_map, const params &p, CUtensorMap *map)
{
  return yk_cuda::encode_matrix<T>(encode_tensor_map, p.cache, WIDTH, INT32_MAX, WIDTH, YK_KV_BLOCK_TOKENS, map);
}

/* Tensor map with boxes of 64 rows of kv_up, whose heads have END_HEAD_DIM rows for K and for V. */
template <typename T> cudaError_t encode_weights(void *encode_tensor_map, const params &p, CUtensorMap *map)
{
  return yk_cuda::encode_matrix<T>(encode_tensor_map, p.kv_up, KV_RANK, int64_t{2} * END_HEAD_DIM * p.layout.n_heads,
                                   KV_RANK, BOX, map);
}

/* At most one thread block per multiprocessor; the scratch holds two partial results of each. */
inline int attend_blocks(int n_multiprocessors)
{
  return std::min(n_multiprocessors, YK_CUDA_LATENT_SPLIT_BLOCKS / 2);
}

/* Thread blocks of all tiles of heads process the same tokens at the same time. most_blocks: maximum of their total. */
template <typename T, bool HAS_ENDS>
cudaError_t launch_attend(void *encode_tensor_map, int most_blocks, const params &p, const new_rows &rows,
                          cudaStream_t stream)
{
  const auto kernel = many_kernel<T, HAS_ENDS>;
  CUtensorMap map, weights = {};
  cudaError_t error = encode_cache<T>(encode_tensor_map, p, &map);
  if (error == cudaSuccess && HAS_ENDS) error = encode_weights<T>(encode_tensor_map, p, &weights);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(many_shared));
  if (error != cudaSuccess) return error;
  const int n_blocks = std::max(most_blocks / p.n_head_tiles, 1);
  const int cluster = p.n_head_tiles % 2 == 0 ? 2 : 1;
  return launch_dependent(kernel, {dim3(p.n_head_tiles, n_blocks), WGMMA_THREADS, sizeof(many_shared), cluster}, stream,
                          p, rows, map, weights);
}

inline cudaError_t launch_output_tiles(void (*kernel)(params), size_t bytes, int columns, int rows, const params &p,
                                       cudaStream_t stream)
{
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  const dim3 grid(p.layout.n_heads, p.layout.value_dim / columns, ceil_div(p.n_rows, rows));
  return launch_dependent(kernel, {grid, OUTPUT_THREADS, bytes, 1}, stream, p);
}

template <typename T, int COLUMNS> cudaError_t launch_wide_output(const params &p, cudaStream_t stream)
{
  using shared = wide_output_shared<COLUMNS>;
  return launch_output_tiles(wide_output_kernel<T, COLUMNS>, sizeof(shared), COLUMNS, shared::ROWS, p, stream);
}

/* Tiles of 64 rows if there are more than two tiles of 16, and enough thread blocks to fill most of the GPU. */
template <typename T> cudaError_t launch_output(int n_multiprocessors, const params &p, cudaStream_t stream)
{
  const int n_heads = p.layout.n_heads, value_dim = p.layout.value_dim, n_tiles = ceil_div(p.n_rows, 64);
  const int enough = n_multiprocessors * 3 / 4;
  if (p.n_rows > 2 * output_shared::ROWS && value_dim % 128 == 0 && n_heads * (value_dim / 128) * n_tiles >= enough)
    return launch_wide_output<T, 128>(p, stream);
  if (p.n_rows > 2 * output_shared::ROWS && n_heads * (value_dim / 64) * n_tiles >= enough)
    return launch_wide_output<T, 64>(p, stream);
  return launch_output_tiles(output_kernel<T>, sizeof(output_shared), OUTPUT_COLUMNS, output_shared::ROWS, p, stream);
}

template <typename T>
cudaError_t launch_many(void *encode_tensor_map, int n_multiprocessors, const params &p, cudaStream_t stream)
{
  cudaError_t error = launch_absorb<T>(p, stream);
  if (error == cudaSuccess)
    error = launch_attend<T, false>(encode_tensor_map, attend_blocks(n_multiprocessors), p, new_rows(), stream);
  return error == cudaSuccess ? launch_output<T>(n_multiprocessors, p, stream) : error;
}

template <typename T> cudaError_t count_pairs(int32_t *n)
{
  const auto kernel = many_kernel<T, true>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(many_shared));
  if (error != cudaSuccess) return error;
  return count_clusters(reinterpret_cast<const void *>(kernel), {dim3(2), WGMMA_THREADS, sizeof(many_shared), 2}, n);
}

template <typename T>
cudaError_t launch_decode(const yk_cuda_latent &latent, const params &p, const new_rows &rows, cudaStream_t stream)
{
  const int n_blocks = attend_blocks(latent.n_multiprocessors);
  if (p.tile_heads > FEW_QUERIES) {
    const int most = p.n_head_tiles % 2 == 0 ? std::min(n_blocks, 2 * latent.n_pairs) : n_blocks;
    return launch_attend<T, true>(latent.encode_tensor_map, most, p, rows, stream);
  }
  const auto kernel = few_kernel<T>;
  CUtensorMap map, weights;
  cudaError_t error = encode_cache<T>(latent.encode_tensor_map, p, &map);
  if (error == cudaSuccess) error = encode_weights<T>(latent.encode_tensor_map, p, &weights);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(few_shared));
  if (error != cudaSuccess) return error;
  return launch_dependent(kernel, {dim3(1, n_blocks), WGMMA_THREADS, sizeof(few_shared), 1}, stream, p, rows, map,
                          weights);
}

} // namespace yk_latent

#endif
