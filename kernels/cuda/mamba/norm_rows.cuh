/* norm_rows.cuh - gate and norm of the results of a group's heads: see kernels/mamba.h. */
#ifndef YK_KERNELS_CUDA_MAMBA_NORM_ROWS_CUH
#define YK_KERNELS_CUDA_MAMBA_NORM_ROWS_CUH

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/mamba/params.cuh"

namespace yk_mamba {

/* Four neighbouring results of a row with their gates. GATED: floats that have their gates, written by any thread
 * block; else elements of T, before whose kernel x was complete; x_stride is even. */
template <typename T, bool GATED>
__device__ __forceinline__ float4 gated_results(const params &p, int64_t row, int64_t at)
{
  if constexpr (GATED) return __ldcg(reinterpret_cast<const float4 *>(results_of(p, row) + at));
  const T *z = static_cast<const T *>(p.x) + row * p.x_stride + at;
  const auto y = *reinterpret_cast<const yk_cuda::vec<T, 4> *>(reinterpret_cast<const T *>(results_of(p, row)) + at);
  float of[4];
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const auto pair = *reinterpret_cast<const yk_cuda::vec<T, 2> *>(z + i);
    of[i] = to_float(y.at[i]) * silu(to_float(pair.at[0]));
    of[i + 1] = to_float(y.at[i + 1]) * silu(to_float(pair.at[1]));
  }
  return make_float4(of[0], of[1], of[2], of[3]);
}

/* y of a row and group, by all THREADS threads of a block. squares: a float for each warp, in shared memory, not read
 * before the next barrier. */
template <typename T, int THREADS, bool GATED>
__device__ __forceinline__ void store_group(const params &p, int64_t row, int32_t group, float *squares)
{
  const int n = p.layout.heads_per_group * p.layout.head_dim, own = 4 * static_cast<int>(threadIdx.x);
  const int64_t first = static_cast<int64_t>(group) * n;
  const auto square = [](const float4 &v) { return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; };
  const float4 kept = own < n ? gated_results<T, GATED>(p, row, first + own) : make_float4(0, 0, 0, 0);
  float sum = square(kept);
  for (int i = own + 4 * THREADS; i < n; i += 4 * THREADS) sum += square(gated_results<T, GATED>(p, row, first + i));
  const float factor = rsqrtf(yk_cuda::block_sum(sum, squares) / n + p.norm_eps);
  for (int i = own; i < n; i += 4 * THREADS) {
    const float4 v = i == own ? kept : gated_results<T, GATED>(p, row, first + i);
    const float4 w = *reinterpret_cast<const float4 *>(p.norm_w + first + i);
    yk_cuda::vec<T, 4> y;
    y.at[0] = yk_cuda::from_float<T>(v.x * factor * w.x), y.at[1] = yk_cuda::from_float<T>(v.y * factor * w.y);
    y.at[2] = yk_cuda::from_float<T>(v.z * factor * w.z), y.at[3] = yk_cuda::from_float<T>(v.w * factor * w.w);
    *reinterpret_cast<yk_cuda::vec<T, 4> *>(static_cast<T *>(p.y) + row * p.width + first + i) = y;
  }
}

} // namespace yk_mamba

#endif
