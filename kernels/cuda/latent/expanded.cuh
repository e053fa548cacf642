/* expanded.cuh - launches of attention with expanded keys and values, that is keys and values per head. */
#ifndef YK_KERNELS_CUDA_LATENT_EXPANDED_CUH
#define YK_KERNELS_CUDA_LATENT_EXPANDED_CUH

#include <algorithm>

#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/latent/expanded_attend.cuh"

namespace yk_latent {

/* Heads of one launch: as many as fit in `made`. made_tokens: at least the tokens of all sequences of the list, each
 * rounded up to whole tiles. */
template <typename T> cudaError_t launch_expanded(const expanded_launch &launch, const params &p, cudaStream_t stream)
{
  const int64_t head_bytes = launch.made_tokens * MADE_DIM * static_cast<int64_t>(sizeof(T));
  const int32_t at_once = static_cast<int32_t>(std::min<int64_t>(launch.made_bytes / head_bytes, p.layout.n_heads));
  CUtensorMap cache_page, weights, made, q;
  const auto encode = [&](CUtensorMap *map, const void *base, int64_t columns, int64_t rows, int64_t stride, int box) {
    return yk_cuda::encode_matrix<T>(launch.encode_tensor_map, base, columns, rows, stride, box, map);
  };
  cudaError_t error = encode(&cache_page, p.cache, WIDTH, INT32_MAX, WIDTH, YK_KV_BLOCK_TOKENS);
  if (error == cudaSuccess)
    error = encode(&weights, p.kv_up, KV_RANK, static_cast<int64_t>(p.layout.n_heads) * MADE_DIM, KV_RANK, MADE_DIM);
  if (error == cudaSuccess)
    error = encode(&made, launch.made, MADE_DIM, at_once * launch.made_tokens, MADE_DIM, EXPANDED_TILE);
  if (error == cudaSuccess)
    error = encode(&q, p.q, static_cast<int64_t>(p.layout.n_heads) * (NOPE_DIM + ROPE_DIM), p.n_rows, p.q_stride,
                   EXPANDED_TILE);
  if (error == cudaSuccess)
    error =
        cudaFuncSetAttribute(make_heads_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(make_shared));
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(attend_heads_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 sizeof(attend_shared));
  const dim3 grid(launch.n_multiprocessors);
  for (int32_t first = 0, group = 0; error == cudaSuccess && first < p.layout.n_heads; first += at_once, group++) {
    const head_group heads = {first, std::min(at_once, p.layout.n_heads - first), launch.made_tokens};
    error = launch_dependent(make_heads_kernel<T>, {grid, MAKE_THREADS, sizeof(make_shared), 1}, stream, p, launch.work,
                             launch.made, heads, cache_page, weights);
    if (error != cudaSuccess) return error;
    error = launch_dependent(attend_heads_kernel<T>, {grid, ATTEND_THREADS, sizeof(attend_shared), 1}, stream, p,
                             launch.work, heads, group, q, made, cache_page);
  }
  return error;
}

} // namespace yk_latent

#endif
