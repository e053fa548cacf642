/* prefill_row.cuh - decode on Hopper with the bits of prefill (prefill_wgmma.cuh): attention of the sequences with one
 * query row. See attention.h. T: __half or __nv_bfloat16; HD: head_dim, up to 128. Asynchronous on stream. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_ROW_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_ROW_CUH

#include "kernels/cuda/attention/params.cuh"

namespace yk_attn {

/* Whether the kernel takes heads of head_dim in such a layout: at most 16 query heads for a KV head, without gates. */
inline bool prefill_row_takes(const yk_cuda_attention &device, const params &p)
{
  return device.encode_tensor_map && p.heads.head_dim <= 128 && max_heads_per_kv(p.heads) <= 16 && !p.heads.has_gates;
}

template <typename T, int HD>
cudaError_t launch_prefill_row(const yk_cuda_attention &device, const params &p, cudaStream_t stream);

} // namespace yk_attn

#endif
