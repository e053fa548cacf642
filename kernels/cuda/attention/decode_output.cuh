/* decode_output.cuh - the output of a work item of flash decoding: divided by the sum of probabilities, sinks included,
 * with V's static scales and offsets applied if the cache has them, and the gates if the layout has them, rounded,
 * stored to y. */
#ifndef YK_KERNELS_CUDA_ATTENTION_DECODE_OUTPUT_CUH
#define YK_KERNELS_CUDA_ATTENTION_DECODE_OUTPUT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/attention/decode_work.cuh"
#include "kernels/cuda/attention/gates.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

namespace yk_attn {

/* N neighbouring pairs of 16-bit elements; N is 1, 2 or 4. */
template <int N> __device__ __forceinline__ void load_pairs(const void *from, uint32_t (&pairs)[N])
{
  if constexpr (N == 4)
    *reinterpret_cast<uint4 *>(pairs) = *static_cast<const uint4 *>(from);
  else if constexpr (N == 2)
    *reinterpret_cast<uint2 *>(pairs) = *static_cast<const uint2 *>(from);
  else
    pairs[0] = *static_cast<const uint32_t *>(from);
}

template <int N> __device__ __forceinline__ void store_pairs(void *to, const uint32_t (&pairs)[N])
{
  if constexpr (N == 4)
    *static_cast<uint4 *>(to) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  else if constexpr (N == 2)
    *static_cast<uint2 *>(to) = make_uint2(pairs[0], pairs[1]);
  else
    *static_cast<uint32_t *>(to) = pairs[0];
}

/* Applies the gates of N pairs of dimensions, from d on, of a head. gates: of the work item's first head, or NULL. */
template <int HD, int N>
__device__ __forceinline__ void apply_gates(const params &p, const uint16_t *gates, int head, int d, float2 (&o)[N])
{
  if (!gates) return;
  uint32_t pairs[N];
  load_pairs<N>(gates + head * HD + d, pairs);
#pragma unroll
  for (int i = 0; i < N; i++) apply_gates(p.dtype, pairs[i], o[i].x, o[i].y);
}

__device__ __forceinline__ const uint16_t *gates_of_item(const params &p, const work_item &item)
{
  return p.heads.has_gates ? gates_of(p, item.row, item.head_begin) : nullptr;
}

/* Output for a cache in the activation type T. */
template <typename T, int HD> struct act_output {
  T *y;
  const uint16_t *gates;
  int32_t head_begin; /* the work item's first head */

  __device__ static act_output of(const params &p, const work_item &item)
  {
    return {static_cast<T *>(p.y) + item.row * p.y_stride + static_cast<int64_t>(item.head_begin) * HD,
            gates_of_item(p, item), item.head_begin};
  }

  /* Stores N pairs of dimensions, from d on, of a head: o is the sum of values times probabilities, ml the maximum and
   * the sum of probabilities. */
  template <int N>
  __device__ __forceinline__ void store(const params &p, int head, int d, const float2 (&o)[N], float2 ml) const
  {
    const float factor = 1.0f / add_sink(p, head_begin + head, ml.x, ml.y);
    float2 v[N];
    uint32_t pairs[N];
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = make_float2(o[i].x * factor, o[i].y * factor);
    apply_gates<HD>(p, gates, head, d, v);
#pragma unroll
    for (int i = 0; i < N; i++) pairs[i] = round_pair<T>(v[i].x, v[i].y);
    store_pairs<N>(y + head * HD + d, pairs);
  }
};

/* Output for a cache of codes, in either activation type: V's static scales and offsets are applied here. */
template <int HD> struct code_output {
  int64_t element; /* index in y */
  int32_t kv_head, head_begin;
  const uint16_t *gates;

  __device__ static code_output of(const params &p, const work_item &item)
  {
    return {item.row * p.y_stride + static_cast<int64_t>(item.head_begin) * HD, kv_head_of(p, item), item.head_begin,
            gates_of_item(p, item)};
  }

  template <int N>
  __device__ __forceinline__ void store(const params &p, int head, int d, const float2 (&o)[N], float2 ml) const
  {
    const float factor = 1.0f / add_sink(p, head_begin + head, ml.x, ml.y);
    float2 v[N];
    uint32_t pairs[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
      v[i] = make_float2(o[i].x * factor, o[i].y * factor);
      if (p.v_channels) {
        const float *scales = p.v_channels + kv_head * HD + d + 2 * i;
        const float2 c = *reinterpret_cast<const float2 *>(scales);
        const float2 z = *reinterpret_cast<const float2 *>(scales + p.heads.n_kv_heads * HD);
        v[i] = make_float2(c.x * (v[i].x - z.x), c.y * (v[i].y - z.y));
      }
    }
    apply_gates<HD>(p, gates, head, d, v);
#pragma unroll
    for (int i = 0; i < N; i++)
      pairs[i] = p.dtype == YK_F16 ? round_pair<__half>(v[i].x, v[i].y) : round_pair<__nv_bfloat16>(v[i].x, v[i].y);
    store_pairs<N>(static_cast<uint16_t *>(p.y) + element + head * HD + d, pairs);
  }
};

} // namespace yk_attn

#endif
