/* int4_packing.h - the table of 4-bit packings for int4.c and int4_read.c. Not for use outside the loader.
 *
 * To add a packing, write its row in a separate file, declare the row at the end of this header, list it in
 * int4_read.c, and define its tensors in packing_words.c or packing_bytes.c. */
#ifndef YK_LOADER_INT4_PACKING_H
#define YK_LOADER_INT4_PACKING_H

#include <string.h>

#include "base/checked.h"
#include "base/status.h"
#include "kernels/weight.h"

enum {
  YK_INT4_BLOCK_LINES = 16, /* lines per block, of eight inputs each */
  YK_INT4_BLOCK_WORDS = 16, /* words per block, of eight outputs each: whole cache lines are read and written at once */
  YK_INT4_NO_ZERO = -1      /* the file's value is not a valid zero point */
};

/* Lines [line, line + n_lines) of eight inputs by words [word, word + n_words) of eight outputs, at most a block. */
typedef struct yk_int4_block {
  int64_t line, word;
  int n_lines, n_words;
  const int32_t *outputs; /* [n_outputs] the words contain these outputs of the weight, in this order; NULL: all outputs
                           * in order */
  int64_t n_outputs;
} yk_int4_block;

/* Output i of a block. Indices past the last output give the last output. */
static inline int64_t yk_int4_output(const yk_weight_view *weight, const yk_int4_block *block, int i)
{
  int64_t n = 8 * block->word + i;
  return block->outputs ? block->outputs[yk_min_i64(n, block->n_outputs - 1)] : yk_min_i64(n, weight->n - 1);
}

/* q of a block: in[line][i][word] holds eight inputs, the first in the lowest nibble, of output 8 * word +
 * YK_AWQ_COLUMN_OF_NIBBLE[i]. Transposing the nibbles of in[line][0..7][word] gives eight AWQ words. */
typedef uint32_t yk_int4_lines[YK_INT4_BLOCK_LINES][8][YK_INT4_BLOCK_WORDS];

typedef struct yk_int4_ops {
  /* Lines per read: 1 if a line of all outputs is a row of the file, read from end to end; YK_INT4_BLOCK_LINES if an
   * output is a row, so that each read uses a whole cache line. */
  int n_lines;
  /* read - read a whole block; inputs and outputs past the weight's end give arbitrary values. */
  void (*read)(const yk_weight_view *weight, const yk_int4_block *block, yk_int4_lines in);
  /* zeros - zeros of a group and outputs [first, first + n), first a multiple of 8 and n at most 8: 0 .. 16, or
   * YK_INT4_NO_ZERO. Not called if qzeros is NULL. */
  void (*zeros)(const yk_weight_view *weight, int64_t group, int64_t first, int n, int out[8]);
  /* scale_at - index in scales for a group and output; outputs are equally spaced. */
  int64_t (*scale_at)(const yk_weight_view *weight, int64_t group, int64_t n);
  /* check - YK_E_FORMAT, naming tensor, row and column, if an element of output n and inputs [k_begin, k_end) has more
   * than 4 bits. NULL: no element can. */
  yk_status (*check)(const yk_weight_view *weight, int64_t n, int64_t k_begin, int64_t k_end, yk_err *err);
} yk_int4_ops;

static inline uint32_t yk_int4_word(const void *words, int64_t i)
{
  uint32_t word; /* data in files may be unaligned */
  memcpy(&word, (const char *)words + i * (int64_t)sizeof word, sizeof word);
  return word;
}

/* Zeros of eight outputs from the nibbles of a word, in order, each plus `more`. */
static inline void yk_int4_zeros_of_word(uint32_t word, int more, int out[8])
{
  for (int i = 0; i < 8; i++) out[i] = (int)(word >> 4 * i & 0xFu) + more;
}

/* An element of scales (or of scaled zeros) as float32. */
static inline float yk_int4_float(yk_dtype dtype, const void *elements, int64_t i)
{
  uint32_t element = 0;
  size_t n_bytes = yk_dtype_bytes(dtype);
  memcpy(&element, (const char *)elements + (size_t)i * n_bytes, n_bytes);
  return yk_dtype_load(dtype, &element, 0);
}

/* Swap off-diagonal blocks of two words: a step in transposing small elements. */
static inline void yk_int4_swap(uint32_t *a, uint32_t *b, int shift, uint32_t mask)
{
  uint32_t difference = (*a >> shift ^ *b) & mask;
  *b ^= difference;
  *a ^= difference << shift;
}

/* Reads n_lines words of output n, from line on, each with eight inputs in order. */
typedef void (*yk_int4_read_row)(const yk_weight_view *weight, int64_t n, int64_t line, int n_lines, uint32_t *to);

/* Read a block of a packing in which each output is a row. */
static inline void yk_int4_read_rows(const yk_weight_view *weight, const yk_int4_block *block,
                                     yk_int4_read_row read_row, yk_int4_lines in)
{
  static const uint8_t column_of_nibble[8] = YK_AWQ_COLUMN_OF_NIBBLE;
  for (int word = 0; word < block->n_words; word++)
    for (int i = 0; i < 8; i++) {
      uint32_t row[YK_INT4_BLOCK_LINES];
      int64_t n = yk_int4_output(weight, block, 8 * word + column_of_nibble[i]);
      read_row(weight, n, block->line, block->n_lines, row);
      for (int line = 0; line < block->n_lines; line++) in[line][i][word] = row[line];
    }
}

/* Read rows of words in order: gemv, compressed-tensors. */
static inline void yk_int4_read_words(const yk_weight_view *weight, int64_t n, int64_t line, int n_lines, uint32_t *to)
{
  int64_t first = n * yk_ceil_div_i64(weight->k, 8) + line;
  const char *from = (const char *)weight->qweight + first * 4;
  __builtin_prefetch(from + 2 * YK_INT4_BLOCK_LINES * 4 - 1); /* the next block: the hardware prefetcher cannot follow
                                                               * this many rows */
  if (n_lines == YK_INT4_BLOCK_LINES)
    memcpy(to, from, YK_INT4_BLOCK_LINES * 4); /* constant size, so that the compiler inlines the copy */
  else
    memcpy(to, from, (size_t)n_lines * 4);
}

/* Words of zeros per output in AWQ gemv and gemv_fast: rounded up as their kernels require. */
static inline int64_t yk_int4_gemv_zero_words(int64_t k, int64_t group)
{
  int64_t unit = group >= 128 ? 1 : group == 64 ? 2 : 4;
  return yk_round_up_i64(yk_ceil_div_i64(k / group, 8), unit);
}

/* yk_int4_ops_of - the row of a packing. */
const yk_int4_ops *yk_int4_ops_of(yk_packing packing);

/* yk_int4_refuse_scale, yk_int4_refuse_zero - YK_E_FORMAT naming tensor, group and output. */
yk_status yk_int4_refuse_scale(const yk_weight_view *weight, int64_t group, int64_t n, float scale, yk_err *err);
yk_status yk_int4_refuse_zero(const yk_weight_view *weight, int64_t group, int64_t n, yk_err *err);

extern const yk_int4_ops yk_int4_awq_gemm, yk_int4_awq_gemv, yk_int4_awq_gemv_fast, yk_int4_gptq, yk_int4_compressed,
    yk_int4_bytes;

#endif
