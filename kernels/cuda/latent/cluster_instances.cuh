/* cluster_instances.cuh - instances for decode of few rows by clusters, for one activation type. */
#ifndef YK_KERNELS_CUDA_LATENT_CLUSTER_INSTANCES_CUH
#define YK_KERNELS_CUDA_LATENT_CLUSTER_INSTANCES_CUH

#include "kernels/cuda/latent/cluster.cuh"

#define YK_INSTANCE(T)                                                                                                 \
  template cudaError_t yk_latent::init_cluster<T>(int32_t *);                                                          \
  template cudaError_t yk_latent::launch_cluster<T>(void *, int, const yk_latent::params &,                            \
                                                    const yk_latent::new_rows &, cudaStream_t);

#endif
