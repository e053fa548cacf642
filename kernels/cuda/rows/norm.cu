/* norm.cu - RMSNorm of rows: see norm.h. */
#include "kernels/cuda/rows/norm.h"

#include "kernels/cuda/common/combine_rows.cuh"
#include "kernels/cuda/ptx/parameters.cuh"
#include "kernels/cuda/rows/combine_norm.h"
#include "kernels/cuda/rows/launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

constexpr int MAX_PARTIALS = 8; /* pointers among the parameters */

struct norm_params {
  void *y;
  const void *x;  /* rms_norm: the input */
  void *residual; /* add_norm: partials are added to it, and the sum is the norm's input */
  const void *partials[MAX_PARTIALS];
  /* the combination of experts whose result is the first of partials; y NULL: the first of partials is complete */
  yk_combine_args combine;
  int32_t n_partials;
  const void *w;    /* NULL: no norm */
  int64_t x_stride; /* elements */
  int32_t hidden;
  float alpha, eps, per_element; /* per_element: 1 / hidden */
  const void *result_w;          /* as in yk_add_norm_args */
  float gain;                    /* the factor of the new residual; 1 without a gain */
};

constexpr int VECTORS = 512; /* most vectors of a row that stays in registers: one per thread */

/* The input of the norm: rows unchanged; the residual plus partial results; or the latter with a first partial result
 * that the kernel computes as a combination of experts. */
enum class norm_of { ROWS, SUMS, COMBINATION };

/* Adds the partials in order to sum, for vector i of the thread block's row, which is vector `at` of all rows. choices:
 * the row's choices of experts, for a COMBINATION. */
template <typename T, int N, norm_of OF, typename CHOICES>
__device__ __forceinline__ void sum_partials(const norm_params &p, int64_t at, int32_t i, const CHOICES &choices,
                                             float (&sum)[N])
{
  using V = vec<T, N>;
#pragma unroll 1
  for (int32_t part = 0; part < p.n_partials; part++) {
    V v;
    if (OF == norm_of::COMBINATION && part == 0)
      v = combine_vector<T, N>(p.combine, blockIdx.x, i, choices);
    else
      v = static_cast<const V *>(p.partials[part])[at];
    for (int j = 0; j < N; j++) sum[j] += to_float(v.at[j]);
  }
}

/* residual + alpha * (partials, added in order) for vector i of the thread block's row of n vectors. The result is
 * rounded, stored to the residual and returned. */
template <typename T, int N, norm_of OF, typename CHOICES>
__device__ __forceinline__ vec<T, N> add_partials(const norm_params &p, int32_t n, int32_t i, const CHOICES &choices)
{
  using V = vec<T, N>;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * n + i;
  float sum[N] = {};
  V r = static_cast<V *>(p.residual)[at];
  sum_partials<T, N, OF>(p, at, i, choices, sum);
  for (int j = 0; j < N; j++) r.at[j] = from_float<T>(to_float(r.at[j]) + p.alpha * sum[j]);
  static_cast<V *>(p.residual)[at] = r;
  return r;
}

template <typename T, int N>
__device__ __forceinline__ vec<T, N> scaled(const vec<T, N> &v, float factor, const vec<T, N> &w)
{
  vec<T, N> y;
#pragma unroll
  for (int j = 0; j < N; j++) y.at[j] = from_float<T>(rounded<T>(to_float(v.at[j]) * factor) * to_float(w.at[j]));
  return y;
}

template <typename T, int N> __device__ __forceinline__ void add_squares(const vec<T, N> &v, float &sum)
{
#pragma unroll
  for (int j = 0; j < N; j++) sum += to_float(v.at[j]) * to_float(v.at[j]);
}

__device__ __forceinline__ float factor_of(const norm_params &p, float squares, float *sums)
{
  return rsqrtf(block_sum(squares, sums) * p.per_element + p.eps);
}

/* The norm of a row of at most one vector per thread, which stays in registers. The weights stay there too, as a uint4:
 * as 16-bit elements they would take a register each. */
template <typename T, norm_of OF>
__global__ void __launch_bounds__(VECTORS) vector_norm_kernel(const __grid_constant__ norm_params p)
{
  using V = vec<T, WIDE>;
  __shared__ float sums[WARP];
  const int32_t n = p.hidden / WIDE, own = threadIdx.x;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * n + own;
  const bool is_there = own < n;
  __shared__ choices_in_block choices;
  uint4 w = {};
  V v = {};
  read_parameters(p);
  if (p.w && is_there) w = static_cast<const uint4 *>(p.w)[own];
  if (OF == norm_of::COMBINATION && p.combine.choices_are_settled) choices.load(p.combine, blockIdx.x);
  let_next_kernel_start();
  if (OF == norm_of::COMBINATION) __syncthreads();
  wait_for_previous_kernel();
  if (OF == norm_of::COMBINATION && !p.combine.choices_are_settled) {
    choices.load(p.combine, blockIdx.x);
    __syncthreads();
  }
  if (is_there) {
    if constexpr (OF == norm_of::ROWS)
      v = static_cast<const V *>(p.x)[blockIdx.x * (p.x_stride / WIDE) + own];
    else
      v = add_partials<T, WIDE, OF>(p, n, own, choices);
  }
  if (!p.w) return;
  float squares = 0.0f;
  add_squares(v, squares);
  const float factor = factor_of(p, squares, sums);
  if (is_there) static_cast<V *>(p.y)[at] = scaled(v, factor, *reinterpret_cast<const V *>(&w));
}

/* The norm of a row of any length, which is held in shared memory. The parameters are a __grid_constant__: indexing
 * partials would otherwise copy all of them to each thread's local memory. A thread's first weights are read before the
 * wait: no kernel of the step writes weights. */
template <typename T, int N, norm_of OF>
__global__ void __launch_bounds__(MOST_ROW_THREADS) norm_kernel(const __grid_constant__ norm_params p)
{
  using V = vec<T, N>;
  extern __shared__ uint4 row_bytes[];
  __shared__ float sums[WARP];
  V *row = reinterpret_cast<V *>(row_bytes);
  const V *weights = static_cast<const V *>(p.w);
  const int32_t n = p.hidden / N, own = threadIdx.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * n;
  float squares = 0.0f;
  V own_weights = {};
  if (weights && own < n) own_weights = weights[own];
  let_next_kernel_start();
  wait_for_previous_kernel();
  for (int32_t i = own; i < n; i += blockDim.x) {
    V v;
    if constexpr (OF != norm_of::ROWS)
      v = add_partials<T, N, OF>(p, n, i, choices_in_memory<false>{p.combine, blockIdx.x});
    else
      v = static_cast<const V *>(p.x)[blockIdx.x * (p.x_stride / N) + i];
    add_squares(v, squares);
    row[i] = v;
  }
  if (!weights) return;
  const float factor = factor_of(p, squares, sums);
  for (int32_t i = own; i < n; i += blockDim.x) { /* a thread reads only vectors of `row` that it wrote itself */
    const V v = row[i], w = i == own ? own_weights : weights[i];
    static_cast<V *>(p.y)[first + i] = scaled(v, factor, w);
  }
}

/* Vector i of a row's residual in global memory becomes (residual + alpha * x) * gain, rounded; returned. */
template <typename T, int N>
__device__ __forceinline__ vec<T, N> add_with_gain(const norm_params &p, vec<T, N> *residual, int32_t i,
                                                   const float (&x)[N])
{
  vec<T, N> r = residual[i];
#pragma unroll
  for (int j = 0; j < N; j++) r.at[j] = from_float<T>((to_float(r.at[j]) + p.alpha * x[j]) * p.gain);
  residual[i] = r;
  return r;
}

/* add_norm with a norm of the sum, if p.result_w is not NULL, and with a gain. The row in shared memory is first the
 * sum, rounded, then the new residual; a thread reads only vectors of the row that it wrote itself. */
template <typename T, int N>
__global__ void __launch_bounds__(MOST_ROW_THREADS) result_norm_kernel(const __grid_constant__ norm_params p)
{
  using V = vec<T, N>;
  extern __shared__ uint4 row_bytes[];
  __shared__ float sums[WARP];
  V *row = reinterpret_cast<V *>(row_bytes);
  const V *weights = static_cast<const V *>(p.w), *result_weights = static_cast<const V *>(p.result_w);
  const int32_t n = p.hidden / N, own = threadIdx.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * n;
  V *y = static_cast<V *>(p.y) + first, *residual = static_cast<V *>(p.residual) + first;
  float squares = 0.0f;
  V own_weights = {}, own_result_weights = {};
  if (weights && own < n) own_weights = weights[own];
  if (result_weights && own < n) own_result_weights = result_weights[own];
  let_next_kernel_start();
  wait_for_previous_kernel();
  for (int32_t i = own; i < n; i += blockDim.x) {
    float sum[N] = {};
    sum_partials<T, N, norm_of::SUMS>(p, first + i, i, choices_in_memory<false>{p.combine, blockIdx.x}, sum);
    V v;
    if (result_weights) {
#pragma unroll
      for (int j = 0; j < N; j++) v.at[j] = from_float<T>(sum[j]);
    } else {
      v = add_with_gain<T, N>(p, residual, i, sum);
    }
    add_squares(v, squares);
    row[i] = v;
  }
  if (result_weights) {
    const float factor = factor_of(p, squares, sums);
    squares = 0.0f;
    for (int32_t i = own; i < n; i += blockDim.x) {
      const V v = row[i], w = i == own ? own_result_weights : result_weights[i], normed = scaled(v, factor, w);
      float x[N];
#pragma unroll
      for (int j = 0; j < N; j++) x[j] = to_float(normed.at[j]);
      const V r = add_with_gain<T, N>(p, residual, i, x);
      add_squares(r, squares);
      row[i] = r;
    }
    __syncthreads(); /* every thread has read sums */
  }
  if (!weights) return;
  const float factor = factor_of(p, squares, sums);
  for (int32_t i = own; i < n; i += blockDim.x) {
    const V v = row[i], w = i == own ? own_weights : weights[i];
    y[i] = scaled(v, factor, w);
  }
}

cudaError_t launch_result_norm(yk_dtype dtype, const norm_params &p, int32_t n_rows, bool is_wide, cudaStream_t stream)
{
  if (n_rows == 0 || p.hidden == 0) return cudaSuccess;
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    const size_t row_bytes = p.hidden * sizeof(T);
    return is_wide ? launch_with_max_shared_memory(result_norm_kernel<T, WIDE>, n_rows, row_threads(p.hidden / WIDE),
                                                   row_bytes, stream, p)
                   : launch_with_max_shared_memory(result_norm_kernel<T, 1>, n_rows, row_threads(p.hidden), row_bytes,
                                                   stream, p);
  });
}

template <norm_of OF>
cudaError_t launch_norm(yk_dtype dtype, const norm_params &p, int32_t n_rows, bool is_wide, cudaStream_t stream)
{
  if (n_rows == 0 || p.hidden == 0) return cudaSuccess;
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    const size_t row_bytes = p.hidden * sizeof(T);
    if (is_wide && p.hidden <= VECTORS * WIDE)
      return launch_with_max_shared_memory(vector_norm_kernel<T, OF>, n_rows, row_threads(p.hidden / WIDE), 0, stream,
                                           p);
    return is_wide ? launch_with_max_shared_memory(norm_kernel<T, WIDE, OF>, n_rows, row_threads(p.hidden / WIDE),
                                                   row_bytes, stream, p)
                   : launch_with_max_shared_memory(norm_kernel<T, 1, OF>, n_rows, row_threads(p.hidden), row_bytes,
                                                   stream, p);
  });
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_rms_norm(yk_dtype dtype, const yk_rms_norm_args *args, cudaStream_t stream)
{
  norm_params p = {};
  p.y = args->y;
  p.x = args->x;
  p.x_stride = args->x_stride;
  p.w = args->w;
  p.hidden = args->hidden;
  p.per_element = 1.0f / static_cast<float>(args->hidden);
  p.eps = args->eps;
  const bool is_wide = p.hidden % WIDE == 0 && p.x_stride % WIDE == 0 && is_aligned(p.y, 16) && is_aligned(p.x, 16) &&
                       is_aligned(p.w, 16);
  return launch_norm<norm_of::ROWS>(dtype, p, args->n_rows, is_wide, stream);
}

extern "C" cudaError_t yk_cuda_launch_add_norm(yk_dtype dtype, const yk_add_norm_args *args, cudaStream_t stream)
{
  if (yk_cuda_combine_norm_takes(dtype, args)) return yk_cuda_launch_combine_norm(dtype, args, stream);
  norm_params p = {};
  set_add_norm(p, *args);
  p.n_partials = args->n_partials;
  p.hidden = args->hidden;
  bool is_wide = p.hidden % WIDE == 0 && is_aligned(p.y, 16) && is_aligned(p.residual, 16) && is_aligned(p.w, 16);
  for (int32_t i = 0; i < p.n_partials; i++) {
    p.partials[i] = args->partials[i];
    is_wide = is_wide && is_aligned(p.partials[i], 16);
  }
  if (args->result_w || args->gain != 0.0f) {
    p.result_w = args->result_w;
    p.gain = args->gain == 0.0f ? 1.0f : args->gain;
    return launch_result_norm(dtype, p, args->n_rows, is_wide && is_aligned(p.result_w, 16), stream);
  }
  if (!args->combine) return launch_norm<norm_of::SUMS>(dtype, p, args->n_rows, is_wide, stream);
  p.combine = *args->combine;
  is_wide = is_wide && is_aligned(p.combine.slots, 16) && is_aligned(p.combine.shared, 16);
  return launch_norm<norm_of::COMBINATION>(dtype, p, args->n_rows, is_wide, stream);
}
