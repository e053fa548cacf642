/* flash_decoding.cuh - flash decoding: attention of the sequences with one query row. See attention.h.
 * T: __half or __nv_bfloat16. Asynchronous on stream. cudaErrorNotSupported, and nothing is launched, where the GPU has
 * too little shared memory for the head size. */
#ifndef YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_CUH
#define YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_CUH

#include "kernels/cuda/attention/params.cuh"

namespace yk_attn {

template <typename T>
cudaError_t launch_flash_decoding(const yk_cuda_attention &device, const params &p, cudaStream_t stream);

} // namespace yk_attn

#endif
