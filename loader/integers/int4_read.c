/* int4_read.c - the table of 4-bit packings, and reading a slice's integers, scales and zeros. */
#include <inttypes.h>
#include <math.h>

#include "loader/integers/int4.h"
#include "loader/integers/int4_packing.h"

enum { LINE_K = 8, ZERO_OF_NONE = 8 };

const yk_int4_ops *yk_int4_ops_of(yk_packing packing)
{
  static const yk_int4_ops *const packings[YK_N_PACKINGS] = {
      [YK_PACKING_AWQ_GEMM] = &yk_int4_awq_gemm,           [YK_PACKING_AWQ_GEMV] = &yk_int4_awq_gemv,
      [YK_PACKING_AWQ_GEMV_FAST] = &yk_int4_awq_gemv_fast, [YK_PACKING_GPTQ] = &yk_int4_gptq,
      [YK_PACKING_COMPRESSED] = &yk_int4_compressed,       [YK_PACKING_BYTES] = &yk_int4_bytes};
  return packings[packing];
}

/* Unpack inputs [k, k_end) of a word. */
static inline void unpack_word(uint32_t inputs, int k, int k_end, int8_t *to)
{
  for (inputs >>= 4 * k; k < k_end; k++, inputs >>= 4) *to++ = (int8_t)(inputs & 0xFu);
}

/* Unpack the part of a block that belongs to the slice. */
static void unpack_block(const yk_weight_slice *slice, const yk_int4_block *block, yk_int4_lines in, int8_t *to,
                         int64_t stride)
{
  static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN;
  int64_t n_begin = yk_max_i64(slice->n_begin, 8 * block->word);
  int64_t n_end = yk_min_i64(slice->n_end, 8 * (block->word + block->n_words));
  int64_t k_begin = yk_max_i64(slice->k_begin, LINE_K * block->line);
  int64_t k_end = yk_min_i64(slice->k_end, LINE_K * (block->line + block->n_lines));
  for (int64_t n = n_begin; n < n_end; n++)
    for (int64_t line = k_begin / LINE_K, k = k_begin; k < k_end; line++, k = line * LINE_K) {
      uint32_t inputs = in[line - block->line][nibble_of_column[n % 8]][n / 8 - block->word];
      int8_t *row = to + (n - slice->n_begin) * stride + (k - slice->k_begin);
      int first = (int)(k - line * LINE_K), end = (int)yk_min_i64(LINE_K, k_end - line * LINE_K);
      if (first == 0 && end == LINE_K)
        unpack_word(inputs, 0, LINE_K, row);
      else
        unpack_word(inputs, first, end, row);
    }
}

yk_status yk_int4_read(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride,
                       yk_err *err)
{
  const yk_int4_ops *ops = yk_int4_ops_of(weight->packing);
  for (int64_t n = slice->n_begin; n < slice->n_end && ops->check; n++)
    YK_TRY(ops->check(weight, n, slice->k_begin, slice->k_end, err));
  int64_t line_end = yk_ceil_div_i64(slice->k_end, LINE_K), word_end = yk_ceil_div_i64(slice->n_end, 8);
  yk_int4_block block = {.line = slice->k_begin / LINE_K};
  for (; block.line < line_end; block.line += block.n_lines) {
    block.n_lines = (int)yk_min_i64(ops->n_lines, line_end - block.line);
    for (block.word = slice->n_begin / 8; block.word < word_end; block.word += block.n_words) {
      yk_int4_lines in;
      block.n_words = (int)yk_min_i64(YK_INT4_BLOCK_WORDS, word_end - block.word);
      ops->read(weight, &block, in);
      unpack_block(slice, &block, in, to, stride);
    }
  }
  return YK_OK;
}

yk_status yk_int4_read_scales(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t n, float *scales,
                              float *zeros, yk_err *err)
{
  const yk_int4_ops *ops = yk_int4_ops_of(weight->packing);
  int64_t first = slice->k_begin / weight->group, n_groups = yk_ceil_div_i64(slice->k_end, weight->group) - first;
  int64_t word = n / 8 * 8;
  for (int64_t i = 0; i < n_groups; i++) {
    scales[i] = yk_int4_float(weight->dtype, weight->scales, ops->scale_at(weight, first + i, n));
    if (!isfinite(scales[i])) return yk_int4_refuse_scale(weight, first + i, n, scales[i], err);
    int eight[8];
    if (weight->qzeros) ops->zeros(weight, first + i, word, (int)yk_min_i64(8, weight->n - word), eight);
    int zero = weight->qzeros ? eight[n - word] : ZERO_OF_NONE;
    if (zero == YK_INT4_NO_ZERO) return yk_int4_refuse_zero(weight, first + i, n, err);
    zeros[i] = (float)zero;
  }
  return YK_OK;
}

static const char *name_of(const yk_weight_view *weight)
{
  return weight->tensor ? weight->tensor : "a 4-bit weight";
}

yk_status yk_int4_refuse_scale(const yk_weight_view *weight, int64_t group, int64_t n, float scale, yk_err *err)
{
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: its scale of group %" PRId64 ", output %" PRId64 ": expected a finite number, found %g",
                    name_of(weight), group, n, (double)scale);
}

yk_status yk_int4_refuse_zero(const yk_weight_view *weight, int64_t group, int64_t n, yk_err *err)
{
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: its zero point of group %" PRId64 ", output %" PRId64
                    ": expected a whole number from 0 to 15 times the scale",
                    name_of(weight), group, n);
}
