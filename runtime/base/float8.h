/* float8.h - 8-bit floats of the kind e4m3fn as float16 and float32: a sign, 4 bits of exponent with bias 7, 3 of
 * mantissa. There is no infinity: the largest number is 448, and 0x7F and 0xFF alone are no numbers.
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

#endif
