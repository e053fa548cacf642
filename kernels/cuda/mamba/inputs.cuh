/* inputs.cuh - the inputs of a token's state update: the convolution of the head's channels, its step and decay.
 * kernels/mamba.h has the formulas. */
#ifndef YK_KERNELS_CUDA_MAMBA_INPUTS_CUH
#define YK_KERNELS_CUDA_MAMBA_INPUTS_CUH

#include "kernels/cuda/mamba/params.cuh"

namespace yk_mamba {

/* The step of x = dt + dt_bias; a NaN stays a NaN. */
__device__ __forceinline__ float limited_step(const params &p, float x)
{
  const float step = yk_cuda::softplus(x);
  return step < p.min_step ? p.min_step : step > p.max_step ? p.max_step : step;
}

/* The channels that a head reads: head_dim of x, state_size of b, state_size of c. */
template <int THREADS, int ROUNDS> struct convolution : yk_cuda::thread_convolution<THREADS, ROUNDS, true> {
  using base = yk_cuda::thread_convolution<THREADS, ROUNDS, true>;

  __device__ void begin(const params &p, const head &h, const float *before, int head_dim, int state_size)
  {
    base::begin(p, before, [&](int i) -> conv_place {
      if (i < head_dim) return {h.x.channel + i, h.x.column + i};
      if ((i -= head_dim) < state_size) return {h.b.channel + i, h.b.column + i};
      if ((i -= state_size) < state_size) return {h.c.channel + i, h.c.column + i};
      return {-1, 0};
    });
  }

  /* Stores the last inputs to a state: those of x, or those of b and c. */
  __device__ void store_x(const params &p, float *state, int head_dim) const
  {
    base::store(p, state, [=](int i) { return i < head_dim; });
  }
  __device__ void store_bc(const params &p, float *state, int head_dim) const
  {
    base::store(p, state, [=](int i) { return i >= head_dim; });
  }
};

} // namespace yk_mamba

#endif
