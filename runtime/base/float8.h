/* float8.h - 8-bit and 4-bit floats and their conversion to and from float16 and float32.
 *
 * e4m3fn: a sign, 4 exponent bits with bias 7, 3 mantissa bits. There is no infinity: the largest number is 448, and
 * only 0x7F and 0xFF are NaN. e8m0: an exponent with bias 127, 0xFF is NaN. e2m1: a sign, 2 exponent bits with bias 1,
 * a mantissa bit; all 16 codes are numbers.
 * Sources: Open Compute Project, OCP 8-bit Floating Point Specification (OFP8) and OCP Microscaling Formats (MX),
 * 2023. */
#ifndef YK_BASE_FLOAT8_H
#define YK_BASE_FLOAT8_H

#include <stdbool.h>

#include "base/dtype.h"

enum { YK_E4M3_MAGNITUDE = 0x7F /* the bits without the sign; all set: NaN */ };

static inline bool yk_e4m3_is_nan(uint8_t code)
{
  return (code & YK_E4M3_MAGNITUDE) == YK_E4M3_MAGNITUDE;
}

/* yk_e4m3_to_f16 - the code's number divided by 256, exact: float16 has the same layout with one more exponent bit,
 *   whose bias is larger by 8, and subnormal numbers stay subnormal. A NaN gives 480 / 256. */
static inline uint16_t yk_e4m3_to_f16(uint8_t code)
{
  return (uint16_t)((code & 0x80u) << 8 | (code & 0x7Fu) << 7);
}

/* yk_e4m3_number_to_f32 - exact, for a code that is not NaN. Free of branches, so that compilers vectorise loops over
 *   it. */
static inline float yk_e4m3_number_to_f32(uint8_t code)
{
  uint32_t sign = (uint32_t)(code & 0x80u) << 24, magnitude = (uint32_t)(code & YK_E4M3_MAGNITUDE) << 20;
  return 0x1p120f *
         yk_f32_from_bits(sign | magnitude); /* the difference of the biases; subnormal numbers stay subnormal before
                                              * the scaling */
}

/* yk_e4m3_to_f32 - exact; NaN stays NaN. */
static inline float yk_e4m3_to_f32(uint8_t code)
{
  if (yk_e4m3_is_nan(code)) return yk_f32_from_bits(0x7FC00000u | (uint32_t)(code & 0x80u) << 24);
  return yk_e4m3_number_to_f32(code);
}

/* yk_e8m0_to_f32 - exact: a power of 2, or NaN. */
static inline float yk_e8m0_to_f32(uint8_t code)
{
  if (code == 0xFFu) return yk_f32_from_bits(0x7FC00000u);
  return yk_f32_from_bits(code ? (uint32_t)code << 23 : 0x00400000u); /* 2^-127 is subnormal */
}

/* yk_e2m1_to_f32 - exact, for a code of 0 to 15. */
static inline float yk_e2m1_to_f32(uint8_t code)
{
  static const float numbers[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  return numbers[code & 0xFu];
}

/* yk_e4m3_from_f32 - the nearest code, ties to even; values beyond 448 give the code of 448, NaN gives NaN. */
static inline uint8_t yk_e4m3_from_f32(float x)
{
  uint32_t bits = yk_f32_bits(x), magnitude = bits & 0x7FFFFFFFu, sign = bits >> 24 & 0x80u;
  if (magnitude > 0x7F800000u) return (uint8_t)(sign | YK_E4M3_MAGNITUDE);
  if (magnitude >= yk_f32_bits(448.0f)) return (uint8_t)(sign | (YK_E4M3_MAGNITUDE - 1));
  if (magnitude < yk_f32_bits(0x1p-6f)) /* the unit of a subnormal code is 2^-9, the last place of the sum */
    return (uint8_t)(sign | (yk_f32_bits(yk_f32_from_bits(magnitude) + 0x1p14f) & 0xFu));
  magnitude += 0x7FFFFu + (magnitude >> 20 & 1u);
  return (uint8_t)(sign | ((magnitude >> 20) - (120u << 3))); /* the difference of the biases */
}

#endif
