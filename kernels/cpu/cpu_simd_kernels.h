/* cpu_simd_kernels.h - the inner loops, written once over a small set of vector operations.
 *
 * Included by cpu_simd_<set>.c after it has defined, for VL float32 lanes:
 *   vf                             a vector of floats
 *   vf_zero vf_set1 vf_load vf_store vf_add vf_sub vf_mul vf_div vf_min vf_max
 *   vf_fma(a, b, c)                a * b + c, fused if the set can
 *   (vf_min and vf_max return their second argument if one is a NaN)
 *   vf_scale_pow2(a, n)            a * 2^k, k in the low bits of n, a and the result normal numbers
 *   vf_sum(a)                      sum of the lanes, in a fixed order
 *   vf_largest(a)                  the largest of the lanes
 *   vf_load_f16 vf_load_bf16       VL 16-bit floats as float32
 *   vf_store_f16 vf_store_bf16     the reverse, to nearest even
 * and the requirements of cpu_simd_gemm.h, cpu_simd_bytes.h and cpu_simd_int8.h. Ends in a table,
 * SIMD_TABLE(name, multiply_int8). */
#include <math.h>

#include "kernels/cpu/cpu_simd.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum {
  SUMS = 8 /* additions in flight at once: two per cycle, four cycles each */

};

ALWAYS_INLINE vf load_elements(yk_dtype dtype, const void *array, size_t i)
{
  if (dtype == YK_F16) return vf_load_f16((const uint16_t *)array + i);
  if (dtype == YK_BF16) return vf_load_bf16((const uint16_t *)array + i);
  return vf_load((const float *)array + i);
}

ALWAYS_INLINE void store_elements(yk_dtype dtype, void *array, size_t i, vf value)
{
  if (dtype == YK_F16)
    vf_store_f16((uint16_t *)array + i, value);
  else if (dtype == YK_BF16)
    vf_store_bf16((uint16_t *)array + i, value);
  else
    vf_store((float *)array + i, value);
}

ALWAYS_INLINE void to_f32_as(float *dst, yk_dtype dtype, const void *src, size_t n)
{
  size_t i = 0;
  for (; i + VL <= n; i += VL) vf_store(dst + i, load_elements(dtype, src, i));
  for (; i < n; i++) dst[i] = yk_dtype_load(dtype, src, i);
}

static void to_f32(float *dst, yk_dtype dtype, const void *src, size_t n)
{
  if (dtype == YK_F16)
    to_f32_as(dst, YK_F16, src, n);
  else if (dtype == YK_BF16)
    to_f32_as(dst, YK_BF16, src, n);
  else
    to_f32_as(dst, YK_F32, src, n);
}

ALWAYS_INLINE void from_f32_as(void *dst, yk_dtype dtype, const float *src, size_t n)
{
  size_t i = 0;
  for (; i + VL <= n; i += VL) store_elements(dtype, dst, i, vf_load(src + i));
  for (; i < n; i++) yk_dtype_store(dtype, dst, i, src[i]);
}

static void from_f32(void *dst, yk_dtype dtype, const float *src, size_t n)
{
  if (dtype == YK_F16)
    from_f32_as(dst, YK_F16, src, n);
  else if (dtype == YK_BF16)
    from_f32_as(dst, YK_BF16, src, n);
  else
    from_f32_as(dst, YK_F32, src, n);
}

/* Four independent sums: a single sum would wait for the latency of each addition. */
static float sum_squares(const float *x, size_t n)
{
  vf sum[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
  size_t i = 0;
  for (; i + 4 * VL <= n; i += 4 * VL)
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) sum[v] = vf_fma(vf_load(x + i + v * VL), vf_load(x + i + v * VL), sum[v]);
  for (; i + VL <= n; i += VL) sum[0] = vf_fma(vf_load(x + i), vf_load(x + i), sum[0]);
  float total = vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
  for (; i < n; i++) total += x[i] * x[i];
  return total;
}

/* One sum per row, so that a row's result does not depend on the number of rows processed together. */
ALWAYS_INLINE void dot_rows_fixed(float *dots, const float *x, const float *rows, const int n_rows, size_t n)
{
  vf sum[SUMS];
  size_t i = 0;
#pragma GCC unroll 8
  for (int r = 0; r < n_rows; r++) sum[r] = vf_zero();
  for (; i + VL <= n; i += VL) {
    vf x_lanes = vf_load(x + i);
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) sum[r] = vf_fma(x_lanes, vf_load(rows + (size_t)r * n + i), sum[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < n_rows; r++) dots[r] = vf_sum(sum[r]);
  for (; i < n; i++)
    for (int r = 0; r < n_rows; r++) dots[r] += x[i] * rows[(size_t)r * n + i];
}

static void dot_rows(float *dots, const float *x, const float *rows, int n_rows, size_t n)
{
  int r = 0;
  for (; r + SUMS <= n_rows; r += SUMS) dot_rows_fixed(dots + r, x, rows + (size_t)r * n, SUMS, n);
  for (; r < n_rows; r++) dot_rows_fixed(dots + r, x, rows + (size_t)r * n, 1, n);
}

static void weighted_sum(float *acc, float acc_scale, const float *weights, const float *rows, int n_rows, size_t n)
{
  size_t i = 0;
  for (; i + SUMS * VL <= n; i += SUMS * VL) {
    vf sum[SUMS];
#pragma GCC unroll 8
    for (int v = 0; v < SUMS; v++) sum[v] = vf_mul(vf_load(acc + i + v * VL), vf_set1(acc_scale));
    for (int r = 0; r < n_rows; r++) {
      vf weight = vf_set1(weights[r]);
      const float *row = rows + (size_t)r * n + i;
#pragma GCC unroll 8
      for (int v = 0; v < SUMS; v++) sum[v] = vf_fma(weight, vf_load(row + v * VL), sum[v]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < SUMS; v++) vf_store(acc + i + v * VL, sum[v]);
  }
  for (; i + VL <= n; i += VL) {
    vf sum = vf_mul(vf_load(acc + i), vf_set1(acc_scale));
    for (int r = 0; r < n_rows; r++) sum = vf_fma(vf_set1(weights[r]), vf_load(rows + (size_t)r * n + i), sum);
    vf_store(acc + i, sum);
  }
  for (; i < n; i++) {
    float sum = acc[i] * acc_scale;
    for (int r = 0; r < n_rows; r++) sum += weights[r] * rows[(size_t)r * n + i];
    acc[i] = sum;
  }
}

/* exp(x), within 2 units in the last place if the result is a normal number; otherwise the nearest normal number.
 * exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, with ln 2 in two parts and a Taylor polynomial. An
 * addition of 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
ALWAYS_INLINE vf exp_lanes(vf x)
{
  x = vf_min(vf_set1(88.3f), vf_max(vf_set1(-87.3f), x)); /* this order preserves NaN */
  vf shifted = vf_fma(x, vf_set1(1.44269504f), vf_set1(12582912.0f));
  vf n = vf_sub(shifted, vf_set1(12582912.0f));
  vf r = vf_fma(n, vf_set1(-0.693359375f), x);
  r = vf_fma(n, vf_set1(2.12194440e-4f), r);
  vf p = vf_fma(r, vf_set1(1.0f / 5040.0f), vf_set1(1.0f / 720.0f));
  p = vf_fma(r, p, vf_set1(1.0f / 120.0f));
  p = vf_fma(r, p, vf_set1(1.0f / 24.0f));
  p = vf_fma(r, p, vf_set1(1.0f / 6.0f));
  p = vf_fma(r, p, vf_set1(0.5f));
  p = vf_fma(r, p, vf_set1(1.0f));
  p = vf_fma(r, p, vf_set1(1.0f));
  return vf_scale_pow2(p, shifted);
}

static float softmax(float *x, size_t n, float *maximum)
{
  vf largest = vf_set1(*maximum), sum = vf_zero();
  for (size_t i = 0; i < n; i += VL) largest = vf_max(largest, vf_load(x + i));
  *maximum = vf_largest(largest);
  for (size_t i = 0; i < n; i += VL) {
    vf weights = exp_lanes(vf_sub(vf_load(x + i), vf_set1(*maximum)));
    vf_store(x + i, weights);
    sum = vf_add(sum, weights);
  }
  return vf_sum(sum);
}

/* x / (1 + exp(-t)) */
ALWAYS_INLINE vf times_sigmoid(vf x, vf t)
{
  return vf_div(x, vf_add(vf_set1(1.0f), exp_lanes(vf_sub(vf_zero(), t))));
}

ALWAYS_INLINE vf gelu_tanh_lanes(vf x)
{
  const vf two_roots = vf_set1(1.59576912f); /* 2 sqrt(2 / pi) */
  vf cubic = vf_fma(vf_mul(vf_set1(0.044715f), x), vf_mul(x, x), x);
  return times_sigmoid(x, vf_mul(two_roots, cubic));
}

ALWAYS_INLINE vf relu2_lanes(vf x)
{
  vf positive = vf_max(vf_zero(), x); /* this order preserves NaN */
  return vf_mul(positive, positive);
}

/* kind is a constant in each call. */
ALWAYS_INLINE void activate_as(yk_activation_kind kind, float *gate, const float *up, size_t n)
{
  for (size_t i = 0; i < n; i += VL) {
    vf x = vf_load(gate + i);
    vf y = kind == YK_ACTIVATION_SILU        ? times_sigmoid(x, x)
           : kind == YK_ACTIVATION_GELU_TANH ? gelu_tanh_lanes(x)
                                             : relu2_lanes(x);
    vf_store(gate + i, up ? vf_mul(y, vf_load(up + i)) : y);
  }
}

/* Uses erfc, whose relative error is small even where 1 + erf vanishes. */
static void gelu_erf(float *gate, const float *up, size_t n)
{
  for (size_t i = 0; i < n; i++) gate[i] = 0.5f * gate[i] * erfcf(gate[i] * -0.707106781f) * (up ? up[i] : 1.0f);
}

static void clamped_swiglu(const yk_activation *activation, float *gate, const float *up, size_t n)
{
  const vf alpha = vf_set1(activation->alpha), limit = vf_set1(activation->limit), lowest = vf_set1(-activation->limit);
  for (size_t i = 0; i < n; i += VL) {
    vf g = vf_min(limit, vf_load(gate + i)), u = vf_max(lowest, vf_min(limit, vf_load(up + i)));
    vf_store(gate + i, vf_mul(times_sigmoid(g, vf_mul(alpha, g)), vf_add(u, vf_set1(1.0f))));
  }
}

static void activate(const yk_activation *activation, float *gate, const float *up, size_t n)
{
  switch (activation->kind) {
  case YK_ACTIVATION_SILU: activate_as(YK_ACTIVATION_SILU, gate, up, n); break;
  case YK_ACTIVATION_GELU_TANH: activate_as(YK_ACTIVATION_GELU_TANH, gate, up, n); break;
  case YK_ACTIVATION_RELU2: activate_as(YK_ACTIVATION_RELU2, gate, up, n); break;
  case YK_ACTIVATION_GELU_ERF: gelu_erf(gate, up, n); break;
  case YK_ACTIVATION_CLAMPED_SWIGLU: clamped_swiglu(activation, gate, up, n); break;
  case YK_ACTIVATION_NONE:
  case YK_N_ACTIVATIONS: break;
  }
}

#include "kernels/cpu/cpu_simd_gemm.h"

#include "kernels/cpu/cpu_simd_bytes.h"
#include "kernels/cpu/cpu_simd_int8.h"
#include "kernels/cpu/cpu_simd_kv.h"

#define SIMD_TABLE(set_name, int8_products)                                                                            \
  {                                                                                                                    \
    .name = (set_name), .to_f32 = to_f32, .from_f32 = from_f32, .sum_squares = sum_squares, .dot_rows = dot_rows,      \
    .weighted_sum = weighted_sum, .softmax = softmax, .activate = activate, .awq_row = awq_row, .int8_row = int8_row,  \
    .fp8_row = fp8_row, .fp4_row = fp4_row, .plain_row = plain_row, .awq_unpack = awq_unpack,                          \
    .int8_unpack = int8_unpack, .fp8_unpack = fp8_unpack, .fp4_unpack = fp4_unpack, .plain_unpack = plain_unpack,      \
    .multiply = multiply, .multiply_int8 = (int8_products), .kv_dequantise = kv_dequantise                             \
  }
