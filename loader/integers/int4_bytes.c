/* int4_bytes.c - 4-bit integers as signed bytes, "int-quantized" of compressed-tensors: an output is a row of bytes
 * from -8 to 7, and has a scale for each group; no zeros. q is the byte plus 8. Source: compressed_tensors,
 * compressors/naive_quantized/base.py. */
#include <inttypes.h>

#include "loader/integers/int4_packing.h"

enum { LINE_K = 8, ZERO = 8 };

static const uint8_t *row_at(const yk_weight_view *weight, int64_t n)
{
  return (const uint8_t *)weight->qweight + n * weight->k;
}

static void read_row(const yk_weight_view *weight, int64_t n, int64_t line, int n_lines, uint32_t *to)
{
  const uint8_t *row = row_at(weight, n);
  for (int i = 0; i < n_lines; i++) {
    const int64_t first = (line + i) * LINE_K, n_there = yk_min_i64(LINE_K, weight->k - first);
    uint32_t word = 0;
    for (int j = 0; j < n_there; j++) word |= (((uint32_t)row[first + j] + ZERO) & 0xFu) << 4 * j;
    to[i] = word;
  }
}

static void read_block(const yk_weight_view *weight, const yk_int4_block *block, yk_int4_lines in)
{
  yk_int4_read_rows(weight, block, read_row, in);
}

static int64_t scale_at(const yk_weight_view *weight, int64_t group, int64_t n)
{
  return n * (weight->k / weight->group) + group;
}

static yk_status check(const yk_weight_view *weight, int64_t n, int64_t k_begin, int64_t k_end, yk_err *err)
{
  const uint8_t *row = row_at(weight, n);
  uint8_t outside = 0;
  for (int64_t k = k_begin; k < k_end; k++) outside |= (uint8_t)(row[k] + ZERO) & 0xF0u;
  if (!outside) return YK_OK;
  int64_t k = k_begin;
  while (((uint8_t)(row[k] + ZERO) & 0xF0u) == 0) k++;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: row %" PRId64 ", column %" PRId64 ": expected an integer of 4 bits, -8 to 7, "
                    "found %d",
                    weight->tensor ? weight->tensor : "a 4-bit weight", n, k, (int)(int8_t)row[k]);
}

const yk_int4_ops yk_int4_bytes = {
    .n_lines = YK_INT4_BLOCK_LINES, .read = read_block, .scale_at = scale_at, .check = check};
