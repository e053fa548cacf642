/* awq_words.h - the words and scales of an AWQ weight in its checkpoint's form, for the rows of the table of formats
 * that load them. */
#ifndef YK_KERNELS_CPU_LINEAR_AWQ_WORDS_H
#define YK_KERNELS_CPU_LINEAR_AWQ_WORDS_H

#include <string.h>

#include "kernels/weight.h"

/* Spreads two bytes over four: the nibbles of the low half of x move to the even nibbles. */
static inline uint32_t yk_cpu_awq_spread_nibbles(uint32_t x)
{
  x = (x | x << 8) & 0x00FF00FFu;
  return (x | x << 4) & 0x0F0F0F0Fu;
}

/* A checkpoint word with column j moved to nibble j: in the checkpoint even columns are in the low half, odd ones in
 * the high half (YK_AWQ_NIBBLE_OF_COLUMN). */
static inline uint32_t yk_cpu_awq_in_column_order(uint32_t word)
{
  return yk_cpu_awq_spread_nibbles(word & 0xFFFFu) | yk_cpu_awq_spread_nibbles(word >> 16) << 4;
}

static inline uint32_t yk_cpu_awq_load_word(const void *words, int64_t i)
{
  uint32_t word;
  memcpy(&word, (const char *)words + i * (int64_t)sizeof word, sizeof word);
  return word;
}

/* Columns column .. column + 7 of a row of words, in order; columns at n_columns and beyond read as 0. */
static inline uint32_t yk_cpu_awq_load_eight(const void *words, int64_t row, int64_t words_per_row, int64_t column,
                                             int64_t n_columns)
{
  if (column >= n_columns) return 0;
  int64_t first = row * words_per_row + column / 8;
  uint64_t pair = yk_cpu_awq_in_column_order(yk_cpu_awq_load_word(words, first));
  int offset = (int)(column % 8);
  if (offset) {
    if (column / 8 + 1 < words_per_row)
      pair |= (uint64_t)yk_cpu_awq_in_column_order(yk_cpu_awq_load_word(words, first + 1)) << 32;
    pair >>= 4 * offset;
  }
  int64_t n = n_columns - column;
  return (uint32_t)pair & (n >= 8 ? ~0u : (1u << 4 * n) - 1);
}

/* Scale number i of [k / group, n]. */
static inline float yk_cpu_awq_load_scale(const yk_weight_view *weight, int64_t i)
{
  uint32_t element = 0; /* the source may be unaligned */
  size_t n_bytes = yk_dtype_bytes(weight->dtype);
  memcpy(&element, (const char *)weight->scales + (size_t)i * n_bytes, n_bytes);
  return yk_dtype_load(weight->dtype, &element, 0);
}

#endif
