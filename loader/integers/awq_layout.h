/* awq_layout.h - the AWQ "gemm" packing of 4-bit values, eight columns to a 32-bit word.
 *
 * qweight is u32 [K, N/8] and qzeros u32 [K/group, N/8], both row-major: word c of a row holds columns 8c .. 8c+7,
 * column 8c+j at bit 4 * YK_AWQ_NIBBLE_OF_COLUMN[j] (kernels/weight.h). A weight is scale * (q - z), without an offset.
 * Words may be unaligned in memory (in a mapped file). Loading weights does not use these functions, which read single
 * values; they are for code that checks or writes packed weights. */
#ifndef YK_LOADER_AWQ_LAYOUT_H
#define YK_LOADER_AWQ_LAYOUT_H

#include <stdint.h>

/* yk_awq_get - the value (0..15) at (row, column) of packed words [*, n_columns/8]. n_columns is a multiple of 8. */
uint8_t yk_awq_get(const void *words, int64_t n_columns, int64_t row, int64_t column);

/* yk_awq_unpack - rows [row_begin, row_end) and columns [column_begin, column_end) of packed words [*, n_columns/8]
 *   into out[n_rows][n_columns_out], one value per byte. Any column range is legal, including ranges that split
 *   words. */
void yk_awq_unpack(const void *words, int64_t n_columns, int64_t row_begin, int64_t row_end, int64_t column_begin,
                   int64_t column_end, uint8_t *out);

#endif
