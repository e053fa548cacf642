/* combine.cu - see combine.h. A thread has one vector of a row; all of its slots are asked for before the first is
 * added. */
#include "kernels/cuda/experts/combine.h"

#include <algorithm>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;

namespace {

constexpr int WIDE = 8;  /* elements of act in 16 bytes */
constexpr int AHEAD = 8; /* choices whose slots are asked for together */
constexpr int THREADS = 128;

template <typename T, int N>
__global__ void __launch_bounds__(THREADS) combine_kernel(const __grid_constant__ yk_combine_args p)
{
  using V = vec<T, N>;
  const int n = p.hidden / N, i = blockIdx.x * THREADS + threadIdx.x;
  const int64_t row = blockIdx.y;
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (i >= n) return;
  const V *slots = static_cast<const V *>(p.slots);
  float sum[N] = {};
  for (int first = 0; first < p.top_k; first += AHEAD) {
    int slot[AHEAD];
    float weight[AHEAD];
    V v[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
      const bool is_there = first + j < p.top_k;
      slot[j] = is_there ? p.slot_of_choice[row * p.top_k + first + j] : -1;
      weight[j] = is_there ? p.weights[row * p.top_k + first + j] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
      if (slot[j] >= 0) v[j] = slots[static_cast<int64_t>(slot[j]) * n + i];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) {
      if (slot[j] < 0) continue;
#pragma unroll
      for (int e = 0; e < N; e++) sum[e] += weight[j] * to_float(v[j].at[e]);
    }
  }
  if (p.shared) {
    const V v = static_cast<const V *>(p.shared)[row * n + i];
    const float factor = p.shared_gate ? 1.0f / (1.0f + expf(-p.shared_gate[row * p.shared_gate_stride])) : 1.0f;
#pragma unroll
    for (int e = 0; e < N; e++) sum[e] += to_float(v.at[e]) * factor;
  }
  V out;
#pragma unroll
  for (int e = 0; e < N; e++) out.at[e] = from_float<T>(sum[e]);
  static_cast<V *>(p.y)[row * n + i] = out;
}

template <typename T, int N> cudaError_t launch(const yk_combine_args &args, cudaStream_t stream)
{
  const unsigned blocks = static_cast<unsigned>((args.hidden / N + THREADS - 1) / THREADS);
  const cudaError_t error = prefer_shared_memory(reinterpret_cast<const void *>(combine_kernel<T, N>));
  if (error != cudaSuccess) return error;
  return launch_dependent(combine_kernel<T, N>, {dim3(blocks, static_cast<unsigned>(args.n_tokens)), THREADS, 0, 1},
                          stream, args);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_combine(yk_dtype dtype, const yk_combine_args *args, cudaStream_t stream)
{
  if (args->n_tokens <= 0 || args->hidden <= 0) return cudaSuccess;
  const bool is_wide = args->hidden % WIDE == 0 && is_aligned(args->y, 16) && is_aligned(args->slots, 16) &&
                       is_aligned(args->shared, 16);
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    return is_wide ? launch<T, WIDE>(*args, stream) : launch<T, 1>(*args, stream);
  });
}
