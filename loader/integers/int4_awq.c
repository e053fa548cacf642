/* int4_awq.c - AWQ's three packings: "gemm", "gemv" and "gemv_fast".
 * Source: awq/modules/linear/{gemm,gemv,gemv_fast}.py of autoawq. */
#include <math.h>

#include "loader/integers/int4_packing.h"

/* ---- gemm: the devices' order. Copied if a file has no zeros, and read to change the order. ---------------------- */

static void read_gemm(const yk_weight_view *weight, const yk_int4_block *block, yk_int4_lines in)
{
  static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN, column_of_nibble[8] = YK_AWQ_COLUMN_OF_NIBBLE;
  for (int line = 0; line < block->n_lines; line++)
    for (int i = 0; i < 8; i++)
      for (int word = 0; word < block->n_words; word++) {
        int64_t n = yk_int4_output(weight, block, 8 * word + column_of_nibble[i]);
        uint32_t inputs = 0;
        for (int r = 0; r < 8; r++) {
          int64_t k = yk_min_i64(8 * (block->line + line) + r, weight->k - 1);
          uint32_t outputs = yk_int4_word(weight->qweight, (k * weight->n + n) / 8);
          inputs |= (outputs >> 4 * nibble_of_column[n % 8] & 0xFu) << 4 * r;
        }
        in[line][i][word] = inputs;
      }
}

static void zeros_gemm(const yk_weight_view *weight, int64_t group, int64_t first, int n, int out[8])
{
  static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN;
  uint32_t word = yk_int4_word(weight->qzeros, (group * weight->n + first) / 8);
  for (int i = 0; i < n; i++) out[i] = (int)(word >> 4 * nibble_of_column[i] & 0xFu);
}

static int64_t scale_at_gemm(const yk_weight_view *weight, int64_t group, int64_t n)
{
  return group * weight->n + n;
}

const yk_int4_ops yk_int4_awq_gemm = {.n_lines = 1, .read = read_gemm, .zeros = zeros_gemm, .scale_at = scale_at_gemm};

/* ---- gemv: words along the inputs, in order ---------------------------------------------------------------------- */

static void read_gemv(const yk_weight_view *weight, const yk_int4_block *block, yk_int4_lines in)
{
  yk_int4_read_rows(weight, block, yk_int4_read_words, in);
}

static void zeros_gemv(const yk_weight_view *weight, int64_t group, int64_t first, int n, int out[8])
{
  int64_t words = yk_int4_gemv_zero_words(weight->k, weight->group);
  for (int i = 0; i < n; i++)
    out[i] = (int)(yk_int4_word(weight->qzeros, (first + i) * words + group / 8) >> 4 * (group % 8) & 0xFu);
}

static int64_t scale_at_gemv(const yk_weight_view *weight, int64_t group, int64_t n)
{
  return n * 8 * yk_int4_gemv_zero_words(weight->k, weight->group) + group;
}

const yk_int4_ops yk_int4_awq_gemv = {
    .n_lines = YK_INT4_BLOCK_LINES, .read = read_gemv, .zeros = zeros_gemv, .scale_at = scale_at_gemv};

/* ---- gemv_fast --------------------------------------------------------------------------------------------------- */

/* Four outputs are interleaved every 64 inputs; within 32 inputs, nibble 4 c + a of word b is input 8 a + 2 b + c.
 * Sort the four words of 32 inputs into the order of the inputs. */
static inline void sort_32_inputs(const uint32_t from[4], uint32_t to[4])
{
  for (int b = 0; b < 4; b++) { /* byte a: both inputs of pair b of word a */
    uint32_t low = from[b] & 0xFFFFu, high = from[b] >> 16;
    low = (low | low << 8) & 0x00FF00FFu;
    high = (high | high << 8) & 0x00FF00FFu;
    to[b] = ((low | low << 4) & 0x0F0F0F0Fu) | ((high | high << 4) & 0x0F0F0F0Fu) << 4;
  }
  for (int b = 0; b < 2; b++) yk_int4_swap(&to[b], &to[b + 2], 16, 0x0000FFFFu);
  for (int b = 0; b < 4; b += 2) yk_int4_swap(&to[b], &to[b + 1], 8, 0x00FF00FFu);
}

/* Read n_lines words of output n, from line on. */
static void read_fast_row(const yk_weight_view *weight, int64_t n, int64_t line, int n_lines, uint32_t *to)
{
  enum { ROWS = 4, LINES = 8, SORTED = 4 }; /* interleaved outputs; words per 64 inputs; words per 32 inputs */
  int64_t tiles = weight->k / 64;
  const char *row = (const char *)weight->qweight + (n / ROWS * tiles * ROWS + n % ROWS) * LINES * 4;
  int64_t begin = line / SORTED * SORTED, end = line + n_lines;
  for (int64_t at = begin; at < end; at += SORTED) {
    const char *from = row + (at / LINES * ROWS * LINES + at % LINES) * 4;
    uint32_t words[SORTED], sorted[SORTED];
    memcpy(words, from, sizeof words);
    __builtin_prefetch(from + 2 * ROWS * LINES * 4);
    sort_32_inputs(words, sorted);
    if (at >= line && at + SORTED <= end)
      memcpy(to + (at - line), sorted, sizeof sorted);
    else
      for (int64_t i = yk_max_i64(at, line); i < yk_min_i64(at + SORTED, end); i++) to[i - line] = sorted[i - at];
  }
}

static void read_fast(const yk_weight_view *weight, const yk_int4_block *block, yk_int4_lines in)
{
  yk_int4_read_rows(weight, block, read_fast_row, in);
}

/* The file stores -scale * zero, rounded to the type of the scales. The zero is the integer whose product rounds to
 * that value. With a scale of 0 every weight is 0 for any zero. */
static int zero_fast(const yk_weight_view *weight, int64_t group, int64_t n)
{
  float scale = yk_int4_float(weight->dtype, weight->scales, group * weight->n + n);
  float scaled = -yk_int4_float(weight->dtype, weight->qzeros, group * weight->n + n);
  if (scale == 0.0f) return scaled == 0.0f ? 0 : YK_INT4_NO_ZERO;
  float zero = rintf(scaled / scale);
  if (!(zero >= 0.0f && zero <= 15.0f)) return YK_INT4_NO_ZERO;
  uint32_t rounded = 0;
  yk_dtype_store(weight->dtype, &rounded, 0, scale * zero);
  return yk_dtype_load(weight->dtype, &rounded, 0) == scaled ? (int)zero : YK_INT4_NO_ZERO;
}

static void zeros_fast(const yk_weight_view *weight, int64_t group, int64_t first, int n, int out[8])
{
  for (int i = 0; i < n; i++) out[i] = zero_fast(weight, group, first + i);
}

const yk_int4_ops yk_int4_awq_gemv_fast = {
    .n_lines = YK_INT4_BLOCK_LINES, .read = read_fast, .zeros = zeros_fast, .scale_at = scale_at_gemm};
