/* encoding_int8.cuh - signed 8-bit integers, stored as u = q + 128, to A fragments; see encoding_int4.cuh.
 *
 * Float16: u as the low byte of a float16 whose high byte is 0x64 gives 1024 + u. Bfloat16 has seven explicit mantissa
 * bits: the lower seven bits of u below 0x4300 give 128 + u % 128; the highest bit of u, inverted, in 0xC300 gives -128
 * if it was set and else -256; their sum is u - 128 = q. All are exact, and so is q minus the integer part of the zero
 * point.
 *
 * A scale word, for either type:
 *   bits 0 to 15    scale of the group over the row scale, from -1 to 1, as float16
 *   bits 16 to 23   256 times the fraction of the zero point, from 0 on
 *   bits 24 to 31   the integer part of the zero point, rounded down, plus 128 */
#ifndef YK_KERNELS_CUDA_GEMM_ENCODING_INT8_CUH
#define YK_KERNELS_CUDA_GEMM_ENCODING_INT8_CUH

#include "kernels/cuda/gemm/encoding_int4.cuh"

namespace yk_gemm {

template <> struct dequant<YK_GEMM_INT8, YK_F16> {
  uint32_t scale[2], whole[2]; /* whole: -(1152 + integer part of zero) */
  uint32_t fraction[2];        /* -fraction of zero */

  __device__ __forceinline__ void load(uint2 words)
  {
    load_row(words.x, 0);
    load_row(words.y, 1);
  }

  __device__ __forceinline__ void load_row(uint32_t word, int row)
  {
    /* Byte b under 0x64 is 1024 + b, and (1024 + b) (-1/256) + 4 = -b/256. */
    const __half2 unit = pair_of<__half2>(0x9C009C00u), four = pair_of<__half2>(0x44004400u); /* -1/256, 4 */
    scale[row] = both_low(word);
    whole[row] = __byte_perm(word, 0xE4u, 0x4343); /* byte b under 0xE4: -(1024 + b) */
    fraction[row] = bits_of(__hfma2(pair_of<__half2>(__byte_perm(word, 0x64u, 0x4242)), unit, four));
  }

  /* Register with rows `row`: q minus the integer part of the zero. word: holds the register (packed_layout.cuh). */
  __device__ __forceinline__ __half2 whole_part(uint32_t word, int row) const
  {
    return __hadd2(pair_of<__half2>(__byte_perm(word, 0x64u, row ? 0x4341 : 0x4240)), pair_of<__half2>(whole[row]));
  }

  __device__ __forceinline__ void expand(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      __half2 q = whole_part(word_at(words, step * 2 + j / 2), j % 2);
      __half2 rest = __hmul2(pair_of<__half2>(fraction[j % 2]), pair_of<__half2>(scale[j % 2]));
      fragment[j] = multiply_add_f16x2(bits_of(q), scale[j % 2], bits_of(rest));
    }
  }

  __device__ __forceinline__ void expand_unscaled(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
#pragma unroll
    for (int j = 0; j < 4; j++)
      fragment[j] =
          bits_of(__hadd2(whole_part(word_at(words, step * 2 + j / 2), j % 2), pair_of<__half2>(fraction[j % 2])));
  }

  __device__ __forceinline__ float scale_of(int row) const
  {
    return __low2float(pair_of<__half2>(scale[row]));
  }
};

template <> struct dequant<YK_GEMM_INT8, YK_BF16> {
  float ratio[2];
  uint32_t scale[2], rest[2];     /* the ratio, and the error of rounding it to bfloat16 */
  uint32_t whole[2], fraction[2]; /* the zero's two parts, negative */

  __device__ __forceinline__ void load(uint2 words)
  {
    load_row(words.x, 0);
    load_row(words.y, 1);
  }

  __device__ __forceinline__ void load_row(uint32_t word, int row)
  {
    ratio[row] = __low2float(pair_of<__half2>(word));
    __nv_bfloat162 rounded = __float2bfloat162_rn(ratio[row]);
    scale[row] = bits_of(rounded);
    rest[row] = bits_of(__float2bfloat162_rn(ratio[row] - __low2float(rounded)));
    /* A byte below 0x4B0000 is 2^23 + byte, as float32. */
    float zero = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7653)) - 0x1p23f;
    whole[row] = bits_of(__float2bfloat162_rn(128.0f - zero));
    float part = __uint_as_float(__byte_perm(word, 0x4B000000u, 0x7652)) - 0x1p23f;
    fraction[row] = bits_of(__float2bfloat162_rn(part * -0x1p-8f));
  }

  /* q minus the integer part of the zero. word: has the bytes of the row at bits 0 and 16. */
  __device__ __forceinline__ __nv_bfloat162 whole_part(uint32_t word, int row) const
  {
    __nv_bfloat162 low = pair_of<__nv_bfloat162>(and_or(word, 0x007F007Fu, 0x43004300u));
    __nv_bfloat162 high = pair_of<__nv_bfloat162>(and_or(~word, 0x00800080u, 0xC300C300u));
    return __hadd2(__hadd2(low, high), pair_of<__nv_bfloat162>(whole[row]));
  }

  __device__ __forceinline__ void expand(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int row = j % 2;
      __nv_bfloat162 q = whole_part(word_at(words, step * 2 + j / 2) >> 8 * row, row);
      __nv_bfloat162 constant = __hmul2(pair_of<__nv_bfloat162>(fraction[row]), pair_of<__nv_bfloat162>(scale[row]));
      __nv_bfloat162 small = __hfma2(q, pair_of<__nv_bfloat162>(rest[row]), constant);
      fragment[j] = multiply_add_bf16x2(bits_of(q), scale[row], bits_of(small));
    }
  }

  __device__ __forceinline__ void expand_unscaled(const uint4 &words, int step, uint32_t (&fragment)[4]) const
  {
#pragma unroll
    for (int j = 0; j < 4; j++)
      fragment[j] = bits_of(__hadd2(whole_part(word_at(words, step * 2 + j / 2) >> 8 * (j % 2), j % 2),
                                    pair_of<__nv_bfloat162>(fraction[j % 2])));
  }

  __device__ __forceinline__ float scale_of(int row) const
  {
    return ratio[row];
  }
};

} // namespace yk_gemm

#endif
