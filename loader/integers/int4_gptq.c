/* int4_gptq.c - GPTQ's packing: a word holds eight inputs of one output, and the words of eight inputs form a row.
 * Version 1 stores zero - 1, so a zero of 16 is possible. Source: qlinear modules of auto_gptq and gptqmodel, pack().
 */
#include "loader/integers/int4_packing.h"

static void read_outputs(const yk_weight_view *weight, const yk_int4_block *block, yk_int4_lines in)
{
  static const uint8_t column_of_nibble[8] = YK_AWQ_COLUMN_OF_NIBBLE;
  for (int word = 0; word < block->n_words; word++)
    for (int i = 0; i < 8; i++) {
      int64_t n = yk_int4_output(weight, block, 8 * word + column_of_nibble[i]);
      for (int line = 0; line < block->n_lines; line++)
        in[line][i][word] = yk_int4_word(weight->qweight, (block->line + line) * weight->n + n);
    }
}

static void read_block(const yk_weight_view *weight, const yk_int4_block *block, yk_int4_lines in)
{
  if (block->outputs) {
    read_outputs(weight, block, in);
    return;
  }
  static const uint8_t column_of_nibble[8] = YK_AWQ_COLUMN_OF_NIBBLE;
  for (int line = 0; line < block->n_lines; line++) {
    const char *row = (const char *)weight->qweight + ((block->line + line) * weight->n + 8 * block->word) * 4;
    uint32_t words[YK_INT4_BLOCK_WORDS][8];
    if (block->n_words == YK_INT4_BLOCK_WORDS)
      memcpy(words, row, sizeof words); /* constant size, so that the compiler inlines the copy */
    else
      memcpy(words, row, (size_t)block->n_words * sizeof *words);
    for (int i = 0; i < 8; i++)
      for (int word = 0; word < YK_INT4_BLOCK_WORDS; word++) in[line][i][word] = words[word][column_of_nibble[i]];
  }
}

static void zeros(const yk_weight_view *weight, int64_t group, int64_t first, int n, int out[8])
{
  (void)n;
  uint32_t word = yk_int4_word(weight->qzeros, (group * weight->n + first) / 8);
  yk_int4_zeros_of_word(word, weight->zeros_less_one, out);
}

static int64_t scale_at(const yk_weight_view *weight, int64_t group, int64_t n)
{
  return group * weight->n + n;
}

const yk_int4_ops yk_int4_gptq = {.n_lines = 1, .read = read_block, .zeros = zeros, .scale_at = scale_at};
