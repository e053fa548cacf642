/* attention_ptx.cuh - the machine instructions that the attention kernels are made of, one thin function each. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PTX_CUH
#define YK_KERNELS_CUDA_ATTENTION_PTX_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "kernels/cuda/overlap.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define YK_HAVE_SM90A 1
#endif

namespace yk_attn {

using yk_cuda::let_next_kernel_start;
using yk_cuda::wait_for_previous_kernel;

constexpr float LOG2E = 1.4426950408889634f;

__device__ __forceinline__ uint32_t smem_address(const void *ptr)
{
  return static_cast<uint32_t>(__cvta_generic_to_shared(ptr));
}

__device__ __forceinline__ float exp2_fast(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* Two floats rounded to T, the first in the low half. */
template <typename T> __device__ __forceinline__ uint32_t pack2(float low, float high);
template <> __device__ __forceinline__ uint32_t pack2<__half>(float low, float high)
{
  __half2 v = __floats2half2_rn(low, high);
  return *reinterpret_cast<uint32_t *>(&v);
}
template <> __device__ __forceinline__ uint32_t pack2<__nv_bfloat16>(float low, float high)
{
  __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t *>(&v);
}

/* c [16, 8] += a [16, 16] b [16, 8]. With g = lane / 4, t = lane % 4: a0 row g, k 2t..2t+1; a1 row g+8; a2, a3 the same
 * rows, k + 8; b0 k 2t..2t+1, column g; b1 k + 8; c0, c1 row g, columns 2t, 2t+1; c2, c3 row g+8.                    */
template <typename T>
__device__ __forceinline__ void mma_16x8x16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                            uint32_t b0, uint32_t b1);
#define YK_MMA_16X8X16(type, name)                                                                                     \
  template <>                                                                                                          \
  __device__ __forceinline__ void mma_16x8x16<type>(float(&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,  \
                                                    uint32_t b0, uint32_t b1)                                          \
  {                                                                                                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, " \
                 "{%0,%1,%2,%3};"                                                                                      \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                      \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                              \
  }
YK_MMA_16X8X16(__half, "f16")
YK_MMA_16X8X16(__nv_bfloat16, "bf16")
#undef YK_MMA_16X8X16

/* An 8 x 8 matrix of 16-bit values, lane 4r + c holding columns 2c, 2c+1 of row r, transposed. */
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t v)
{
  uint32_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
  return r;
}

/* Four 8 x 8 matrices of 16-bit values from shared memory; lane i gives the address of row i % 8 of matrix i / 8. */
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], uint32_t address)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t address)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/* 16 bytes from global to shared memory, asynchronously; zeros where valid is false. */
__device__ __forceinline__ void cp_async_16(uint32_t dst, const void *src, bool valid)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(valid ? 16 : 0) : "memory");
}

__device__ __forceinline__ void cp_async_commit()
{
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> __device__ __forceinline__ void cp_async_wait()
{
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ void mbarrier_init(uint64_t *bar, uint32_t count)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(bar)), "r"(count) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint64_t *bar)
{
  asm volatile("{\n\t.reg .b64 state;\n\tmbarrier.arrive.shared::cta.b64 state, [%0];\n\t}" ::"r"(smem_address(bar))
               : "memory");
}

/* Arrive once the thread's earlier cp.async have landed; counts towards the barrier's expected arrivals. */
__device__ __forceinline__ void mbarrier_arrive_cp_async(uint64_t *bar)
{
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(smem_address(bar)) : "memory");
}

__device__ __forceinline__ bool mbarrier_test(uint64_t *bar, uint32_t phase)
{
  uint32_t done;
#if defined(YK_HAVE_SM90A)
  asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, "
               "p;\n\t}"
               : "=r"(done)
               : "r"(smem_address(bar)), "r"(phase)
               : "memory");
#else
  asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, "
               "p;\n\t}"
               : "=r"(done)
               : "r"(smem_address(bar)), "r"(phase)
               : "memory");
#endif
  return done != 0;
}

__device__ __forceinline__ void mbarrier_wait(uint64_t *bar, uint32_t phase)
{
  while (!mbarrier_test(bar, phase)) {
  }
}

/* A barrier of n_threads threads of the block; id 1..15 (0 is __syncthreads). */
__device__ __forceinline__ void named_barrier_sync(int id, int n_threads)
{
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

__device__ __forceinline__ void named_barrier_arrive(int id, int n_threads)
{
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

#if defined(YK_HAVE_SM90A)

__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t *bar, uint32_t n_bytes)
{
  asm volatile("{\n\t.reg .b64 state;\n\tmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n\t}" ::"r"(
                   smem_address(bar)),
               "r"(n_bytes)
               : "memory");
}

/* n_bytes (a multiple of 16) from global to shared memory by the copy engine, completing on bar. */
__device__ __forceinline__ void bulk_copy(uint32_t dst, const void *src, uint32_t n_bytes, uint64_t *bar)
{
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
               "l"(src), "r"(n_bytes), "r"(smem_address(bar))
               : "memory");
}

/* The box at (column, row) of a two-dimensional tensor map. */
__device__ __forceinline__ void tensor_copy(uint32_t dst, const void *map, int32_t column, int32_t row, uint64_t *bar)
{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
               "[%4];" ::"r"(dst),
               "l"(map), "r"(column), "r"(row), "r"(smem_address(bar))
               : "memory");
}

__device__ __forceinline__ void fence_async_shared()
{
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void fence_barrier_init()
{
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

#endif // YK_HAVE_SM90A

} // namespace yk_attn

#endif
