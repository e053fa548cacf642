/* prefill_wgmma_instances.cuh - instances of prefill on Hopper for one activation type. Heads of 256 have separate
 * source files. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_INSTANCES_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_INSTANCES_CUH

#include "kernels/cuda/attention/prefill_wgmma_kernel.cuh"

#define YK_PREFILL_WGMMA(T, HD)                                                                                        \
  template cudaError_t yk_attn::launch_prefill_wgmma<T, HD>(const yk_cuda_attention &, const yk_attn::params &,        \
                                                            cudaStream_t);
#define YK_HEADS_TO_128(T)                                                                                             \
  YK_PREFILL_WGMMA(T, 64)                                                                                              \
  YK_PREFILL_WGMMA(T, 80)                                                                                              \
  YK_PREFILL_WGMMA(T, 96)                                                                                              \
  YK_PREFILL_WGMMA(T, 128)
#define YK_HEADS_OF_256(T) YK_PREFILL_WGMMA(T, 256)

/* HEADS: YK_HEADS_TO_128 or YK_HEADS_OF_256. */
#define YK_INSTANCE(T, HEADS) HEADS(T)

#endif
