/* encoding_fp4.cuh - 4-bit floats (e2m1) to A fragments; see encoding_int4.cuh. A code has a sign, two bits of exponent
 * and one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
 *
 * A code's bits at their positions in a 16-bit type, with the exponent's upper bits zero, are the number times 2^-14
 * (float16) or 2^-126 (bfloat16), exactly, 0.5 too, which is subnormal. One multiplication with the scale then gives
 * the weight. Codes have 2 and scales 4 significant bits, so weights are exact in either type (float16: those of scales
 * from 2^-21 of the row's largest; the others within 2^-26 of it), and a group's accumulators need no separate scale.
 *
 * A half of a word holds the codes of registers 0 to 3 with their bits spread out, such that nine instructions extract
 * them: most registers need a shift and an AND. All four cannot, since the four bits of a number in either type do not
 * tile the 16 bits of a half.
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

/* A word rotated to the left. */
__host__ __device__ constexpr uint32_t fp4_rotated(uint32_t word, int by)
{
  return by == 0 ? word : word << by | word >> (32 - by);
}

template <yk_dtype DTYPE> struct fp4_bits;

/* In a half: bits 15 and 9 to 11 are register 0, 8 bits lower register 1; of the other two, one byte each, magnitudes
 * are 3 bits higher and signs 7 bits lower. */
template <> struct fp4_bits<YK_F16> {
  static constexpr uint32_t NUMBERS = 0x8E008E00u;

  /* The registers of a word: two numbers each, times 2^-14. Shifts to the left may run as multiplications of integers,
   * in parallel with logical instructions and shifts to the right, which share a unit. */
  __host__ __device__ static void unscaled(uint32_t word, uint32_t (&numbers)[4])
  {
#ifdef __CUDA_ARCH__
    const uint32_t others = select_bits(0x80808080u, word << 7, word >> 3);
#else
    const uint32_t others = (word << 7 & 0x80808080u) | (word >> 3 & 0x7F7F7F7Fu);
#endif
    numbers[0] = word & NUMBERS;
    numbers[1] = word << 8 & NUMBERS;
    numbers[2] = others & NUMBERS;
    numbers[3] = others << 8 & NUMBERS;
  }

  /* For packing: a code of register j in half 0 or 1 of a word. */
  __host__ __device__ static constexpr uint32_t packed(uint32_t code, int j, int half)
  {
    const uint32_t low = j < 2 ? (code & 7u) << 1 | (code & 8u) << 4 : (code & 7u) << 4 | code >> 3;
    return low << (j % 2 ? 0 : 8) << 16 * half;
  }

  static constexpr int SCALE_AT = 7; /* lowest bit of a scale byte in its half */
  static constexpr uint32_t SCALE_OFFSET = 0;
};

/* Bits 15 and 6 to 8 of a half, rotated to the left by -6 (register 0), -2 (register 1) and 4 (register 2). Register 3
 * is in place but for its mantissa, which is 8 bits higher. */
template <> struct fp4_bits<YK_BF16> {
  static constexpr uint32_t NUMBERS = 0x81C081C0u, MANTISSAS = 0x00400040u;

  /* Two numbers each, times 2^-126. */
  __host__ __device__ static void unscaled(uint32_t word, uint32_t (&numbers)[4])
  {
    numbers[0] = word << 6 & NUMBERS;
    numbers[1] = word << 2 & NUMBERS;
    numbers[2] = fp4_rotated(word, 28) & NUMBERS;
    numbers[3] = (word & (NUMBERS ^ MANTISSAS)) | (word >> 8 & MANTISSAS);
  }

  __host__ __device__ static constexpr uint32_t packed(uint32_t code, int j, int half)
  {
    const uint32_t number = ((code & 7u) << 6 | (code & 8u) << 12) << 16 * half;
    return j == 0   ? number >> 6
           : j == 1 ? number >> 2
           : j == 2 ? fp4_rotated(number, 4)
                    : (number & ~MANTISSAS) | (number & MANTISSAS) << 8;
  }

  static constexpr int SCALE_AT = 4;
  static constexpr uint32_t SCALE_OFFSET = 0x70007000u;
};

/* A scale word holds the scale bytes of two rows and two groups: those of the even group at their positions in a pair
 * of scales, those of the odd group rotated to the left by 8 bits. For packing: a byte in its word. */
template <yk_dtype DTYPE> __host__ __device__ constexpr uint32_t fp4_packed_scale(uint32_t byte, bool is_odd, int half)
{
  return fp4_rotated(byte << fp4_bits<DTYPE>::SCALE_AT << 16 * half, is_odd ? 8 : 0);
}

/* The pair of scales of the even or the odd group of a scale word, as factors of unscaled numbers: one in each half. */
template <yk_dtype DTYPE> __host__ __device__ inline uint32_t fp4_scale_pair(uint32_t word, bool is_odd)
{
  constexpr uint32_t BYTES = fp4_packed_scale<DTYPE>(0xFF, false, 0) | fp4_packed_scale<DTYPE>(0xFF, false, 1);
  const uint32_t bytes = is_odd ? fp4_rotated(word, 24) : word;
#ifdef __CUDA_ARCH__
  return and_or(bytes, BYTES, fp4_bits<DTYPE>::SCALE_OFFSET);
#else
  return (bytes & BYTES) | fp4_bits<DTYPE>::SCALE_OFFSET;
#endif
}

/* For packing: the bits of register j; those of the registers of rows 0 to 7 of a panel, which have even j. */
template <yk_dtype DTYPE> __host__ __device__ constexpr uint32_t fp4_register_bits(int j)
{
  return fp4_bits<DTYPE>::packed(15, j, 0) | fp4_bits<DTYPE>::packed(15, j, 1);
}
template <yk_dtype DTYPE> constexpr uint32_t FP4_EVEN_BITS = fp4_register_bits<DTYPE>(0) | fp4_register_bits<DTYPE>(2);

template <yk_dtype DTYPE> constexpr bool has_one_register_for_each_bit()
{
  return (fp4_register_bits<DTYPE>(0) ^ fp4_register_bits<DTYPE>(1) ^ fp4_register_bits<DTYPE>(2) ^
          fp4_register_bits<DTYPE>(3)) == 0xFFFFFFFFu;
}
static_assert(has_one_register_for_each_bit<YK_F16>() && has_one_register_for_each_bit<YK_BF16>(), "eight codes");

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

/* load takes the scale words of groups 0 and 1 and of groups 2 and 3, and the group's number. Fragments are exact if
 * scaled. */
template <yk_dtype DTYPE> struct dequant<YK_GEMM_FP4, DTYPE> {
  using bits = fp4_bits<DTYPE>;
  uint32_t scales; /* of the row in the low half, of the upper row in the high half */

  __device__ __forceinline__ void load(uint2 words, int group)
  {
    scales = fp4_scale_pair<DTYPE>(group < 2 ? words.x : words.y, group % 2);
  }

  /* Numbers of a row times its scale, which the instruction reads in place. */
  __device__ __forceinline__ uint32_t scaled(uint32_t numbers, bool is_upper) const
  {
    const __half2 pair = pair_of<__half2>(scales);
    const uint32_t scale = bits_of(is_upper ? __high2half2(pair) : __low2half2(pair));
    if constexpr (DTYPE == YK_F16) return multiply_f16x2(numbers, scale);
    return multiply_add_bf16x2(numbers, scale, 0x80008000u); /* plus -0 */
  }

  __device__ __forceinline__ void expand(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
    uint32_t numbers[4];
    bits::unscaled(word_at(words, step), numbers);
#pragma unroll
    for (int j = 0; j < 4; j++) fragment[j] = scaled(numbers[j], j % 2);
  }
};

} // namespace yk_gemm

#endif
