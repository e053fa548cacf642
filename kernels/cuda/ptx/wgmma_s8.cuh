/* wgmma_s8.cuh - matrix instructions of a warpgroup on signed bytes (sm_90a): d [64, N] (+)= A [64, 32] B [32, N],
 * summed in int32, exactly. wgmma.cuh says how instructions are issued, fenced and waited for, and has the descriptors:
 * A and B lie K-major in shared memory, 128 inputs a row with the 128-byte swizzle. */
#ifndef YK_KERNELS_CUDA_PTX_WGMMA_S8_CUH
#define YK_KERNELS_CUDA_PTX_WGMMA_S8_CUH

#include "kernels/cuda/ptx/wgmma.cuh"

namespace yk_ptx {

/* pin of wgmma.cuh, for sums. */
template <int N> __device__ __forceinline__ void pin(int (&d)[N][4])
{
#pragma unroll
  for (int i = 0; i < N; i++) {
#pragma unroll
    for (int e = 0; e < 4; e++) asm volatile("" : "+r"(d[i][e])::"memory");
  }
}

/* d = (accumulate ? d : 0) + A B, for each N that a kernel uses. */
template <int N> struct wgmma_s8;

/* PTX takes registers as a literal list. YK_TEN: ten operand numbers; YK_D4 .. YK_D64: that many numbers of d. */
#define YK_TEN(t)    "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define YK_D4(i)     "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3])
#define YK_D8(i)     YK_D4(i), YK_D4((i) + 1)
#define YK_D16(i)    YK_D8(i), YK_D8((i) + 2)
#define YK_D32(i)    YK_D16(i), YK_D16((i) + 4)
#define YK_D64(i)    YK_D32(i), YK_D32((i) + 8)
#define YK_LIST(...) __VA_ARGS__

/* D: the N / 2 numbers of d, and NUMBERS their operand numbers. A, B, P: those of the descriptors and accumulate. */
#define YK_WGMMA_S8(N, D, NUMBERS, A, B, P)                                                                            \
  template <> struct wgmma_s8<N> {                                                                                     \
    static __device__ __forceinline__ void run(int (&d)[N / 8][4], uint64_t a, uint64_t b, bool accumulate)            \
    {                                                                                                                  \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N                  \
                   "k32.s32.s8.s8 {" NUMBERS "}, " A ", " B ", p;\n}"                                                  \
                   : D                                                                                                 \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                                               \
    }                                                                                                                  \
  };

YK_WGMMA_S8(16, YK_LIST(YK_D8(0)), "%0,%1,%2,%3,%4,%5,%6,%7", "%8", "%9", "%10")
YK_WGMMA_S8(64, YK_LIST(YK_D32(0)), YK_TEN() YK_TEN(1) YK_TEN(2) "%30,%31", "%32", "%33", "%34")
YK_WGMMA_S8(128, YK_LIST(YK_D64(0)), YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) "%60,%61,%62,%63",
            "%64", "%65", "%66")
YK_WGMMA_S8(192, YK_LIST(YK_D64(0), YK_D32(16)),
            YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) YK_TEN(6) YK_TEN(7)
                YK_TEN(8) "%90,%91,%92,%93,%94,%95",
            "%96", "%97", "%98")
YK_WGMMA_S8(256, YK_LIST(YK_D64(0), YK_D64(16)),
            YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) YK_TEN(6) YK_TEN(7) YK_TEN(8) YK_TEN(9)
                YK_TEN(10) YK_TEN(11) "%120,%121,%122,%123,%124,%125,%126,%127",
            "%128", "%129", "%130")

#undef YK_WGMMA_S8
#undef YK_LIST
#undef YK_D64
#undef YK_D32
#undef YK_D16
#undef YK_D8
#undef YK_D4
#undef YK_TEN

} // namespace yk_ptx

#endif
