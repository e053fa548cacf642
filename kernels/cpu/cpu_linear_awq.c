/* cpu_linear_awq.c - from the checkpoint's AWQ words to panels.
 *
 * The checkpoint packs eight neighbouring COLUMNS of one k into a word, in an order of its own; a word of a panel holds
 * eight k of one column, YK_CPU_LANES apart. Threads go along k together, each for its own columns, so that a mapped
 * file is read front to back. */
#include <string.h>

#include "kernels/cpu/cpu_linear.h"

/* Two bytes to eight: the nibbles of the low half of x move to the even nibbles. */
static inline uint32_t spread_nibbles(uint32_t x)
{
  x = (x | x << 8) & 0x00FF00FFu;
  return (x | x << 4) & 0x0F0F0F0Fu;
}

/* A checkpoint word with column j in nibble j: even columns stand in its low half, odd ones in its high half
 * (YK_AWQ_NIBBLE_OF_COLUMN).                                                                                        */
static inline uint32_t in_column_order(uint32_t word)
{
  return spread_nibbles(word & 0xFFFFu) | spread_nibbles(word >> 16) << 4;
}

static inline uint32_t load_word(const void *words, int64_t i)
{
  uint32_t word;
  memcpy(&word, (const char *)words + i * (int64_t)sizeof word, sizeof word);
  return word;
}

/* Columns column .. column + 7 of a row of words, in order; columns at n_columns and beyond read as 0. */
static inline uint32_t load_eight(const void *words, int64_t row, int64_t words_per_row, int64_t column,
                                  int64_t n_columns)
{
  if (column >= n_columns) return 0;
  int64_t first = row * words_per_row + column / 8;
  uint64_t pair = in_column_order(load_word(words, first));
  int offset = (int)(column % 8);
  if (offset) {
    if (column / 8 + 1 < words_per_row) pair |= (uint64_t)in_column_order(load_word(words, first + 1)) << 32;
    pair >>= 4 * offset;
  }
  int64_t n = n_columns - column;
  return (uint32_t)pair & (n >= 8 ? ~0u : (1u << 4 * n) - 1);
}

/* Transpose 8 x 8 nibbles: swap ever smaller off-diagonal blocks. */
static inline void swap_blocks(uint32_t *a, uint32_t *b, int shift, uint32_t mask)
{
  uint32_t difference = (*a >> shift ^ *b) & mask;
  *b ^= difference;
  *a ^= difference << shift;
}

static inline void transpose_nibbles(uint32_t w[8])
{
  for (int i = 0; i < 4; i++) swap_blocks(&w[i], &w[i + 4], 16, 0x0000FFFFu);
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) swap_blocks(&w[i + j], &w[i + j + 2], 8, 0x00FF00FFu);
  for (int i = 0; i < 8; i += 2) swap_blocks(&w[i], &w[i + 1], 4, 0x0F0F0F0Fu);
}

/* One line of a panel: its eight columns are a word of the checkpoint. */
static void pack_line(const yk_linear_part *source, const yk_cpu_part *part, int64_t panel, int64_t line)
{
  int64_t words_per_row = source->weight.n / 8;
  int64_t column = source->n.begin + panel * YK_CPU_PANEL;
  uint32_t *to = (uint32_t *)part->weights + (panel * part->layout.n_lines + line) * YK_CPU_PANEL * YK_CPU_LANES;
  for (int64_t lane = 0; lane < YK_CPU_LANES; lane++) {
    uint32_t words[YK_CPU_NIBBLES];
    for (int64_t i = 0; i < YK_CPU_NIBBLES; i++) {
      int64_t k = line * YK_CPU_CHUNK_K + i * YK_CPU_LANES + lane;
      words[i] = k < part->k
                     ? load_eight(source->weight.qweight, source->k.begin + k, words_per_row, column, source->n.end)
                     : 0;
    }
    transpose_nibbles(words);
    for (int64_t i = 0; i < YK_CPU_PANEL; i++) to[i * YK_CPU_LANES + lane] = words[i];
  }
}

static float load_scale(const yk_weight_view *weight, int64_t i)
{
  char element[4];
  size_t n_bytes = yk_dtype_bytes(weight->dtype);
  memcpy(element, (const char *)weight->scales + (size_t)i * n_bytes, n_bytes);
  uint32_t aligned = 0;
  memcpy(&aligned, element, n_bytes);
  return yk_dtype_load(weight->dtype, &aligned, 0);
}

/* Scales and zero points of one group of a panel. */
static void pack_group(const yk_linear_part *source, const yk_cpu_part *part, int64_t panel, int64_t group)
{
  const yk_weight_view *weight = &source->weight;
  int64_t row = (source->k.begin + group * part->group) / weight->group;
  int64_t column = source->n.begin + panel * YK_CPU_PANEL;
  uint32_t zeros = load_eight(weight->qzeros, row, weight->n / 8, column, source->n.end);
  int64_t to = (panel * part->layout.n_groups + group) * YK_CPU_PANEL;
  for (int64_t i = 0; i < YK_CPU_PANEL; i++) {
    part->zeros[to + i] = (uint8_t)(zeros >> 4 * i & 0xFu);
    part->scales[to + i] = column + i < source->n.end ? load_scale(weight, row * weight->n + column + i) : 0.0f;
  }
}

void yk_cpu_pack_awq(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const yk_cpu_pack *pack = context;
  for (int64_t line = 0; line < pack->part->layout.n_lines; line++)
    for (int64_t panel = begin; panel < end; panel++) pack_line(pack->source, pack->part, panel, line);
  for (int64_t group = 0; group < pack->part->layout.n_groups; group++)
    for (int64_t panel = begin; panel < end; panel++) pack_group(pack->source, pack->part, panel, group);
}
