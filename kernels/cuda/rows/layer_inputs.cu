/* layer_inputs.cu - see layer_inputs.h. */
#include "kernels/cuda/rows/layer_inputs.h"

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/rows/launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

constexpr int THREADS = 256, WARPS = THREADS / WARP;
constexpr float SQRT_HALF = 0.70710678118654752f;

/* A warp has the embedding of one row for one layer. */
template <typename T>
__global__ void __launch_bounds__(THREADS) layer_inputs_kernel(const __grid_constant__ yk_layer_inputs_args p)
{
  const int64_t index = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / WARP, row = index / p.n_layers;
  const int lane = threadIdx.x % WARP;
  const bool exists = row < p.n_tokens;
  const T *projected = static_cast<const T *>(p.projected) + index * p.size;
  const T *norm_w = static_cast<const T *>(p.norm_w) + p.first;
  let_next_kernel_start();
  const int64_t id = exists ? p.token_ids[row] : 0;
  wait_for_previous_kernel();
  if (!exists) return;
  float squares = 0.0f;
  for (int32_t i = lane; i < p.size; i += WARP) {
    const float x = p.projected_scale * to_float(projected[i]);
    squares += x * x;
  }
  const float mean = warp_sum(squares) / static_cast<float>(p.size), factor = p.projected_scale * rsqrtf(mean + p.eps);
  const T *table = static_cast<const T *>(p.table) + (id * p.n_layers + index % p.n_layers) * p.width;
  T *y = static_cast<T *>(p.y) + index * p.width;
  for (int32_t i = lane; i < p.width; i += WARP) {
    const float normed = factor * to_float(projected[p.first + i]) * to_float(norm_w[i]);
    y[i] = from_float<T>((normed + p.embed_scale * to_float(table[i])) * SQRT_HALF);
  }
}

/* A thread has vector i of one row, of n. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS) multiply_kernel(const __grid_constant__ yk_multiply_args p, int32_t n)
{
  const int64_t row = blockIdx.x, i = static_cast<int64_t>(blockIdx.y) * THREADS + threadIdx.x;
  vec<T, N> *x = static_cast<vec<T, N> *>(p.x) + row * n + i;
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (i >= n) return;
  vec<T, N> v = *x;
  const vec<T, N> factors = static_cast<const vec<T, N> *>(p.factors)[row * (p.stride / N) + i];
#pragma unroll
  for (int j = 0; j < N; j++) v.at[j] = from_float<T>(to_float(v.at[j]) * to_float(factors.at[j]));
  *x = v;
}

template <typename T, int N> cudaError_t multiply(const yk_multiply_args &args, cudaStream_t stream)
{
  const int32_t n = args.width / N;
  const dim3 grid(args.n_rows, ceil_div(n, THREADS));
  return launch_dependent(multiply_kernel<T, N>, {grid, THREADS, 0, 1}, stream, args, n);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_layer_inputs(yk_dtype dtype, const yk_layer_inputs_args *args,
                                                   cudaStream_t stream)
{
  const int64_t n = static_cast<int64_t>(args->n_tokens) * args->n_layers;
  if (n == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(ceil_div(n, WARPS)));
  return with_act_type(dtype, [&](auto type) {
    return launch_with_max_shared_memory(layer_inputs_kernel<decltype(type)>, grid, THREADS, 0, stream, *args);
  });
}

extern "C" cudaError_t yk_cuda_launch_multiply(yk_dtype dtype, const yk_multiply_args *args, cudaStream_t stream)
{
  const bool is_wide =
      args->width % WIDE == 0 && args->stride % WIDE == 0 && is_aligned(args->x, 16) && is_aligned(args->factors, 16);
  if (args->n_rows == 0 || args->width == 0) return cudaSuccess;
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    return is_wide ? multiply<T, WIDE>(*args, stream) : multiply<T, 1>(*args, stream);
  });
}
