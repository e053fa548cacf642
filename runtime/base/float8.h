/* float8.h - 8-bit floats of the kind e4m3fn as float16 and float32, and float32 as such: a sign, 4 bits of exponent
 * with bias 7, 3 of mantissa. There is no infinity: the largest number is 448, and 0x7F and 0xFF alone are no numbers.
 * Source: Open Compute Project, OCP 8-bit Floating Point Specification (OFP8), 2023. */
#ifndef YK_BASE_FLOAT8_H
#define YK_BASE_FLOAT8_H

#include <stdbool.h>

#include "base/dtype.h"

enum { YK_E4M3_MAGNITUDE = 0x7F /* the bits beside the sign; all of them set: no number */ };

static inline bool yk_e4m3_is_nan(uint8_t code)
{
  return (code & YK_E4M3_MAGNITUDE) == YK_E4M3_MAGNITUDE;
}

/* yk_e4m3_to_f16 - the code's number divided by 256, exact: float16 has the same layout with one more bit of exponent,
 *   whose bias is larger by 8, and subnormal numbers become subnormal ones. Of a NaN: 480 / 256. */
static inline uint16_t yk_e4m3_to_f16(uint8_t code)
{
  return (uint16_t)((code & 0x80u) << 8 | (code & 0x7Fu) << 7);
}

/* yk_e4m3_number_to_f32 - exact, of a code that is a number. Without branches, so that compilers make vectors of loops
 *   over it. */
static inline float yk_e4m3_number_to_f32(uint8_t code)
{
  uint32_t sign = (uint32_t)(code & 0x80u) << 24, magnitude = (uint32_t)(code & YK_E4M3_MAGNITUDE) << 20;
  return 0x1p120f *
         yk_f32_from_bits(sign | magnitude); /* the difference of the biases; a subnormal number becomes one */
}

/* yk_e4m3_to_f32 - exact; NaN stays NaN. */
static inline float yk_e4m3_to_f32(uint8_t code)
{
  if (yk_e4m3_is_nan(code)) return yk_f32_from_bits(0x7FC00000u | (uint32_t)(code & 0x80u) << 24);
  return yk_e4m3_number_to_f32(code);
}

/* yk_e4m3_from_f32 - the nearest code, ties to even; beyond 448 that of 448, and of a NaN a NaN. */
static inline uint8_t yk_e4m3_from_f32(float x)
{
  uint32_t bits = yk_f32_bits(x), magnitude = bits & 0x7FFFFFFFu, sign = bits >> 24 & 0x80u;
  if (magnitude > 0x7F800000u) return (uint8_t)(sign | YK_E4M3_MAGNITUDE);
  if (magnitude >= yk_f32_bits(448.0f)) return (uint8_t)(sign | (YK_E4M3_MAGNITUDE - 1));
  if (magnitude < yk_f32_bits(0x1p-6f)) /* a subnormal code counts 2^-9, which is the sum's last place */
    return (uint8_t)(sign | (yk_f32_bits(yk_f32_from_bits(magnitude) + 0x1p14f) & 0xFu));
  magnitude += 0x7FFFFu + (magnitude >> 20 & 1u);
  return (uint8_t)(sign | ((magnitude >> 20) - (120u << 3))); /* the difference of the biases */
}

#endif
