#include "kernels/cpu/linear/bytes.h"

#include <string.h>

#include "base/checked.h"

static int64_t n_lines_of(const yk_cpu_part *part)
{
  return yk_ceil_div_i64(part->k, YK_CPU_CHUNK_K);
}

/* Bytes of a column in a line. */
static int64_t line_bytes(const yk_cpu_part *part)
{
  return YK_CPU_CHUNK_K * yk_weight_traits_of(part->format->weight_format)->bits / 8;
}

bool yk_cpu_bytes_takes(const yk_linear_spec *spec, int i)
{
  return !spec->parts[i].as_16_bits;
}

void yk_cpu_bytes_lay_out(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part)
{
  (void)dtype;
  int64_t columns = part->n_panels * YK_CPU_PANEL;
  part->group = spec->parts[i].group_local;
  part->n_groups = part->k > 0 ? yk_ceil_div_i64(part->k, part->group) : 0;
  int64_t scale_bytes = columns * part->n_groups * (int64_t)sizeof(float);
  part->scales = yk_round_up_i64(columns * n_lines_of(part) * line_bytes(part), YK_CPU_PART_ALIGNMENT_BYTES);
  part->zeros = 0;
  part->n_bytes = part->scales + scale_bytes;
  if (!spec->parts[i].weight.has_zeros) return;
  part->zeros = yk_round_up_i64(part->n_bytes, YK_CPU_PART_ALIGNMENT_BYTES);
  part->n_bytes = part->zeros + scale_bytes;
}

typedef struct load_context {
  const yk_linear_part *source;
  const yk_cpu_part *part;
  char *weights;
} load_context;

/* Loads the scales or the zeros of a column of the weight into every PANEL-th element of `to`. */
static void load_numbers(const load_context *c, const void *numbers, int64_t column, float *to)
{
  const yk_linear_part *source = c->source;
  const yk_weight_view *weight = &source->weight;
  const char *from = (const char *)numbers + column * yk_ceil_div_i64(weight->k, weight->group) * (int64_t)sizeof *to;
  for (int64_t group = 0; group < c->part->n_groups; group++) {
    int64_t of_weight = (source->k.begin + group * c->part->group) / weight->group;
    memcpy(to + group * YK_CPU_PANEL, from + of_weight * (int64_t)sizeof *to, sizeof *to);
  }
}

/* Packs codes of 4 bits, two per byte, from n_k bytes with one code each. */
static void pack_halves(const uint8_t *from, int64_t n_k, char *line)
{
  uint32_t words[YK_CPU_LANES] = {0};
  for (int64_t k = 0; k < n_k; k++) words[k % YK_CPU_LANES] |= (uint32_t)(from[k] & 0xFu) << 4 * (k / YK_CPU_LANES);
  memcpy(line, words, sizeof words);
}

static void load_column(const load_context *c, int64_t panel, int64_t i)
{
  const yk_cpu_part *part = c->part;
  const yk_linear_part *source = c->source;
  const yk_weight_view *weight = &source->weight;
  int64_t column = source->n.begin + panel * YK_CPU_PANEL + i, n_lines = n_lines_of(part);
  int64_t numbers = panel * part->n_groups * YK_CPU_PANEL + i;
  if (column >= source->n.end) return;
  const char *from = (const char *)weight->qweight + column * weight->k + source->k.begin;
  char *to = c->weights + (panel * n_lines * YK_CPU_PANEL + i) * line_bytes(part);
  for (int64_t k = 0; k < part->k; k += YK_CPU_CHUNK_K, to += YK_CPU_PANEL * line_bytes(part)) {
    int64_t n_k = yk_min_i64(YK_CPU_CHUNK_K, part->k - k);
    if (line_bytes(part) == YK_CPU_CHUNK_K)
      memcpy(to, from + k, (size_t)n_k);
    else
      pack_halves((const uint8_t *)from + k, n_k, to);
  }
  load_numbers(c, weight->scales, column, (float *)(void *)(c->weights + part->scales) + numbers);
  if (part->zeros) load_numbers(c, weight->qzeros, column, (float *)(void *)(c->weights + part->zeros) + numbers);
}

static void load_panels(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  for (int64_t panel = begin; panel < end; panel++)
    for (int64_t i = 0; i < YK_CPU_PANEL; i++) load_column(context, panel, i);
}

void yk_cpu_bytes_load(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights)
{
  load_context context = {.source = source, .part = part};
  context.weights = weights;
  yk_cpu_pool_run(pool, part->n_panels, 1, load_panels, &context);
}

static yk_cpu_byte_panel panel_of(const yk_cpu_part *part, const char *weights, int64_t i)
{
  int64_t n_lines = n_lines_of(part), groups = i * part->n_groups * YK_CPU_PANEL;
  const float *zeros = (const float *)(const void *)(weights + part->zeros) + groups;
  return (yk_cpu_byte_panel){.bytes = (const uint8_t *)weights + i * n_lines * YK_CPU_PANEL * line_bytes(part),
                             .scales = (const float *)(const void *)(weights + part->scales) + groups,
                             .zeros = part->zeros ? zeros : NULL,
                             .n_lines = n_lines,
                             .n_groups = part->n_groups,
                             .group = part->group};
}

/* A single row is multiplied with the packed weights, several rows share unpacked strips of floats: the sums are the
 * same. */
void yk_cpu_bytes_multiply(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i,
                           yk_cpu_byte_row *row, yk_cpu_unpack *unpack, float *acc)
{
  const yk_cpu_byte_panel panel = panel_of(part, weights, i);
  if (rows->n_rows == 1 && row(acc, rows->x, &panel)) return;
  yk_cpu_multiply_strips(rows, unpack, &panel, acc);
}
