/* cpu_simd_portable.c - the inner loops in plain C, one lane wide: the reference, used on all other processors. */
#include <string.h>

#include "base/dtype.h"
#include "base/float8.h"

enum { VL = 1 };
#define AWQ_COLUMNS  1
#define TILE_ROWS    3
#define TILE_COLUMNS 2
typedef float vf;

static inline vf vf_zero(void)
{
  return 0.0f;
}

static inline vf vf_set1(float a)
{
  return a;
}

static inline vf vf_load(const float *p)
{
  return *p;
}

static inline void vf_store(float *p, vf a)
{
  *p = a;
}

static inline vf vf_mul(vf a, vf b)
{
  return a * b;
}

static inline vf vf_add(vf a, vf b)
{
  return a + b;
}

static inline vf vf_sub(vf a, vf b)
{
  return a - b;
}

static inline vf vf_div(vf a, vf b)
{
  return a / b;
}

static inline vf vf_min(vf a, vf b)
{
  return a < b ? a : b;
}

static inline vf vf_max(vf a, vf b)
{
  return a > b ? a : b;
}

static inline vf vf_scale_pow2(vf a, vf n)
{
  return yk_f32_from_bits(yk_f32_bits(a) + (yk_f32_bits(n) << 23));
}

static inline vf vf_fma(vf a, vf b, vf c)
{
  return a * b + c;
}

static inline float vf_sum(vf a)
{
  return a;
}

static inline float vf_largest(vf a)
{
  return a;
}

static inline vf vf_load_f16(const uint16_t *p)
{
  return yk_f16_to_f32(*p);
}

static inline vf vf_load_bf16(const uint16_t *p)
{
  return yk_bf16_to_f32(*p);
}

static inline void vf_store_f16(uint16_t *p, vf a)
{
  *p = yk_f32_to_f16(a);
}

static inline void vf_store_bf16(uint16_t *p, vf a)
{
  *p = yk_f32_to_bf16(a);
}

/* As wide as in the other instruction sets, in the compiler's generic vectors, which most processors support. */
enum { WIDE = 16, QUADS = 4 };
typedef float quad __attribute__((vector_size(16)));
typedef struct wide {
  quad quads[QUADS];
} wide;

static inline wide wide_load(const float *p)
{
  wide a;
  memcpy(&a, p, sizeof a);
  return a;
}

static inline void wide_store(float *p, wide a)
{
  memcpy(p, &a, sizeof a);
}

static inline wide wide_set1(float a)
{
  const quad q = {a, a, a, a};
  return (wide){{q, q, q, q}};
}

static inline wide wide_zero(void)
{
  return wide_set1(0.0f);
}

static inline wide wide_load_f16(const uint16_t *p)
{
  float a[WIDE];
  for (int i = 0; i < WIDE; i++) a[i] = yk_f16_to_f32(p[i]);
  return wide_load(a);
}

static inline wide wide_load_bf16(const uint16_t *p)
{
  float a[WIDE];
  for (int i = 0; i < WIDE; i++) a[i] = yk_bf16_to_f32(p[i]);
  return wide_load(a);
}

static inline wide wide_load_i8(const int8_t *p)
{
  float a[WIDE];
  for (int i = 0; i < WIDE; i++) a[i] = (float)p[i];
  return wide_load(a);
}

static inline wide wide_load_e4m3(const uint8_t *p)
{
  float a[WIDE];
  for (int i = 0; i < WIDE; i++) a[i] = yk_f16_to_f32(yk_e4m3_to_f16(p[i]));
  return wide_load(a);
}

static inline wide wide_load_e2m1(const uint32_t *words, int i)
{
  float a[WIDE];
  for (int j = 0; j < WIDE; j++) a[j] = yk_e2m1_to_f32((uint8_t)(words[j] >> 4 * i & 0xFu));
  return wide_load(a);
}

static inline wide wide_sub(wide a, wide b)
{
#pragma GCC unroll 4
  for (int i = 0; i < QUADS; i++) a.quads[i] -= b.quads[i];
  return a;
}

static inline wide wide_mul(wide a, wide b)
{
#pragma GCC unroll 4
  for (int i = 0; i < QUADS; i++) a.quads[i] *= b.quads[i];
  return a;
}

static inline wide wide_fma(wide a, wide b, wide c)
{
#pragma GCC unroll 4
  for (int i = 0; i < QUADS; i++) c.quads[i] += a.quads[i] * b.quads[i];
  return c;
}

static inline float wide_sum(wide a)
{
  quad four = (a.quads[0] + a.quads[2]) + (a.quads[1] + a.quads[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

typedef struct awq_scale {
  float scale, zero;
} awq_scale;

static inline awq_scale awq_scale_make(float scale, uint8_t zero)
{
  return (awq_scale){scale, (float)zero};
}

static inline wide awq_weights(const uint32_t *line, int i, awq_scale s)
{
  float w[WIDE];
  for (int j = 0; j < WIDE; j++) w[j] = s.scale * ((float)(line[j] >> 4 * i & 0xFu) - s.zero);
  return wide_load(w);
}

#define INT8_VECTOR_K     64
#define INT8_X_OFFSET     0
#define INT8_TILE_ROWS    1
#define INT8_TILE_COLUMNS 1
typedef int32_t int8_sums;
typedef const int8_t *int8_x, *int8_w;

static inline int8_sums int8_sums_zero(void)
{
  return 0;
}

static inline int8_x int8_load_x(const int8_t *p)
{
  return p;
}

static inline int8_w int8_load_w(const int8_t *p)
{
  return p;
}

/* A plain loop over one sum, which compilers turn into the processor's products. */
static inline int8_sums int8_dot(int8_sums sums, int8_x x, int8_w w)
{
  for (int i = 0; i < INT8_VECTOR_K; i++) sums += x[i] * w[i];
  return sums;
}

static inline int32_t int8_total(int8_sums sums)
{
  return sums;
}

#include "kernels/cpu/cpu_simd_kernels.h"

const yk_cpu_simd *yk_cpu_simd_portable(void)
{
  static const yk_cpu_simd table = SIMD_TABLE("portable", multiply_int8);
  return &table;
}
