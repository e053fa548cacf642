/* parameters.cuh - control of the time at which a kernel's parameters are read. */
#ifndef YK_KERNELS_CUDA_PTX_PARAMETERS_CUH
#define YK_KERNELS_CUDA_PTX_PARAMETERS_CUH

#include <cstdint>

namespace yk_ptx {

/* Read all of a kernel's parameters, a __grid_constant__, once. They are in constant memory, which is not cached at the
 * start of a launch: the first read of each 64 bytes goes to the L2 cache, and should happen before the wait for the
 * previous kernel (dependent_launch.cuh). */
template <typename P> __device__ __forceinline__ void read_parameters(const P &p)
{
  constexpr int LINE_WORDS = 16;
  const uint32_t *words = reinterpret_cast<const uint32_t *>(&p);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(P) / sizeof *words); i += LINE_WORDS) asm volatile("" ::"r"(words[i]));
}

} // namespace yk_ptx

#endif
