/* registers.cuh - control of the point at which the compiler computes a value, and of the register that keeps it. */
#ifndef YK_KERNELS_CUDA_PTX_REGISTERS_CUH
#define YK_KERNELS_CUDA_PTX_REGISTERS_CUH

#include <cstdint>

namespace yk_ptx {

/* Computes 32-bit integers here and keeps them in registers. Else the compiler may compute a value where it is used, or
 * again at every use, from special registers that are slow to read. One statement for several values lets the compiler
 * choose their order. */
template <typename T> __device__ __forceinline__ void keep_in_registers(T &a)
{
  asm volatile("" : "+r"(a));
}

template <typename T, typename U> __device__ __forceinline__ void keep_in_registers(T &a, U &b)
{
  asm volatile("" : "+r"(a), "+r"(b));
}

__device__ __forceinline__ void keep_in_registers(int &a, int &b, int &c, int &d, int &e, int &f, int &g)
{
  asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g));
}

/* A value that all lanes of a warp have, and threadIdx.x % 32, through a shuffle: where registers are few, ptxas would
 * read special registers (threadIdx; a cluster's rank, for addresses in shared memory) again in each iteration of a
 * loop, which is slow, and keep_in_registers does not prevent that. Called by whole warps. */
__device__ __forceinline__ uint32_t kept_in_warp(uint32_t value)
{
  return __shfl_sync(~0u, value, 0);
}

__device__ __forceinline__ int kept_lane()
{
  return __shfl_xor_sync(~0u, static_cast<int>(threadIdx.x % 32) ^ 1, 1);
}

/* Reads integers or pointers here: parameters of a kernel, before a wait (parameters.cuh). */
template <typename T> __device__ __forceinline__ void read_now(T value)
{
  if constexpr (sizeof(T) == 8)
    asm volatile("" ::"l"(value));
  else
    asm volatile("" ::"r"(value));
}

} // namespace yk_ptx

#endif
