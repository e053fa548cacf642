/* inputs.cuh - the inputs of a token's state update: the convolution of the head's channels, decay and beta; and the
 * gated norm of the result. kernels/gated_delta.h has the formulas. */
#ifndef YK_KERNELS_CUDA_DELTA_INPUTS_CUH
#define YK_KERNELS_CUDA_DELTA_INPUTS_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/delta/params.cuh"

namespace yk_delta {

using yk_cuda::ALL_LANES;
using yk_cuda::to_float;
using yk_cuda::WARP;

/* -rate * softplus(a + dt_bias); exp of that is how much of the state remains. */
__device__ __forceinline__ float log_decay_of(float a, float rate, float dt_bias)
{
  return -rate * yk_cuda::softplus(a + dt_bias);
}

__device__ __forceinline__ float decay_of(float a, float rate, float dt_bias)
{
  return expf(log_decay_of(a, rate, dt_bias));
}

__device__ __forceinline__ float beta_of(float b)
{
  return 1.0f / (1.0f + expf(-b));
}

/* The channels of the convolution that a head reads: key_dim of q, key_dim of k, then value_dim of v. */
template <int THREADS, int ROUNDS> struct convolution : yk_cuda::thread_convolution<THREADS, ROUNDS, false> {
  using base = yk_cuda::thread_convolution<THREADS, ROUNDS, false>;

  __device__ void begin(const params &p, const head &h, const float *before, int key_dim, int value_dim)
  {
    const int32_t n_keys = p.layout.n_key_heads;
    base::begin(p, before, [&](int c) -> conv_place {
      if (c < key_dim) return {h.key * key_dim + c, h.q + c};
      if (c < 2 * key_dim) return {(n_keys + h.key) * key_dim + c - key_dim, h.k + c - key_dim};
      if (c < 2 * key_dim + value_dim)
        return {2 * n_keys * key_dim + h.index * value_dim + c - 2 * key_dim, h.v + c - 2 * key_dim};
      return {-1, 0};
    });
  }

  /* The results of a row to `to` [2 key_dim + value_dim], in shared memory. */
  template <typename T> __device__ __forceinline__ float advance(const params &p, int64_t row, float *to)
  {
    return base::advance(static_cast<const T *>(p.x) + row * p.layout.x_stride, to);
  }

  /* Stores the last inputs to a state: those of v, and those of q and k if with_keys. */
  __device__ void store(const params &p, float *state, int key_dim, bool with_keys) const
  {
    base::store(p, state, [=](int c) { return c >= 2 * key_dim || with_keys; });
  }
};

/* Counts this thread block among those that have read a key head's inputs of q and k; returns whether all value heads
 * of the key head have. One thread calls this function, after a barrier that follows the thread block's reads. */
__device__ __forceinline__ bool is_last_reader(const params &p, const head &h, int32_t seq)
{
  uint32_t *counter = p.readers + static_cast<int64_t>(seq) * p.layout.n_key_heads + h.key;
  return yk_cuda::is_last_reader(counter, p.layout.values_per_key);
}

} // namespace yk_delta

#endif
