/* w4a16_raw.cuh - weights of few tokens' products in the fewest instructions: nibbles as they are.
 *
 * A lower row's fragment is q, an upper one's 16 q, as multiples of float16's smallest number, or 128 + q in bfloat16; both are
 * exact. What is too much is taken off a group's sum by means of the sum of its x, which comes from a fragment of ones in the
 * same measure. */
#ifndef YK_KERNELS_CUDA_W4A16_RAW_CUH
#define YK_KERNELS_CUDA_W4A16_RAW_CUH

#include "kernels/cuda/w4a16_dequant.cuh"

namespace w4a16 {

template <yk_dtype DTYPE> struct raw_weights {
  static constexpr uint32_t ONE = DTYPE == YK_F16 ? 0x00010001u : 0x3F803F80u;
  static constexpr uint32_t UPPER_ONE = DTYPE == YK_F16 ? 0x00100010u : ONE;
  static constexpr float UNIT = DTYPE == YK_F16 ? 0x1p24f : 1.0f; /* of a lower row's sum */
  static constexpr float UPPER_UNIT = DTYPE == YK_F16 ? 0x1p20f : 1.0f;
  float scale[2], offset[2]; /* offset: what to add of the sum of x */

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

  /* One unit's sums of so many weights times their scales: rows of the fragment, two tokens each. */
  __device__ __forceinline__ static void to_results(float (&sum)[4])
  {
#pragma unroll
    for (int j = 0; j < 4; j++) sum[j] *= j < 2 ? UNIT : UPPER_UNIT;
  }
};

} // namespace w4a16

#endif
