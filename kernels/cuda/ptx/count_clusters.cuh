/* count_clusters.cuh - how many clusters of a launch a GPU runs at once. */
#ifndef YK_KERNELS_CUDA_PTX_COUNT_CLUSTERS_CUH
#define YK_KERNELS_CUDA_PTX_COUNT_CLUSTERS_CUH

#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_ptx {

/* *n: clusters of the launch that run at once on a GPU that runs nothing else. Errors: cudaErrorInvalidClusterSize
 * where it runs none of this size, among others. */
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
