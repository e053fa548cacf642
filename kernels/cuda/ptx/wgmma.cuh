/* wgmma.cuh - matrix instructions of a warpgroup (sm_90a only): d [64, N] (+)= A [64, 16] B [16, N] of 16-bit floats,
 * accumulated in float32; A [64, 32] B [32, N] of signed bytes, accumulated in int32, exactly; and of 8-bit floats
 * (e4m3), accumulated in float32 registers, but added inside an instruction with about 14 bits of the largest term.
 *
 * The four warps of a warpgroup issue an instruction together; it runs asynchronously until wgmma_wait. Warp w holds
 * rows 16w .. 16w+15 of d, as adjacent C fragments of mma.cuh: d[i] holds columns 8i .. 8i+7. A comes from registers
 * (a0 .. a3 as in mma.cuh) or from shared memory, B always from shared memory; a descriptor identifies a matrix
 * in shared memory. A wgmma_fence must be between writing the registers of A or d and the first instruction that uses
 * them. Registers and shared memory that an instruction reads may be overwritten once the instruction has completed,
 * that is after wgmma_wait. */
#ifndef YK_KERNELS_CUDA_PTX_WGMMA_CUH
#define YK_KERNELS_CUDA_PTX_WGMMA_CUH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace yk_ptx {

/* The descriptor of a tile whose rows are 128 bytes long, with the 128-byte swizzle (bits 62 and 63: 1); address: a
 * multiple of 1024. group_bytes is PTX's stride byte offset, block_bytes its leading byte offset.
 *   K-major (a row holds 64 consecutive k): group_bytes from one group of 8 rows to the next; block_bytes is not read.
 *   MN-major (a row holds 64 consecutive columns of one k): group_bytes from one group of 8 k to the next, block_bytes
 *   from one block of 64 columns to the next. */
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address, uint32_t group_bytes, uint32_t block_bytes)
{
  return static_cast<uint64_t>(address >> 4 & 0x3fff) | static_cast<uint64_t>(block_bytes >> 4) << 16 |
         static_cast<uint64_t>(group_bytes >> 4) << 32 | static_cast<uint64_t>(1) << 62;
}

/* The difference between the descriptors of two tiles whose addresses differ by n_bytes. */
__host__ __device__ constexpr uint64_t descriptor_step(uint32_t n_bytes)
{
  return n_bytes >> 4;
}

__device__ __forceinline__ void wgmma_fence()
{
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* The instructions since the last commit become one group. */
__device__ __forceinline__ void wgmma_commit()
{
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Wait until all but the N newest groups are complete. */
template <int N> __device__ __forceinline__ void wgmma_wait()
{
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* Keeps the compiler from moving accesses to d across this point. Without it the compiler may read d before wgmma_wait,
 * since it treats the results of an asm statement as complete once the statement is issued. */
template <int N> __device__ __forceinline__ void pin(float (&d)[N][4])
{
#pragma unroll
  for (int i = 0; i < N; i++) {
#pragma unroll
    for (int e = 0; e < 4; e++) asm volatile("" : "+f"(d[i][e])::"memory");
  }
}

template <int N> __device__ __forceinline__ void pin(int (&d)[N][4])
{
#pragma unroll
  for (int i = 0; i < N; i++) {
#pragma unroll
    for (int e = 0; e < 4; e++) asm volatile("" : "+r"(d[i][e])::"memory");
  }
}

/* d = (accumulate ? d : 0) + A B, for each N that a kernel uses.
 *   T        __half, __nv_bfloat16, int8_t or __nv_fp8_e4m3
 *   run_rs   A from registers; B K-major, or, except for bytes, MN-major with TRANSPOSE_B. A register of bytes holds
 *            four consecutive k of a row: 4 (lane % 4) and the next three, + 16 for a2 and a3
 *   run_ss   A and B from shared memory, K-major, or, except for bytes, MN-major with TRANSPOSE_A, TRANSPOSE_B; not of
 *            e4m3 */
template <typename T, int N> struct wgmma;

/* PTX takes registers as a literal list. YK_TEN: ten operand numbers; YK_D4 .. YK_D64: that many numbers of d, whose
 * constraint C is "+f" or "+r". */
#define YK_TEN(t)    "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define YK_D4(C, i)  C(d[i][0]), C(d[i][1]), C(d[i][2]), C(d[i][3])
#define YK_D8(C, i)  YK_D4(C, i), YK_D4(C, (i) + 1)
#define YK_D16(C, i) YK_D8(C, i), YK_D8(C, (i) + 2)
#define YK_D32(C, i) YK_D16(C, i), YK_D16(C, (i) + 4)
#define YK_D64(C, i) YK_D32(C, i), YK_D32(C, (i) + 8)

/* Operands of the asm statement. D: the N / 2 floats of d, and NUMBERS their operand numbers. A, B, P, TB: operand
 * numbers of run_rs for A's registers, B's descriptor, accumulate and TRANSPOSE_B. SS_A, SS_B, SS_P, SS_TA, SS_TB: of
 * run_ss, with TRANSPOSE_A. */
#define YK_WGMMA_TYPE(TYPE, NAME, N, D, NUMBERS, A, B, P, TB, SS_A, SS_B, SS_P, SS_TA, SS_TB)                          \
  template <> struct wgmma<TYPE, N> {                                                                                  \
    template <bool TRANSPOSE_B = false>                                                                                \
    static __device__ __forceinline__ void run_rs(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b,            \
                                                  bool accumulate)                                                     \
    {                                                                                                                  \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME  \
                   "." NAME " {" NUMBERS "}, {" A "}, " B ", p, 1, 1, " TB ";\n}"                                      \
                   : D                                                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),            \
                     "n"(static_cast<int>(TRANSPOSE_B)));                                                              \
    }                                                                                                                  \
    template <bool TRANSPOSE_A = false, bool TRANSPOSE_B = false>                                                      \
    static __device__ __forceinline__ void run_ss(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool accumulate)       \
    {                                                                                                                  \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " SS_P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N               \
                   "k16.f32." NAME "." NAME " {" NUMBERS "}, " SS_A ", " SS_B ", p, 1, 1, " SS_TA ", " SS_TB ";\n}"    \
                   : D                                                                                                 \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(TRANSPOSE_A)),            \
                     "n"(static_cast<int>(TRANSPOSE_B)));                                                              \
    }                                                                                                                  \
  };
#define YK_LIST(...) __VA_ARGS__
#define YK_WGMMA(N, D, NUMBERS, A0, A1, A2, A3, B, P, TB)                                                              \
  YK_WGMMA_TYPE(__half, "f16", N, YK_LIST(D), NUMBERS, A0 "," A1 "," A2 "," A3, B, P, TB, A0, A1, A2, A3, B)           \
  YK_WGMMA_TYPE(__nv_bfloat16, "bf16", N, YK_LIST(D), NUMBERS, A0 "," A1 "," A2 "," A3, B, P, TB, A0, A1, A2, A3, B)

YK_WGMMA(16, YK_LIST(YK_D8("+f", 0)), "%0,%1,%2,%3,%4,%5,%6,%7", "%8", "%9", "%10", "%11", "%12", "%13", "%14")
YK_WGMMA(24, YK_LIST(YK_D8("+f", 0), YK_D4("+f", 2)), YK_TEN() "%10,%11", "%12", "%13", "%14", "%15", "%16", "%17",
         "%18")
YK_WGMMA(32, YK_LIST(YK_D16("+f", 0)), YK_TEN() "%10,%11,%12,%13,%14,%15", "%16", "%17", "%18", "%19", "%20", "%21",
         "%22")
YK_WGMMA(40, YK_LIST(YK_D16("+f", 0), YK_D4("+f", 4)), YK_TEN() "%10,%11,%12,%13,%14,%15,%16,%17,%18,%19", "%20", "%21",
         "%22", "%23", "%24", "%25", "%26")
YK_WGMMA(48, YK_LIST(YK_D16("+f", 0), YK_D8("+f", 4)), YK_TEN() YK_TEN(1) "%20,%21,%22,%23", "%24", "%25", "%26", "%27",
         "%28", "%29", "%30")
YK_WGMMA(64, YK_LIST(YK_D32("+f", 0)), YK_TEN() YK_TEN(1) YK_TEN(2) "%30,%31", "%32", "%33", "%34", "%35", "%36", "%37",
         "%38")
YK_WGMMA(80, YK_LIST(YK_D32("+f", 0), YK_D8("+f", 8)),
         YK_TEN() YK_TEN(1) YK_TEN(2) "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39", "%40", "%41", "%42", "%43", "%44",
         "%45", "%46")
YK_WGMMA(96, YK_LIST(YK_D32("+f", 0), YK_D16("+f", 8)),
         YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) "%40,%41,%42,%43,%44,%45,%46,%47", "%48", "%49", "%50", "%51", "%52",
         "%53", "%54")
YK_WGMMA(112, YK_LIST(YK_D32("+f", 0), YK_D16("+f", 8), YK_D8("+f", 12)),
         YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) "%50,%51,%52,%53,%54,%55", "%56", "%57", "%58", "%59", "%60",
         "%61", "%62")
YK_WGMMA(128, YK_LIST(YK_D64("+f", 0)), YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) "%60,%61,%62,%63",
         "%64", "%65", "%66", "%67", "%68", "%69", "%70")
YK_WGMMA(144, YK_LIST(YK_D64("+f", 0), YK_D8("+f", 16)),
         YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) YK_TEN(6) "%70,%71", "%72", "%73", "%74", "%75",
         "%76", "%77", "%78")
YK_WGMMA(160, YK_LIST(YK_D64("+f", 0), YK_D16("+f", 16)),
         YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) YK_TEN(6) "%70,%71,%72,%73,%74,%75,%76,%77,%78,%79",
         "%80", "%81", "%82", "%83", "%84", "%85", "%86")
YK_WGMMA(256, YK_LIST(YK_D64("+f", 0), YK_D64("+f", 16)),
         YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) YK_TEN(6) YK_TEN(7) YK_TEN(8) YK_TEN(9) YK_TEN(10)
             YK_TEN(11) "%120,%121,%122,%123,%124,%125,%126,%127",
         "%128", "%129", "%130", "%131", "%132", "%133", "%134")

/* The same for bytes. A0 .. A3, B, P: operand numbers of run_rs for A's registers, B's descriptor and accumulate; A0 ..
 * A2: of run_ss for the descriptors and accumulate. */
#define YK_WGMMA_S8(N, D, NUMBERS, A0, A1, A2, A3, B, P)                                                               \
  template <> struct wgmma<int8_t, N> {                                                                                \
    static __device__ __forceinline__ void run_rs(int (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b,              \
                                                  bool accumulate)                                                     \
    {                                                                                                                  \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N                  \
                   "k32.s32.s8.s8 {" NUMBERS "}, {" A0 "," A1 "," A2 "," A3 "}, " B ", p;\n}"                          \
                   : D                                                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));           \
    }                                                                                                                  \
    static __device__ __forceinline__ void run_ss(int (&d)[N / 8][4], uint64_t a, uint64_t b, bool accumulate)         \
    {                                                                                                                  \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " A2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N                 \
                   "k32.s32.s8.s8 {" NUMBERS "}, " A0 ", " A1 ", p;\n}"                                                \
                   : D                                                                                                 \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                                               \
    }                                                                                                                  \
  };

YK_WGMMA_S8(16, YK_LIST(YK_D8("+r", 0)), "%0,%1,%2,%3,%4,%5,%6,%7", "%8", "%9", "%10", "%11", "%12", "%13")
YK_WGMMA_S8(32, YK_LIST(YK_D16("+r", 0)), YK_TEN() "%10,%11,%12,%13,%14,%15", "%16", "%17", "%18", "%19", "%20", "%21")
YK_WGMMA_S8(64, YK_LIST(YK_D32("+r", 0)), YK_TEN() YK_TEN(1) YK_TEN(2) "%30,%31", "%32", "%33", "%34", "%35", "%36",
            "%37")
YK_WGMMA_S8(128, YK_LIST(YK_D64("+r", 0)), YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) "%60,%61,%62,%63",
            "%64", "%65", "%66", "%67", "%68", "%69")
YK_WGMMA_S8(256, YK_LIST(YK_D64("+r", 0), YK_D64("+r", 16)),
            YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) YK_TEN(6) YK_TEN(7) YK_TEN(8) YK_TEN(9)
                YK_TEN(10) YK_TEN(11) "%120,%121,%122,%123,%124,%125,%126,%127",
            "%128", "%129", "%130", "%131", "%132", "%133")

/* The same for 8-bit floats. A0 .. A3, B, P: operand numbers of A's registers, B's descriptor and accumulate. */
#define YK_WGMMA_E4M3(N, D, NUMBERS, A0, A1, A2, A3, B, P)                                                             \
  template <> struct wgmma<__nv_fp8_e4m3, N> {                                                                         \
    static __device__ __forceinline__ void run_rs(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b,            \
                                                  bool accumulate)                                                     \
    {                                                                                                                  \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N                  \
                   "k32.f32.e4m3.e4m3 {" NUMBERS "}, {" A0 "," A1 "," A2 "," A3 "}, " B ", p, 1, 1;\n}"                \
                   : D                                                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));           \
    }                                                                                                                  \
  };

YK_WGMMA_E4M3(64, YK_LIST(YK_D32("+f", 0)), YK_TEN() YK_TEN(1) YK_TEN(2) "%30,%31", "%32", "%33", "%34", "%35", "%36",
              "%37")
YK_WGMMA_E4M3(96, YK_LIST(YK_D32("+f", 0), YK_D16("+f", 8)),
              YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) "%40,%41,%42,%43,%44,%45,%46,%47", "%48", "%49", "%50", "%51",
              "%52", "%53")
YK_WGMMA_E4M3(128, YK_LIST(YK_D64("+f", 0)),
              YK_TEN() YK_TEN(1) YK_TEN(2) YK_TEN(3) YK_TEN(4) YK_TEN(5) "%60,%61,%62,%63", "%64", "%65", "%66", "%67",
              "%68", "%69")

#undef YK_WGMMA_E4M3
#undef YK_WGMMA_S8
#undef YK_WGMMA
#undef YK_WGMMA_TYPE
#undef YK_LIST
#undef YK_D64
#undef YK_D32
#undef YK_D16
#undef YK_D8
#undef YK_D4
#undef YK_TEN

} // namespace yk_ptx

#endif
