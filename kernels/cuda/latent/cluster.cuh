/* cluster.cuh - the steps of cluster_kernel, and its launch. */
#ifndef YK_KERNELS_CUDA_LATENT_CLUSTER_CUH
#define YK_KERNELS_CUDA_LATENT_CLUSTER_CUH

#include <algorithm>

#include "kernels/cuda/common/tensor_map.cuh"
#include "kernels/cuda/latent/cluster_kernel.cuh"
#include "kernels/cuda/ptx/count_clusters.cuh"

namespace yk_latent {

/* *n: number of clusters that can run at once; 0 also if the GPU refuses clusters of this size. */
template <typename T, int HEADS> cudaError_t init_cluster_heads(int *n)
{
  const auto kernel = cluster_kernel<T, HEADS>;
  const size_t bytes = sizeof(cluster_shared<HEADS>);
  *n = 0;
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error == cudaSuccess) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (error != cudaSuccess) return error;
  error = count_clusters(reinterpret_cast<const void *>(kernel),
                         {dim3(CLUSTER_BLOCKS), CLUSTER_THREADS, bytes, CLUSTER_BLOCKS}, n);
  if (error != cudaErrorInvalidClusterSize) return error;
  cudaGetLastError();
  *n = 0;
  return cudaSuccess;
}

template <typename T> cudaError_t init_cluster(int32_t *n_clusters)
{
  int of_four, of_eight;
  cudaError_t error = init_cluster_heads<T, 4>(&of_four);
  if (error == cudaSuccess) error = init_cluster_heads<T, 8>(&of_eight);
  *n_clusters = error == cudaSuccess ? std::min(of_four, of_eight) : 0;
  return error;
}

template <typename T, int HEADS>
cudaError_t launch_cluster_heads(void *encode_tensor_map, const params &p, const new_rows &rows, cudaStream_t stream)
{
  const int n_clusters = (p.layout.n_heads + HEADS - 1) / HEADS;
  const int64_t n_weight_rows = int64_t{2} * CLUSTER_HEAD_DIM * p.layout.n_heads;
  CUtensorMap weights, cache;
  cudaError_t error = yk_cuda::encode_matrix<T>(encode_tensor_map, p.kv_up, KV_RANK, n_weight_rows, KV_RANK,
                                                CLUSTER_HEAD_DIM, &weights);
  if (error == cudaSuccess)
    error = yk_cuda::encode_matrix<T>(encode_tensor_map, p.cache, WIDTH, INT32_MAX, WIDTH, YK_KV_BLOCK_TOKENS, &cache);
  if (error != cudaSuccess) return error;
  return launch_dependent(
      cluster_kernel<T, HEADS>,
      {dim3(CLUSTER_BLOCKS * n_clusters, p.n_rows), CLUSTER_THREADS, sizeof(cluster_shared<HEADS>), CLUSTER_BLOCKS},
      stream, p, rows, weights, cache);
}

template <typename T>
cudaError_t launch_cluster(void *encode_tensor_map, int n_heads, const params &p, const new_rows &rows,
                           cudaStream_t stream)
{
  return n_heads == 4 ? launch_cluster_heads<T, 4>(encode_tensor_map, p, rows, stream)
                      : launch_cluster_heads<T, 8>(encode_tensor_map, p, rows, stream);
}

} // namespace yk_latent

#endif
