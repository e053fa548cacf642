/* awq_values.h - single values of the AWQ "gemm" packing of 4-bit values, eight columns to a 32-bit word.
 *
 * qweight is u32 [K, N/8] and qzeros u32 [K/group, N/8], both row-major: word c of a row holds columns 8c .. 8c+7,
 * column 8c+j at bit 4 * YK_AWQ_NIBBLE_OF_COLUMN[j] (kernels/weight.h). A weight is scale * (q - z), without an offset.
 */
#ifndef YK_TESTS_OP_AWQ_VALUES_H
#define YK_TESTS_OP_AWQ_VALUES_H

#include <stdint.h>
#include <string.h>

#include "kernels/weight.h"

/* The value (0..15) at (row, column) of packed words [*, n_columns/8], unaligned as in a mapped file. */
static inline uint8_t awq_value(const void *words, int64_t n_columns, int64_t row, int64_t column)
{
  static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN;
  uint32_t word;
  memcpy(&word, (const char *)words + (row * (n_columns / 8) + column / 8) * 4, sizeof word);
  return word >> 4 * nibble_of_column[column % 8] & 0xF;
}

#endif
