/* count_clusters.cuh - the number of clusters of a launch that a GPU runs at once. */
#ifndef YK_KERNELS_CUDA_PTX_COUNT_CLUSTERS_CUH
#define YK_KERNELS_CUDA_PTX_COUNT_CLUSTERS_CUH

#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_ptx {

/* *n: number of clusters of the launch that can run at once on an otherwise idle GPU. Errors: among others
 * cudaErrorInvalidClusterSize if the GPU runs no cluster of this size. */
inline cudaError_t count_clusters(const void *kernel, const launch_shape &shape, int *n)
{
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaOccupancyMaxActiveClusters(n, kernel, &config);
}

} // namespace yk_ptx

#endif
