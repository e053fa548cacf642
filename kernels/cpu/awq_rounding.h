/* awq_rounding.h - the arithmetic of kernels/awq_quantize.h on pieces of a row. Loops process whole arrays without a
 * sum, so that the compiler vectorises them for any processor and rounds each element as defined. */
#ifndef YK_KERNELS_CPU_AWQ_ROUNDING_H
#define YK_KERNELS_CPU_AWQ_ROUNDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/awq_quantize.h"
#include "kernels/cpu/cpu_simd.h"

enum { YK_AWQ_CHUNK = 128, YK_AWQ_RANGE_LANES = 16 };

/* Adding and subtracting 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits. */
#define YK_AWQ_WHOLE 12582912.0f

static inline float yk_awq_nearest(float x)
{
  return (x + YK_AWQ_WHOLE) - YK_AWQ_WHOLE;
}

static inline float yk_awq_clamp(float x)
{
  x = x < 0.0f ? 0.0f : x;
  return x > 15.0f ? 15.0f : x;
}

/* yk_awq_chunk - number of a group's weights that are read together, from k on. */
static inline int yk_awq_chunk(int64_t k, int64_t end)
{
  return (int)yk_min_i64(YK_AWQ_CHUNK, end - k);
}

/* yk_awq_read - reads weights k .. k + count - 1 of a row as the floats to be quantised, before the limits. */
static inline void yk_awq_read(const yk_cpu_simd *simd, const yk_awq_floats *weight, int64_t row, int64_t k, int count,
                               float *out)
{
  _Alignas(float) unsigned char bytes[YK_AWQ_CHUNK * sizeof(float)];
  size_t element = yk_dtype_bytes(weight->dtype);
  memcpy(bytes, (const char *)weight->w + (size_t)(row * weight->k + k) * element, (size_t)count * element);
  simd->to_f32(out, weight->dtype, bytes, (size_t)count);
  if (weight->n_scales)
    for (int i = 0; i < count; i++) out[i] *= weight->n_scales[row];
  if (weight->k_scales)
    for (int i = 0; i < count; i++) out[i] *= weight->k_scales[k + i];
}

static inline void yk_awq_cut(float *w, int count, float limit)
{
  for (int i = 0; i < count; i++) w[i] = w[i] > limit ? limit : w[i];
  for (int i = 0; i < count; i++) w[i] = w[i] < -limit ? -limit : w[i];
}

/* Range of the weights so far; initially zeros. */
typedef struct yk_awq_range {
  float low[YK_AWQ_RANGE_LANES], high[YK_AWQ_RANGE_LANES];
  float nothing[YK_AWQ_RANGE_LANES]; /* 0, or NaN once a weight was not finite */
} yk_awq_range;

static inline void yk_awq_range_add(yk_awq_range *range, const float *w, int count)
{
  yk_awq_range r = *range; /* a copy, which w cannot alias */
  int i = 0;
  for (; i + YK_AWQ_RANGE_LANES <= count; i += YK_AWQ_RANGE_LANES) {
    for (int j = 0; j < YK_AWQ_RANGE_LANES; j++) r.low[j] = w[i + j] < r.low[j] ? w[i + j] : r.low[j];
    for (int j = 0; j < YK_AWQ_RANGE_LANES; j++) r.high[j] = w[i + j] > r.high[j] ? w[i + j] : r.high[j];
    for (int j = 0; j < YK_AWQ_RANGE_LANES; j++) r.nothing[j] += w[i + j] * 0.0f;
  }
  for (; i < count; i++) {
    r.low[0] = w[i] < r.low[0] ? w[i] : r.low[0];
    r.high[0] = w[i] > r.high[0] ? w[i] : r.high[0];
    r.nothing[0] += w[i] * 0.0f;
  }
  *range = r;
}

/* Rounding parameters of a group. */
typedef struct yk_awq_group {
  uint16_t scale_bits; /* f16 */
  float scale, zero;
} yk_awq_group;

/* yk_awq_group_of - computes the parameters; returns false if a weight or the scale is not finite. */
static inline bool yk_awq_group_of(const yk_awq_range *range, yk_awq_group *out)
{
  float low = 0.0f, high = 0.0f, nothing = 0.0f;
  for (int j = 0; j < YK_AWQ_RANGE_LANES; j++) {
    low = range->low[j] < low ? range->low[j] : low;
    high = range->high[j] > high ? range->high[j] : high;
    nothing += range->nothing[j];
  }
  float width = high - low;
  out->scale_bits = yk_f32_to_f16((width < 1e-5f ? 1e-5f : width) / 15.0f);
  out->scale = yk_f16_to_f32(out->scale_bits);
  out->zero = yk_awq_clamp(yk_awq_nearest(-low / out->scale));
  return nothing == 0.0f && (out->scale_bits & 0x7C00u) != 0x7C00u;
}

/* yk_awq_whole - q of count weights. Compilers vectorise a loop with a single operation. */
static inline void yk_awq_whole(const yk_awq_group *group, const float *w, int count, float *q)
{
  float scale = group->scale, zero = group->zero;
  for (int i = 0; i < count; i++) q[i] = yk_awq_nearest(w[i] / scale) + zero;
  for (int i = 0; i < count; i++) q[i] = q[i] < 0.0f ? 0.0f : q[i];
  for (int i = 0; i < count; i++) q[i] = q[i] > 15.0f ? 15.0f : q[i];
}

/* yk_awq_add_words - writes q of count weights into bits shift .. shift + 3 of count words. */
static inline void yk_awq_add_words(const yk_awq_group *group, const float *w, int count, int shift, uint32_t *words)
{
  float q[YK_AWQ_CHUNK];
  yk_awq_whole(group, w, count, q);
  for (int i = 0; i < count; i++) words[i] |= (yk_f32_bits(q[i] + YK_AWQ_WHOLE) & 15u) << shift;
}

/* yk_awq_values - the dequantised values of count weights. */
static inline void yk_awq_values(const yk_awq_group *group, const float *w, int count, float *out)
{
  yk_awq_whole(group, w, count, out);
  for (int i = 0; i < count; i++) out[i] = group->scale * (out[i] - group->zero);
}

/* yk_awq_note_bad - keeps the least row * groups + group that cannot be quantised; INT64_MAX at first: none. */
static inline void yk_awq_note_bad(_Atomic int64_t *first_bad, int64_t bad)
{
  int64_t seen = atomic_load(first_bad);
  while (bad < seen && !atomic_compare_exchange_weak(first_bad, &seen, bad)) {
  }
}

/* yk_awq_first_bad - the noted index, or -1. */
static inline int64_t yk_awq_first_bad(_Atomic int64_t *first_bad)
{
  int64_t bad = atomic_load(first_bad);
  return bad == INT64_MAX ? -1 : bad;
}

#endif
