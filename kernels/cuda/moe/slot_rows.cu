/* slot_rows.cu - see slot_rows.h. Each thread computes one vector. */
#include "kernels/cuda/moe/slot_rows.h"

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;

namespace {

constexpr int SLOT_WIDE = 8; /* elements of act in 16 bytes */
constexpr int SLOT_THREADS = 128;

/* Grid: choices, vectors of a row. */
template <typename T, int N>
__global__ void __launch_bounds__(SLOT_THREADS) weigh_kernel(const __grid_constant__ yk_weigh_args p)
{
  const int n = p.hidden / N, i = blockIdx.y * SLOT_THREADS + threadIdx.x;
  const int64_t choice = blockIdx.x, row = choice / p.top_k;
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int64_t slot = p.slot_of_choice[choice];
  if (slot < 0 || i >= n) return;
  const float weight = p.weights[choice];
  auto v = static_cast<const vec<T, N> *>(p.x)[row * n + i];
#pragma unroll
  for (int j = 0; j < N; j++) v.at[j] = from_float<T>(weight * to_float(v.at[j]));
  static_cast<vec<T, N> *>(p.y)[slot * n + i] = v;
}

template <typename T, int N>
__global__ void __launch_bounds__(SLOT_THREADS) add_rows_kernel(vec<T, N> *y, const vec<T, N> *x, int64_t n)
{
  const int64_t i = static_cast<int64_t>(blockIdx.x) * SLOT_THREADS + threadIdx.x;
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (i >= n) return;
  const vec<T, N> added = x[i];
  vec<T, N> sum = y[i];
#pragma unroll
  for (int j = 0; j < N; j++) sum.at[j] = from_float<T>(to_float(sum.at[j]) + to_float(added.at[j]));
  y[i] = sum;
}

unsigned blocks_of(int64_t n_threads)
{
  return static_cast<unsigned>((n_threads + SLOT_THREADS - 1) / SLOT_THREADS);
}

template <typename T, int N> cudaError_t weigh(const yk_weigh_args &args, cudaStream_t stream)
{
  const auto kernel = weigh_kernel<T, N>;
  const cudaError_t error = prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(args.n_tokens) * args.top_k, blocks_of(args.hidden / N));
  return launch_dependent(kernel, {grid, SLOT_THREADS, 0, 1}, stream, args);
}

template <typename T, int N> cudaError_t add_rows(void *y, const void *x, int64_t n, cudaStream_t stream)
{
  const auto kernel = add_rows_kernel<T, N>;
  const cudaError_t error = prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  return launch_dependent(kernel, {dim3(blocks_of(n / N)), SLOT_THREADS, 0, 1}, stream, static_cast<vec<T, N> *>(y),
                          static_cast<const vec<T, N> *>(x), n / N);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_weigh(yk_dtype dtype, const yk_weigh_args *args, cudaStream_t stream)
{
  if (args->n_tokens <= 0 || args->hidden <= 0) return cudaSuccess;
  const bool is_wide = args->hidden % SLOT_WIDE == 0 && is_aligned(args->x, 16) && is_aligned(args->y, 16);
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    return is_wide ? weigh<T, SLOT_WIDE>(*args, stream) : weigh<T, 1>(*args, stream);
  });
}

extern "C" cudaError_t yk_cuda_launch_add_rows(yk_dtype dtype, void *y, const void *x, int64_t n, cudaStream_t stream)
{
  if (n <= 0) return cudaSuccess;
  const bool is_wide = n % SLOT_WIDE == 0 && is_aligned(x, 16) && is_aligned(y, 16);
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    return is_wide ? add_rows<T, SLOT_WIDE>(y, x, n, stream) : add_rows<T, 1>(y, x, n, stream);
  });
}
