/* quantise.cu - see quantise.h. */
#include "kernels/cuda/rows/quantise.h"

#include <algorithm>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/rows/launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

constexpr int MOST_KEPT = 8; /* vectors of x that a thread keeps in registers; there are 1 and SOME_KEPT also */
constexpr int SOME_KEPT = 4;
constexpr int FEW_ROWS = 264; /* a row is short of threads; of more rows a thread has several loads under way */
static_assert(1024 * MOST_KEPT * WIDE >= YK_CUDA_MAX_QUANTISED, "a thread block keeps a row");

/* Bits of |x| as float32, which rise with it; those of NaNs are largest. */
__device__ int magnitude(float x)
{
  return static_cast<int>(__float_as_uint(x) & 0x7FFFFFFFu);
}

/* The largest over the thread block, in every thread; shared: one number for each warp. */
__device__ int block_max(int x, int *shared)
{
  x = __reduce_max_sync(ALL_LANES, x);
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
  __syncthreads();
  return __reduce_max_sync(ALL_LANES, threadIdx.x % WARP < blockDim.x / WARP ? shared[threadIdx.x % WARP] : 0);
}

__device__ float input_scale(int largest, float static_scale)
{
  if (largest >= 0x7F800000) return __int_as_float(0x7FC00000); /* NaN */
  return static_scale > 0.0f ? static_scale : __fdiv_rn(__int_as_float(largest), 127.0f);
}

/* Out of line, since it is long and seldom wanted. */
__device__ __noinline__ float quotient(float x, float scale)
{
  return __fdiv_rn(x, scale);
}

/* How the inputs of one row become integers. x times the reciprocal of the scale is off x / scale by less than 2^-14
 * where that is below 256, so that the quotient itself is needed only next to halves. */
struct row_quantiser {
  static constexpr float ROUND = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, ties to even */
  float scale, reciprocal, zero;
  bool is_exact; /* the reciprocal is no number to rely on */
  bool is_small; /* no integer leaves -127 .. 127, and zero is 0 */

  __device__ static row_quantiser of(float scale, const yk_cuda_quantise_args &a)
  {
    return {scale, 1.0f / scale, static_cast<float>(a.zero), !(scale > 1e-30f && scale < 1e30f),
            !(a.static_scale > 0.0f)};
  }

  /* In the lowest byte the integer that v becomes, which is x / scale or near it. */
  __device__ uint32_t integer(float v) const
  {
    v = fminf(fmaxf(v, -256.0f), 256.0f);
    const float q = __fadd_rn(__fsub_rn(__fadd_rn(v, ROUND), ROUND), zero);
    return __float_as_uint(__fadd_rn(fminf(fmaxf(q, -128.0f), 127.0f), ROUND));
  }

  template <typename T, int N> __device__ vec<int8_t, N> operator()(const vec<T, N> &x) const
  {
    vec<int8_t, N> q;
    bool is_near = is_exact;
#pragma unroll
    for (int i = 0; i < N; i++) {
      const float v = to_float(x.at[i]), sum = __fmaf_rn(v, reciprocal, ROUND);
      is_near = is_near || fabsf(__fmaf_rn(v, reciprocal, __fsub_rn(ROUND, sum))) > 0.4999f;
      q.at[i] = static_cast<int8_t>(is_small ? __float_as_uint(sum) : integer(__fmul_rn(v, reciprocal)));
    }
    if (is_near) {
#pragma unroll
      for (int i = 0; i < N; i++) q.at[i] = static_cast<int8_t>(integer(quotient(to_float(x.at[i]), scale)));
    }
    return q;
  }
};

/* Bits of the largest |x| of a vector as float32. Those of 16-bit floats rise with it too, two to a word. */
template <typename T, int N> __device__ int largest_of(const vec<T, N> &x)
{
  if constexpr (N == 1) {
    return magnitude(to_float(x.at[0]));
  } else {
    static_assert(N == 8, "four words");
    const uint4 words = *reinterpret_cast<const uint4 *>(&x);
    constexpr uint32_t MAGNITUDES = 0x7FFF7FFFu;
    const uint32_t low = __vmaxu2(words.x & MAGNITUDES, words.y & MAGNITUDES);
    const uint32_t both = __vmaxu2(low, __vmaxu2(words.z & MAGNITUDES, words.w & MAGNITUDES));
    const unsigned short bits = static_cast<unsigned short>(max(both & 0xFFFFu, both >> 16));
    return magnitude(to_float(*reinterpret_cast<const T *>(&bits)));
  }
}

/* One thread block for each row, whose vectors of N elements its threads keep, KEPT each; KEPT 0: rows that are read
 * twice. A scale of 0 means zeros; so does NaN, whose row's results are NaNs by the scale alone. */
template <typename T, int N, int KEPT> __global__ void quantise_kernel(const yk_cuda_quantise_args a)
{
  using V = vec<T, N>;
  __shared__ int maxima[WARP];
  const int64_t row = blockIdx.x;
  const int n = static_cast<int>(a.k / N);
  const V *x = reinterpret_cast<const V *>(static_cast<const T *>(a.x) + row * a.k);
  vec<int8_t, N> *to = reinterpret_cast<vec<int8_t, N> *>(a.quants + row * a.k_padded);
  V kept[KEPT ? KEPT : 1] = {};
  let_next_kernel_start();
  wait_for_previous_kernel();
  int largest = 0;
#pragma unroll
  for (int i = 0; i < KEPT; i++) {
    const int at = threadIdx.x + i * blockDim.x;
    if (at < n) kept[i] = x[at];
  }
#pragma unroll
  for (int i = 0; i < KEPT; i++) largest = max(largest, largest_of(kept[i]));
  for (int at = threadIdx.x; KEPT == 0 && at < n; at += blockDim.x) largest = max(largest, largest_of(x[at]));
  largest = a.maxima ? a.maxima[row] : block_max(largest, maxima);
  const float scale = input_scale(largest, a.static_scale);
  const bool is_zeros = !(scale > 0.0f);
  const row_quantiser quantise = row_quantiser::of(scale, a);
  if (threadIdx.x == 0) a.scales[row] = scale;
  for (int at = (is_zeros ? 0 : n) + threadIdx.x; at < a.k_padded / N; at += blockDim.x) to[at] = {};
  if (is_zeros) return;
#pragma unroll
  for (int i = 0; i < KEPT; i++) {
    const int at = threadIdx.x + i * blockDim.x;
    if (at < n) to[at] = quantise(kept[i]);
  }
  for (int at = threadIdx.x; KEPT == 0 && at < n; at += blockDim.x) to[at] = quantise(x[at]);
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
    const auto launch = [&](auto kernel, int64_t n_threads) {
      return launch_with_max_shared_memory(kernel, grid_of(args->n_rows), row_threads(static_cast<int32_t>(n_threads)),
                                           0, stream, *args);
    };
    if (!is_wide) return launch(quantise_kernel<T, 1, 0>, threads_of(args->k));
    if (n <= 1024 && args->n_rows <= FEW_ROWS) return launch(quantise_kernel<T, WIDE, 1>, n);
    if (n <= 1024 * SOME_KEPT) return launch(quantise_kernel<T, WIDE, SOME_KEPT>, (n + SOME_KEPT - 1) / SOME_KEPT);
    return launch(quantise_kernel<T, WIDE, MOST_KEPT>, (n + MOST_KEPT - 1) / MOST_KEPT);
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
