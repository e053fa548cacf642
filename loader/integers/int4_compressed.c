/* int4_compressed.c - the packing "pack-quantized" of compressed-tensors: a word holds eight inputs of one output, and
 * the words of an output form a row; zeros are packed along the outputs. q and zero are both stored with 8 added, so
 * their difference is unchanged. Source: compressed_tensors, compressors/pack_quantized/helpers.py. */
#include "loader/integers/int4_packing.h"

static void read_block(const yk_weight_view *weight, const yk_int4_block *block, yk_int4_lines in)
{
  yk_int4_read_rows(weight, block, yk_int4_read_words, in);
}

static void zeros(const yk_weight_view *weight, int64_t group, int64_t first, int n, int out[8])
{
  (void)n;
  yk_int4_zeros_of_word(yk_int4_word(weight->qzeros, first / 8 * (weight->k / weight->group) + group), 0, out);
}

static int64_t scale_at(const yk_weight_view *weight, int64_t group, int64_t n)
{
  return n * (weight->k / weight->group) + group;
}

const yk_int4_ops yk_int4_compressed = {
    .n_lines = YK_INT4_BLOCK_LINES, .read = read_block, .zeros = zeros, .scale_at = scale_at};
