/* prefill_wgmma_instances.cuh - instances of prefill on Hopper for one activation type. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_INSTANCES_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_INSTANCES_CUH

#include "kernels/cuda/attention/prefill_wgmma_kernel.cuh"

#define YK_INSTANCE(T)                                                                                                 \
  template cudaError_t yk_attn::launch_prefill_wgmma<T>(const yk_cuda_attention &, const yk_attn::params &,            \
                                                        cudaStream_t);

#endif
