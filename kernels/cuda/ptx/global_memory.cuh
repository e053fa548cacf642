/* global_memory.cuh - accesses to global memory of 16 bytes in one instruction, with a memory order or a cache hint
 * that C++ has no word for. */
#ifndef YK_KERNELS_CUDA_PTX_GLOBAL_MEMORY_CUH
#define YK_KERNELS_CUDA_PTX_GLOBAL_MEMORY_CUH

#include <cstdint>

namespace yk_ptx {

/* The compiler cuts an assignment of a uint4 into four stores where it cannot prove the alignment. */
__device__ __forceinline__ void store_global16(void *to, uint4 v)
{
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

/* Relaxed at the scope of the GPU: for memory that other blocks write and read while this one polls it. Each of the
 * four words is written or read as a whole, the 16 bytes need not be. */
__device__ __forceinline__ uint4 load_relaxed_gpu16(const uint4 *from)
{
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

__device__ __forceinline__ void store_relaxed_gpu16(uint4 *to, uint32_t word)
{
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%1,%1,%1};" ::"l"(to), "r"(word) : "memory");
}

/* Adds 1 and returns what was there. Orders all that the thread has written before, and read after, for every thread
 * of the GPU that adds to the same counter. */
__device__ __forceinline__ int32_t increment_acq_rel_gpu(int32_t *counter)
{
  int32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

/* The line of 128 bytes into the L2 cache. */
__device__ __forceinline__ void prefetch_l2(const void *address)
{
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/* The same, with the request that other lines be evicted first. */
__device__ __forceinline__ void prefetch_l2_evict_last(const void *address)
{
  asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(address));
}

} // namespace yk_ptx

#endif
