/* prefill_wgmma.cuh - prefill on Hopper: attention of the sequences with several query rows. See attention.h.
 * T: __half or __nv_bfloat16; HD: head_dim. Asynchronous on stream. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_CUH

#include "kernels/cuda/attention/params.cuh"

namespace yk_attn {

template <typename T, int HD>
cudaError_t launch_prefill_wgmma(const yk_cuda_attention &device, const params &p, cudaStream_t stream);

} // namespace yk_attn

#endif
