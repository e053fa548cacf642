/* flash_decoding_instances.cuh - instances of flash decoding for one type of cache elements. Heads of 256 and of 512
 * have separate source files. */
#ifndef YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_INSTANCES_CUH
#define YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_INSTANCES_CUH

#include "kernels/cuda/attention/flash_decoding_kernel.cuh"

#define YK_FLASH_DECODING(CACHE, HD)                                                                                   \
  template cudaError_t yk_attn::launch_flash_decoding<CACHE, HD>(const yk_cuda_attention &, const yk_attn::params &,   \
                                                                 cudaStream_t);
#define YK_HEADS_TO_128(CACHE)                                                                                         \
  YK_FLASH_DECODING(CACHE, 64)                                                                                         \
  YK_FLASH_DECODING(CACHE, 80)                                                                                         \
  YK_FLASH_DECODING(CACHE, 96)                                                                                         \
  YK_FLASH_DECODING(CACHE, 128)
#define YK_HEADS_OF_256(CACHE) YK_FLASH_DECODING(CACHE, 256)
#define YK_HEADS_OF_512(CACHE) YK_FLASH_DECODING(CACHE, 512)

/* HEADS: one of these three. */
#define YK_INSTANCE(CACHE, HEADS) HEADS(CACHE)

#endif
