/* encoding_fp8.cuh - 8-bit floats (e4m3, without NaNs) to A fragments; see encoding_int4.cuh.
 *
 * Sign, exponent and mantissa, moved to their positions in a 16-bit type with the exponent's upper bits zero, give the
 * number times 2^-8 (float16) or 2^-120 (bfloat16), exactly, subnormals too. The scale undoes this factor.
 *
 * For bfloat16, bytes are ordered in a word as in packed_layout.cuh. For float16, each half of a word holds two weights
 * with their bits spread out: that of register j even at its position in a float16, bit 15 (sign) and bits 7 to 13, so
 * that one AND extracts it; that of j odd in the remaining bits, bit 14 (sign) and bits 0 to 6. A scale word is a
 * float32: scale of the group over the row scale, from -1 to 1. */
#ifndef YK_KERNELS_CUDA_GEMM_ENCODING_FP8_CUH
#define YK_KERNELS_CUDA_GEMM_ENCODING_FP8_CUH

#include "kernels/cuda/gemm/encoding_int4.cuh"

namespace yk_gemm {

template <> struct dequant<YK_GEMM_FP8, YK_F16> {
  static constexpr float FACTOR = 0x1p8f;
  float ratio[2];    /* the scale word times FACTOR */
  uint32_t scale[2]; /* the same as float16, in both halves */

  __device__ __forceinline__ void load(uint2 words)
  {
    load_row(words.x, 0);
    load_row(words.y, 1);
  }

  __device__ __forceinline__ void load_row(uint32_t word, int row)
  {
    ratio[row] = __uint_as_float(word) * FACTOR;
    scale[row] = bits_of(__float2half2_rn(ratio[row]));
  }

  __device__ __forceinline__ void expand_unscaled(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      uint32_t word = word_at(words, step * 2 + j / 2);
      fragment[j] = word & 0xBF80BF80u;
      fragment[j + 1] = and_or(word << 7, 0x3F803F80u, word << 1 & 0x80008000u);
    }
  }

  __device__ __forceinline__ void expand(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
    expand_unscaled(words, step, fragment);
#pragma unroll
    for (int j = 0; j < 4; j++) fragment[j] = multiply_f16x2(fragment[j], scale[j % 2]);
  }

  __device__ __forceinline__ float scale_of(int row) const
  {
    return ratio[row];
  }

  /* For packing: from four bytes in the order of packed_layout.cuh. */
  __device__ static uint32_t packed_word(uint32_t bytes)
  {
    uint32_t even = (bytes << 8 & 0x80008000u) | (bytes << 7 & 0x3F803F80u);
    uint32_t odd = (bytes >> 1 & 0x40004000u) | (bytes >> 8 & 0x007F007Fu);
    return even | odd;
  }

  static constexpr uint32_t EVEN_BITS = 0xBF80BF80u; /* bits of a word that belong to registers with even j */
};

template <> struct dequant<YK_GEMM_FP8, YK_BF16> {
  static constexpr float FACTOR = 0x1p120f;
  float ratio[2];             /* the scale word */
  uint32_t scale[2], rest[2]; /* the ratio times FACTOR, and the error of rounding that to bfloat16 */

  __device__ __forceinline__ void load(uint2 words)
  {
    load_row(words.x, 0);
    load_row(words.y, 1);
  }

  __device__ __forceinline__ void load_row(uint32_t word, int row)
  {
    ratio[row] = __uint_as_float(word);
    __nv_bfloat162 rounded = __float2bfloat162_rn(ratio[row] * FACTOR);
    scale[row] = bits_of(rounded);
    rest[row] = bits_of(__float2bfloat162_rn(ratio[row] * FACTOR - __low2float(rounded)));
  }

  /* Register j as bfloat16, from its word: the numbers times 2^-120. */
  __device__ __forceinline__ static uint32_t register_of(uint32_t word, int j)
  {
    return j % 2 ? and_or(word >> 4, 0x07F007F0u, word & 0x80008000u)
                 : and_or(word << 4, 0x07F007F0u, word << 8 & 0x80008000u);
  }

  __device__ __forceinline__ void expand_unscaled(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
    const __nv_bfloat162 factor = pair_of<__nv_bfloat162>(0x7B807B80u); /* 2^120 */
#pragma unroll
    for (int j = 0; j < 4; j++)
      fragment[j] = bits_of(__hmul2(pair_of<__nv_bfloat162>(register_of(word_at(words, step * 2 + j / 2), j)), factor));
  }

  __device__ __forceinline__ void expand(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      uint32_t v = register_of(word_at(words, step * 2 + j / 2), j);
      __nv_bfloat162 small = __hmul2(pair_of<__nv_bfloat162>(v), pair_of<__nv_bfloat162>(rest[j % 2]));
      fragment[j] = multiply_add_bf16x2(v, scale[j % 2], bits_of(small));
    }
  }

  __device__ __forceinline__ float scale_of(int row) const
  {
    return ratio[row];
  }
};

} // namespace yk_gemm

#endif
