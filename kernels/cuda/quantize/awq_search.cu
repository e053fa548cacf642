/* awq_search.cu - kernels of the search for scales and limits: one warp per group of an output. */
#include "kernels/cuda/quantize/awq_search.h"

#include <algorithm>

#include "kernels/cuda/quantize/awq_source.cuh"

using namespace yk_awq;

namespace {

constexpr int SEARCH_THREADS = 256, SEARCH_WARPS = SEARCH_THREADS / WARP;

/* ---- Observing --------------------------------------------------------------------------------------------------- */

/* One thread per input. */
template <typename T> __global__ void observe_kernel(const yk_awq_observe_args p)
{
  const int64_t j = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (j >= p.k) return;
  double sum = p.sums[j];
#pragma unroll 8
  for (int32_t i = 0; i < p.n_tokens; i++) {
    const float x = yk_cuda::to_float(static_cast<const T *>(p.x)[i * p.x_stride + j]);
    sum += fabsf(x);
    const int64_t token = p.first_token + i, row = token * p.n_kept / p.n_text;
    if (row != (token + 1) * p.n_kept / p.n_text) p.kept[row * p.k + j] = x;
  }
  p.sums[j] = sum;
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

/* The output and group of this warp. */
struct place {
  int64_t n, which;
};

__device__ place place_of(const yk_awq_floats &p)
{
  const int64_t at = blockIdx.x * static_cast<int64_t>(SEARCH_WARPS) + threadIdx.x / WARP, n_groups = p.k / p.group;
  return {at / n_groups, at % n_groups};
}

__device__ float greatest_magnitude(float most)
{
  for (int lane = WARP / 2; lane > 0; lane /= 2) most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, lane));
  return most;
}

template <typename T> __device__ float greatest_of(const yk_awq_floats &p, const place &at)
{
  float most = 0.0f;
  for (int64_t k = at.which * p.group + threadIdx.x % WARP; k < (at.which + 1) * p.group; k += WARP)
    most = fmaxf(most, fabsf(scaled<T>(p, at.n, k)));
  return greatest_magnitude(most);
}

/* The dequantised value of a weight. */
__device__ float value_of(const group &g, float w)
{
  return __fmul_rn(g.scale, __fsub_rn(whole_of(g, w), g.zero));
}

template <typename T>
__global__ void errors_kernel(const yk_awq_floats p, int64_t first_output, float *errors, yk_awq_found *found)
{
  const place at = place_of(p);
  if (at.n >= p.n) return;
  const float limit = limit_of(p, at.n, at.which);
  const group g = find_group<T>(p, at.n, at.which, limit, first_output, found);
  for (int64_t k = at.which * p.group + threadIdx.x % WARP; k < (at.which + 1) * p.group; k += WARP) {
    float error = value_of(g, cut(scaled<T>(p, at.n, k), limit));
    if (p.n_scales) error = __fdiv_rn(error, p.n_scales[at.n]);
    if (p.k_scales) error = __fdiv_rn(error, p.k_scales[k]);
    errors[at.n * p.k + k] = __fsub_rn(error, yk_cuda::to_float(static_cast<const T *>(p.w)[at.n * p.k + k]));
  }
}

template <typename T>
__global__ void changes_kernel(const yk_awq_floats p, int64_t first_output, float factor, float *changes,
                               yk_awq_found *found)
{
  const place at = place_of(p);
  if (at.n >= p.n) return;
  const float limit = __fmul_rn(greatest_of<T>(p, at), factor);
  const group g = find_group<T>(p, at.n, at.which, limit, first_output, found);
  for (int64_t k = at.which * p.group + threadIdx.x % WARP; k < (at.which + 1) * p.group; k += WARP) {
    const float w = scaled<T>(p, at.n, k);
    changes[at.n * p.k + k] = __fsub_rn(value_of(g, cut(w, limit)), w);
  }
}

template <typename T>
__global__ void take_better_kernel(const yk_awq_floats p, float factor, int is_first, const float *changes,
                                   const float *dots, float *losses, float *limits)
{
  const place at = place_of(p);
  if (at.n >= p.n) return;
  const int64_t out = at.n * (p.k / p.group) + at.which;
  float loss = 0.0f;
  for (int64_t k = at.which * p.group + threadIdx.x % WARP; k < (at.which + 1) * p.group; k += WARP)
    loss += changes[at.n * p.k + k] * dots[at.n * p.k + k];
  loss = yk_cuda::warp_sum(loss);
  if (!is_first && !(loss < losses[out])) return;
  const float most = greatest_of<T>(p, at);
  if (threadIdx.x % WARP) return;
  losses[out] = loss;
  limits[out] = __fmul_rn(most, factor);
}

/* ---- Sums -------------------------------------------------------------------------------------------------------- */

__device__ double block_sum(double x)
{
  __shared__ double shared[SEARCH_WARPS];
  x = yk_cuda::warp_sum(x);
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
  __syncthreads();
  double sum = 0;
  for (int i = 0; i < SEARCH_WARPS; i++) sum += shared[i];
  return sum;
}

__global__ void squares_kernel(const float *y, int64_t n, double *partials)
{
  double sum = 0;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(SEARCH_THREADS) + threadIdx.x; i < n;
       i += gridDim.x * SEARCH_THREADS)
    sum += static_cast<double>(y[i]) * static_cast<double>(y[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void add_partials_kernel(const double *partials, yk_awq_found *found)
{
  const double sum = block_sum(partials[threadIdx.x]);
  if (threadIdx.x == 0) found->loss += sum;
}

__global__ void divide_kernel(const float *rows, const float *k_scales, int64_t n, int64_t k, float *out)
{
  const int64_t i = blockIdx.x * static_cast<int64_t>(SEARCH_THREADS) + threadIdx.x;
  if (i < n) out[i] = k_scales ? __fdiv_rn(rows[i], k_scales[i % k]) : rows[i];
}

unsigned blocks_for(int64_t items, int each)
{
  return static_cast<unsigned>((items + each - 1) / each);
}

unsigned group_blocks(const yk_awq_floats *p)
{
  return blocks_for(p->n * (p->k / p->group), SEARCH_WARPS);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_awq_observe(yk_dtype dtype, const yk_awq_observe_args *args, cudaStream_t stream)
{
  if (args->n_tokens == 0) return cudaSuccess;
  return yk_cuda::with_act_type(dtype, [&](auto type) {
    observe_kernel<decltype(type)><<<blocks_for(args->k, 64), 64, 0, stream>>>(*args);
    return cudaGetLastError();
  });
}

extern "C" cudaError_t yk_cuda_launch_awq_errors(const yk_awq_floats *weight, int64_t first_output, float *errors,
                                                 yk_awq_found *found, cudaStream_t stream)
{
  return yk_cuda::with_type(weight->dtype, [&](auto type) {
    errors_kernel<decltype(type)>
        <<<group_blocks(weight), SEARCH_THREADS, 0, stream>>>(*weight, first_output, errors, found);
    return cudaGetLastError();
  });
}

extern "C" cudaError_t yk_cuda_launch_awq_add_squares(const float *y, int64_t n, double *partials, yk_awq_found *found,
                                                      cudaStream_t stream)
{
  static_assert(YK_CUDA_AWQ_PARTIALS == SEARCH_THREADS, "a thread adds one");
  squares_kernel<<<YK_CUDA_AWQ_PARTIALS, SEARCH_THREADS, 0, stream>>>(y, n, partials);
  add_partials_kernel<<<1, SEARCH_THREADS, 0, stream>>>(partials, found);
  return cudaGetLastError();
}

extern "C" cudaError_t yk_cuda_launch_awq_divide(const float *rows, const float *k_scales, int64_t n_rows, int64_t k,
                                                 float *out, cudaStream_t stream)
{
  divide_kernel<<<blocks_for(n_rows * k, SEARCH_THREADS), SEARCH_THREADS, 0, stream>>>(rows, k_scales, n_rows * k, k,
                                                                                       out);
  return cudaGetLastError();
}

extern "C" cudaError_t yk_cuda_launch_awq_changes(const yk_awq_floats *weight, int64_t first_output, float factor,
                                                  float *changes, yk_awq_found *found, cudaStream_t stream)
{
  return yk_cuda::with_type(weight->dtype, [&](auto type) {
    changes_kernel<decltype(type)>
        <<<group_blocks(weight), SEARCH_THREADS, 0, stream>>>(*weight, first_output, factor, changes, found);
    return cudaGetLastError();
  });
}

extern "C" cudaError_t yk_cuda_launch_awq_take_better(const yk_awq_floats *weight, float factor, int is_first,
                                                      const float *changes, const float *dots, float *losses,
                                                      float *limits, cudaStream_t stream)
{
  return yk_cuda::with_type(weight->dtype, [&](auto type) {
    take_better_kernel<decltype(type)>
        <<<group_blocks(weight), SEARCH_THREADS, 0, stream>>>(*weight, factor, is_first, changes, dots, losses, limits);
    return cudaGetLastError();
  });
}
