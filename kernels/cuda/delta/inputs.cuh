/* inputs.cuh - what a token needs besides the state of its head: the convolution of the head's channels, decay and
 * beta, the gated norm of the result. The formulas are those of kernels/gated_delta.h. */
#ifndef YK_KERNELS_CUDA_DELTA_INPUTS_CUH
#define YK_KERNELS_CUDA_DELTA_INPUTS_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/delta/params.cuh"

namespace yk_delta {

using yk_cuda::ALL_LANES;
using yk_cuda::to_float;
using yk_cuda::WARP;

__device__ __forceinline__ float silu(float x)
{
  return __fdividef(x, 1.0f + __expf(-x));
}

/* -rate * softplus(a + dt_bias); exp of that is how much of the state remains. */
__device__ __forceinline__ float log_decay_of(float a, float rate, float dt_bias)
{
  const float x = a + dt_bias;
  return -rate * (x > 20.0f ? x : log1pf(expf(x)));
}

__device__ __forceinline__ float decay_of(float a, float rate, float dt_bias)
{
  return expf(log_decay_of(a, rate, dt_bias));
}

__device__ __forceinline__ float beta_of(float b)
{
  return 1.0f / (1.0f + expf(-b));
}

/* The channels of the convolution that a head reads, shared out among THREADS threads: thread t has the head's channels
 * t, t + THREADS and so on, of key_dim of q, key_dim of k, then value_dim of v. A thread keeps the last inputs and the
 * weights of its channels in registers, and alone reads and writes them. */
template <int THREADS, int ROUNDS> struct convolution {
  float inputs[ROUNDS][WINDOW]; /* oldest first */
  float taps[ROUNDS][YK_DELTA_TAPS];
  int64_t column[ROUNDS];  /* of x */
  int32_t channel[ROUNDS]; /* among the rank's channels; -1: none */

  __device__ void begin(const params &p, const head &h, const float *before, int key_dim, int value_dim)
  {
    const int32_t n_keys = p.layout.n_key_heads;
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
      const int c = threadIdx.x + i * THREADS;
      channel[i] = -1;
      if (c < key_dim) {
        channel[i] = h.key * key_dim + c, column[i] = h.q + c;
      } else if (c < 2 * key_dim) {
        channel[i] = (n_keys + h.key) * key_dim + c - key_dim, column[i] = h.k + c - key_dim;
      } else if (c < 2 * key_dim + value_dim) {
        channel[i] = 2 * n_keys * key_dim + h.index * value_dim + c - 2 * key_dim, column[i] = h.v + c - 2 * key_dim;
      }
      if (channel[i] < 0) continue;
#pragma unroll
      for (int t = 0; t < YK_DELTA_TAPS; t++) taps[i][t] = p.conv_w[t * p.n_channels + channel[i]];
#pragma unroll
      for (int t = 0; t < WINDOW; t++)
        inputs[i][t] = before ? before[p.window_at + t * p.n_channels + channel[i]] : 0.0f;
    }
  }

  /* to [2 key_dim + value_dim], in shared memory: silu(convolution) of a row. Returns the square of the thread's value
   * in round 0. */
  template <typename T> __device__ __forceinline__ float advance(const params &p, int64_t row, float *to)
  {
    const T *x = static_cast<const T *>(p.x) + row * p.layout.x_stride;
    float first = 0.0f;
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
      if (channel[i] < 0) continue;
      const float newest = to_float(x[column[i]]);
      float sum = taps[i][0] * inputs[i][0];
#pragma unroll
      for (int t = 1; t < WINDOW; t++) sum += taps[i][t] * inputs[i][t];
      sum = silu(sum + taps[i][WINDOW] * newest);
#pragma unroll
      for (int t = 1; t < WINDOW; t++) inputs[i][t - 1] = inputs[i][t];
      inputs[i][WINDOW - 1] = newest;
      to[threadIdx.x + i * THREADS] = sum;
      if (i == 0) first = sum;
    }
    return first * first;
  }

  /* Stores the last inputs to a state: those of v, and those of q and k if with_keys. */
  __device__ void store(const params &p, float *state, int key_dim, bool with_keys) const
  {
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
      const bool is_key = threadIdx.x + i * THREADS < 2 * key_dim;
      if (channel[i] < 0 || (is_key && !with_keys)) continue;
#pragma unroll
      for (int t = 0; t < WINDOW; t++) state[p.window_at + t * p.n_channels + channel[i]] = inputs[i][t];
    }
  }
};

/* Counts this thread block among those that have read a key head's inputs of q and k; returns whether all value heads
 * of the key head have. One thread calls it, after a barrier behind the thread block's reads. */
__device__ __forceinline__ bool is_last_reader(const params &p, const head &h, int32_t seq)
{
  __threadfence();
  const uint32_t last = p.layout.values_per_key - 1;
  return atomicInc(p.readers + static_cast<int64_t>(seq) * p.layout.n_key_heads + h.key, last) == last;
}

} // namespace yk_delta

#endif
