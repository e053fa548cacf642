/* wgmma_instances.cuh - instances for decode and attention with latent vectors by wgmma, for one activation type. */
#ifndef YK_KERNELS_CUDA_LATENT_WGMMA_INSTANCES_CUH
#define YK_KERNELS_CUDA_LATENT_WGMMA_INSTANCES_CUH

#include "kernels/cuda/latent/wgmma.cuh"

#define YK_INSTANCE(T)                                                                                                 \
  template cudaError_t yk_latent::count_pairs<T>(int32_t *);                                                           \
  template cudaError_t yk_latent::launch_decode<T>(const yk_cuda_latent &, const yk_latent::params &,                  \
                                                   const yk_latent::new_rows &, cudaStream_t);                         \
  template cudaError_t yk_latent::launch_many<T>(void *, int, const yk_latent::params &, cudaStream_t);

#endif
