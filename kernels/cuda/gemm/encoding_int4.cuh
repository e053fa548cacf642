/* encoding_int4.cuh - dequantisation: from packed words to the four registers of the A fragment of mma.sync or wgmma;
 * here for 4-bit weights (nibbles), eight in a word.
 *
 * A nibble put into the low mantissa bits of 1024 (f16) or 128 (bf16) is that number plus q, exactly. Subtracting the
 * number and the zero point leaves q - zero, exact, and the product with the scale rounds once.
 *
 * Scale words, one per group and row:
 *   f16   low half: scale. High half: -(1024 + zero) for rows 0 to 7, and -(64 + zero) for the upper rows, whose
 *         nibbles are four bits higher, read as 1024 + 16 q, and scaled by 1/16.
 *   bf16  high half: the scale rounded to bf16. Low half: the rounding error (rest) as bf16, with the zero point in its
 *         four lowest bits. A f16 scale has 11 significant bits, of which the rest needs at most 4 (1 + 3 explicit), so
 *         these bits are free and the scale is stored exactly. */
#ifndef YK_KERNELS_CUDA_GEMM_ENCODING_INT4_CUH
#define YK_KERNELS_CUDA_GEMM_ENCODING_INT4_CUH

#include <type_traits>

#include "kernels/cuda/gemm/packed_layout.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_gemm {

using namespace yk_ptx;

/* The type of the activations, and of the fragments. */
template <yk_dtype DTYPE> using element = std::conditional_t<DTYPE == YK_F16, __half, __nv_bfloat16>;

/* Pair: __half2 or __nv_bfloat162, as the register that holds it. */
template <typename Pair> __device__ __forceinline__ uint32_t bits_of(Pair value)
{
  return *reinterpret_cast<uint32_t *>(&value);
}

template <typename Pair> __device__ __forceinline__ Pair pair_of(uint32_t bits)
{
  return *reinterpret_cast<Pair *>(&bits);
}

/* The lower 16 bits of a word in both halves; the upper 16 bits in both halves. */
__device__ __forceinline__ uint32_t both_low(uint32_t word)
{
  return __byte_perm(word, word, 0x1010);
}

__device__ __forceinline__ uint32_t both_high(uint32_t word)
{
  return __byte_perm(word, word, 0x3232);
}

/* One of the four words that a lane loads at once. */
__device__ __forceinline__ uint32_t word_at(const uint4 &words, int i)
{
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

/* acc += A B for one panel, 8 tokens and 16 inputs. */
template <yk_dtype DTYPE>
__device__ __forceinline__ void mma(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
  mma_m16n8k16<element<DTYPE>>(acc, a[0], a[1], a[2], a[3], b0, b1);
}

/* Converts the words of a lane to A fragments, for one group of scales. Arrays of two are by fragment row: lane/4 (0)
 * and lane/4 + 8 (1).
 *   load              takes the scale words of the two rows
 *   expand            the fragment of k16 step `step` of the lane's words, scaled and rounded to DTYPE
 *   expand_unscaled   q - zero (FP8 in float16: times 2^-8), exact except for fractions of INT8's zeros: the group's
 *                     accumulators must be multiplied with scale_of
 *   scale_of          the factor of a row's accumulators: the scale, and FP8's factor
 *   scale_word        (4 bits) for packing: the scale word; upper: of rows 8 to 15 of a panel */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> struct dequant;

template <> struct dequant<YK_GEMM_INT4, YK_F16> {
  uint32_t scale[2], offset[2];

  __device__ __forceinline__ void load(uint2 words)
  {
    scale[0] = both_low(words.x);
    offset[0] = both_high(words.x);
    scale[1] = both_low(words.y);
    offset[1] = both_high(words.y);
  }

  __device__ __forceinline__ void expand(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
    uint32_t word = word_at(words, step);
    const __half2 sixteenth = pair_of<__half2>(0x2C002C00u);
#pragma unroll
    for (int j = 0; j < 4; j += 2, word >>= 8) {
      __half2 low = __hadd2(pair_of<__half2>(and_or(word, 0x000F000Fu, 0x64006400u)), pair_of<__half2>(offset[0]));
      __half2 high =
          __hfma2(pair_of<__half2>(and_or(word, 0x00F000F0u, 0x64006400u)), sixteenth, pair_of<__half2>(offset[1]));
      fragment[j] = multiply_f16x2(bits_of(low), scale[0]);
      fragment[j + 1] = multiply_f16x2(bits_of(high), scale[1]);
    }
  }

  __device__ __forceinline__ void expand_unscaled(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
    uint32_t word = word_at(words, step);
    const __half2 sixteenth = pair_of<__half2>(0x2C002C00u);
#pragma unroll
    for (int j = 0; j < 4; j += 2, word >>= 8) {
      fragment[j] =
          bits_of(__hadd2(pair_of<__half2>(and_or(word, 0x000F000Fu, 0x64006400u)), pair_of<__half2>(offset[0])));
      fragment[j + 1] = bits_of(
          __hfma2(pair_of<__half2>(and_or(word, 0x00F000F0u, 0x64006400u)), sixteenth, pair_of<__half2>(offset[1])));
    }
  }

  __device__ __forceinline__ float scale_of(int row) const
  {
    return __low2float(pair_of<__half2>(scale[row]));
  }

  __device__ static uint32_t scale_word(float value, uint32_t zero, bool upper)
  {
    float offset = -static_cast<float>((upper ? 64 : 1024) + zero);
    return bits_of(__halves2half2(__float2half_rn(value), __float2half_rn(offset)));
  }
};

template <> struct dequant<YK_GEMM_INT4, YK_BF16> {
  uint32_t scale[2], rest[2], offset[2];

  __device__ __forceinline__ void load(uint2 words)
  {
    load_row(words.x, 0);
    load_row(words.y, 1);
  }

  __device__ __forceinline__ void load_row(uint32_t word, int row)
  {
    scale[row] = both_high(word);
    rest[row] = both_low(word & 0xFFF0u);
    offset[row] = both_low(and_or(word, 0xFu, 0xC300u)); /* -(128 + zero) */
  }

  __device__ __forceinline__ void expand(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
    uint32_t word = word_at(words, step);
#pragma unroll
    for (int j = 0; j < 4; j++, word >>= 4) {
      __nv_bfloat162 q = pair_of<__nv_bfloat162>(and_or(word, 0x000F000Fu, 0x43004300u));
      q = __hadd2(q, pair_of<__nv_bfloat162>(offset[j % 2]));
      __nv_bfloat162 small = __hmul2(q, pair_of<__nv_bfloat162>(rest[j % 2]));
      fragment[j] = multiply_add_bf16x2(bits_of(q), scale[j % 2], bits_of(small));
    }
  }

  __device__ __forceinline__ void expand_unscaled(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
    uint32_t word = word_at(words, step);
#pragma unroll
    for (int j = 0; j < 4; j++, word >>= 4)
      fragment[j] = bits_of(__hadd2(pair_of<__nv_bfloat162>(and_or(word, 0x000F000Fu, 0x43004300u)),
                                    pair_of<__nv_bfloat162>(offset[j % 2])));
  }

  __device__ __forceinline__ float scale_of(int row) const
  {
    return __low2float(pair_of<__nv_bfloat162>(scale[row])) + __low2float(pair_of<__nv_bfloat162>(rest[row]));
  }

  __device__ static uint32_t scale_word(float value, uint32_t zero, bool)
  {
    __nv_bfloat16 rounded = __float2bfloat16_rn(value);
    __nv_bfloat16 rest = __float2bfloat16_rn(value - __bfloat162float(rounded));
    uint32_t high = static_cast<uint32_t>(__bfloat16_as_ushort(rounded)) << 16;
    return high | (__bfloat16_as_ushort(rest) & 0xFFF0u) | zero;
  }
};

/* The same without scaled fragments, for kernels that scale a group's accumulators:
 *   load     takes the scale words of fragment rows lane/4 and lane/4 + 8
 *   expand   the unscaled fragment of k16 step `step` of the lane's words
 *   scale    of fragment rows lane/4 (row 0) and lane/4 + 8 (row 1) */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> struct unscaled_weights {
  dequant<ENCODING, DTYPE> of_group;

  __device__ __forceinline__ void load(uint2 words)
  {
    of_group.load(words);
  }
  __device__ __forceinline__ void expand(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
    of_group.expand_unscaled(words, step, fragment);
  }
  __device__ __forceinline__ float scale(int row) const
  {
    return of_group.scale_of(row);
  }
};

/* Uses fewer registers than dequant: instructions can read either half of a scale word in place. */
template <> struct unscaled_weights<YK_GEMM_INT4, YK_F16> {
  __half2 words[2];

  __device__ __forceinline__ void load(uint2 of_lane)
  {
    words[0] = pair_of<__half2>(of_lane.x);
    words[1] = pair_of<__half2>(of_lane.y);
  }
  __device__ __forceinline__ void expand(const uint4 &of_lane, int step, uint32_t (&fragment)[4]) const
  {
    uint32_t word = word_at(of_lane, step);
#pragma unroll
    for (int j = 0; j < 4; j += 2, word >>= 8) {
      fragment[j] = bits_of(__hadd2(pair_of<__half2>(and_or(word, 0x000F000Fu, 0x64006400u)), __high2half2(words[0])));
      fragment[j + 1] = bits_of(__hfma2(pair_of<__half2>(and_or(word, 0x00F000F0u, 0x64006400u)),
                                        pair_of<__half2>(0x2C002C00u), __high2half2(words[1])));
    }
  }
  __device__ __forceinline__ float scale(int row) const
  {
    return __low2float(words[row]);
  }
};

} // namespace yk_gemm

#endif
