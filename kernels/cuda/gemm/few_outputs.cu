/* few_outputs.cu - see few_outputs.h. A thread block has one column; its threads divide K. */
#include "kernels/cuda/gemm/few_outputs.h"

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;

namespace {

constexpr int WIDE = 8; /* elements in 16 bytes */
constexpr int THREADS = 128, WARPS = THREADS / WARP;
constexpr int MOST_ROWS = 16;
constexpr int64_t MOST_PRODUCTS = 1 << 23; /* every thread block reads all of x */
constexpr int KEPT = 4;                    /* vectors of the column that a thread reads before the wait */
constexpr int ROWS_AHEAD = 4;              /* rows whose vectors are asked for together */

template <typename T> __device__ float dot(const vec<T, WIDE> &a, const vec<T, WIDE> &b, float sum)
{
#pragma unroll
  for (int i = 0; i < WIDE; i++) sum = fmaf(to_float(a.at[i]), to_float(b.at[i]), sum);
  return sum;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) few_outputs_kernel(const __grid_constant__ yk_few_outputs_gemm p)
{
  using V = vec<T, WIDE>;
  __shared__ float sums[MOST_ROWS][WARPS];
  const int n = static_cast<int>(p.k / WIDE), m = static_cast<int>(p.m), column = blockIdx.x, thread = threadIdx.x;
  const V *w = static_cast<const V *>(p.w) + static_cast<int64_t>(column) * n, *x = static_cast<const V *>(p.x);
  V kept[KEPT] = {};
#pragma unroll
  for (int i = 0; i < KEPT; i++)
    if (thread + i * THREADS < n) kept[i] = w[thread + i * THREADS];
  let_next_kernel_start();
  wait_for_previous_kernel();
  for (int row0 = 0; row0 < m; row0 += ROWS_AHEAD) {
    float sum[ROWS_AHEAD] = {};
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
      if (thread + i * THREADS >= n) continue;
#pragma unroll
      for (int r = 0; r < ROWS_AHEAD; r++)
        if (row0 + r < m)
          sum[r] = dot<T>(kept[i], x[static_cast<int64_t>(row0 + r) * n + thread + i * THREADS], sum[r]);
    }
    for (int i = thread + KEPT * THREADS; i < n; i += THREADS) {
      const V v = w[i];
#pragma unroll
      for (int r = 0; r < ROWS_AHEAD; r++)
        if (row0 + r < m) sum[r] = dot<T>(v, x[static_cast<int64_t>(row0 + r) * n + i], sum[r]);
    }
#pragma unroll
    for (int r = 0; r < ROWS_AHEAD; r++) {
      const float of_warp = warp_sum(sum[r]);
      if (thread % WARP == 0) sums[row0 + r][thread / WARP] = of_warp;
    }
  }
  __syncthreads();
  if (thread >= m) return;
  float sum = 0.0f;
  for (int i = 0; i < WARPS; i++) sum += sums[thread][i];
  const int64_t at = thread * p.y_stride + column;
  if (p.y_dtype == YK_F32)
    static_cast<float *>(p.y)[at] = sum;
  else
    static_cast<T *>(p.y)[at] = from_float<T>(sum);
}

} // namespace

extern "C" bool yk_few_outputs_takes(const yk_few_outputs_gemm *gemm)
{
  return gemm->m <= MOST_ROWS && gemm->m * gemm->n * gemm->k <= MOST_PRODUCTS && gemm->k % WIDE == 0 &&
         is_aligned(gemm->x, 16) && is_aligned(gemm->w, 16);
}

extern "C" cudaError_t yk_few_outputs_launch(const yk_few_outputs_gemm *gemm, cudaStream_t stream)
{
  if (gemm->m <= 0 || gemm->n <= 0) return cudaSuccess;
  return with_act_type(gemm->dtype, [&](auto type) {
    return launch_dependent(few_outputs_kernel<decltype(type)>, {dim3(static_cast<unsigned>(gemm->n)), THREADS, 0, 1},
                            stream, *gemm);
  });
}
