/* generic.cuh - attention of all sequences, for any head size that is a multiple of 4 up to 512. See attention.h.
 * T: __half or __nv_bfloat16. Asynchronous on stream. */
#ifndef YK_KERNELS_CUDA_ATTENTION_GENERIC_CUH
#define YK_KERNELS_CUDA_ATTENTION_GENERIC_CUH

#include "kernels/cuda/attention/params.cuh"

namespace yk_attn {

template <typename T> cudaError_t launch_generic(const yk_cuda_attention &device, const params &p, cudaStream_t stream);

} // namespace yk_attn

#endif
