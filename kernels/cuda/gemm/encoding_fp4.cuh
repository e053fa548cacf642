/* encoding_fp4.cuh - 4-bit floats (e2m1) to A fragments; see encoding_int4.cuh. A code has a sign, two bits of exponent
 * and one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
 *
 * A code's bits at their positions in a 16-bit type, with the exponent's upper bits zero, are the number times 2^-14
 * (float16) or 2^-126 (bfloat16), exactly, 0.5 too, which is subnormal. One multiplication with the scale then gives
 * the weight. Codes have 2 and scales 4 significant bits, so weights are exact in either type (float16: those of scales
 * from 2^-21 of the row's largest; the others within 2^-26 of it), and a group's accumulators need no scale of their
 * own.
 *
 * A half of a word holds the codes of registers 0 to 3 with their bits spread out, such that one AND extracts register
 * 0, a shift and an AND register 1; of registers 2 and 3 the sign has another shift than the rest.
 *
 * A scale byte: five bits of exponent e, from 1 to 30, then three of mantissa m: 2^(e - 29) (1 + m / 8). It is the
 * upper half of a float16, shifted by a bit; 255 is a NaN. The row scale times it is the scale of a group. MXFP4's
 * scales (powers of two) are exact, and NVFP4's (e4m3 times one factor) but for the rounding of the row scale. */
#ifndef YK_KERNELS_CUDA_GEMM_ENCODING_FP4_CUH
#define YK_KERNELS_CUDA_GEMM_ENCODING_FP4_CUH

#include <cmath>
#include <cstring>

#include "kernels/cuda/gemm/encoding_int4.cuh"

namespace yk_gemm {

/* ---- Positions of a code's bits, on the host too ----------------------------------------------------------------- */

template <yk_dtype DTYPE> struct fp4_bits {
  static constexpr int MAGNITUDE_AT = DTYPE == YK_F16 ? 9 : 6; /* lowest bit of exponent and mantissa in the type */
  static constexpr uint32_t SIGNS = 0x80008000u, MAGNITUDES = 0x00070007u << MAGNITUDE_AT;

  /* The left shifts that move register j's magnitudes and signs from their word to their positions in the type. */
  __host__ __device__ static constexpr int magnitude_shift(int j)
  {
    return DTYPE == YK_BF16 && j == 3 ? -3 : 3 * j;
  }
  __host__ __device__ static constexpr int sign_shift(int j)
  {
    return j < 2 ? 3 * j : j - 1;
  }
  __host__ __device__ static constexpr uint32_t shifted(uint32_t word, int by)
  {
    return by >= 0 ? word << by : word >> -by;
  }

  /* Register j of a word: two numbers, times 2^-14 or 2^-126. */
  __host__ __device__ static constexpr uint32_t unscaled(uint32_t word, int j)
  {
    return (shifted(word, magnitude_shift(j)) & MAGNITUDES) | (shifted(word, sign_shift(j)) & SIGNS);
  }

  /* For packing: a code in the lower half of its word; the upper half is the same 16 bits higher. */
  __host__ __device__ static constexpr uint32_t packed(uint32_t code, int j)
  {
    return shifted((code & 7u) << MAGNITUDE_AT, -magnitude_shift(j)) | shifted((code & 8u) << 12, -sign_shift(j));
  }

  /* For packing: the bits of the registers of rows 0 to 7, which have even j. */
  static constexpr uint32_t EVEN_BITS = (packed(15, 0) | packed(15, 2)) * 0x00010001u;
  static_assert((packed(15, 0) ^ packed(15, 1) ^ packed(15, 2) ^ packed(15, 3)) == 0xFFFFu, "each bit once");

  /* A scale byte as the factor of unscaled numbers, in both halves. bytes: the byte at bits 0 and 16, else zeros. */
  __host__ __device__ static constexpr uint32_t scale_pair(uint32_t bytes)
  {
    return DTYPE == YK_F16 ? bytes << 7 : (bytes << 4) + 0x70007000u;
  }
};

/* ---- Scales, for packing ----------------------------------------------------------------------------------------- */

constexpr uint32_t FP4_LEAST_SCALE = 0x08, FP4_NAN_SCALE = 0xFF;
constexpr int FP4_FIRST_MANTISSA = 8, FP4_MANTISSAS = 8; /* of 4 bits */

/* Bits of a float, 0 or more, with the mantissa rounded to nearest, ties to even, in the upper 12 bits. */
__host__ __device__ inline uint32_t fp4_round_scale(float scale)
{
  uint32_t bits;
  memcpy(&bits, &scale, sizeof bits);
  return bits + 0x7FFFFu + (bits >> 20 & 1u);
}

/* The row scale with which the row's largest scale has a mantissa of 4 bits, from 8 to 15, and an exponent of 30. */
__host__ __device__ inline float fp4_row_scale(float largest, int mantissa)
{
  return largest * (4.0f / static_cast<float>(mantissa));
}

/* Relative distance of a group's scale over the row scale from the nearest number of 4 significant bits. */
__host__ __device__ inline float fp4_scale_error(float ratio)
{
  const uint32_t bits = fp4_round_scale(ratio) & 0xFFF00000u;
  float rounded;
  memcpy(&rounded, &bits, sizeof rounded);
  return ratio > 0.0f ? fabsf(ratio - rounded) / ratio : 0.0f;
}

/* The scale byte of a group whose scale is ratio times the row scale: rounded to 4 significant bits. Less than 2^-28 is
 * 0: the group's codes must be packed as zeros, and its byte is any. More than 3.75, and NaN: NaN. */
__host__ __device__ inline uint32_t fp4_scale(float ratio)
{
  const uint32_t rounded = fp4_round_scale(ratio);
  const int exponent = static_cast<int>(rounded >> 23) - 127 + 29;
  if (exponent < 1) return 0;
  return exponent > 30 ? FP4_NAN_SCALE : static_cast<uint32_t>(exponent) << 3 | (rounded >> 20 & 7u);
}

/* ---- Fragments --------------------------------------------------------------------------------------------------- */

/* load takes the four groups' scale bytes of the two rows, and the group's number. Fragments are exact if scaled. */
template <yk_dtype DTYPE> struct dequant<YK_GEMM_FP4, DTYPE> {
  using bits = fp4_bits<DTYPE>;
  uint32_t scale[2];

  __device__ __forceinline__ void load(uint2 words, int group)
  {
    const uint32_t word = group < 2 ? words.x : words.y;
    scale[0] = bits::scale_pair(__byte_perm(word, 0, group % 2 ? 0x4242 : 0x4040));
    scale[1] = bits::scale_pair(__byte_perm(word, 0, group % 2 ? 0x4343 : 0x4141));
  }

  __device__ __forceinline__ void expand(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
    const uint32_t word = word_at(words, step);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if constexpr (DTYPE == YK_F16)
        fragment[j] = multiply_f16x2(bits::unscaled(word, j), scale[j % 2]);
      else
        fragment[j] = multiply_add_bf16x2(bits::unscaled(word, j), scale[j % 2], 0x80008000u); /* plus -0 */
    }
  }
};

} // namespace yk_gemm

#endif
