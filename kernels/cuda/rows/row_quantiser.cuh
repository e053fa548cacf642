/* row_quantiser.cuh - conversion of a row's inputs to 8-bit integers: formulas and rounding of
 * kernels/cpu/linear/format_w8a8.c, bit for bit. */
#ifndef YK_KERNELS_CUDA_ROWS_ROW_QUANTISER_CUH
#define YK_KERNELS_CUDA_ROWS_ROW_QUANTISER_CUH

#include "kernels/cuda/common/elements.cuh"

namespace yk_cuda {

/* Bits of |x| as float32, which order as the values do; those of NaNs are largest. */
__device__ inline int magnitude(float x)
{
  return static_cast<int>(__float_as_uint(x) & 0x7FFFFFFFu);
}

/* The scale of a row's inputs. largest: the bits of the largest |x| of the row; static_scale 0: per token. */
__device__ inline float input_scale(int largest, float static_scale)
{
  if (largest >= 0x7F800000) return __int_as_float(0x7FC00000); /* NaN */
  return static_scale > 0.0f ? static_scale : __fdiv_rn(__int_as_float(largest), 127.0f);
}

/* Converts the inputs of one row to integers. */
struct row_quantiser {
  static constexpr float ROUND = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, ties to even */
  float scale, reciprocal, zero;
  bool is_extreme; /* the reciprocal cannot be used */
  bool is_plain;   /* the reciprocal can be used, all integers are in -127 .. 127, and zero is 0 */

  __device__ row_quantiser(float scale, float static_scale, int zero)
      : scale(scale), reciprocal(1.0f / scale), zero(static_cast<float>(zero)),
        is_extreme(!(scale > 1e-30f && scale < 1e30f)), is_plain(!is_extreme && !(static_scale > 0.0f))
  {
  }

  /* x / scale, for an x of at most 11 bits, as in 16-bit floats: the nearest float32 if that decides to which integer
   * it rounds, that is for x next to a number half-way between two integers; else within an ulp. This is the last step
   * of Markstein's division (Computation of elementary functions on the IBM RISC System/6000 processor, 1990), from a
   * guess that may be two ulps off. test_op_cuda_quotients tests all x that decide. */
  __device__ float quotient(float x) const
  {
    const float guess = __fmul_rn(x, reciprocal);
    return __fmaf_rn(__fmaf_rn(-guess, scale, x), reciprocal, guess);
  }

  __device__ float any_quotient(float x) const
  {
    if (is_extreme) return __fdiv_rn(x, scale);
    const float guess = __fmul_rn(x, reciprocal);
    return fabsf(guess) < 512.0f ? quotient(x) : guess;
  }

  /* The integer of a quotient, in the lowest byte. */
  __device__ uint32_t integer(float v) const
  {
    v = fminf(fmaxf(v, -256.0f), 256.0f);
    const float q = __fadd_rn(__fsub_rn(__fadd_rn(v, ROUND), ROUND), zero);
    return __float_as_uint(__fadd_rn(fminf(fmaxf(q, -128.0f), 127.0f), ROUND));
  }

  template <typename T> __device__ int8_t operator()(T x) const
  {
    return static_cast<int8_t>(integer(any_quotient(to_float(x))));
  }

  /* Converts eight inputs. */
  template <typename T> __device__ uint2 operator()(const uint4 &x) const
  {
    return is_plain ? vector<true, T>(x) : vector<false, T>(x);
  }

  template <bool IS_PLAIN, typename T> __device__ uint2 vector(const uint4 &x) const
  {
    const uint32_t words[4] = {x.x, x.y, x.z, x.w};
    uint32_t q[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const vec<T, 2> pair = *reinterpret_cast<const vec<T, 2> *>(&words[i / 2]);
      const float v = to_float(pair.at[i % 2]);
      q[i] = IS_PLAIN ? __float_as_uint(__fadd_rn(quotient(v), ROUND)) : integer(any_quotient(v));
    }
    return {lowest_bytes(q[0], q[1], q[2], q[3]), lowest_bytes(q[4], q[5], q[6], q[7])};
  }

  __device__ static uint32_t lowest_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
  {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
  }
};

/* Bits of the largest |x| of a vector as float32. The bits of 16-bit floats order as the values do too, two per
 * word. */
template <typename T> __device__ int largest_of(uint4 words)
{
  constexpr uint32_t MAGNITUDES = 0x7FFF7FFFu;
  const uint32_t low = __vmaxu2(words.x & MAGNITUDES, words.y & MAGNITUDES);
  const uint32_t both = __vmaxu2(low, __vmaxu2(words.z & MAGNITUDES, words.w & MAGNITUDES));
  const unsigned short bits = static_cast<unsigned short>(max(both & 0xFFFFu, both >> 16));
  return magnitude(to_float(*reinterpret_cast<const T *>(&bits)));
}

} // namespace yk_cuda

#endif
