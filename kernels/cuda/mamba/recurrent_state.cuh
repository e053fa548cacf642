/* recurrent_state.cuh - the state S [head_dim, state_size] of a head in a thread block that goes through a sequence
 * token by token: in registers, or in device memory. A warp has whole rows of S; a lane has four neighbouring columns.
 *
 *   begin     reads the state that the sequence begins with
 *   advance   S = decay S + (step x) b^T, then y = S c: gate(i) and emit(i, y, gate(i)) run in one lane for each row i
 *   save      copies S to a snapshot
 *   end       leaves S in the table */
#ifndef YK_KERNELS_CUDA_MAMBA_RECURRENT_STATE_CUH
#define YK_KERNELS_CUDA_MAMBA_RECURRENT_STATE_CUH

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/mamba/inputs.cuh"
#include "kernels/cuda/mamba/mamba.h"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_mamba {

using yk_cuda::ALL_LANES;
using yk_cuda::WARP;

constexpr int RECURRENT_WARPS = 8, RECURRENT_THREADS = RECURRENT_WARPS * WARP;

/* Inputs of a token, in shared memory. */
struct token_inputs {
  alignas(16) float xbc[3 * YK_CUDA_MAMBA_MAX_DIM]; /* x [head_dim], b and c [state_size] */
  float step, decay;
};

__device__ __forceinline__ float4 advanced(float decay, const float4 &s, float weight, const float4 &b)
{
  return make_float4(fmaf(decay, s.x, weight * b.x), fmaf(decay, s.y, weight * b.y), fmaf(decay, s.z, weight * b.z),
                     fmaf(decay, s.w, weight * b.w));
}

__device__ __forceinline__ float dot(const float4 &a, const float4 &b)
{
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

/* Sums over the warp of eight values: lane l has the sum of value l / 4. */
__device__ __forceinline__ float sums_of_eight(float (&v)[8])
{
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int n = 4; n >= 1; n /= 2) {
    const bool upper = lane & 4 * n;
#pragma unroll
    for (int i = 0; i < n; i++) {
      const float sent = upper ? v[i] : v[i + n];
      v[i] = (upper ? v[i + n] : v[i]) + __shfl_xor_sync(ALL_LANES, sent, 4 * n);
    }
  }
  v[0] += __shfl_xor_sync(ALL_LANES, v[0], 2);
  return v[0] + __shfl_xor_sync(ALL_LANES, v[0], 1);
}

/* Heads of 64, states of 128: warp w has rows 8 w to 8 w + 7. */
struct state_in_registers {
  static constexpr int HEAD_DIM = 64, STATE = 128, ROWS = HEAD_DIM / RECURRENT_WARPS;
  static constexpr int ROUNDS = 2;          /* of the channels over the threads */
  static constexpr bool TAKES_LONG = false; /* sequences of many rows */
  float4 at[ROWS];

  __device__ static int head_dim(const params &)
  {
    return HEAD_DIM;
  }
  __device__ static int state_size(const params &)
  {
    return STATE;
  }

  __device__ __forceinline__ void begin(const params &, const float *before, float *)
  {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
      at[i] = before ? __ldcs(reinterpret_cast<const float4 *>(before) + place(i)) : make_float4(0, 0, 0, 0);
  }

  template <typename GATE, typename EMIT>
  __device__ __forceinline__ void advance(const params &, const token_inputs &in, GATE gate, EMIT emit)
  {
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, own = warp * ROWS + lane / 4;
    const auto z = gate(own);
    const float4 *x = reinterpret_cast<const float4 *>(in.xbc) + warp * (ROWS / 4);
    const float4 b = reinterpret_cast<const float4 *>(in.xbc + HEAD_DIM)[lane];
    const float4 c = reinterpret_cast<const float4 *>(in.xbc + HEAD_DIM + STATE)[lane];
    float sums[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i += 4) {
      const float4 of = x[i / 4];
      const float weights[] = {in.step * of.x, in.step * of.y, in.step * of.z, in.step * of.w};
#pragma unroll
      for (int j = 0; j < 4; j++) {
        at[i + j] = advanced(in.decay, at[i + j], weights[j], b);
        sums[i + j] = dot(at[i + j], c);
      }
    }
    const float y = sums_of_eight(sums);
    if (lane % 4 == 0) emit(own, y, z);
  }

  __device__ __forceinline__ void save(const params &, float *to) const
  {
#pragma unroll
    for (int i = 0; i < ROWS; i++) __stcs(reinterpret_cast<float4 *>(to) + place(i), at[i]);
  }

  __device__ __forceinline__ void end(const params &p, float *after) const
  {
    save(p, after);
  }

private:
  __device__ static __forceinline__ int place(int i)
  {
    return (threadIdx.x / WARP * ROWS + i) * (STATE / 4) + threadIdx.x % WARP;
  }
};

static_assert(state_in_registers::ROWS == 8, "sums_of_eight");

/* Any sizes: warp w has rows w, w + 8 and so on. Only the thread that has an element reads and writes it. */
struct state_in_memory {
  static constexpr int ROUNDS = 3;
  static constexpr bool TAKES_LONG = true;
  float4 *s;

  __device__ static int head_dim(const params &p)
  {
    return p.layout.head_dim;
  }
  __device__ static int state_size(const params &p)
  {
    return p.layout.state_size;
  }

  __device__ void begin(const params &p, const float *before, float *after)
  {
    s = reinterpret_cast<float4 *>(after);
    yk_ptx::wait_for_previous_kernel();
    if (before == after) return;
    const float4 *from = reinterpret_cast<const float4 *>(before);
    for_each(p, [&](int, int at) { s[at] = before ? from[at] : make_float4(0, 0, 0, 0); });
  }

  template <typename GATE, typename EMIT>
  __device__ void advance(const params &p, const token_inputs &in, GATE gate, EMIT emit)
  {
    const int n = p.layout.state_size / 4, lane = threadIdx.x % WARP;
    const float4 *b = reinterpret_cast<const float4 *>(in.xbc + p.layout.head_dim), *c = b + n;
    for (int row = threadIdx.x / WARP; row < p.layout.head_dim; row += RECURRENT_WARPS) {
      float sum = 0.0f;
      for (int i = lane; i < n; i += WARP) {
        const float4 next = advanced(in.decay, s[row * n + i], in.step * in.xbc[row], b[i]);
        s[row * n + i] = next;
        sum += dot(next, c[i]);
      }
      sum = yk_cuda::warp_sum(sum);
      if (lane == 0) emit(row, sum, gate(row));
    }
  }

  __device__ void save(const params &p, float *to) const
  {
    for_each(p, [&](int, int at) { reinterpret_cast<float4 *>(to)[at] = s[at]; });
  }

  __device__ void end(const params &, float *) const
  {
  }

private:
  template <typename F> __device__ static void for_each(const params &p, F f)
  {
    const int n = p.layout.state_size / 4;
    for (int row = threadIdx.x / WARP; row < p.layout.head_dim; row += RECURRENT_WARPS)
      for (int i = threadIdx.x % WARP; i < n; i += WARP) f(row, row * n + i);
  }
};

} // namespace yk_mamba

#endif
