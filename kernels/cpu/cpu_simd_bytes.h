/* cpu_simd_bytes.h - the inner loops of linear layers whose weights are codes of 8 or 4 bits with a scale
 * per group.
 *
 * Included by cpu_simd_kernels.h after cpu_simd_gemm.h; in addition to the requirements of that file, the instruction
 * set has defined:
 *   wide_set1(a) wide_sub(a, b) wide_mul(a, b)
 *   wide_load_i8      of 8-bit integers, as float32
 *   wide_load_e4m3    of 8-bit floats, divided by 256, as float32
 *   wide_load_e2m1(words, i)   of 4-bit floats, nibble i of YK_CPU_LANES words, as float32 */

/* The kind of bytes: a constant of every call. */
typedef enum byte_kind { BYTES_I8, BYTES_I8_ZEROS, BYTES_E4M3, HALVES_E2M1 } byte_kind;

/* Bytes of a column in a line. */
ALWAYS_INLINE int64_t column_bytes(const byte_kind kind)
{
  return kind == HALVES_E2M1 ? YK_CPU_CHUNK_K / 2 : YK_CPU_CHUNK_K;
}

ALWAYS_INLINE int64_t byte_group_of(const yk_cpu_byte_panel *panel, int64_t k)
{
  int64_t group = k / panel->group;
  return group < panel->n_groups ? group : panel->n_groups - 1; /* padding */
}

/* A scale of the panel in the form that byte_weights takes. */
ALWAYS_INLINE float byte_scale(const yk_cpu_byte_panel *panel, int64_t at, const byte_kind kind)
{
  return kind == BYTES_E4M3 ? 0x1p8f * panel->scales[at] : panel->scales[at];
}

/* Vector i of a column in a line. */
ALWAYS_INLINE wide byte_weights(const uint8_t *column, int64_t i, wide scale, wide zero, const byte_kind kind)
{
  const uint8_t *bytes = column + i * YK_CPU_LANES;
  if (kind == HALVES_E2M1) return wide_mul(scale, wide_load_e2m1((const uint32_t *)(const void *)column, (int)i));
  wide numbers = kind == BYTES_E4M3 ? wide_load_e4m3(bytes) : wide_load_i8((const int8_t *)bytes);
  if (kind == BYTES_I8_ZEROS) numbers = wide_sub(numbers, zero);
  return wide_mul(scale, numbers);
}

/* One column of a line, in which n_alike consecutive vectors are in one group. Adds to *sum the products with x, or
 * stores a strip's column to w if sum is NULL; x and w are those of the line. n_alike and sum == NULL are compile-time
 * constants of the call. */
ALWAYS_INLINE void byte_line(wide *sum, float *w, const float *x, const yk_cpu_byte_panel *panel, int64_t line,
                             int column, const int n_alike, const byte_kind kind)
{
  const uint8_t *bytes = panel->bytes + (line * YK_CPU_PANEL + column) * column_bytes(kind);
#pragma GCC unroll 1
  for (int begin = 0; begin < LINE_VECTORS; begin += n_alike) {
    int64_t at = byte_group_of(panel, line * YK_CPU_CHUNK_K + begin * YK_CPU_LANES) * YK_CPU_PANEL + column;
    wide scale = wide_set1(byte_scale(panel, at, kind));
    wide zero = kind == BYTES_I8_ZEROS ? wide_set1(panel->zeros[at]) : wide_zero();
#pragma GCC unroll 8
    for (int i = begin; i < begin + n_alike; i++) {
      wide weights = byte_weights(bytes, i, scale, zero, kind);
      if (sum)
        *sum = wide_fma(wide_load(x + i * YK_CPU_LANES), weights, *sum);
      else
        wide_store(w + i * YK_CPU_STRIP * YK_CPU_LANES, weights);
    }
  }
}

ALWAYS_INLINE void prefetch_byte_line(const yk_cpu_byte_panel *panel, int64_t line, const byte_kind kind)
{
  enum { CACHE_LINE_BYTES = 64 };
  const int64_t n_bytes = YK_CPU_PANEL * column_bytes(kind);
#pragma GCC unroll 16
  for (int i = 0; i < n_bytes; i += CACHE_LINE_BYTES) prefetch_after(panel->bytes + line * n_bytes + i);
}

/* Loops over columns and groups are not unrolled: keeping the sums in memory during a line costs nothing, and code is
 * much shorter. */
ALWAYS_INLINE void byte_row_alike(float *y, const float *x, const yk_cpu_byte_panel *panel, const int n_alike,
                                  const byte_kind kind)
{
  wide sum[YK_CPU_PANEL];
  for (int c = 0; c < YK_CPU_PANEL; c++) sum[c] = wide_zero();
  for (int64_t line = 0; line < panel->n_lines; line++) {
    prefetch_byte_line(panel, line, kind);
#pragma GCC unroll 1
    for (int c = 0; c < YK_CPU_PANEL; c++)
      byte_line(&sum[c], NULL, x + line * YK_CPU_CHUNK_K, panel, line, c, n_alike, kind);
  }
  for (int c = 0; c < YK_CPU_PANEL; c++) y[c] = wide_sum(sum[c]);
}

ALWAYS_INLINE void byte_unpack_alike(float *w, const yk_cpu_byte_panel *panel, int first, int64_t k, int64_t n_k,
                                     const int n_alike, const byte_kind kind)
{
  for (int64_t line = k / YK_CPU_CHUNK_K; line < (k + n_k) / YK_CPU_CHUNK_K; line++, w += STRIP_LINE) {
    if (first == 0) prefetch_byte_line(panel, line, kind); /* once, for all strips */
#pragma GCC unroll 1
    for (int c = 0; c < YK_CPU_STRIP; c++)
      byte_line(NULL, w + c * YK_CPU_LANES, NULL, panel, line, first + c, n_alike, kind);
  }
}

/* For groups that end inside a vector, as at the edge of a slice of k: each lane has its own scale. */
ALWAYS_INLINE void byte_unpack_any(float *w, const yk_cpu_byte_panel *panel, int first, int64_t begin, int64_t n_k,
                                   const byte_kind kind)
{
  for (int64_t k = begin; k < begin + n_k; k += YK_CPU_LANES) {
    const uint8_t *line = panel->bytes + k / YK_CPU_CHUNK_K * YK_CPU_PANEL * column_bytes(kind);
    const int64_t i = k % YK_CPU_CHUNK_K / YK_CPU_LANES;
    int64_t groups[YK_CPU_LANES];
    for (int lane = 0; lane < YK_CPU_LANES; lane++) groups[lane] = byte_group_of(panel, k + lane) * YK_CPU_PANEL;
    for (int c = first; c < first + YK_CPU_STRIP; c++, w += YK_CPU_LANES) {
      float scales[YK_CPU_LANES], zeros[YK_CPU_LANES] = {0};
      for (int lane = 0; lane < YK_CPU_LANES; lane++) scales[lane] = byte_scale(panel, groups[lane] + c, kind);
      if (kind == BYTES_I8_ZEROS)
        for (int lane = 0; lane < YK_CPU_LANES; lane++) zeros[lane] = panel->zeros[groups[lane] + c];
      wide_store(w, byte_weights(line + c * column_bytes(kind), i, wide_load(scales), wide_load(zeros), kind));
    }
  }
}

/* Vectors of a line in one group, or 0 if groups end inside vectors. */
ALWAYS_INLINE int byte_vectors_alike(const yk_cpu_byte_panel *panel)
{
  if (panel->n_groups == 1 || panel->group % 128 == 0) return 8;
  return panel->group % 64 == 0 ? 4 : panel->group % 32 == 0 ? 2 : panel->group % 16 == 0 ? 1 : 0;
}

ALWAYS_INLINE void byte_unpack(float *w, const yk_cpu_byte_panel *panel, int first, int64_t k, int64_t n_k,
                               const byte_kind kind)
{
  switch (byte_vectors_alike(panel)) {
  case 8: byte_unpack_alike(w, panel, first, k, n_k, 8, kind); break;
  case 4: byte_unpack_alike(w, panel, first, k, n_k, 4, kind); break;
  case 2: byte_unpack_alike(w, panel, first, k, n_k, 2, kind); break;
  case 1: byte_unpack_alike(w, panel, first, k, n_k, 1, kind); break;
  default: byte_unpack_any(w, panel, first, k, n_k, kind);
  }
}

/* Returns false if the panel must be unpacked first. */
ALWAYS_INLINE bool byte_row(float *y, const float *x, const yk_cpu_byte_panel *panel, const byte_kind kind)
{
  switch (byte_vectors_alike(panel)) {
  case 8: byte_row_alike(y, x, panel, 8, kind); break;
  case 4: byte_row_alike(y, x, panel, 4, kind); break;
  case 2: byte_row_alike(y, x, panel, 2, kind); break;
  case 1: byte_row_alike(y, x, panel, 1, kind); break;
  default: return false;
  }
  return true;
}

static void int8_unpack(float *w, const void *of, int first, int64_t k, int64_t n_k)
{
  const yk_cpu_byte_panel *panel = of;
  if (panel->zeros)
    byte_unpack(w, panel, first, k, n_k, BYTES_I8_ZEROS);
  else
    byte_unpack(w, panel, first, k, n_k, BYTES_I8);
}

static bool int8_row(float *y, const float *x, const yk_cpu_byte_panel *panel)
{
  return panel->zeros ? byte_row(y, x, panel, BYTES_I8_ZEROS) : byte_row(y, x, panel, BYTES_I8);
}

static void fp8_unpack(float *w, const void *panel, int first, int64_t k, int64_t n_k)
{
  byte_unpack(w, panel, first, k, n_k, BYTES_E4M3);
}

static bool fp8_row(float *y, const float *x, const yk_cpu_byte_panel *panel)
{
  return byte_row(y, x, panel, BYTES_E4M3);
}

static void fp4_unpack(float *w, const void *panel, int first, int64_t k, int64_t n_k)
{
  byte_unpack(w, panel, first, k, n_k, HALVES_E2M1);
}

static bool fp4_row(float *y, const float *x, const yk_cpu_byte_panel *panel)
{
  return byte_row(y, x, panel, HALVES_E2M1);
}
