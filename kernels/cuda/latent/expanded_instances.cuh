/* expanded_instances.cuh - instances for attention with expanded keys and values, for one activation type. */
#ifndef YK_KERNELS_CUDA_LATENT_EXPANDED_INSTANCES_CUH
#define YK_KERNELS_CUDA_LATENT_EXPANDED_INSTANCES_CUH

#include "kernels/cuda/latent/expanded.cuh"

#define YK_INSTANCE(T)                                                                                                 \
  template cudaError_t yk_latent::launch_expanded<T>(const yk_latent::expanded_launch &, const yk_latent::params &,    \
                                                     cudaStream_t);

#endif
