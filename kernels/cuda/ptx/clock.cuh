/* clock.cuh - the GPU's clock. */
#ifndef YK_KERNELS_CUDA_PTX_CLOCK_CUH
#define YK_KERNELS_CUDA_PTX_CLOCK_CUH

#include <cstdint>

namespace yk_ptx {

/* Nanoseconds since a fixed time, the same on all multiprocessors. */
__device__ __forceinline__ uint64_t nanoseconds()
{
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

} // namespace yk_ptx

#endif
