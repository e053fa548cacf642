/* shared_memory.cuh - addresses in shared memory, and accesses by address. An address is the 32-bit offset in the
 * shared memory window of the thread block, the form in which PTX instructions take addresses in shared memory. */
#ifndef YK_KERNELS_CUDA_PTX_SHARED_MEMORY_CUH
#define YK_KERNELS_CUDA_PTX_SHARED_MEMORY_CUH

#include <cstdint>

namespace yk_ptx {

__device__ __forceinline__ uint32_t shared_address(const void *pointer)
{
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ uint4 load_shared16(uint32_t address)
{
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
}

__device__ __forceinline__ uint2 load_shared8(uint32_t address)
{
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address));
  return v;
}

__device__ __forceinline__ void store_shared4(uint32_t address, float v)
{
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}

__device__ __forceinline__ void store_shared8(uint32_t address, uint2 v)
{
  asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(address), "r"(v.x), "r"(v.y) : "memory");
}

__device__ __forceinline__ void store_shared16(uint32_t address, uint4 v)
{
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

} // namespace yk_ptx

#endif
