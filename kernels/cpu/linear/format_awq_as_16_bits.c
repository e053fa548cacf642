/* format_awq_as_16_bits.c - AWQ weights that are dequantised when they are loaded: each is scale * (q - zero), rounded
 * once to 16 bits, and then multiplied as a plain weight. */
#include "base/checked.h"
#include "kernels/cpu/linear/awq_words.h"
#include "kernels/cpu/linear/format.h"

enum { WEIGHT_BYTES = 2, RUN = 32 /* inputs of a column written at a time: a cache line of 16-bit weights */ };

static bool takes(const yk_linear_spec *spec, int i)
{
  return spec->parts[i].as_16_bits;
}

/* weights: dtype [n, k]. */
static void lay_out(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part)
{
  (void)spec, (void)i;
  part->dtype = dtype == YK_F32 ? YK_F16 : dtype;
  part->stride = part->k;
  part->n_bytes = part->n * part->k * WEIGHT_BYTES;
}

typedef struct load_context {
  const yk_linear_part *source;
  const yk_cpu_part *part;
  char *weights;
} load_context;

/* Inputs k .. k_end - 1 of the columns of a panel. */
static void dequantise(const load_context *c, int64_t panel, int64_t k, int64_t k_end)
{
  const yk_linear_part *source = c->source;
  const yk_weight_view *weight = &source->weight;
  int64_t words_per_row = weight->n / 8, column = source->n.begin + panel * YK_CPU_PANEL;
  int n_columns = (int)yk_min_i64(YK_CPU_PANEL, source->n.end - column);
  uint32_t zeros = 0;
  float scales[YK_CPU_PANEL] = {0};
  for (int64_t last_group = -1; k < k_end; k++) {
    int64_t row = source->k.begin + k, group = row / weight->group;
    uint32_t q = yk_cpu_awq_load_eight(weight->qweight, row, words_per_row, column, source->n.end);
    if (group != last_group) {
      zeros = yk_cpu_awq_load_eight(weight->qzeros, group, words_per_row, column, source->n.end);
      for (int i = 0; i < n_columns; i++) scales[i] = yk_cpu_awq_load_scale(weight, group * weight->n + column + i);
      last_group = group;
    }
    for (int i = 0; i < n_columns; i++) {
      int difference = (int)(q >> 4 * i & 0xFu) - (int)(zeros >> 4 * i & 0xFu);
      yk_dtype_store(c->part->dtype, c->weights, (size_t)((panel * YK_CPU_PANEL + i) * c->part->stride + k),
                     scales[i] * (float)difference);
    }
  }
}

static void load_panels(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const load_context *c = context;
  for (int64_t k = 0; k < c->part->k; k += RUN)
    for (int64_t panel = begin; panel < end; panel++) dequantise(c, panel, k, yk_min_i64(k + RUN, c->part->k));
}

static void load(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights)
{
  load_context context = {.source = source, .part = part};
  context.weights = weights;
  yk_cpu_pool_run(pool, part->n_panels, 1, load_panels, &context);
}

const yk_cpu_format yk_cpu_format_awq_as_16_bits = {
    .name = "awq as 16 bits",
    .weight_format = YK_WEIGHT_AWQ,
    .check = yk_linear_check_awq,
    .takes = takes,
    .lay_out = lay_out,
    .load = load,
    .multiply_panel = yk_cpu_plain_multiply_panel,
};
