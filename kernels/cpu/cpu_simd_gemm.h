/* cpu_simd_gemm.h - the inner loops of linear layers, written once over vectors of YK_CPU_LANES floats.
 *
 * Included by cpu_simd_kernels.h; the instruction set has defined:
 *   wide                            YK_CPU_LANES floats
 *   wide_zero wide_load wide_store  of floats
 *   wide_load_f16 wide_load_bf16    of 16-bit floats, as float32
 *   wide_fma(a, b, c)               a * b + c, fused if the set can
 *   wide_sum(a)                     the lanes' sum: the far half added to the near half until one is left
 *   awq_scale, awq_scale_make(scale, zero)   parameters of a group's weights of one column
 *   awq_weights(line, i, s)         nibble i of a line's words as weights: scale * (q - zero)
 *   AWQ_COLUMNS (1 to YK_CPU_PANEL)   columns whose sums of one row are interleaved; a macro
 *   TILE_ROWS (3 or 6), TILE_COLUMNS (2 or 4)   the largest tile of sums that fits in registers; macros */

enum {
  LINE_WORDS = YK_CPU_PANEL * YK_CPU_LANES,
  LINE_VECTORS = YK_CPU_CHUNK_K / YK_CPU_LANES,
  STRIP_LINE = YK_CPU_CHUNK_K * YK_CPU_STRIP /* floats of a line in an unpacked strip */
};
enum { PREFETCH_BYTES = 2048 };

ALWAYS_INLINE int64_t group_of(const yk_cpu_awq_panel *panel, int64_t k)
{
  int64_t group = k / panel->group;
  return group < panel->n_groups ? group : panel->n_groups - 1; /* padding */
}

/* Prefetches PREFETCH_BYTES after p, possibly beyond the array. The instructions of a GEMM fill a processor's queues
 * long before enough of its loads are in flight to read memory at full rate. */
ALWAYS_INLINE void prefetch_after(const void *p)
{
  __builtin_prefetch((const void *)((uintptr_t)p + PREFETCH_BYTES));
}

/* One line of columns first .. first + n_columns - 1 of a panel. n_alike consecutive vectors of a line are in one
 * group. Adds to sum the products with x, or stores a strip's columns to w if sum is NULL; x and w are those of the
 * line. n_columns, n_alike and sum == NULL are compile-time constants of the call. */
ALWAYS_INLINE void awq_line(wide *sum, float *w, const float *x, const yk_cpu_awq_panel *panel, int64_t line, int first,
                            const int n_columns, const int n_alike)
{
  const uint32_t *words = panel->words + line * LINE_WORDS + first * YK_CPU_LANES;
#pragma GCC unroll 8
  for (int begin = 0; begin < LINE_VECTORS; begin += n_alike) {
    int64_t group = group_of(panel, line * YK_CPU_CHUNK_K + begin * YK_CPU_LANES) * YK_CPU_PANEL + first;
    awq_scale scale[AWQ_COLUMNS];
#pragma GCC unroll 8
    for (int c = 0; c < n_columns; c++) scale[c] = awq_scale_make(panel->scales[group + c], panel->zeros[group + c]);
#pragma GCC unroll 8
    for (int i = begin; i < begin + n_alike; i++) {
#pragma GCC unroll 8
      for (int c = 0; c < n_columns; c++) {
        wide weights = awq_weights(words + c * YK_CPU_LANES, i, scale[c]);
        if (sum)
          sum[c] = wide_fma(wide_load(x + i * YK_CPU_LANES), weights, sum[c]);
        else
          wide_store(w + (i * YK_CPU_STRIP + c) * YK_CPU_LANES, weights);
      }
    }
  }
}

ALWAYS_INLINE void prefetch_line(const yk_cpu_awq_panel *panel, int64_t line)
{
#pragma GCC unroll 8
  for (int c = 0; c < YK_CPU_PANEL; c++) prefetch_after(panel->words + line * LINE_WORDS + c * YK_CPU_LANES);
}

ALWAYS_INLINE void awq_row_alike(float *y, const float *x, const yk_cpu_awq_panel *panel, const int n_alike)
{
  wide sum[YK_CPU_PANEL];
#pragma GCC unroll 8
  for (int c = 0; c < YK_CPU_PANEL; c++) sum[c] = wide_zero();
  for (int64_t line = 0; line < panel->n_lines; line++) {
    prefetch_line(panel, line);
#pragma GCC unroll 8
    for (int c = 0; c < YK_CPU_PANEL; c += AWQ_COLUMNS)
      awq_line(sum + c, NULL, x + line * YK_CPU_CHUNK_K, panel, line, c, AWQ_COLUMNS, n_alike);
  }
#pragma GCC unroll 8
  for (int c = 0; c < YK_CPU_PANEL; c++) y[c] = wide_sum(sum[c]);
}

ALWAYS_INLINE void awq_unpack_alike(float *w, const yk_cpu_awq_panel *panel, int first, int64_t k, int64_t n_k,
                                    const int n_alike)
{
  for (int64_t line = k / YK_CPU_CHUNK_K; line < (k + n_k) / YK_CPU_CHUNK_K; line++, w += STRIP_LINE) {
    if (first == 0) prefetch_line(panel, line); /* once, for all strips */
#pragma GCC unroll 4
    for (int c = 0; c < YK_CPU_STRIP; c++)
      awq_line(NULL, w + c * YK_CPU_LANES, NULL, panel, line, first + c, 1, n_alike);
  }
}

/* For groups that end inside a vector, which happens only at the edge of a slice of k. */
static void awq_unpack_any(float *w, const yk_cpu_awq_panel *panel, int first, int64_t begin, int64_t n_k)
{
  for (int64_t i = 0; i < n_k; i++) {
    int64_t k = begin + i, group = group_of(panel, k) * YK_CPU_PANEL + first;
    const uint32_t *words = panel->words + k / YK_CPU_CHUNK_K * LINE_WORDS + first * YK_CPU_LANES + k % YK_CPU_LANES;
    int shift = (int)(k % YK_CPU_CHUNK_K / YK_CPU_LANES) * 4;
    for (int c = 0; c < YK_CPU_STRIP; c++) {
      int q = (int)(words[c * YK_CPU_LANES] >> shift & 0xFu) - panel->zeros[group + c];
      w[(i / YK_CPU_LANES * YK_CPU_STRIP + c) * YK_CPU_LANES + i % YK_CPU_LANES] = panel->scales[group + c] * (float)q;
    }
  }
}

static void awq_unpack(float *w, const void *of, int first, int64_t k, int64_t n_k)
{
  const yk_cpu_awq_panel *panel = of;
  if (panel->group % 128 == 0)
    awq_unpack_alike(w, panel, first, k, n_k, 8);
  else if (panel->group % 64 == 0)
    awq_unpack_alike(w, panel, first, k, n_k, 4);
  else if (panel->group % 32 == 0)
    awq_unpack_alike(w, panel, first, k, n_k, 2);
  else if (panel->group % 16 == 0)
    awq_unpack_alike(w, panel, first, k, n_k, 1);
  else
    awq_unpack_any(w, panel, first, k, n_k);
}

/* Returns false if the panel must be unpacked first. */
static bool awq_row(float *y, const float *x, const yk_cpu_awq_panel *panel)
{
  if (panel->group % 128 == 0)
    awq_row_alike(y, x, panel, 8);
  else if (panel->group % 64 == 0)
    awq_row_alike(y, x, panel, 4);
  else if (panel->group % 32 == 0)
    awq_row_alike(y, x, panel, 2);
  else if (panel->group % 16 == 0)
    awq_row_alike(y, x, panel, 1);
  else
    return false;
  return true;
}

ALWAYS_INLINE wide wide_load_elements(yk_dtype dtype, const void *array, int64_t i)
{
  if (dtype == YK_F16) return wide_load_f16((const uint16_t *)array + i);
  if (dtype == YK_BF16) return wide_load_bf16((const uint16_t *)array + i);
  return wide_load((const float *)array + i);
}

/* Elements k .. n - 1 of a column, fewer than YK_CPU_LANES, and zeros. */
ALWAYS_INLINE wide wide_load_last(yk_dtype dtype, const void *array, int64_t k, int64_t n)
{
  float last[YK_CPU_LANES] = {0};
  for (int64_t i = k; i < n; i++) last[i - k] = yk_dtype_load(dtype, array, (size_t)i);
  return wide_load(last);
}

ALWAYS_INLINE const void *plain_column(const yk_cpu_plain_panel *panel, yk_dtype dtype, int c)
{
  return (const char *)panel->w + (int64_t)yk_dtype_bytes(dtype) * panel->stride * c;
}

/* One column at a time: processors read several streams at half the rate of a single stream. */
ALWAYS_INLINE void plain_row_as(float *y, const float *x, yk_dtype dtype, const yk_cpu_plain_panel *panel)
{
  for (int c = 0; c < panel->n_columns; c++) {
    const void *column = plain_column(panel, dtype, c);
    wide sum = wide_zero();
    int64_t k = 0;
    for (; k + YK_CPU_LANES <= panel->k; k += YK_CPU_LANES)
      sum = wide_fma(wide_load(x + k), wide_load_elements(dtype, column, k), sum);
    if (k < panel->k) sum = wide_fma(wide_load(x + k), wide_load_last(dtype, column, k, panel->k), sum);
    y[c] = wide_sum(sum);
  }
  for (int c = panel->n_columns; c < YK_CPU_PANEL; c++) y[c] = 0.0f;
}

static void plain_row(float *y, const float *x, const yk_cpu_plain_panel *panel)
{
  if (panel->dtype == YK_F16)
    plain_row_as(y, x, YK_F16, panel);
  else if (panel->dtype == YK_BF16)
    plain_row_as(y, x, YK_BF16, panel);
  else
    plain_row_as(y, x, YK_F32, panel);
}

ALWAYS_INLINE void plain_unpack_as(float *w, yk_dtype dtype, const yk_cpu_plain_panel *panel, int first, int64_t begin,
                                   int64_t n_k)
{
  for (int c = 0; c < YK_CPU_STRIP; c++) {
    const void *column = plain_column(panel, dtype, first + c);
    float *to = w + c * YK_CPU_LANES - begin * YK_CPU_STRIP;
    int64_t n = first + c < panel->n_columns ? panel->k : 0, end = begin + n_k, k = begin;
    for (; k < end && k + YK_CPU_LANES <= n; k += YK_CPU_LANES)
      wide_store(to + k * YK_CPU_STRIP, wide_load_elements(dtype, column, k));
    for (; k < end; k += YK_CPU_LANES) wide_store(to + k * YK_CPU_STRIP, wide_load_last(dtype, column, k, n));
  }
}

static void plain_unpack(float *w, const void *of, int first, int64_t k, int64_t n_k)
{
  const yk_cpu_plain_panel *panel = of;
  if (panel->dtype == YK_F16)
    plain_unpack_as(w, YK_F16, panel, first, k, n_k);
  else if (panel->dtype == YK_BF16)
    plain_unpack_as(w, YK_BF16, panel, first, k, n_k);
  else
    plain_unpack_as(w, YK_F32, panel, first, k, n_k);
}

/* Rows first .. first + n_rows - 1 of a product and n_columns columns from column on, whose sums fill the registers;
 * both counts are constants of the call, so that the loops over them are unrolled. */
ALWAYS_INLINE void multiply_tile(const yk_cpu_product *product, int first, int column, const int n_rows,
                                 const int n_columns)
{
  const float *x = product->x + first * product->x_stride, *w = product->w + column * YK_CPU_LANES;
  float *sums = product->sums + (first * YK_CPU_STRIP + column) * YK_CPU_LANES;
  const int64_t x_stride = product->x_stride, n_k = product->n_k;
  wide sum[TILE_ROWS][TILE_COLUMNS];
#pragma GCC unroll 8
  for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < n_columns; c++) sum[r][c] = wide_zero();
  if (!product->is_first)
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 4
      for (int c = 0; c < n_columns; c++) sum[r][c] = wide_load(sums + (r * YK_CPU_STRIP + c) * YK_CPU_LANES);
  for (int64_t k = 0; k < n_k; k += YK_CPU_LANES) {
    wide weights[TILE_COLUMNS];
#pragma GCC unroll 4
    for (int c = 0; c < n_columns; c++) weights[c] = wide_load(w + k * YK_CPU_STRIP + c * YK_CPU_LANES);
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; r++) {
      wide x_lanes = wide_load(x + r * x_stride + k);
#pragma GCC unroll 4
      for (int c = 0; c < n_columns; c++) sum[r][c] = wide_fma(x_lanes, weights[c], sum[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 4
    for (int c = 0; c < n_columns; c++)
      if (product->is_last)
        product->y[(first + r) * product->y_stride + column + c] = wide_sum(sum[r][c]);
      else
        wide_store(sums + (r * YK_CPU_STRIP + c) * YK_CPU_LANES, sum[r][c]);
}

static void multiply(const yk_cpu_product *product)
{
  int n_rows = product->n_rows;
  int n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS; /* tiles of nearly equal height: 8 rows are 4 + 4 */
  for (int tile = 0; tile < n_tiles; tile++) {
    int first = n_rows * tile / n_tiles, height = n_rows * (tile + 1) / n_tiles - first;
    for (int c = 0; c < YK_CPU_STRIP; c += TILE_COLUMNS) switch (height) {
      case 1: multiply_tile(product, first, c, 1, TILE_COLUMNS); break;
      case 2: multiply_tile(product, first, c, 2, TILE_COLUMNS); break;
#if TILE_ROWS == 6
      case 4: multiply_tile(product, first, c, 4, TILE_COLUMNS); break;
      case 5: multiply_tile(product, first, c, 5, TILE_COLUMNS); break;
      case 6: multiply_tile(product, first, c, 6, TILE_COLUMNS); break;
#endif
      default: multiply_tile(product, first, c, 3, TILE_COLUMNS); break;
      }
  }
}
