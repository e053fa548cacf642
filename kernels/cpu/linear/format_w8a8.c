/* format_w8a8.c - 8-bit weights that are multiplied with 8-bit inputs (W8A8): integer products and sums, scaled once.
 * Columns are kept in panels (yk_cpu_int8_panel), the last panel padded with zeros.
 *
 *   x_q = round(x / s_x) + z_x, within -128 .. 127; to nearest, ties to even
 *   y   = (sum over k of x_q w_q  -  z_x * sum over k of w_q) * s_x * s_w
 *
 * Per token, s_x = largest |x| of the row / 127 and z_x = 0; static, both come from the checkpoint. A row that holds a
 * NaN or an infinity gives NaNs. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/linear/format.h"

enum { ROW_HEADER_BYTES = 64 }; /* header of a quantised row, before its integers: the scale */

static yk_status check(const yk_linear_part *part, int index, yk_err *err)
{
  const yk_weight_view *weight = &part->weight;
  if (weight->inputs.kind == YK_INPUTS_FLOAT || part->as_16_bits) return YK_OK;
  if (!weight->has_zeros && weight->group >= weight->k) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "linear part %d: 8-bit inputs need 8-bit weights with one scale for each output and no zeros",
                    index);
}

static bool takes(const yk_linear_spec *spec, int i)
{
  return spec->parts[i].weight.inputs.kind != YK_INPUTS_FLOAT && !spec->parts[i].as_16_bits;
}

/* weights: int8 panels; scales: f32 [n_panels, PANEL]; zeros: the columns' sums, i32 [n_panels, PANEL]. */
static void lay_out(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part)
{
  (void)spec, (void)i, (void)dtype;
  int64_t n = part->n_panels * YK_CPU_PANEL;
  part->stride = yk_round_up_i64(part->k, YK_CPU_INT8_K);
  part->scales = yk_round_up_i64(n * part->stride, YK_CPU_PART_ALIGNMENT_BYTES);
  part->zeros = yk_round_up_i64(part->scales + n * 4, YK_CPU_PART_ALIGNMENT_BYTES);
  part->n_bytes = part->zeros + n * 4;
}

typedef struct load_context {
  const yk_linear_part *source;
  const yk_cpu_part *part;
  char *weights;
} load_context;

static void load_panels(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const load_context *c = context;
  const yk_weight_view *weight = &c->source->weight;
  const yk_cpu_part *part = c->part;
  float *scales = (float *)(void *)(c->weights + part->scales);
  int32_t *sums = (int32_t *)(void *)(c->weights + part->zeros);
  for (int64_t column = begin * YK_CPU_PANEL; column < yk_min_i64(end * YK_CPU_PANEL, part->n); column++) {
    int64_t from = c->source->n.begin + column;
    const int8_t *row = (const int8_t *)weight->qweight + from * weight->k + c->source->k.begin;
    char *to = c->weights + column / YK_CPU_PANEL * YK_CPU_PANEL * part->stride;
    to += column % YK_CPU_PANEL * YK_CPU_INT8_K;
    for (int64_t k = 0; k < part->k; k += YK_CPU_INT8_K)
      memcpy(to + k * YK_CPU_PANEL, row + k, (size_t)yk_min_i64(YK_CPU_INT8_K, part->k - k));
    for (int64_t k = 0; k < part->k; k++) sums[column] += row[k];
    memcpy(&scales[column], (const char *)weight->scales + from * 4, 4);
  }
}

static void load(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights)
{
  load_context context = {.source = source, .part = part};
  context.weights = weights;
  yk_cpu_pool_run(pool, part->n_panels, 1, load_panels, &context);
}

/* The scale of a row's inputs. largest: see yk_linear_sums_args. */
static float input_scale(const yk_cpu_part *part, int32_t largest)
{
  float magnitude = yk_f32_from_bits((uint32_t)largest);
  if (!isfinite(magnitude)) return NAN;
  return part->inputs.kind == YK_INPUTS_STATIC ? part->inputs.scale : magnitude / 127.0f;
}

static int64_t quantised_row_bytes(int64_t k)
{
  return ROW_HEADER_BYTES + yk_round_up_i64(k, YK_CPU_INT8_K);
}

/* Adding 1.5 * 2^23 rounds to an integer, ties to even. */
static int8_t quantise(float x, float scale, float zero)
{
  float scaled = x / scale;
  scaled = scaled < -256.0f ? -256.0f : scaled > 256.0f ? 256.0f : scaled;
  float q = (scaled + 12582912.0f) - 12582912.0f + zero;
  return (int8_t)(q < -128.0f ? -128.0f : q > 127.0f ? 127.0f : q);
}

/* A scale of 0 (a row of zeros, or a row whose largest magnitude / 127 underflows) gives zeros. */
static void quantise_row(const yk_cpu_part *part, void *to, const float *x, const int32_t *largest)
{
  float scale = input_scale(part, largest ? *largest : yk_cpu_largest(x, part->k)), zero = (float)part->inputs.zero;
  int8_t *quants = (int8_t *)to + ROW_HEADER_BYTES;
  memcpy(to, &scale, sizeof scale);
  memset(quants, 0, (size_t)part->stride);
  if (!(scale > 0.0f)) return;
  for (int64_t k = 0; k < part->k; k++) quants[k] = quantise(x[k], scale, zero);
}

static void sum_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, int32_t *sums)
{
  const int32_t *column_sums = (const int32_t *)(const void *)(weights + part->zeros) + i * YK_CPU_PANEL;
  yk_cpu_int8_panel panel = {
      .w = (const int8_t *)weights + i * YK_CPU_PANEL * part->stride, .sums = column_sums, .n_k = part->stride};
  rows->simd->multiply_int8(sums, YK_CPU_PANEL, (const int8_t *)rows->quantised + ROW_HEADER_BYTES,
                            rows->quantised_stride, rows->n_rows, &panel);
  for (int row = 0; part->inputs.zero != 0 && row < rows->n_rows; row++)
    for (int j = 0; j < YK_CPU_PANEL; j++) sums[row * YK_CPU_PANEL + j] -= part->inputs.zero * column_sums[j];
}

static void scale_sums(const yk_cpu_part *part, const char *weights, const int32_t *sums, int32_t largest,
                       int64_t first, int64_t n, float *y)
{
  const float *scales = (const float *)(const void *)(weights + part->scales) + first;
  float scale = input_scale(part, largest);
  for (int64_t i = 0; i < n; i++) y[i] = (float)sums[i] * scale * scales[i];
}

static void multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, float *acc)
{
  int32_t sums[YK_CPU_ROW_BLOCK * YK_CPU_PANEL];
  const float *scales = (const float *)(const void *)(weights + part->scales) + i * YK_CPU_PANEL;
  sum_panel(rows, part, weights, i, sums);
  for (int row = 0; row < rows->n_rows; row++) {
    float scale;
    memcpy(&scale, rows->quantised + row * rows->quantised_stride, sizeof scale);
    for (int j = 0; j < YK_CPU_PANEL; j++)
      acc[row * YK_CPU_BLOCK_COLUMNS + j] = (float)sums[row * YK_CPU_PANEL + j] * scale * scales[j];
  }
}

const yk_cpu_format yk_cpu_format_w8a8 = {
    .name = "w8a8",
    .weight_format = YK_WEIGHT_INT8,
    .check = check,
    .takes = takes,
    .lay_out = lay_out,
    .load = load,
    .quantised_row_bytes = quantised_row_bytes,
    .quantise_row = quantise_row,
    .sum_panel = sum_panel,
    .scale_sums = scale_sums,
    .multiply_panel = multiply_panel,
};
