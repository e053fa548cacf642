/* reduce.cuh - sums over the threads of a warp and of a thread block, in a fixed order. */
#ifndef YK_KERNELS_CUDA_COMMON_REDUCE_CUH
#define YK_KERNELS_CUDA_COMMON_REDUCE_CUH

namespace yk_cuda {

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

/* The sum over the warp, in every lane. */
template <typename T> __device__ inline T warp_sum(T x)
{
  for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
  return x;
}

/* The inclusive prefix sum: the sum over this lane and the lanes before. */
template <typename T> __device__ inline T warp_prefix_sum(T x)
{
  for (int offset = 1; offset < WARP; offset *= 2) {
    const T below = __shfl_up_sync(ALL_LANES, x, offset);
    if (threadIdx.x % WARP >= offset) x += below;
  }
  return x;
}

/* The sum over the thread block, in every thread. All threads call it; the thread block is whole warps. shared: one
 * float for each warp, in shared memory, not to be written again before a __syncthreads. */
__device__ inline float block_sum(float x, float *shared)
{
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, n_warps = blockDim.x / WARP;
  x = warp_sum(x);
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return warp_sum(lane < n_warps ? shared[lane] : 0.0f);
}

} // namespace yk_cuda

#endif
