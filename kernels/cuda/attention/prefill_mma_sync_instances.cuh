/* prefill_mma_sync_instances.cuh - instances of prefill by mma.sync for one activation type. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_MMA_SYNC_INSTANCES_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_MMA_SYNC_INSTANCES_CUH

#include "kernels/cuda/attention/prefill_mma_sync_kernel.cuh"

#define YK_INSTANCE(T)                                                                                                 \
  template cudaError_t yk_attn::launch_prefill_mma_sync<T>(const yk_cuda_attention &, const yk_attn::params &,         \
                                                           cudaStream_t);

#endif
