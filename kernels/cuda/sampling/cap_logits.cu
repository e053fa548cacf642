/* cap_logits.cu - see cap_logits.h. A thread has one column of one row. */
#include "kernels/cuda/sampling/cap_logits.h"

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace {

constexpr int CAP_THREADS = 256;
constexpr int MOST_GRID_ROWS = 65535; /* of the grid's second dimension */

/* An infinite logit stays infinite, so that sampling reports the row as failed. */
__global__ void __launch_bounds__(CAP_THREADS) cap_logits_kernel(const __grid_constant__ yk_cap_logits_args p)
{
  const int32_t i = blockIdx.x * CAP_THREADS + threadIdx.x;
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  if (i >= p.n) return;
  for (int32_t row = blockIdx.y; row < p.n_rows; row += gridDim.y) {
    float *logit = p.logits + row * p.stride + i;
    if (!isinf(*logit)) *logit = p.cap * tanhf(*logit / p.cap);
  }
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_cap_logits(const yk_cap_logits_args *args, cudaStream_t stream)
{
  if (args->n_rows == 0 || args->n == 0) return cudaSuccess;
  const dim3 grid(yk_cuda::ceil_div(args->n, CAP_THREADS),
                  args->n_rows < MOST_GRID_ROWS ? args->n_rows : MOST_GRID_ROWS);
  return yk_ptx::launch_dependent(cap_logits_kernel, {grid, CAP_THREADS, 0, 1}, stream, *args);
}
