/* decode_output.cuh - the output of a work item of flash decoding: divided by the sum of probabilities, with V's static
 * scales and offsets applied if the cache has them, rounded, stored to y. */
#ifndef YK_KERNELS_CUDA_ATTENTION_DECODE_OUTPUT_CUH
#define YK_KERNELS_CUDA_ATTENTION_DECODE_OUTPUT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/attention/decode_work.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

namespace yk_attn {

/* N neighbouring pairs of 16-bit elements; N is 1, 2 or 4. */
template <int N> __device__ __forceinline__ void store_pairs(void *to, const uint32_t (&pairs)[N])
{
  if constexpr (N == 4)
    *static_cast<uint4 *>(to) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  else if constexpr (N == 2)
    *static_cast<uint2 *>(to) = make_uint2(pairs[0], pairs[1]);
  else
    *static_cast<uint32_t *>(to) = pairs[0];
}

/* Output for a cache in the activation type T. */
template <typename T, int HD> struct act_output {
  T *y;

  __device__ static act_output of(const params &p, const work_item &item)
  {
    return {static_cast<T *>(p.y) + item.row * p.y_stride + static_cast<int64_t>(item.head_begin) * HD};
  }

  /* Stores N pairs of dimensions, from d on, of a head: o is the sum of values times probabilities, l the sum of
   * probabilities. */
  template <int N>
  __device__ __forceinline__ void store(const params &, int head, int d, const float2 (&o)[N], float l) const
  {
    const float factor = 1.0f / l;
    uint32_t pairs[N];
#pragma unroll
    for (int i = 0; i < N; i++) pairs[i] = round_pair<T>(o[i].x * factor, o[i].y * factor);
    store_pairs<N>(y + head * HD + d, pairs);
  }
};

/* Output for a cache of codes, in either activation type: V's static scales and offsets are applied here. */
template <int HD> struct code_output {
  int64_t element; /* index in y */
  int32_t kv_head;

  __device__ static code_output of(const params &p, const work_item &item)
  {
    return {item.row * p.y_stride + static_cast<int64_t>(item.head_begin) * HD, kv_head_of(p, item)};
  }

  template <int N>
  __device__ __forceinline__ void store(const params &p, int head, int d, const float2 (&o)[N], float l) const
  {
    const float factor = 1.0f / l;
    uint32_t pairs[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
      float2 v = make_float2(o[i].x * factor, o[i].y * factor);
      if (p.v_channels) {
        const float *scales = p.v_channels + kv_head * HD + d + 2 * i;
        const float2 c = *reinterpret_cast<const float2 *>(scales);
        const float2 z = *reinterpret_cast<const float2 *>(scales + p.heads.n_kv_heads * HD);
        v = make_float2(c.x * (v.x - z.x), c.y * (v.y - z.y));
      }
      pairs[i] = p.dtype == YK_F16 ? round_pair<__half>(v.x, v.y) : round_pair<__nv_bfloat16>(v.x, v.y);
    }
    store_pairs<N>(static_cast<uint16_t *>(p.y) + element + head * HD + d, pairs);
  }
};

} // namespace yk_attn

#endif
