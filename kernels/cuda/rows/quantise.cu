/* quantise.cu - see quantise.h. */
#include "kernels/cuda/rows/quantise.h"

#include <algorithm>

#include "kernels/cuda/rows/launch.cuh"
#include "kernels/cuda/rows/row_quantiser.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

/* Vectors of a row that a thread keeps in registers: one, if the threads of all rows run at once; else several, so that
 * a thread has several loads in flight. */
constexpr int FEW_KEPT = 1, SOME_KEPT = 4, MOST_KEPT = 8;
constexpr int64_t THREADS_AT_ONCE = 1 << 18; /* approximate capacity of an H200 */
constexpr int ROW_WARPS = 4;                 /* warps of a thread block, each with its own row */

/* Most threads of a thread block whose threads keep `kept` vectors: registers limit the number. */
constexpr int most_threads(int kept)
{
  return kept == FEW_KEPT ? 1024 : 512;
}

/* The largest over the thread block, in every thread; shared: one number for each warp. */
__device__ int block_max(int x, int *shared)
{
  x = __reduce_max_sync(ALL_LANES, x);
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
  __syncthreads();
  return __reduce_max_sync(ALL_LANES, threadIdx.x % WARP < blockDim.x / WARP ? shared[threadIdx.x % WARP] : 0);
}

/* The scale of a row, which one thread stores, and whether its integers are zeros: they are if the scale is 0 or NaN;
 * with NaN, the row's results are NaNs through the scale alone. */
struct row_scale {
  float scale;
  bool is_zeros;

  __device__ row_scale(const yk_cuda_quantise_args &a, int64_t row, int largest, bool stores)
      : scale(input_scale(a.maxima ? a.maxima[row] : largest, a.static_scale)), is_zeros(!(scale > 0.0f))
  {
    if (stores) a.scales[row] = scale;
  }
};

/* Waits for the previous kernel. Returns the row of x to be quantised as this row, or -1 for none. Rows of slots let
 * the next kernel start only after that wait, so that it reads their number when it is complete (quantise.h). */
__device__ int64_t wait_for_row(const yk_cuda_quantise_args &a, int64_t row)
{
  if (!a.n_there) let_next_kernel_start();
  wait_for_previous_kernel();
  if (a.n_there) let_next_kernel_start();
  const int n_there = a.n_there ? __ldcg(a.n_there) : INT32_MAX, of_x = a.rows ? __ldcg(a.rows + row) : 0;
  if (row >= n_there) return -1;
  return a.rows ? of_x : row;
}

/* One thread block per row, whose threads keep its vectors, KEPT each. */
template <typename T, int KEPT>
__global__ void __launch_bounds__(most_threads(KEPT)) quantise_kernel(const yk_cuda_quantise_args a)
{
  __shared__ int maxima[WARP];
  const int64_t row = blockIdx.x;
  const int n = static_cast<int>(a.k / WIDE), n_padded = static_cast<int>(a.k_padded / WIDE);
  uint2 *to = reinterpret_cast<uint2 *>(a.quants) + row * n_padded;
  uint4 kept[KEPT] = {};
  int largest = 0;
  const int64_t from = wait_for_row(a, row);
  if (from < 0) return;
  const uint4 *x = static_cast<const uint4 *>(a.x) + from * n;
#pragma unroll
  for (int i = 0; i < KEPT; i++) {
    const int at = threadIdx.x + i * blockDim.x;
    if (at < n) kept[i] = x[at];
  }
#pragma unroll
  for (int i = 0; i < KEPT; i++) largest = max(largest, largest_of<T>(kept[i]));
  const row_scale scale(a, row, block_max(largest, maxima), threadIdx.x == 0);
  const row_quantiser quantise(scale.scale, a.static_scale, a.zero);
#pragma unroll
  for (int i = 0; i < KEPT; i++) {
    const int at = threadIdx.x + i * blockDim.x;
    if (at < n) to[at] = scale.is_zeros ? uint2() : quantise.operator()<T>(kept[i]);
  }
  for (int at = n + threadIdx.x; at < n_padded; at += blockDim.x) to[at] = {};
}

/* One warp per row: for many short rows, which give the threads of a block little work. */
template <typename T>
__global__ void __launch_bounds__(ROW_WARPS *WARP) quantise_by_warps_kernel(const yk_cuda_quantise_args a)
{
  const int64_t row = blockIdx.x * int64_t(ROW_WARPS) + threadIdx.x / WARP;
  const int n = static_cast<int>(a.k / WIDE), n_padded = static_cast<int>(a.k_padded / WIDE), lane = threadIdx.x % WARP;
  const int64_t from = wait_for_row(a, min(row, a.n_rows - 1));
  if (from < 0 || row >= a.n_rows) return;
  const uint4 *x = static_cast<const uint4 *>(a.x) + from * n;
  uint2 *to = reinterpret_cast<uint2 *>(a.quants) + row * n_padded;
  uint4 kept[MOST_KEPT] = {};
  int largest = 0;
#pragma unroll
  for (int i = 0; i < MOST_KEPT; i++)
    if (lane + i * WARP < n) kept[i] = x[lane + i * WARP];
#pragma unroll
  for (int i = 0; i < MOST_KEPT; i++) largest = max(largest, largest_of<T>(kept[i]));
  const row_scale scale(a, row, __reduce_max_sync(ALL_LANES, largest), lane == 0);
  const row_quantiser quantise(scale.scale, a.static_scale, a.zero);
#pragma unroll
  for (int i = 0; i < MOST_KEPT; i++) {
    const int at = lane + i * WARP;
    if (at < n) to[at] = scale.is_zeros ? uint2() : quantise.operator()<T>(kept[i]);
  }
  for (int at = n + lane; at < n_padded; at += WARP) to[at] = {};
}

/* One thread block per row, whose inputs are read twice, one by one. */
template <typename T> __global__ void read_twice_kernel(const yk_cuda_quantise_args a)
{
  __shared__ int maxima[WARP];
  const int64_t row = blockIdx.x;
  const int64_t from = wait_for_row(a, row);
  if (from < 0) return;
  const T *x = static_cast<const T *>(a.x) + from * a.k;
  int largest = 0;
  for (int64_t at = threadIdx.x; at < a.k; at += blockDim.x) largest = max(largest, magnitude(to_float(x[at])));
  const row_scale scale(a, row, block_max(largest, maxima), threadIdx.x == 0);
  const row_quantiser quantise(scale.scale, a.static_scale, a.zero);
  for (int64_t at = threadIdx.x; at < a.k_padded; at += blockDim.x)
    a.quants[row * a.k_padded + at] = at < a.k && !scale.is_zeros ? quantise(x[at]) : int8_t(0);
}

template <typename T> __global__ void maxima_kernel(int32_t *maxima, const T *x, int64_t k)
{
  __shared__ int shared[WARP];
  let_next_kernel_start();
  wait_for_previous_kernel();
  int largest = 0;
  for (int64_t i = threadIdx.x; i < k; i += blockDim.x)
    largest = max(largest, magnitude(to_float(x[blockIdx.x * k + i])));
  largest = block_max(largest, shared);
  if (threadIdx.x == 0) maxima[blockIdx.x] = largest;
}

template <typename T> __global__ void scale_sums_kernel(const yk_cuda_scale_sums_args a)
{
  const int64_t row = blockIdx.x;
  let_next_kernel_start();
  wait_for_previous_kernel();
  const float scale = input_scale(a.maxima[row], a.static_scale);
  for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
    float y = __fmul_rn(__fmul_rn(__int2float_rn(a.sums[row * a.n + i]), scale), a.w_scales[i]);
    if (a.bias) y = __fadd_rn(y, a.bias[i]);
    static_cast<T *>(a.y)[row * a.n + i] = from_float<T>(y);
  }
}

dim3 grid_of(int64_t n_rows)
{
  return dim3(static_cast<unsigned>(n_rows));
}

/* Threads for a row of n numbers that are read one by one. */
int threads_of(int64_t n)
{
  return row_threads(static_cast<int32_t>(std::min<int64_t>(n / 4 + 1, 1024)));
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_quantise(yk_dtype dtype, const yk_cuda_quantise_args *args, cudaStream_t stream)
{
  if (args->n_rows == 0) return cudaSuccess;
  const bool is_wide = args->k % WIDE == 0 && args->k > 0 && is_aligned(args->x, 16);
  const int64_t n = args->k / WIDE;
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    const auto launch = [&](auto kernel, int n_threads) {
      return launch_with_max_shared_memory(kernel, grid_of(args->n_rows), n_threads, 0, stream, *args);
    };
    const auto can_keep = [&](int kept) { return is_wide && n <= int64_t(most_threads(kept)) * kept; };
    const auto threads_that_keep = [&](int kept) { return row_threads(static_cast<int32_t>((n + kept - 1) / kept)); };
    if (is_wide && n <= WARP * MOST_KEPT && args->n_rows * WARP >= THREADS_AT_ONCE / 2)
      return launch_with_max_shared_memory(quantise_by_warps_kernel<T>,
                                           grid_of((args->n_rows + ROW_WARPS - 1) / ROW_WARPS), ROW_WARPS * WARP, 0,
                                           stream, *args);
    if (can_keep(FEW_KEPT) && args->n_rows * threads_that_keep(FEW_KEPT) <= THREADS_AT_ONCE)
      return launch(quantise_kernel<T, FEW_KEPT>, threads_that_keep(FEW_KEPT));
    if (can_keep(SOME_KEPT)) return launch(quantise_kernel<T, SOME_KEPT>, threads_that_keep(SOME_KEPT));
    if (can_keep(MOST_KEPT)) return launch(quantise_kernel<T, MOST_KEPT>, threads_that_keep(MOST_KEPT));
    return launch(read_twice_kernel<T>, threads_of(args->k));
  });
}

extern "C" cudaError_t yk_cuda_launch_maxima(yk_dtype dtype, int32_t *maxima, const void *x, int64_t n_rows, int64_t k,
                                             cudaStream_t stream)
{
  if (n_rows == 0) return cudaSuccess;
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    return launch_dependent(maxima_kernel<T>, {grid_of(n_rows), threads_of(k), 0, 1}, stream, maxima,
                            static_cast<const T *>(x), k);
  });
}

extern "C" cudaError_t yk_cuda_launch_scale_sums(yk_dtype dtype, const yk_cuda_scale_sums_args *args,
                                                 cudaStream_t stream)
{
  if (args->n_rows == 0 || args->n == 0) return cudaSuccess;
  return with_act_type(dtype, [&](auto type) {
    return launch_with_max_shared_memory(scale_sums_kernel<decltype(type)>, grid_of(args->n_rows), threads_of(args->n),
                                         0, stream, *args);
  });
}
