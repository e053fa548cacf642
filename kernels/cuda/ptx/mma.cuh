/* mma.cuh - matrix instructions of one warp (8.0), and moves of their operands between registers and shared memory.
 *
 * Fragments of m16n8k16, with g = lane / 4 and t = lane % 4, two values of 16 bits per register:
 *   A [16, 16]   a0 row g, k 2t and 2t+1; a1 row g+8; a2 and a3 the same rows, k + 8
 *   B [16, 8]    b0 k 2t and 2t+1, column g; b1 k + 8
 *   C [16, 8]    c0, c1 row g, columns 2t and 2t+1; c2, c3 row g+8; float32
 * Fragments of m16n8k32, with four values of 8 bits per register, where k counts bytes: the same with 4t .. 4t+3 in
 * place of 2t and 2t+1 of A and B, and k + 16 in place of k + 8; C is int32. Fragments of m16n8k8, with one value of
 * TF32 per register: the same with t in place of 2t and 2t+1, and k + 4 in place of k + 8. */
#ifndef YK_KERNELS_CUDA_PTX_MMA_CUH
#define YK_KERNELS_CUDA_PTX_MMA_CUH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace yk_ptx {

/* c += A B, for T __half or __nv_bfloat16. */
template <typename T>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                             uint32_t b0, uint32_t b1);
#define YK_MMA_M16N8K16(type, name)                                                                                    \
  template <>                                                                                                          \
  __device__ __forceinline__ void mma_m16n8k16<type>(float(&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, \
                                                     uint32_t b0, uint32_t b1)                                         \
  {                                                                                                                    \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "          \
        "{%0,%1,%2,%3};"                                                                                               \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                               \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                                       \
  }
YK_MMA_M16N8K16(__half, "f16")
YK_MMA_M16N8K16(__nv_bfloat16, "bf16")
#undef YK_MMA_M16N8K16

/* c += A B of signed bytes, exactly. */
__device__ __forceinline__ void mma_m16n8k32_s8(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* c += A B of unsigned bytes of A and signed bytes of B, exactly. */
__device__ __forceinline__ void mma_m16n8k32_u8_s8(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                                   uint32_t b0, uint32_t b1)
{
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* x rounded to TF32: 8 bits of exponent, 11 of mantissa. */
__device__ __forceinline__ uint32_t round_to_tf32(float x)
{
  uint32_t v;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(v) : "f"(x));
  return v;
}

/* c += A B of TF32. */
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Load four 8 x 8 matrices of 16-bit values. Lane i passes the address of row i % 8 of matrix i / 8; lane 4r + c
 * receives columns 2c and 2c+1 of row r of each matrix. */
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], uint32_t address)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/* The same with each matrix transposed. */
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t address)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/* Store four matrices; lanes and addresses as in ldmatrix_x4 (9.0). */
__device__ __forceinline__ void stmatrix_x4(uint32_t address, const uint32_t (&v)[4])
{
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v[0]), "r"(v[1]),
               "r"(v[2]), "r"(v[3])
               : "memory");
}

/* Store N = 1, 2 or 4 matrices, each transposed; lanes and addresses as in ldmatrix_x4 (9.0). */
template <int N> __device__ __forceinline__ void stmatrix_trans(uint32_t address, const uint32_t (&v)[N])
{
  static_assert(N == 1 || N == 2 || N == 4, "matrices");
  if constexpr (N == 1)
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address), "r"(v[0]) : "memory");
  else if constexpr (N == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(address), "r"(v[0]), "r"(v[1])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v[0]),
                 "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
}

/* Transpose an 8 x 8 matrix of 16-bit values; lane 4r + c holds columns 2c and 2c+1 of row r, before and after. */
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t v)
{
  uint32_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
  return r;
}

} // namespace yk_ptx

#endif
