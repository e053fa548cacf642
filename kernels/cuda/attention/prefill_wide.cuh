/* prefill_wide.cuh - prefill of heads of 512: attention of the sequences with several query rows. See attention.h.
 * T: __half or __nv_bfloat16. Asynchronous on stream. Returns cudaErrorNotSupported, and launches nothing, if the GPU
 * has too little shared memory. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WIDE_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WIDE_CUH

#include "kernels/cuda/attention/params.cuh"

namespace yk_attn {

template <typename T>
cudaError_t launch_prefill_wide(const yk_cuda_attention &device, const params &p, cudaStream_t stream);

} // namespace yk_attn

#endif
