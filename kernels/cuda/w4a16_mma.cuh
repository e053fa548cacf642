/* w4a16_mma.cuh - mma.sync m16n8k16 with float32 sums, and its B operand from shared memory. */
#ifndef YK_KERNELS_CUDA_W4A16_MMA_CUH
#define YK_KERNELS_CUDA_W4A16_MMA_CUH

#include <cstdint>

#include "base/dtype.h"

namespace w4a16 {

/* One of the four words that a lane loads at once. */
__device__ __forceinline__ uint32_t word_at(const uint4 &words, int i)
{
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

/* Four 8 x 8 matrices of 16-bit elements; lane i gives the address of row i%8 of matrix i/8. */
__device__ __forceinline__ void load_matrices(uint32_t (&out)[4], uint32_t address)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

/* sum[0..3] += A B for 16 rows, 8 columns and 16 inputs. */
template <yk_dtype DTYPE>
__device__ __forceinline__ void mma_step(float *sum, const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
  if constexpr (DTYPE == YK_F16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

} // namespace w4a16

#endif
