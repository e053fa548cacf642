/* cluster.cuh - the steps that cluster_kernel takes, and its launch. */
#ifndef YK_KERNELS_CUDA_LATENT_CLUSTER_CUH
#define YK_KERNELS_CUDA_LATENT_CLUSTER_CUH

#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/latent/cluster_kernel.cuh"

namespace yk_latent {

template <typename T, int HEADS>
cudaError_t launch_cluster_heads(void *encode_tensor_map, const params &p, cudaStream_t stream)
{
  const auto kernel = cluster_kernel<T, HEADS>;
  const size_t bytes = sizeof(cluster_shared<HEADS>);
  const int n_clusters = (p.layout.n_heads + HEADS - 1) / HEADS;
  const int64_t n_weight_rows = int64_t{2} * CLUSTER_HEAD_DIM * p.layout.n_heads;
  CUtensorMap weights, cache;
  cudaError_t error = yk_cuda::encode_matrix<T>(encode_tensor_map, p.kv_up, KV_RANK, n_weight_rows, KV_RANK,
                                                CLUSTER_HEAD_DIM, &weights);
  if (error == cudaSuccess)
    error = yk_cuda::encode_matrix<T>(encode_tensor_map, p.cache, WIDTH, INT32_MAX, WIDTH, YK_KV_BLOCK_TOKENS, &cache);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error == cudaSuccess) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (error != cudaSuccess) return error;
  return launch_dependent(kernel, {dim3(CLUSTER_BLOCKS * n_clusters, p.n_rows), CLUSTER_THREADS, bytes, CLUSTER_BLOCKS},
                          stream, p, weights, cache);
}

template <typename T> cudaError_t launch_cluster(void *encode_tensor_map, const params &p, cudaStream_t stream)
{
  return cluster_heads(p.layout, p.n_rows) == 4 ? launch_cluster_heads<T, 4>(encode_tensor_map, p, stream)
                                                : launch_cluster_heads<T, 8>(encode_tensor_map, p, stream);
}

} // namespace yk_latent

#endif
