/* launch.cuh - launches of the row-wise kernels.
 *
 * In all of them arithmetic is float32, and a value is rounded where kernels/device.h defines it as stored. A row's
 * result depends on that row alone, and sums are taken in a fixed order. */
#ifndef YK_KERNELS_CUDA_ROWS_LAUNCH_CUH
#define YK_KERNELS_CUDA_ROWS_LAUNCH_CUH

#include <algorithm>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/device.h"

namespace yk_rows {

constexpr int WIDE = 8; /* elements of act in 16 bytes */

constexpr int MOST_ROW_THREADS = 1024;

/* Threads of the thread block that processes a row of n vectors, one vector per thread: whole warps, at most
 * MOST_ROW_THREADS. */
inline int row_threads(int32_t n)
{
  constexpr int WARP = yk_cuda::WARP;
  return std::clamp((n + WARP - 1) / WARP * WARP, WARP, MOST_ROW_THREADS);
}

/* Launch a dependent kernel with the GEMMs' shared memory carveout (prefer_shared_memory). */
template <typename P>
cudaError_t launch_with_max_shared_memory(void (*kernel)(P), dim3 grid, int threads, size_t shared_bytes,
                                          cudaStream_t stream, const P &p)
{
  const cudaError_t error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  return yk_ptx::launch_dependent(kernel, {grid, threads, shared_bytes, 1}, stream, p);
}

/* Set the members common to the parameters of all kernels of add_norm. */
template <typename P> void set_add_norm(P &p, const yk_add_norm_args &args)
{
  p.y = args.y;
  p.residual = args.residual;
  p.w = args.w;
  p.alpha = args.alpha;
  p.eps = args.eps;
  p.per_element = 1.0f / static_cast<float>(args.hidden);
}

} // namespace yk_rows

#endif
