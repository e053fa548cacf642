/* cpu_simd_avx2.c - the inner loops for AVX2 with FMA and F16C, eight lanes. Compiled with these instructions
 * enabled. */
#include "kernels/cpu/cpu_simd.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

enum { VL = 8 };
#define AWQ_COLUMNS  1
#define TILE_ROWS    3
#define TILE_COLUMNS 2
typedef __m256 vf;

static inline vf vf_zero(void)
{
  return _mm256_setzero_ps();
}

static inline vf vf_set1(float a)
{
  return _mm256_set1_ps(a);
}

static inline vf vf_load(const float *p)
{
  return _mm256_loadu_ps(p);
}

static inline void vf_store(float *p, vf a)
{
  _mm256_storeu_ps(p, a);
}

static inline vf vf_mul(vf a, vf b)
{
  return _mm256_mul_ps(a, b);
}

static inline vf vf_add(vf a, vf b)
{
  return _mm256_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
  return _mm256_sub_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
  return _mm256_div_ps(a, b);
}

static inline vf vf_min(vf a, vf b)
{
  return _mm256_min_ps(a, b);
}

static inline vf vf_max(vf a, vf b)
{
  return _mm256_max_ps(a, b);
}

static inline vf vf_scale_pow2(vf a, vf n)
{
  __m256i power = _mm256_slli_epi32(_mm256_castps_si256(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), power));
}

static inline vf vf_fma(vf a, vf b, vf c)
{
  return _mm256_fmadd_ps(a, b, c);
}

static inline float vf_sum(vf a)
{
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float vf_largest(vf a)
{
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline vf vf_load_f16(const uint16_t *p)
{
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline vf vf_load_bf16(const uint16_t *p)
{
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline void vf_store_f16(uint16_t *p, vf a)
{
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline void vf_store_bf16(uint16_t *p, vf a)
{
  __m256i bits = _mm256_castps_si256(a);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))), 16);
  __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  __m256i wide = _mm256_blendv_epi8(rounded, quiet, is_nan);
  _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1)));
}

typedef struct wide {
  vf low, high;
} wide;

static inline wide wide_zero(void)
{
  return (wide){vf_zero(), vf_zero()};
}

static inline wide wide_load(const float *p)
{
  return (wide){vf_load(p), vf_load(p + VL)};
}

static inline wide wide_load_f16(const uint16_t *p)
{
  return (wide){vf_load_f16(p), vf_load_f16(p + VL)};
}

static inline wide wide_load_bf16(const uint16_t *p)
{
  return (wide){vf_load_bf16(p), vf_load_bf16(p + VL)};
}

static inline wide wide_load_i8(const int8_t *p)
{
  __m128i bytes = _mm_loadu_si128((const __m128i *)p);
  return (wide){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, VL)))};
}

/* yk_e4m3_to_f16 of sixteen codes: the sign of a code is extended over bits of which the mask keeps one. */
static inline wide wide_load_e4m3(const uint8_t *p)
{
  __m256i codes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
  __m256i halves = _mm256_and_si256(_mm256_slli_epi16(codes, 7), _mm256_set1_epi16((short)0xBF80));
  return (wide){_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}

/* The permutation reads the lowest three bits of a word: the magnitude. Bit 3 is the sign. */
static inline vf load_half_e2m1(const uint32_t *words, int i)
{
  const vf magnitudes = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
  __m256i codes = _mm256_srli_epi32(_mm256_loadu_si256((const __m256i *)words), 4 * i);
  __m256i sign = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(8)), 28);
  return _mm256_or_ps(_mm256_permutevar8x32_ps(magnitudes, codes), _mm256_castsi256_ps(sign));
}

static inline wide wide_load_e2m1(const uint32_t *words, int i)
{
  return (wide){load_half_e2m1(words, i), load_half_e2m1(words + VL, i)};
}

static inline void wide_store(float *p, wide a)
{
  vf_store(p, a.low);
  vf_store(p + VL, a.high);
}

static inline wide wide_set1(float a)
{
  return (wide){vf_set1(a), vf_set1(a)};
}

static inline wide wide_sub(wide a, wide b)
{
  return (wide){vf_sub(a.low, b.low), vf_sub(a.high, b.high)};
}

static inline wide wide_mul(wide a, wide b)
{
  return (wide){vf_mul(a.low, b.low), vf_mul(a.high, b.high)};
}

static inline wide wide_fma(wide a, wide b, wide c)
{
  return (wide){vf_fma(a.low, b.low, c.low), vf_fma(a.high, b.high, c.high)};
}

static inline float wide_sum(wide a)
{
  return vf_sum(vf_add(a.low, a.high));
}

typedef struct awq_scale {
  vf scale, offset; /* offset = -scale * zero, exact */
} awq_scale;

static inline awq_scale awq_scale_make(float scale, uint8_t zero)
{
  return (awq_scale){vf_set1(scale), vf_set1(-scale * (float)zero)};
}

static inline vf awq_half(const uint32_t *words, int i, awq_scale s)
{
  __m256i shifted = _mm256_srli_epi32(_mm256_loadu_si256((const __m256i *)words), 4 * i);
  return vf_fma(_mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(0xF))), s.scale, s.offset);
}

static inline wide awq_weights(const uint32_t *line, int i, awq_scale s)
{
  return (wide){awq_half(line, i, s), awq_half(line + VL, i, s)};
}

#define INT8_VECTOR_K     16
#define INT8_X_OFFSET     0
#define INT8_TILE_ROWS    3
#define INT8_TILE_COLUMNS 2
typedef __m256i int8_sums, int8_x, int8_w;

static inline int8_sums int8_sums_zero(void)
{
  return _mm256_setzero_si256();
}

static inline __m256i int8_load_words(const int8_t *p)
{
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}

static inline int8_x int8_load_x(const int8_t *p)
{
  return int8_load_words(p);
}

static inline int8_w int8_load_w(const int8_t *p)
{
  return int8_load_words(p);
}

static inline int8_sums int8_dot(int8_sums sums, int8_x x, int8_w w)
{
  return _mm256_add_epi32(sums, _mm256_madd_epi16(x, w));
}

static inline int32_t int8_total(int8_sums sums)
{
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

#include "kernels/cpu/cpu_simd_kernels.h"

const yk_cpu_simd *yk_cpu_simd_avx2(void)
{
  static const yk_cpu_simd table = SIMD_TABLE("avx2", multiply_int8);
  return &table;
}

#else

const yk_cpu_simd *yk_cpu_simd_avx2(void)
{
  return NULL;
}

#endif
