/* decode_output.cuh - where the output of a work item of flash decoding goes, and what becomes of it on the way. */
#ifndef YK_KERNELS_CUDA_ATTENTION_DECODE_OUTPUT_CUH
#define YK_KERNELS_CUDA_ATTENTION_DECODE_OUTPUT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/attention/decode_work.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

namespace yk_attn {

template <typename T> __device__ __forceinline__ void store_4(T *dst, float4 v, float factor)
{
  *reinterpret_cast<uint2 *>(dst) =
      make_uint2(round_pair<T>(v.x * factor, v.y * factor), round_pair<T>(v.z * factor, v.w * factor));
}

/* Of a cache in the activation type T. */
template <typename T, int HD> struct act_output {
  T *y;

  __device__ static act_output of(const params &p, const work_item &item)
  {
    return {static_cast<T *>(p.y) + item.row * p.y_stride + static_cast<int64_t>(item.head_begin) * HD};
  }

  /* Dimensions d .. d+3 of a head: the sum o of values times probabilities, and the sum l of probabilities. */
  __device__ __forceinline__ void store(const params &, int head, int d, float4 o, float l) const
  {
    store_4(y + head * HD + d, o, 1.0f / l);
  }
};

/* Of a cache of codes, in either activation type: V's static scales and offsets come in here. */
template <int HD> struct code_output {
  int64_t element; /* of y */
  int32_t kv_head;

  __device__ static code_output of(const params &p, const work_item &item)
  {
    return {item.row * p.y_stride + static_cast<int64_t>(item.head_begin) * HD, kv_head_of(p, item)};
  }

  __device__ __forceinline__ void store(const params &p, int head, int d, float4 o, float l) const
  {
    const float factor = 1.0f / l;
    float4 v = make_float4(o.x * factor, o.y * factor, o.z * factor, o.w * factor);
    if (p.v_channels) {
      const float *scales = p.v_channels + kv_head * HD + d;
      const float4 c = *reinterpret_cast<const float4 *>(scales);
      const float4 z = *reinterpret_cast<const float4 *>(scales + p.heads.n_kv_heads * HD);
      v = make_float4(c.x * (v.x - z.x), c.y * (v.y - z.y), c.z * (v.z - z.z), c.w * (v.w - z.w));
    }
    const int64_t at = element + head * HD + d;
    if (p.dtype == YK_F16)
      store_4(static_cast<__half *>(p.y) + at, v, 1.0f);
    else
      store_4(static_cast<__nv_bfloat16 *>(p.y) + at, v, 1.0f);
  }
};

} // namespace yk_attn

#endif
