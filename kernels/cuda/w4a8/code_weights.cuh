/* code_weights.cuh - A fragments of 4-bit weights as 8-bit codes of the type of x, from the words of the packed layout.
 *
 * int8_t: q - zero as it is.
 * __nv_fp8_e4m3: a byte 0000qqqq is q * 2^-9: a subnormal up to 7, and the first binade, of the same spacing, from 8
 * on. So q - zero is exact as a sign and a magnitude of four bits, times 2^-9, which the group's scale undoes.
 *
 * Inputs: a word of the packed layout holds, for each of its two rows, inputs 2c, 2c + 8, 2c + 1 and 2c + 9 of 16, in
 * this order, c = lane % 4. They are taken as inputs 4c to 4c + 3 of the matrix instruction, so x must have the same
 * order in each 16 inputs: code_position. */
#ifndef YK_KERNELS_CUDA_W4A8_CODE_WEIGHTS_CUH
#define YK_KERNELS_CUDA_W4A8_CODE_WEIGHTS_CUH

#include <type_traits>

#include <cuda_fp8.h>

#include "kernels/cuda/gemm/common.cuh"

namespace yk_w4a8 {

/* Position in x of input i of 16. */
__host__ __device__ constexpr int code_position(int i)
{
  return i % 8 / 2 * 4 + i % 2 * 2 + i / 8;
}

/* The weights of a lane's two rows, of one group of scales. CODE: int8_t or __nv_fp8_e4m3. */
template <yk_dtype DTYPE, typename CODE> struct code_weights {
  static constexpr bool IS_INT8 = std::is_same_v<CODE, int8_t>;
  static constexpr float FACTOR = IS_INT8 ? 1.0f : 512.0f; /* of a code to q - zero */
  uint32_t zeros[2], biases[2];                            /* in each byte: the zero point; 128 - zero */
  float scales[2];

  __device__ __forceinline__ void load(uint2 words)
  {
    load_row<0>(words.x);
    load_row<1>(words.y);
  }

  template <int ROW> __device__ __forceinline__ void load_row(uint32_t word)
  {
    if constexpr (DTYPE == YK_F16) { /* -(1024 + zero), or -(64 + zero), of spacing 1/16, in the upper half */
      zeros[ROW] = __byte_perm(word >> (ROW == 0 ? 16 : 20) & 0xFu, 0, 0);
      scales[ROW] = FACTOR * __low2float(yk_gemm::pair_of<__half2>(word));
    } else {
      zeros[ROW] = __byte_perm(word & 0xFu, 0, 0);
      scales[ROW] = FACTOR * (__uint_as_float(word & 0xFFFF0000u) + __uint_as_float((word & 0xFFF0u) << 16));
    }
    biases[ROW] = 0x80808080u - zeros[ROW];
  }

  /* Four nibbles, each the low half of a byte: no byte of the sum with the bias, 128 + q - zero, overflows, and its bit
   * 7 is clear if q < zero. */
  template <int ROW> __device__ __forceinline__ uint32_t expand_row(uint32_t nibbles) const
  {
    if constexpr (IS_INT8)
      return (nibbles + biases[ROW]) ^ 0x80808080u;
    else
      return __vabsdiffu4(nibbles, zeros[ROW]) | (~(nibbles + biases[ROW]) & 0x80808080u);
  }

  /* The fragment of 32 inputs, whose first 16 are in `first`. */
  __device__ __forceinline__ void expand(uint32_t first, uint32_t second, uint32_t (&fragment)[4]) const
  {
    fragment[0] = expand_row<0>(first & 0x0F0F0F0Fu);
    fragment[1] = expand_row<1>(first >> 4 & 0x0F0F0F0Fu);
    fragment[2] = expand_row<0>(second & 0x0F0F0F0Fu);
    fragment[3] = expand_row<1>(second >> 4 & 0x0F0F0F0Fu);
  }
};

} // namespace yk_w4a8

#endif
