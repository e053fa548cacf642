/* activation.cuh - activations of an FFN in a kernel's epilogue: see kernels/activation.h. The kind is a runtime value,
 * equal in all threads; SiLU is tested first and costs one extra comparison.
 *
 * All functions are inlined: a call within a kernel would serialise its wgmma. Divisions and powers are approximate
 * unless EXACT, since an exact division branches in the middle of an epilogue. */
#ifndef YK_KERNELS_CUDA_COMMON_ACTIVATION_CUH
#define YK_KERNELS_CUDA_COMMON_ACTIVATION_CUH

#include "kernels/activation.h"
#include "kernels/cuda/ptx/arithmetic.cuh"

namespace yk_cuda {

/* x / (1 + exp(-t)) */
template <bool EXACT = false> __device__ __forceinline__ float times_sigmoid(float x, float t)
{
  if constexpr (EXACT) return x / (1.0f + expf(-t));
  return __fdividef(x, 1.0f + __expf(-t));
}

/* erf(x) within 1.5e-7: Abramowitz and Stegun, 7.1.26. */
__device__ __forceinline__ float approximate_erf(float x)
{
  const float z = fabsf(x), t = __fdividef(1.0f, fmaf(0.3275911f, z, 1.0f));
  float p = fmaf(1.061405429f, t, -1.453152027f);
  p = fmaf(p, t, 1.421413741f);
  p = fmaf(p, t, -0.284496736f);
  p = fmaf(p, t, 0.254829592f);
  return copysignf(1.0f - p * t * __expf(-z * z), x);
}

__device__ __forceinline__ float gelu_tanh(float x)
{
  return times_sigmoid(x, 1.59576912f * fmaf(0.044715f * x, x * x, x)); /* 2 sqrt(2 / pi) */
}

__device__ __forceinline__ float gelu_erf(float x)
{
  return 0.5f * x * (1.0f + approximate_erf(0.707106781f * x));
}

/* f(x), for a kind without a gate. */
template <bool EXACT = false> __device__ __forceinline__ float activated(const yk_activation &a, float x)
{
  if (a.kind == YK_ACTIVATION_SILU) return times_sigmoid<EXACT>(x, x);
  if (a.kind == YK_ACTIVATION_GELU_TANH) return gelu_tanh(x);
  if (a.kind == YK_ACTIVATION_GELU_ERF) return gelu_erf(x);
  if (a.kind == YK_ACTIVATION_RELU2) return x < 0.0f ? 0.0f : x * x; /* preserves NaN */
  return x;
}

/* SiLU of a gate times its up, and CLAMPED_SWIGLU, as one formula without a branch: with g and u limited, g / (1 +
 * exp(-alpha g)) (u + shift). */
struct swiglu {
  float alpha, limit, shift;

  __device__ __forceinline__ static bool covers(const yk_activation &a)
  {
    return a.kind == YK_ACTIVATION_SILU || a.kind == YK_ACTIVATION_CLAMPED_SWIGLU;
  }
  /* A shift of -0 leaves every up as it is. */
  __device__ __forceinline__ static swiglu of(const yk_activation &a)
  {
    const bool is_clamped = a.kind == YK_ACTIVATION_CLAMPED_SWIGLU;
    return {is_clamped ? a.alpha : 1.0f, is_clamped ? a.limit : INFINITY, is_clamped ? 1.0f : -0.0f};
  }
  template <bool EXACT = false> __device__ __forceinline__ float operator()(float gate, float up) const
  {
    const float g = yk_ptx::min_or_nan(gate, limit);
    const float u = yk_ptx::min_or_nan(yk_ptx::max_or_nan(up, -limit), limit);
    return times_sigmoid<EXACT>(g, alpha * g) * (u + shift);
  }
};

/* f(gate) * up. */
template <bool EXACT = false> __device__ __forceinline__ float gated(const yk_activation &a, float gate, float up)
{
  if (a.kind == YK_ACTIVATION_SILU) return times_sigmoid<EXACT>(gate, gate) * up;
  if (a.kind == YK_ACTIVATION_CLAMPED_SWIGLU) return swiglu::of(a)(gate, up);
  return activated<EXACT>(a, gate) * up;
}

/* gate[i] becomes f(gate[i]) * up[i], for the N pairs of a thread: for unrolled epilogues. The kinds of swiglu are
 * unrolled. The others share a loop over copies in local memory: unrolled, they would be most of the machine code of a
 * kernel. */
template <int N>
__device__ __forceinline__ void gate_pairs(const yk_activation &a, float (&gate)[N], const float (&up)[N])
{
  if (swiglu::covers(a)) {
    const swiglu f = swiglu::of(a);
#pragma unroll
    for (int i = 0; i < N; i++) gate[i] = f(gate[i], up[i]);
    return;
  }
  float2 pairs[N];
#pragma unroll
  for (int i = 0; i < N; i++) pairs[i] = make_float2(gate[i], up[i]);
#pragma unroll 1
  for (int i = 0; i < N; i++) pairs[i].x = gated(a, pairs[i].x, pairs[i].y);
#pragma unroll
  for (int i = 0; i < N; i++) gate[i] = pairs[i].x;
}

} // namespace yk_cuda

#endif
