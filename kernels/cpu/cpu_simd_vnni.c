/* cpu_simd_vnni.c - products of 8-bit integers for AVX-512 VNNI, which multiplies unsigned with signed bytes and adds
 * four products to a sum of 32 bits: 128 is added to inputs. Compiled with these instructions enabled. */
#include "kernels/cpu/cpu_simd.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)

#include <immintrin.h>

#define INT8_VECTOR_K     64
#define INT8_X_OFFSET     128
#define INT8_TILE_ROWS    4
#define INT8_TILE_COLUMNS 4
typedef __m512i int8_sums, int8_x, int8_w;

static inline int8_sums int8_sums_zero(void)
{
  return _mm512_setzero_si512();
}

static inline int8_x int8_load_x(const int8_t *p)
{
  return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128));
}

static inline int8_w int8_load_w(const int8_t *p)
{
  return _mm512_loadu_si512(p);
}

static inline int8_sums int8_dot(int8_sums sums, int8_x x, int8_w w)
{
  return _mm512_dpbusd_epi32(sums, x, w);
}

static inline int32_t int8_total(int8_sums sums)
{
  return _mm512_reduce_add_epi32(sums);
}

#include "kernels/cpu/cpu_simd_int8.h"

void yk_cpu_vnni_multiply_int8(int32_t *y, int64_t y_stride, const int8_t *x, int64_t x_stride, int n_rows,
                               const yk_cpu_int8_panel *panel)
{
  multiply_int8(y, y_stride, x, x_stride, n_rows, panel);
}

#endif
