/* format_plain.c - plain weights: the rank's slice of the checkpoint's [n, k], elements unchanged. A single part that
 * the device already holds (an embedding that is also lm_head) is multiplied in place. */
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/linear/format.h"

/* weights: dtype [n, stride]; k elements of each row are multiplied. */
static void lay_out(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part)
{
  const yk_linear_part *source = &spec->parts[i];
  if (spec->n_parts == 1 && spec->n_matrices == 1 && source->is_resident) {
    part->dtype = dtype;
    part->stride = source->weight.k;
    part->is_resident = true;
    part->resident = yk_cpu_at(dtype, source->resident, source->k.begin);
    return;
  }
  part->dtype = source->weight.dtype;
  part->stride = part->k;
  part->n_bytes = part->n * part->k * (int64_t)yk_dtype_bytes(part->dtype);
}

typedef struct load_context {
  const yk_linear_part *source;
  const yk_cpu_part *part;
  char *weights;
} load_context;

static void load_columns(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const load_context *c = context;
  const yk_weight_view *weight = &c->source->weight;
  int64_t n_bytes = (int64_t)yk_dtype_bytes(c->part->dtype);
  for (int64_t i = begin; i < end; i++) {
    int64_t first = (c->source->n.begin + i) * weight->k + c->source->k.begin;
    memcpy(c->weights + i * c->part->stride * n_bytes, (const char *)weight->plain + first * n_bytes,
           (size_t)(c->part->k * n_bytes));
  }
}

static void load(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights)
{
  load_context context = {.source = source, .part = part};
  context.weights = weights;
  yk_cpu_pool_run(pool, part->n, 1, load_columns, &context);
}

/* A single row is multiplied with the stored weights, several rows share strips of floats: the sums are the same. */
void yk_cpu_plain_multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i,
                                 float *acc)
{
  yk_cpu_plain_panel panel = {.w = yk_cpu_at(part->dtype, weights, i * YK_CPU_PANEL * part->stride),
                              .dtype = part->dtype,
                              .k = part->k,
                              .stride = part->stride,
                              .n_columns = (int)yk_min_i64(YK_CPU_PANEL, part->n - i * YK_CPU_PANEL)};
  if (rows->n_rows == 1) {
    rows->simd->plain_row(acc, rows->x, &panel);
    return;
  }
  yk_cpu_multiply_strips(rows, rows->simd->plain_unpack, &panel, acc);
}

const yk_cpu_format yk_cpu_format_plain = {
    .name = "plain",
    .weight_format = YK_WEIGHT_PLAIN,
    .lay_out = lay_out,
    .load = load,
    .multiply_panel = yk_cpu_plain_multiply_panel,
};
