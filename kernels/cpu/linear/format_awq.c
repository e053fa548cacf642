/* format_awq.c - AWQ weights in panels of YK_CPU_PANEL output columns (cpu_simd.h), the last padded with zeros.
 *
 * The checkpoint packs eight neighbouring COLUMNS of one k into a word, in its own order; a word of a panel holds eight
 * k of one column, YK_CPU_LANES apart. Threads advance along k together, each for its own columns, so that a mapped
 * file is read sequentially. */
#include "kernels/cpu/linear/format_awq.h"
#include "base/checked.h"
#include "kernels/cpu/linear/awq_words.h"

static int64_t n_lines_of(const yk_cpu_part *part)
{
  return yk_ceil_div_i64(part->k, YK_CPU_CHUNK_K);
}

/* weights: u32 words [n_panels, n_lines, PANEL, LANES]; scales: f32 [n_panels, n_groups, PANEL]; zeros: u8, the same
 * shape. */
void yk_cpu_awq_lay_out(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part)
{
  (void)dtype;
  int64_t columns = part->n_panels * YK_CPU_PANEL;
  part->group = spec->parts[i].group_local;
  part->n_groups = part->k > 0 ? yk_ceil_div_i64(part->k, part->group) : 0;
  part->scales = yk_round_up_i64(columns * n_lines_of(part) * YK_CPU_LANES * 4, YK_CPU_PART_ALIGNMENT_BYTES);
  part->zeros = yk_round_up_i64(part->scales + columns * part->n_groups * 4, YK_CPU_PART_ALIGNMENT_BYTES);
  part->n_bytes = part->zeros + columns * part->n_groups;
}

/* Panel i of a part, in the form that the inner loops take. */
static inline yk_cpu_awq_panel panel_of(const yk_cpu_part *part, const char *weights, int64_t i)
{
  int64_t n_lines = n_lines_of(part), groups = part->n_groups * YK_CPU_PANEL;
  return (yk_cpu_awq_panel){.words =
                                (const uint32_t *)(const void *)weights + i * n_lines * YK_CPU_PANEL * YK_CPU_LANES,
                            .scales = (const float *)(const void *)(weights + part->scales) + i * groups,
                            .zeros = (const uint8_t *)weights + part->zeros + i * groups,
                            .n_lines = n_lines,
                            .n_groups = part->n_groups,
                            .group = part->group};
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

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

typedef struct load_context {
  const yk_linear_part *source;
  const yk_cpu_part *part;
  char *weights;
} load_context;

/* Packs one line of a panel, whose eight columns are a word of the checkpoint. */
static void pack_line(const load_context *c, int64_t panel, int64_t line)
{
  const yk_linear_part *source = c->source;
  int64_t words_per_row = source->weight.n / 8;
  int64_t column = source->n.begin + panel * YK_CPU_PANEL;
  uint32_t *to = (uint32_t *)(void *)c->weights + (panel * n_lines_of(c->part) + line) * YK_CPU_PANEL * YK_CPU_LANES;
  for (int64_t lane = 0; lane < YK_CPU_LANES; lane++) {
    uint32_t words[YK_CPU_NIBBLES];
    for (int64_t i = 0; i < YK_CPU_NIBBLES; i++) {
      int64_t k = line * YK_CPU_CHUNK_K + i * YK_CPU_LANES + lane;
      words[i] = k < c->part->k ? yk_cpu_awq_load_eight(source->weight.qweight, source->k.begin + k, words_per_row,
                                                        column, source->n.end)
                                : 0;
    }
    transpose_nibbles(words);
    for (int64_t i = 0; i < YK_CPU_PANEL; i++) to[i * YK_CPU_LANES + lane] = words[i];
  }
}

/* Scales and zero points of one group of a panel. */
static void pack_group(const load_context *c, int64_t panel, int64_t group)
{
  const yk_linear_part *source = c->source;
  const yk_weight_view *weight = &source->weight;
  int64_t row = (source->k.begin + group * c->part->group) / weight->group;
  int64_t column = source->n.begin + panel * YK_CPU_PANEL;
  uint32_t zeros = yk_cpu_awq_load_eight(weight->qzeros, row, weight->n / 8, column, source->n.end);
  int64_t to = (panel * c->part->n_groups + group) * YK_CPU_PANEL;
  uint8_t *to_zeros = (uint8_t *)c->weights + c->part->zeros + to;
  float *to_scales = (float *)(void *)(c->weights + c->part->scales) + to;
  for (int64_t i = 0; i < YK_CPU_PANEL; i++) {
    to_zeros[i] = (uint8_t)(zeros >> 4 * i & 0xFu);
    to_scales[i] = column + i < source->n.end ? yk_cpu_awq_load_scale(weight, row * weight->n + column + i) : 0.0f;
  }
}

static void load_panels(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const load_context *c = context;
  int64_t n_lines = n_lines_of(c->part);
  for (int64_t line = 0; line < n_lines; line++)
    for (int64_t panel = begin; panel < end; panel++) pack_line(c, panel, line);
  for (int64_t group = 0; group < c->part->n_groups; group++)
    for (int64_t panel = begin; panel < end; panel++) pack_group(c, panel, group);
}

void yk_cpu_awq_load(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights)
{
  load_context context = {.source = source, .part = part};
  context.weights = weights;
  yk_cpu_pool_run(pool, part->n_panels, 1, load_panels, &context);
}

/* ---- Multiplying ------------------------------------------------------------------------------------------------- */

/* A single row is multiplied with the packed weights, several rows share unpacked strips of floats: the sums are the
 * same. */
void yk_cpu_awq_multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i,
                               float *acc)
{
  yk_cpu_awq_panel panel = panel_of(part, weights, i);
  if (rows->n_rows == 1 && rows->simd->awq_row(acc, rows->x, &panel)) return;
  yk_cpu_multiply_strips(rows, rows->simd->awq_unpack, &panel, acc);
}

const yk_cpu_format yk_cpu_format_awq = {
    .name = "awq",
    .weight_format = YK_WEIGHT_AWQ,
    .check = yk_linear_check_awq,
    .lay_out = yk_cpu_awq_lay_out,
    .load = yk_cpu_awq_load,
    .multiply_panel = yk_cpu_awq_multiply_panel,
};
