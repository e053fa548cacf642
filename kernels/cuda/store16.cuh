/* store16.cuh - 16 bytes to global memory in one instruction: the compiler cuts an assignment of a uint4 into four. */
#ifndef YK_KERNELS_CUDA_STORE16_CUH
#define YK_KERNELS_CUDA_STORE16_CUH

#include <cstdint>

namespace yk_cuda {

__device__ __forceinline__ void store_global16(void *to, uint4 v)
{
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

} // namespace yk_cuda

#endif
