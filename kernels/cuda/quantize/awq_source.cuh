/* awq_source.cuh - weights to be quantised, with scales and limits, read by one warp per group. */
#ifndef YK_KERNELS_CUDA_QUANTIZE_AWQ_SOURCE_CUH
#define YK_KERNELS_CUDA_QUANTIZE_AWQ_SOURCE_CUH

#include "kernels/awq_quantize.h"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/quantize/awq_group.cuh"

namespace yk_awq {

using yk_cuda::ALL_LANES;
using yk_cuda::WARP;

__device__ __forceinline__ float cut(float w, float limit)
{
  w = w > limit ? limit : w;
  return w < -limit ? -limit : w;
}

/* The weight at (n, k) before its limit. */
template <typename T> __device__ __forceinline__ float scaled(const yk_awq_floats &p, int64_t n, int64_t k)
{
  float w = yk_cuda::to_float(static_cast<const T *>(p.w)[n * p.k + k]);
  if (p.n_scales) w = __fmul_rn(w, p.n_scales[n]);
  if (p.k_scales) w = __fmul_rn(w, p.k_scales[k]);
  return w;
}

/* Over the warp. */
struct range {
  float low = 0.0f, high = 0.0f;
  bool is_finite = true;

  __device__ void add(float w)
  {
    low = w < low ? w : low;
    high = w > high ? w : high;
    is_finite = is_finite && isfinite(w);
  }

  __device__ void join()
  {
    for (int lane = WARP / 2; lane > 0; lane /= 2) {
      low = fminf(low, __shfl_xor_sync(ALL_LANES, low, lane));
      high = fmaxf(high, __shfl_xor_sync(ALL_LANES, high, lane));
    }
    is_finite = __all_sync(ALL_LANES, is_finite);
  }
};

/* The rounding of a group of an output, returned in every lane; notes the group if it cannot be quantised.
 * first_output: of the slice p. */
template <typename T>
__device__ group find_group(const yk_awq_floats &p, int64_t n, int64_t which, float limit, int64_t first_output,
                            yk_awq_found *found)
{
  range r;
  for (int64_t k = which * p.group + threadIdx.x % WARP; k < (which + 1) * p.group; k += WARP)
    r.add(cut(scaled<T>(p, n, k), limit));
  r.join();
  const group g = group_of(r.low, r.high);
  if (!(r.is_finite && g.is_sound) && threadIdx.x % WARP == 0)
    note_bad(&found->first_bad, (first_output + n) * (p.k / p.group) + which);
  return g;
}

__device__ __forceinline__ float limit_of(const yk_awq_floats &p, int64_t n, int64_t which)
{
  return p.limits ? p.limits[n * (p.k / p.group) + which] : INFINITY;
}

} // namespace yk_awq

#endif
