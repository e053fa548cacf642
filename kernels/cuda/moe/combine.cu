/* combine.cu - see combine.h. Each thread computes one vector of a row. */
#include "kernels/cuda/moe/combine.h"

#include <algorithm>

#include "kernels/cuda/common/combine_rows.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;

namespace {

constexpr int COMBINE_WIDE = 8; /* elements of act in 16 bytes */
constexpr int COMBINE_THREADS = 128;
constexpr int MOST_GRID_ROWS = 65535; /* limit of a grid along y; further rows go along z */

/* Choices whose weights are 1. */
struct unweighted_choices {
  const yk_combine_args &p;
  int64_t row;

  __device__ __forceinline__ few_choices from(int first) const
  {
    few_choices few;
#pragma unroll
    for (int j = 0; j < CHOICES_AHEAD; j++) {
      few.slots[j] = first + j < p.top_k ? p.slot_of_choice[row * p.top_k + first + j] : -1;
      few.weights[j] = 1.0f;
    }
    return few;
  }
};

template <typename T, int N, typename CHOICES>
__global__ void __launch_bounds__(COMBINE_THREADS) combine_kernel(const __grid_constant__ yk_combine_args p)
{
  const int n = p.hidden / N, i = blockIdx.x * COMBINE_THREADS + threadIdx.x;
  const int64_t row = blockIdx.z * MOST_GRID_ROWS + blockIdx.y;
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (i < n && row < p.n_tokens)
    static_cast<vec<T, N> *>(p.y)[row * n + i] = combine_vector<T, N>(p, row, i, CHOICES{p, row});
}

template <typename T, int N> cudaError_t launch_combine(const yk_combine_args &args, cudaStream_t stream)
{
  const unsigned blocks = static_cast<unsigned>((args.hidden / N + COMBINE_THREADS - 1) / COMBINE_THREADS);
  const auto kernel =
      args.weights ? combine_kernel<T, N, choices_in_memory<false>> : combine_kernel<T, N, unweighted_choices>;
  const cudaError_t error = prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  const dim3 grid(blocks, static_cast<unsigned>(std::min(args.n_tokens, MOST_GRID_ROWS)),
                  static_cast<unsigned>((args.n_tokens + MOST_GRID_ROWS - 1) / MOST_GRID_ROWS));
  return launch_dependent(kernel, {grid, COMBINE_THREADS, 0, 1}, stream, args);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_combine(yk_dtype dtype, const yk_combine_args *args, cudaStream_t stream)
{
  if (args->n_tokens <= 0 || args->hidden <= 0) return cudaSuccess;
  const bool is_wide = args->hidden % COMBINE_WIDE == 0 && is_aligned(args->y, 16) && is_aligned(args->slots, 16) &&
                       is_aligned(args->shared, 16);
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    return is_wide ? launch_combine<T, COMBINE_WIDE>(*args, stream) : launch_combine<T, 1>(*args, stream);
  });
}
