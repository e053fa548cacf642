/* cpu_simd_avx512.c - the inner loops for AVX-512 F and BW, sixteen lanes. Compiled with these instructions enabled. */
#include "kernels/cpu/cpu_simd.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)

#include <immintrin.h>

enum { VL = 16 };
#define AWQ_COLUMNS  8
#define TILE_ROWS    6
#define TILE_COLUMNS 4
typedef __m512 vf;

static inline vf vf_zero(void)
{
  return _mm512_setzero_ps();
}

static inline vf vf_set1(float a)
{
  return _mm512_set1_ps(a);
}

static inline vf vf_load(const float *p)
{
  return _mm512_loadu_ps(p);
}

static inline void vf_store(float *p, vf a)
{
  _mm512_storeu_ps(p, a);
}

static inline vf vf_mul(vf a, vf b)
{
  return _mm512_mul_ps(a, b);
}

static inline vf vf_add(vf a, vf b)
{
  return _mm512_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
  return _mm512_sub_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
  return _mm512_div_ps(a, b);
}

static inline vf vf_min(vf a, vf b)
{
  return _mm512_min_ps(a, b);
}

static inline vf vf_max(vf a, vf b)
{
  return _mm512_max_ps(a, b);
}

static inline vf vf_scale_pow2(vf a, vf n)
{
  __m512i power = _mm512_slli_epi32(_mm512_castps_si512(n), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), power));
}

static inline vf vf_fma(vf a, vf b, vf c)
{
  return _mm512_fmadd_ps(a, b, c);
}

static inline float vf_sum(vf a)
{
  __m256 low = _mm512_castps512_ps256(a);
  __m256 high = _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(a), 1));
  __m256 eight = _mm256_add_ps(low, high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float vf_largest(vf a)
{
  return _mm512_reduce_max_ps(a);
}

static inline vf vf_load_f16(const uint16_t *p)
{
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline vf vf_load_bf16(const uint16_t *p)
{
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline void vf_store_f16(uint16_t *p, vf a)
{
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline void vf_store_bf16(uint16_t *p, vf a)
{
  __m512i bits = _mm512_castps_si512(a);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF))), 16);
  __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, rounded, quiet)));
}

typedef vf wide;
#define wide_zero      vf_zero
#define wide_load      vf_load
#define wide_store     vf_store
#define wide_load_f16  vf_load_f16
#define wide_load_bf16 vf_load_bf16
#define wide_set1      vf_set1
#define wide_sub       vf_sub
#define wide_mul       vf_mul
#define wide_fma       vf_fma
#define wide_sum       vf_sum

static inline wide wide_load_i8(const int8_t *p)
{
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* yk_e4m3_to_f16 of sixteen codes: the sign of a code is extended over bits of which the mask keeps one. */
static inline wide wide_load_e4m3(const uint8_t *p)
{
  __m256i codes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
  return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(codes, 7), _mm256_set1_epi16((short)0xBF80)));
}

/* The permutation reads only the lowest four bits of a word. */
static inline wide wide_load_e2m1(const uint32_t *words, int i)
{
  const vf numbers = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f, -1.5f, -2.0f,
                                    -3.0f, -4.0f, -6.0f);
  return _mm512_permutexvar_ps(_mm512_srli_epi32(_mm512_loadu_si512(words), (unsigned)(4 * i)), numbers);
}

/* The sixteen weights that are possible in a column's group: a nibble selects one. */
typedef vf awq_scale;

static inline awq_scale awq_scale_make(float scale, uint8_t zero)
{
  static const float quants[31] = {-15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0,
                                   1,   2,   3,   4,   5,   6,   7,  8,  9,  10, 11, 12, 13, 14, 15};
  return vf_mul(vf_set1(scale), vf_load(quants + 15 - zero));
}

/* The permutation reads only the lowest four bits of a word. */
static inline wide awq_weights(const uint32_t *line, int i, awq_scale scale)
{
  return _mm512_permutexvar_ps(_mm512_srli_epi32(_mm512_loadu_si512(line), (unsigned)(4 * i)), scale);
}

#define INT8_VECTOR_K     32
#define INT8_X_OFFSET     0
#define INT8_TILE_ROWS    4
#define INT8_TILE_COLUMNS 4
typedef __m512i int8_sums, int8_x, int8_w;

static inline int8_sums int8_sums_zero(void)
{
  return _mm512_setzero_si512();
}

static inline __m512i int8_load_words(const int8_t *p)
{
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
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
  return _mm512_add_epi32(sums, _mm512_madd_epi16(x, w));
}

static inline int32_t int8_total(int8_sums sums)
{
  return _mm512_reduce_add_epi32(sums);
}

#include "kernels/cpu/cpu_simd_kernels.h"

const yk_cpu_simd *yk_cpu_simd_avx512(void)
{
  static const yk_cpu_simd table = SIMD_TABLE("avx512", multiply_int8);
  return &table;
}

const yk_cpu_simd *yk_cpu_simd_avx512vnni(void)
{
  static const yk_cpu_simd table = SIMD_TABLE("avx512vnni", yk_cpu_vnni_multiply_int8);
  return &table;
}

#else

const yk_cpu_simd *yk_cpu_simd_avx512(void)
{
  return NULL;
}

const yk_cpu_simd *yk_cpu_simd_avx512vnni(void)
{
  return NULL;
}

#endif
