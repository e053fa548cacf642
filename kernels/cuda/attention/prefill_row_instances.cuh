/* prefill_row_instances.cuh - instances of decode with the bits of prefill on Hopper, for one activation type. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_ROW_INSTANCES_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_ROW_INSTANCES_CUH

#include "kernels/cuda/attention/prefill_row_kernel.cuh"

#define YK_PREFILL_ROW(T, HD)                                                                                          \
  template cudaError_t yk_attn::launch_prefill_row<T, HD>(const yk_cuda_attention &, const yk_attn::params &,          \
                                                          cudaStream_t);

#define YK_INSTANCE(T)                                                                                                 \
  YK_PREFILL_ROW(T, 64)                                                                                                \
  YK_PREFILL_ROW(T, 80)                                                                                                \
  YK_PREFILL_ROW(T, 96)                                                                                                \
  YK_PREFILL_ROW(T, 128)

#endif
