/* encoding_int4_integers.cuh - A fragments of 4-bit weights in the fewest instructions: nibbles enter mma.sync as
 * integers, neither scaled nor offset by their zero point.
 *
 * In float16 a weight of rows 0 to 7 of a panel is q, one of the upper rows 16 q, as multiples of the smallest
 * subnormal; in bfloat16 both are 128 + q. All are exact. Zero points, and the 128, are subtracted from a group's
 * accumulators using the sums of the group's x, which another mma.sync computes: x times a fragment of ones in the same
 * unit. */
#ifndef YK_KERNELS_CUDA_GEMM_ENCODING_INT4_INTEGERS_CUH
#define YK_KERNELS_CUDA_GEMM_ENCODING_INT4_INTEGERS_CUH

#include "kernels/cuda/gemm/encoding_int4.cuh"

namespace yk_gemm {

template <yk_dtype DTYPE> struct integer_weights {
  /* Two ones in the units of the fragments, of rows 0 to 7 and of upper rows. */
  static constexpr uint32_t ONE = DTYPE == YK_F16 ? 0x00010001u : 0x3F803F80u;
  static constexpr uint32_t UPPER_ONE = DTYPE == YK_F16 ? 0x00100010u : ONE;
  static constexpr float FACTOR = DTYPE == YK_F16 ? 0x1p24f : 1.0f; /* from accumulators to results */
  static constexpr float UPPER_FACTOR = DTYPE == YK_F16 ? 0x1p20f : 1.0f;
  float scale[2], offset[2]; /* a group's sum is scale * (acc + offset * sum of x), times the FACTOR */

  __device__ __forceinline__ void load(uint2 words)
  {
    load_row(words.x, 0);
    load_row(words.y, 1);
  }

  __device__ __forceinline__ void load_row(uint32_t word, int row)
  {
    if constexpr (DTYPE == YK_F16) {
      float2 pair = __half22float2(pair_of<__half2>(word));
      scale[row] = pair.x;
      offset[row] = pair.y + (row ? 64.0f : 1024.0f);
    } else {
      scale[row] = __uint_as_float(word & 0xFFFF0000u) + __uint_as_float((word & 0xFFF0u) << 16);
      offset[row] = -128.0f - static_cast<float>(word & 0xFu);
    }
  }

  __device__ __forceinline__ static void expand(uint32_t word, uint32_t (&a)[4])
  {
    if constexpr (DTYPE == YK_F16) {
      a[0] = word & 0x000F000Fu;
      a[1] = word & 0x00F000F0u;
      a[2] = word >> 8 & 0x000F000Fu;
      a[3] = word >> 8 & 0x00F000F0u;
    } else {
#pragma unroll
      for (int j = 0; j < 4; j++) a[j] = and_or(word >> 4 * j, 0x000F000Fu, 0x43004300u);
    }
  }

  /* At the end of K: multiplies accumulators of one panel by 8 tokens with their factors. */
  __device__ __forceinline__ static void to_output(float (&acc)[4])
  {
#pragma unroll
    for (int j = 0; j < 4; j++) acc[j] *= j < 2 ? FACTOR : UPPER_FACTOR;
  }
};

} // namespace yk_gemm

#endif
