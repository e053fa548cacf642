/* gates.cuh - the output gates of a layout with has_gates: an output is multiplied by the sigmoid of its gate, which
 * lies in the row of qkv after the values. */
#ifndef YK_KERNELS_CUDA_ATTENTION_GATES_CUH
#define YK_KERNELS_CUDA_ATTENTION_GATES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/attention/params.cuh"
#include "kernels/cuda/common/accumulator_rows.cuh"

namespace yk_attn {

/* Two neighbouring elements of the activation type in float32. */
__device__ __forceinline__ float2 act_pair(yk_dtype dtype, uint32_t pair)
{
  if (dtype == YK_F16) return __half22float2(*reinterpret_cast<const __half2 *>(&pair));
  const __nv_bfloat162 of_bf16 = *reinterpret_cast<const __nv_bfloat162 *>(&pair);
  return make_float2(__low2float(of_bf16), __high2float(of_bf16));
}

/* The gates [head_dim] of a local query head in a row of the step. */
__device__ __forceinline__ const uint16_t *gates_of(const params &p, int64_t row, int32_t head)
{
  return static_cast<const uint16_t *>(p.q) + row * p.q_stride + p.gates_column +
         static_cast<int64_t>(head) * p.heads.head_dim;
}

__device__ __forceinline__ void apply_gates(yk_dtype dtype, uint32_t gates, float &x, float &y)
{
  const float2 g = act_pair(dtype, gates);
  x = __fdividef(x, 1.0f + __expf(-g.x));
  y = __fdividef(y, 1.0f + __expf(-g.y));
}

/* Applies its gates to row e of accumulators (accumulator_rows.cuh). With four tiles of columns a lane loads 16 bytes.
 * exists: whether the row's gates are read at all. Called by all lanes of the warp, since it shuffles. */
template <int N>
__device__ __forceinline__ void gate_row(yk_dtype dtype, const uint16_t *gates, float (&d)[N][4], int e, bool exists)
{
  const unsigned t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < N / 4; i++) {
    uint4 loaded = make_uint4(0, 0, 0, 0);
    if (exists) loaded = *reinterpret_cast<const uint4 *>(gates + 32 * i + 8 * t);
    uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
    yk_cuda::transpose_quad(words);
#pragma unroll
    for (int j = 0; j < 4; j++) apply_gates(dtype, words[j], d[4 * i + j][2 * e], d[4 * i + j][2 * e + 1]);
  }
#pragma unroll
  for (int i = N / 4 * 4; i < N; i++) {
    if (exists)
      apply_gates(dtype, *reinterpret_cast<const uint32_t *>(gates + 8 * i + 2 * t), d[i][2 * e], d[i][2 * e + 1]);
  }
}

} // namespace yk_attn

#endif
