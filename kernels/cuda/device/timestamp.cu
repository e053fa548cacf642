/* timestamp.cu - one thread reads the GPU's clock. */
#include "kernels/cuda/device/timestamp.h"

#include "kernels/cuda/ptx/clock.cuh"
#include "kernels/cuda/rows/launch.cuh"

/* A link in the chain of dependent launches: the next kernel may start at once, if multiprocessors are free; its own
 * wait ends when this kernel has ended, which is after the previous kernel has. */
static __global__ void timestamp_kernel(int64_t *at)
{
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  *at = static_cast<int64_t>(yk_ptx::nanoseconds());
}

extern "C" cudaError_t yk_cuda_launch_timestamp(int64_t *at, cudaStream_t stream)
{
  return yk_rows::launch_with_max_shared_memory(timestamp_kernel, dim3(1), 1, 0, stream, at);
}
