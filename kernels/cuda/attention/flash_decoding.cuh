/* flash_decoding.cuh - flash decoding: attention of the sequences with one query row. See attention.h.
 * CACHE: the type of the cache's elements: that of q and y, __half or __nv_bfloat16, or codes of a format (p.dtype is
 * then that of q and y). HD: head_dim. Asynchronous on stream. Returns cudaErrorNotSupported, and launches nothing, if
 * the GPU has too little shared memory. */
#ifndef YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_CUH
#define YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_CUH

#include "kernels/cuda/attention/params.cuh"

namespace yk_attn {

/* The elements of an 8-bit cache (kernels/kv_cache.h). */
template <yk_kv_format OF> struct codes {
  static constexpr yk_kv_format FORMAT = OF;
};

template <typename CACHE, int HD>
cudaError_t launch_flash_decoding(const yk_cuda_attention &device, const params &p, cudaStream_t stream);

} // namespace yk_attn

#endif
