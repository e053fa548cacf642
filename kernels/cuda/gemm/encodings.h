/* encodings.h - the storage of weights of fewer than 16 bits with their group scales, for sizes and tables. The
 * conversion of an encoding to operands of matrix instructions is in encoding_NAME.cuh. */
#ifndef YK_KERNELS_CUDA_GEMM_ENCODINGS_H
#define YK_KERNELS_CUDA_GEMM_ENCODINGS_H

#include <stdbool.h>

/* X(NAME, bits of a weight, layouts, bits of a group's scale and zero, row scales)
 *   INT4   AWQ: unsigned integers, an integer zero and a 16-bit scale per group
 *   INT8   signed integers, a float32 scale and a zero from -128 to 128, stored to 1/256, per group
 *   FP8    e4m3 without infinities, a float32 scale per group
 *   FP4    e2m1, a float32 scale of a few significant bits per group (encoding_fp4.cuh)
 * Layouts: a bit set of the numbers of scale groups per K tile (1, 2, 4 or 8) for which a layout and kernels exist: 4 +
 * 8 means 4 or 8 groups. Longer groups are stored as several equal ones. Row scales: accumulators of a row (column of
 * W) are multiplied with a float32 factor that the row's scales have in common: INT8 and FP8, the largest of its
 * scales. */
#define YK_GEMM_ENCODINGS(X)                                                                                           \
  X(INT4, 4, 1 + 2 + 4, 32, false)                                                                                     \
  X(INT8, 8, 1 + 4, 32, true)                                                                                          \
  X(FP8, 8, 1 + 4, 32, true)                                                                                           \
  X(FP4, 4, 4 + 8, 8, true)

typedef enum yk_gemm_encoding {
#define YK_ENUMERATOR(NAME, ...) YK_GEMM_##NAME,
  YK_GEMM_ENCODINGS(YK_ENUMERATOR)
#undef YK_ENUMERATOR
      YK_GEMM_N_ENCODINGS
} yk_gemm_encoding;

typedef struct yk_gemm_encoding_traits {
  int bits, layouts, scale_bits;
  bool has_row_scales;
} yk_gemm_encoding_traits;

#ifdef __cplusplus
#define YK_TRAITS_FUNCTION constexpr
#else
#define YK_TRAITS_FUNCTION
#endif
#ifdef __CUDACC__
#define YK_TRAITS_OF_DEVICE __host__ __device__
#else
#define YK_TRAITS_OF_DEVICE
#endif

YK_TRAITS_OF_DEVICE static inline YK_TRAITS_FUNCTION yk_gemm_encoding_traits yk_gemm_traits(yk_gemm_encoding e)
{
  switch (e) {
#define YK_CASE(NAME, BITS, LAYOUTS, SCALE_BITS, ROW_SCALES)                                                           \
  case YK_GEMM_##NAME: {                                                                                               \
    const yk_gemm_encoding_traits traits = {BITS, LAYOUTS, SCALE_BITS, ROW_SCALES};                                    \
    return traits;                                                                                                     \
  }
    YK_GEMM_ENCODINGS(YK_CASE)
#undef YK_CASE
  case YK_GEMM_N_ENCODINGS: break;
  }
  const yk_gemm_encoding_traits none = {16, 1, 32, false};
  return none;
}

#undef YK_TRAITS_FUNCTION
#undef YK_TRAITS_OF_DEVICE

#endif
