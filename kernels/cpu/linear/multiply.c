/* multiply.c - rows times a linear layer of the CPU device, for all formats (format.h). */
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/linear/adapters.h"
#include "kernels/cpu/linear/prepared.h"
#include "kernels/cpu/linear/slices.h"

enum {
  BLOCK_PANELS = YK_CPU_BLOCK_COLUMNS / YK_CPU_PANEL,
  MIN_THREAD_MULTIPLY_ADDS = 1 << 16 /* below which a thread costs more than it saves */
};

/* One block of at most row_block rows of a forward. */
typedef struct forward_context {
  yk_cpu_device *cpu;
  const yk_linear *linear;
  const yk_linear_args *args;
  const yk_linear_sums_args *sums; /* NULL in a forward */
  const int32_t *maxima;           /* maxima of whole rows, by row of y, if x holds a part of each; else NULL */
  const char *matrix;              /* the memory of the rows' matrix */
  const int32_t *row_of_slot;      /* the row of x for each row of y; NULL: the same row */
  int64_t first_row;
  int n_rows;
} forward_context;

static char *quantised_rows(const forward_context *c, const yk_cpu_part *part)
{
  return (char *)c->cpu->x_quantised + part->quantised;
}

/* Row number row of the block as floats, in the input order of copy x_copy. */
static float *x_row_of(const forward_context *c, int x_copy, int64_t row)
{
  return (float *)c->cpu->x_f32 + (x_copy * c->n_rows + row) * c->linear->x_stride;
}

/* Row number row of the block times the first matrices of its adapter. */
static float *adapted_row(const forward_context *c, int64_t row)
{
  return (float *)c->cpu->x_adapted + row * yk_cpu_adapters_row_floats(c->linear);
}

static void put_in_order(float *to, const float *x, const yk_cpu_part *part, const char *matrix)
{
  const int32_t *order = (const int32_t *)(const void *)(matrix + part->x_order);
  for (int64_t i = 0; i < part->k; i++) to[i] = order[i] < 0 ? 0.0f : x[order[i]];
  for (int64_t i = part->k; i < part->n_k; i++) to[i] = 0.0f;
}

static const void *x_at(const forward_context *c, int64_t row)
{
  int64_t of_y = c->first_row + row, of_x = c->row_of_slot ? c->row_of_slot[of_y] : of_y;
  return yk_cpu_at(c->cpu->base.dtype, c->args->x, of_x * c->linear->x_size);
}

/* Converts rows of x to float32, padded with zeros to whole chunks, in each input order that a part needs, and
 * quantises them for the formats with quantise_row. */
static void convert_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const forward_context *c = context;
  const yk_linear *linear = c->linear;
  yk_dtype dtype = c->cpu->base.dtype;
  for (int64_t row = begin; row < end; row++) {
    float *x = x_row_of(c, 0, row);
    c->cpu->simd->to_f32(x, dtype, x_at(c, row), (size_t)linear->x_size);
    for (int64_t k = linear->x_size; k < linear->n_k; k++) x[k] = 0.0f;
    for (int i = 0, n_done = 1; i < linear->n_parts; i++) {
      const yk_cpu_part *part = &linear->parts[i];
      float *in_order = x_row_of(c, part->x_copy, row);
      if (part->x_copy == n_done) {
        put_in_order(in_order, x, part, c->matrix);
        n_done++;
      }
      if (part->format->quantise_row && yk_cpu_first_of_rows(linear, i) == i)
        part->format->quantise_row(part, quantised_rows(c, part) + row * yk_cpu_quantised_row_bytes(part), in_order,
                                   c->maxima ? &c->maxima[c->first_row + row] : NULL);
    }
  }
}

static void project_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const forward_context *c = context;
  for (int64_t row = begin; row < end; row++)
    yk_cpu_adapters_project(c->cpu, c->linear, c->args->adapters[c->first_row + row], x_row_of(c, 0, row),
                            adapted_row(c, row));
}

static yk_cpu_rows rows_for(const forward_context *c, int thread, const yk_cpu_part *part)
{
  yk_cpu_rows rows = {.simd = c->cpu->simd,
                      .n_rows = c->n_rows,
                      .x = x_row_of(c, part->x_copy, 0),
                      .x_stride = c->linear->x_stride,
                      .n_k = part->n_k,
                      .scratch = &c->cpu->scratch[thread]};
  if (part->format->quantise_row) {
    rows.quantised = quantised_rows(c, part);
    rows.quantised_stride = yk_cpu_quantised_row_bytes(part);
  }
  return rows;
}

/* Panels first .. end - 1 of a part, at most BLOCK_PANELS, with its bias. */
static void multiply_block(const forward_context *c, int thread, const yk_cpu_part *part, int64_t first, int64_t end,
                           float *acc)
{
  const yk_cpu_rows rows = rows_for(c, thread, part);
  const char *weights = part->is_resident ? part->resident : c->matrix + part->weights;
  for (int64_t i = first; i < end; i++) {
    float *columns = acc + (i - first) * YK_CPU_PANEL;
    if (part->k > 0)
      part->format->multiply_panel(&rows, part, weights, i, columns);
    else
      for (int row = 0; row < c->n_rows; row++) memset(columns + row * YK_CPU_BLOCK_COLUMNS, 0, YK_CPU_PANEL * 4);
  }
  int n = (int)(end - first) * YK_CPU_PANEL;
  if (part->has_bias) {
    const float *bias = (const float *)(const void *)(c->matrix + part->bias) + first * YK_CPU_PANEL;
    for (int row = 0; row < c->n_rows; row++)
      for (int i = 0; i < n; i++) acc[row * YK_CPU_BLOCK_COLUMNS + i] += bias[i];
  }
  if (!c->args->adapters) return;
  for (int row = 0; row < c->n_rows; row++)
    yk_cpu_adapters_add(c->cpu, c->linear, (int)(part - c->linear->parts), c->args->adapters[c->first_row + row],
                        adapted_row(c, row), first, end, acc + row * YK_CPU_BLOCK_COLUMNS);
}

static void store_block(const forward_context *c, const yk_cpu_part *part, int64_t first, int64_t end, const float *acc)
{
  yk_dtype dtype = c->linear->f32_output ? YK_F32 : c->cpu->base.dtype;
  int64_t n_columns = yk_min_i64(end * YK_CPU_PANEL, part->n) - first * YK_CPU_PANEL;
  for (int row = 0; row < c->n_rows; row++) {
    int64_t to = (c->first_row + row) * c->args->y_stride + part->first_column + first * YK_CPU_PANEL;
    c->cpu->simd->from_f32(yk_cpu_at(dtype, c->args->y, to), dtype, acc + row * YK_CPU_BLOCK_COLUMNS,
                           (size_t)n_columns);
  }
}

static void multiply_gated_panels(void *context, int thread, int64_t begin, int64_t end)
{
  const forward_context *c = context;
  const yk_cpu_part *parts = c->linear->parts;
  float *gate = c->cpu->scratch[thread].acc[0], *up = c->cpu->scratch[thread].acc[1];
  for (int64_t first = begin, block_end; first < end; first = block_end) {
    block_end = yk_min_i64(first + BLOCK_PANELS, end);
    multiply_block(c, thread, &parts[0], first, block_end, gate);
    multiply_block(c, thread, &parts[1], first, block_end, up);
    c->cpu->simd->activate(&c->linear->activation, gate, up, (size_t)c->n_rows * YK_CPU_BLOCK_COLUMNS);
    store_block(c, &parts[0], first, block_end, gate);
  }
}

static void multiply_panels(void *context, int thread, int64_t begin, int64_t end)
{
  const forward_context *c = context;
  float *acc = c->cpu->scratch[thread].acc[0];
  int64_t part_first = 0; /* index of the part's first panel among all panels */
  for (int p = 0; p < c->linear->n_parts; p++) {
    const yk_cpu_part *part = &c->linear->parts[p];
    int64_t part_end = yk_min_i64(end - part_first, part->n_panels);
    for (int64_t first = yk_max_i64(begin - part_first, 0), block_end; first < part_end; first = block_end) {
      block_end = yk_min_i64(first + BLOCK_PANELS, part_end);
      multiply_block(c, thread, part, first, block_end, acc);
      if (c->linear->activation.kind != YK_ACTIVATION_NONE)
        c->cpu->simd->activate(&c->linear->activation, acc, NULL, (size_t)c->n_rows * YK_CPU_BLOCK_COLUMNS);
      store_block(c, part, first, block_end, acc);
    }
    part_first += part->n_panels;
  }
}

/* Panels of a layer of one part, as integer sums. */
static void sum_panels(void *context, int thread, int64_t begin, int64_t end)
{
  const forward_context *c = context;
  const yk_cpu_part *part = &c->linear->parts[0];
  const yk_cpu_rows rows = rows_for(c, thread, part);
  int32_t sums[YK_CPU_ROW_BLOCK * YK_CPU_PANEL] = {0};
  for (int64_t i = begin; i < end; i++) {
    int64_t first = i * YK_CPU_PANEL, n_columns = yk_min_i64(YK_CPU_PANEL, part->n - first);
    if (part->k > 0) part->format->sum_panel(&rows, part, c->matrix + part->weights, i, sums);
    for (int row = 0; row < c->n_rows; row++)
      memcpy(c->sums->sums + (c->first_row + row) * part->n + first, sums + row * YK_CPU_PANEL, (size_t)n_columns * 4);
  }
}

static int64_t min_projected_rows(const yk_linear *linear)
{
  return yk_ceil_div_i64(MIN_THREAD_MULTIPLY_ADDS, yk_max_i64(linear->x_size * yk_cpu_adapters_row_floats(linear), 1));
}

static void forward_rows(forward_context *c)
{
  const yk_linear *linear = c->linear;
  bool is_gated = linear->activation.is_gated;
  int64_t n_panels = 0;
  for (int i = 0; i < (is_gated ? 1 : linear->n_parts); i++) n_panels += linear->parts[i].n_panels;
  if (n_panels == 0) return;
  yk_cpu_pool_run(c->cpu->pool, c->n_rows, yk_ceil_div_i64(YK_CPU_MIN_THREAD_INPUTS, yk_max_i64(linear->x_size, 1)),
                  convert_rows, c);
  if (c->args->adapters) yk_cpu_pool_run(c->cpu->pool, c->n_rows, min_projected_rows(linear), project_rows, c);
  int64_t panel_multiply_adds = yk_max_i64(linear->x_size, 1) * YK_CPU_PANEL * c->n_rows * (is_gated ? 2 : 1);
  yk_cpu_task multiply = is_gated ? multiply_gated_panels : multiply_panels;
  yk_cpu_pool_run(c->cpu->pool, n_panels, yk_ceil_div_i64(MIN_THREAD_MULTIPLY_ADDS, panel_multiply_adds),
                  c->sums ? sum_panels : multiply, c);
}

/* Blocks have nearly equal sizes: a small last block would unpack as many weights as a large block. */
static void forward_blocks(forward_context *c, int64_t first, int64_t end)
{
  int64_t n = end - first, n_blocks = yk_ceil_div_i64(n, c->linear->row_block);
  for (int64_t i = 0; i < n_blocks; i++) {
    c->first_row = first + n * i / n_blocks;
    c->n_rows = (int)(first + n * (i + 1) / n_blocks - c->first_row);
    forward_rows(c);
  }
}

yk_status yk_cpu_linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  YK_TRY(yk_linear_check_args(args, linear->max_tokens, linear->n_matrices, err));
  if (linear->slices) return yk_cpu_slices_forward(dev, linear->slices, args, err);
  forward_context context = {.cpu = yk_cpu_device_of(dev),
                             .linear = linear,
                             .args = args,
                             .matrix = linear->memory + args->matrix * linear->matrix_bytes};
  forward_blocks(&context, 0, args->n_tokens);
  return YK_OK;
}

/* Matrix by matrix: the weights of each are read once per block of its rows. */
yk_status yk_cpu_grouped_forward(yk_device *dev, const yk_linear *linear, const yk_grouped_args *args, yk_err *err)
{
  YK_TRY(yk_grouped_check(args, linear->is_grouped, linear->max_tokens, err));
  const yk_linear_args rows = {.x = args->x, .y = args->y, .y_stride = args->y_stride};
  for (int32_t m = 0; m < linear->n_matrices; m++) {
    forward_context context = {.cpu = yk_cpu_device_of(dev),
                               .linear = linear,
                               .args = &rows,
                               .matrix = linear->memory + m * linear->matrix_bytes,
                               .maxima = args->maxima,
                               .row_of_slot = args->row_of_slot};
    forward_blocks(&context, args->starts[m], args->starts[m + 1]);
  }
  return YK_OK;
}

/* The second step of a layer with integer sums; the others are in sums.c. */
yk_status yk_cpu_linear_sums(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  const yk_linear_args rows = {.x = args->x, .n_tokens = args->n_tokens};
  YK_TRY(yk_linear_check_args(&rows, linear->max_tokens, linear->n_matrices, err));
  forward_context context = {.cpu = yk_cpu_device_of(dev),
                             .linear = linear,
                             .args = &rows,
                             .sums = args,
                             .maxima = args->maxima,
                             .matrix = linear->memory};
  forward_blocks(&context, 0, args->n_tokens);
  return YK_OK;
}
