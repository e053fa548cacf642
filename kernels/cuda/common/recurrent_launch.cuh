/* recurrent_launch.cuh - launches of the kernels of recurrent layers that keep much in shared memory. */
#ifndef YK_KERNELS_CUDA_COMMON_RECURRENT_LAUNCH_CUH
#define YK_KERNELS_CUDA_COMMON_RECURRENT_LAUNCH_CUH

#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_cuda {

/* Whether n_blocks thread blocks with shared_bytes of shared memory fit on the current GPU at once, one per
 * multiprocessor. */
inline cudaError_t have_own_multiprocessors(int64_t n_blocks, size_t shared_bytes, bool *yes)
{
  int device = 0, n_multiprocessors = 0, most = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&n_multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  *yes = n_blocks <= n_multiprocessors && shared_bytes <= static_cast<size_t>(most);
  return error;
}

/* A dependent launch with the largest shared memory carveout. */
template <typename PARAMS>
cudaError_t launch_shared(void (*kernel)(PARAMS), dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
                          const PARAMS &p)
{
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (error == cudaSuccess) error = yk_ptx::prefer_shared_memory(reinterpret_cast<const void *>(kernel));
  if (error != cudaSuccess) return error;
  const yk_ptx::launch_shape shape = {grid, threads, shared_bytes, 1};
  return yk_ptx::launch_dependent(kernel, shape, stream, p);
}

} // namespace yk_cuda

#endif
