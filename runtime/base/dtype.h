/* dtype.h - element types of activations, scales and plain weights, and their conversion to float32.
 *
 * Scalar conversions only: kernels have vectorised conversions. Rounding is to nearest, ties to even, as in IEEE 754
 * and on every GPU. NaN stays NaN, overflow becomes infinity. */
#ifndef YK_BASE_DTYPE_H
#define YK_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum yk_dtype { YK_F16, YK_BF16, YK_F32 } yk_dtype;

static inline size_t yk_dtype_bytes(yk_dtype dtype)
{
  return dtype == YK_F32 ? 4 : 2;
}

static inline const char *yk_dtype_name(yk_dtype dtype)
{
  return dtype == YK_F16 ? "float16" : dtype == YK_BF16 ? "bfloat16" : "float32";
}

static inline uint32_t yk_f32_bits(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float yk_f32_from_bits(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float yk_bf16_to_f32(uint16_t half)
{
  return yk_f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t yk_f32_to_bf16(float value)
{
  uint32_t bits = yk_f32_bits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)((bits >> 16) | 0x40u);
  return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static inline float yk_f16_to_f32(uint16_t half)
{
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  uint32_t magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00u) return yk_f32_from_bits(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  if (magnitude >= 0x0400u) return yk_f32_from_bits(sign | ((magnitude << 13) + 0x38000000u));
  float subnormal = (float)magnitude * 0x1p-24f; /* exact: at most ten significant bits */
  return sign ? -subnormal : subnormal;
}

static inline uint16_t yk_f32_to_f16(float value)
{
  uint32_t bits = yk_f32_bits(value);
  uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  bits &= 0x7FFFFFFFu;
  if (bits > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);
  if (bits >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and above round to infinity */
  if (bits >= 0x38800000u) return (uint16_t)(sign | ((bits - 0x38000000u + 0xFFFu + (bits >> 13 & 1u)) >> 13));
  /* Subnormal: adding 0.5 aligns the ten bits at the bottom of the mantissa, rounded by the addition itself. */
  return (uint16_t)(sign | (yk_f32_bits(yk_f32_from_bits(bits) + 0.5f) - 0x3F000000u));
}

/* yk_dtype_load / yk_dtype_store - element i of an array of dtype as float32. */
static inline float yk_dtype_load(yk_dtype dtype, const void *array, size_t i)
{
  if (dtype == YK_F32) return ((const float *)array)[i];
  uint16_t half = ((const uint16_t *)array)[i];
  return dtype == YK_F16 ? yk_f16_to_f32(half) : yk_bf16_to_f32(half);
}

static inline void yk_dtype_store(yk_dtype dtype, void *array, size_t i, float value)
{
  if (dtype == YK_F32)
    ((float *)array)[i] = value;
  else
    ((uint16_t *)array)[i] = dtype == YK_F16 ? yk_f32_to_f16(value) : yk_f32_to_bf16(value);
}

#endif
