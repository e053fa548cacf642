#include "loader/integers/awq_layout.h"

#include <string.h>

#include "kernels/weight.h"

static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN;

uint8_t yk_awq_get(const void *words, int64_t n_columns, int64_t row, int64_t column)
{
  uint32_t word;
  memcpy(&word, (const char *)words + (row * (n_columns / 8) + column / 8) * 4, sizeof word);
  return word >> 4 * nibble_of_column[column % 8] & 0xF;
}

void yk_awq_unpack(const void *words, int64_t n_columns, int64_t row_begin, int64_t row_end, int64_t column_begin,
                   int64_t column_end, uint8_t *out)
{
  for (int64_t row = row_begin; row < row_end; row++)
    for (int64_t column = column_begin; column < column_end; column++)
      *out++ = yk_awq_get(words, n_columns, row, column);
}
