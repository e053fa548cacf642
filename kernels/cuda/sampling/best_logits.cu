/* best_logits.cu - see best_logits.h. Unlike sample_rows.cu, which passes over a row several times, this kernel reads a
 * row once and stores no part of it, so that many small thread blocks share a multiprocessor and some read while others
 * exchange results. */
#include "kernels/cuda/sampling/best_logits.h"

#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/sampling/row_cluster.cuh"
#include "kernels/cuda/sampling/row_view.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_sample;

namespace {

constexpr int BEST_CLUSTER_BLOCKS = 8; /* on GPUs that have clusters */
constexpr int BEST_THREADS = 256, BEST_WARPS = BEST_THREADS / WARP;
constexpr int FOURS = 4; /* loads of 16 bytes in flight per thread */

/* A logit and its id as one number: the greater number is the better logit, and no logit is better than a NaN. */
using rank_key = unsigned long long;
constexpr rank_key NAN_KEY = ~0ull;

/* The best of a thread's logits, which come by rising id. */
struct thread_best {
  float value = -INFINITY;
  int32_t id = NO_ID;
  bool has_nan = false;

  __device__ void add(float logit, int32_t at)
  {
    has_nan |= logit != logit;
    if (logit > value) value = logit, id = at;
  }

  __device__ void add(float4 four, int32_t at)
  {
    add(four.x, at);
    add(four.y, at + 1);
    add(four.z, at + 2);
    add(four.w, at + 3);
  }

  __device__ rank_key key() const
  {
    return has_nan ? NAN_KEY : static_cast<rank_key>(key_of(value)) << 32 | ~static_cast<uint32_t>(id);
  }
};

/* Returns the greatest of the warp in every lane. */
__device__ rank_key warp_maximum(rank_key key)
{
  const uint32_t own = static_cast<uint32_t>(key >> 32);
  uint32_t high = own;
  for (int offset = WARP / 2; offset > 0; offset /= 2) high = max(high, __shfl_xor_sync(ALL_LANES, high, offset));
  uint32_t low = own == high ? static_cast<uint32_t>(key) : 0;
  for (int offset = WARP / 2; offset > 0; offset /= 2) low = max(low, __shfl_xor_sync(ALL_LANES, low, offset));
  return static_cast<rank_key>(high) << 32 | low;
}

__device__ yk_best_logit decoded(rank_key key)
{
  if (key == NAN_KEY) return {NAN, NO_ID};
  return {value_of(static_cast<uint32_t>(key >> 32)), static_cast<int32_t>(~static_cast<uint32_t>(key))};
}

/* The best of n logits; the first one's id is first_id. */
__device__ thread_best best_of(const float *logits, int32_t n, int32_t first_id)
{
  thread_best best;
  const int32_t unaligned = static_cast<int32_t>(-(reinterpret_cast<uintptr_t>(logits) / sizeof(float)) % 4);
  const int32_t head = min(n, unaligned), n_fours = (n - head) / 4, thread = threadIdx.x;
  if (thread < head) best.add(logits[thread], first_id + thread);
  const float4 *fours = reinterpret_cast<const float4 *>(logits + head);
  for (int32_t i = thread; i < n_fours; i += BEST_THREADS * FOURS) {
    float4 four[FOURS];
#pragma unroll
    for (int j = 0; j < FOURS; j++)
      four[j] = i + j * BEST_THREADS < n_fours ? __ldcs(fours + i + j * BEST_THREADS)
                                               : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
#pragma unroll
    for (int j = 0; j < FOURS; j++) best.add(four[j], first_id + head + (i + j * BEST_THREADS) * 4);
  }
  const int32_t tail = head + n_fours * 4 + thread;
  if (tail < n) best.add(logits[tail], first_id + tail);
  return best;
}

template <int CLUSTER>
__global__ void __launch_bounds__(BEST_THREADS) best_logits_kernel(const __grid_constant__ yk_best_logits_args a)
{
  __shared__ rank_key of_warps[BEST_WARPS];
  __shared__ gather_buffers<CLUSTER, rank_key> buffers;
  const int32_t row = blockIdx.x / CLUSTER, part = slice_ids(a.n_ids, CLUSTER), lane = threadIdx.x % WARP;
  const int32_t begin = min(a.n_ids, rank_in_cluster<CLUSTER>() * part), n = min(a.n_ids - begin, part);
  int parity = 0;
  sync_cluster<CLUSTER>(); /* no block may write the memory of a thread block that does not run yet */
  wait_for_previous_kernel();
  const thread_best best = best_of(a.logits + static_cast<int64_t>(row) * a.stride + begin, n, a.first_id + begin);
  rank_key key = warp_maximum(best.key());
  if (lane == 0) of_warps[threadIdx.x / WARP] = key;
  __syncthreads();
  const rank_key *of_blocks = all_gather(buffers, parity, warp_maximum(lane < BEST_WARPS ? of_warps[lane] : 0));
  if (blockIdx.x % CLUSTER != 0 || threadIdx.x >= WARP) return;
  key = warp_maximum(lane < CLUSTER ? of_blocks[lane] : 0);
  if (lane == 0) a.out[row] = decoded(key);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_best_logits(const yk_best_logits_args *args, cudaStream_t stream)
{
  if (args->n_rows == 0) return cudaSuccess;
  bool has_clusters;
  const void *kernel = reinterpret_cast<const void *>(best_logits_kernel<BEST_CLUSTER_BLOCKS>);
  const cudaError_t error = has_code_for_90(kernel, &has_clusters);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(args->n_rows));
  if (!has_clusters) return launch_dependent(best_logits_kernel<1>, {grid, BEST_THREADS, 0, 1}, stream, *args);
  return launch_dependent(best_logits_kernel<BEST_CLUSTER_BLOCKS>,
                          {dim3(grid.x * BEST_CLUSTER_BLOCKS), BEST_THREADS, 0, BEST_CLUSTER_BLOCKS}, stream, *args);
}
