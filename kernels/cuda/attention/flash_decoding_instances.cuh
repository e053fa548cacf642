/* flash_decoding_instances.cuh - instances of flash decoding for one type of cache elements. */
#ifndef YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_INSTANCES_CUH
#define YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_INSTANCES_CUH

#include "kernels/cuda/attention/flash_decoding_kernel.cuh"

#define YK_INSTANCE(CACHE)                                                                                             \
  template cudaError_t yk_attn::launch_flash_decoding<CACHE>(const yk_cuda_attention &, const yk_attn::params &,       \
                                                             cudaStream_t);

#endif
