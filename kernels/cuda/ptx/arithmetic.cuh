/* arithmetic.cuh - single arithmetic instructions that the compiler does not generate. */
#ifndef YK_KERNELS_CUDA_PTX_ARITHMETIC_CUH
#define YK_KERNELS_CUDA_PTX_ARITHMETIC_CUH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace yk_ptx {

/* 2^x by the hardware's approximation; subnormal inputs and results count as zero. */
__device__ __forceinline__ float exp2_approx(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* The smaller or the larger number; a NaN if one is. */
__device__ __forceinline__ float min_or_nan(float a, float b)
{
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

__device__ __forceinline__ float max_or_nan(float a, float b)
{
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

/* (word & mask) | bits. */
__device__ __forceinline__ uint32_t and_or(uint32_t word, uint32_t mask, uint32_t bits)
{
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(out) : "r"(word), "r"(mask), "r"(bits));
  return out;
}

/* The bits of a where mask has ones, else those of b. */
__device__ __forceinline__ uint32_t select_bits(uint32_t mask, uint32_t a, uint32_t b)
{
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(out) : "r"(mask), "r"(a), "r"(b));
  return out;
}

/* a * b of the low halves and of the high halves. This function and the next two are volatile, so that the compiler
 * does not move them below a following wgmma_fence: registers that a wgmma reads must be complete at its fence. */
__device__ __forceinline__ uint32_t multiply_f16x2(uint32_t a, uint32_t b)
{
  uint32_t out;
  asm volatile("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}

/* a * b + c of the low halves and of the high halves. */
__device__ __forceinline__ uint32_t multiply_add_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
  uint32_t out;
  asm volatile("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}

__device__ __forceinline__ uint32_t multiply_add_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
  uint32_t out;
  asm volatile("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}

#if __CUDA_ARCH__ >= 890
/* Four 8-bit floats (e4m3) as pairs of float16, exactly: the first two and the last two (8.9 and later). */
__device__ __forceinline__ void e4m3x4_to_f16x2(uint32_t codes, uint32_t &first, uint32_t &second)
{
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.rn.f16x2.e4m3x2 %0, low;\ncvt.rn.f16x2.e4m3x2 %1, "
      "high;\n}"
      : "=r"(first), "=r"(second)
      : "r"(codes));
}
#endif

/* Two floats rounded to T, the first in the low half. */
template <typename T> __device__ __forceinline__ uint32_t round_pair(float low, float high);

template <> __device__ __forceinline__ uint32_t round_pair<__half>(float low, float high)
{
  __half2 v = __floats2half2_rn(low, high);
  return *reinterpret_cast<uint32_t *>(&v);
}

template <> __device__ __forceinline__ uint32_t round_pair<__nv_bfloat16>(float low, float high)
{
  __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t *>(&v);
}

} // namespace yk_ptx

#endif
