#include "kernels/cpu/linear/slices.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { BLOCK_ROWS = 64 }; /* rows whose sums are in memory at a time */

struct yk_cpu_slices {
  int n;
  yk_linear *of[YK_MOST_K_SLICES];
  int64_t k, n_columns; /* inputs of a slice; columns of all parts */
  yk_activation activation;
  bool f32_output;
  float *bias; /* [n_columns], zeros for parts without one */
};

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

yk_linear_spec yk_cpu_slice_of(const yk_linear_spec *spec, int i)
{
  yk_linear_spec slice = {
      .n_parts = spec->n_parts, .n_matrices = 1, .f32_output = true, .max_tokens = BLOCK_ROWS, .k_slices = 1};
  for (int p = 0; p < spec->n_parts; p++) {
    yk_linear_part *part = &slice.parts[p];
    const int64_t k = yk_range_size(spec->parts[p].k) / spec->k_slices;
    *part = spec->parts[p];
    part->k.begin += i * k;
    part->k.end = part->k.begin + k;
    part->group_local = greatest_common_divisor(part->group_local, k);
    part->use_bias = part->is_resident = false;
    part->resident = NULL;
  }
  return slice;
}

static yk_status load_bias(const yk_linear_spec *spec, yk_cpu_slices *s, yk_err *err)
{
  int64_t at = 0;
  s->bias = calloc((size_t)s->n_columns + 1, sizeof *s->bias);
  if (!s->bias) return yk_err_set(err, YK_E_NOMEM, "no memory for %lld biases", (long long)s->n_columns);
  for (int p = 0; p < spec->n_parts; p++) {
    const yk_linear_part *part = &spec->parts[p];
    const size_t bytes = yk_dtype_bytes(part->weight.bias_dtype);
    for (int64_t n = part->n.begin; n < part->n.end; n++, at++) {
      uint32_t element = 0; /* the source may be unaligned */
      if (!part->use_bias) continue;
      memcpy(&element, (const char *)part->weight.bias + (size_t)n * bytes, bytes);
      s->bias[at] = yk_dtype_load(part->weight.bias_dtype, &element, 0);
    }
  }
  return YK_OK;
}

static int64_t columns_of(const yk_linear_spec *spec)
{
  int64_t n = 0;
  for (int p = 0; p < spec->n_parts; p++) n += yk_range_size(spec->parts[p].n);
  return n;
}

int64_t yk_cpu_slices_bytes(const yk_linear_spec *spec)
{
  return columns_of(spec) * (int64_t)sizeof(float);
}

/* Bytes of a block's rows of a slice's inputs, in float32; the sums follow them. */
static int64_t rows_bytes(int64_t k_of_slice)
{
  return yk_round_up_i64(BLOCK_ROWS * k_of_slice * (int64_t)sizeof(float), YK_DEVICE_ALIGNMENT_BYTES);
}

int64_t yk_cpu_linear_shared_bytes(const yk_linear_spec *spec)
{
  if (!yk_cpu_slices_are_of(spec)) return 0;
  return rows_bytes(yk_range_size(spec->parts[0].k) / spec->k_slices) +
         spec->k_slices * BLOCK_ROWS * columns_of(spec) * (int64_t)sizeof(float);
}

yk_status yk_cpu_slices_create(yk_device *dev, const yk_linear_spec *spec, yk_cpu_slices **out, yk_err *err)
{
  yk_cpu_slices *s = *out = calloc(1, sizeof *s);
  if (!s) return yk_err_set(err, YK_E_NOMEM, "no memory for the slices of a linear layer");
  s->n = spec->k_slices;
  s->k = yk_range_size(spec->parts[0].k) / s->n;
  s->n_columns = columns_of(spec);
  s->activation = spec->activation;
  s->f32_output = spec->f32_output;
  YK_TRY(load_bias(spec, s, err));
  for (int i = 0; i < s->n; i++) {
    const yk_linear_spec slice = yk_cpu_slice_of(spec, i);
    YK_TRY(dev->ops->linear_create(dev, &slice, &s->of[i], err));
  }
  return YK_OK;
}

void yk_cpu_slices_destroy(yk_device *dev, yk_cpu_slices *s)
{
  if (!s) return;
  for (int i = 0; i < s->n; i++) dev->ops->linear_destroy(dev, s->of[i]);
  free(s->bias);
  free(s);
}

/* Sums [n, BLOCK_ROWS, n_columns], after the inputs in the memory that all layers share. */
static float *sums_of(const yk_cpu_device *cpu, const yk_cpu_slices *s, int slice, int64_t row)
{
  float *sums = (float *)(void *)((char *)cpu->slices + rows_bytes(s->k));
  return sums + (slice * BLOCK_ROWS + row) * s->n_columns;
}

static yk_status multiply_slice(yk_device *dev, const yk_cpu_slices *s, int slice, const yk_linear_args *rows,
                                yk_err *err)
{
  const yk_cpu_device *cpu = yk_cpu_device_of(dev);
  const size_t row_bytes = (size_t)s->k * yk_dtype_bytes(dev->dtype);
  char *x = cpu->slices; /* act [BLOCK_ROWS, k] */
  const yk_linear_args args = {
      .x = x, .y = sums_of(cpu, s, slice, 0), .n_tokens = rows->n_tokens, .y_stride = s->n_columns};
  for (int32_t row = 0; row < rows->n_tokens; row++)
    memcpy(x + (size_t)row * row_bytes, yk_cpu_at(dev->dtype, rows->x, (row * s->n + slice) * s->k), row_bytes);
  return dev->ops->linear_forward(dev, s->of[slice], &args, err);
}

/* The rows of a block that the tree and the epilogue complete. */
typedef struct slices_rows {
  yk_cpu_device *cpu;
  const yk_cpu_slices *slices;
  const yk_linear_args *args;
} slices_rows;

static void finish_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const slices_rows *c = context;
  const yk_cpu_slices *s = c->slices;
  const yk_dtype dtype = s->f32_output ? YK_F32 : c->cpu->base.dtype;
  (void)thread;
  for (int64_t row = begin; row < end; row++) {
    float *sum = sums_of(c->cpu, s, 0, row);
    for (int step = 1; step < s->n; step *= 2)
      for (int i = 0; i < s->n; i += 2 * step) {
        float *to = sums_of(c->cpu, s, i, row);
        const float *from = sums_of(c->cpu, s, i + step, row);
        for (int64_t n = 0; n < s->n_columns; n++) to[n] += from[n];
      }
    for (int64_t n = 0; n < s->n_columns; n++) sum[n] += s->bias[n];
    const int64_t n_columns = s->activation.is_gated ? s->n_columns / 2 : s->n_columns;
    float *up = s->activation.is_gated ? sum + n_columns : NULL;
    if (s->activation.kind != YK_ACTIVATION_NONE) c->cpu->simd->activate(&s->activation, sum, up, (size_t)n_columns);
    c->cpu->simd->from_f32(yk_cpu_at(dtype, c->args->y, row * c->args->y_stride), dtype, sum, (size_t)n_columns);
  }
}

yk_status yk_cpu_slices_forward(yk_device *dev, const yk_cpu_slices *s, const yk_linear_args *args, yk_err *err)
{
  const int64_t y_bytes = (int64_t)yk_dtype_bytes(s->f32_output ? YK_F32 : dev->dtype);
  for (int32_t first = 0; first < args->n_tokens; first += BLOCK_ROWS) {
    const yk_linear_args rows = {.x = yk_cpu_at(dev->dtype, args->x, first * s->k * s->n),
                                 .y = (char *)args->y + first * args->y_stride * y_bytes,
                                 .n_tokens = (int32_t)yk_min_i64(BLOCK_ROWS, args->n_tokens - first),
                                 .y_stride = args->y_stride};
    for (int i = 0; i < s->n; i++) YK_TRY(multiply_slice(dev, s, i, &rows, err));
    slices_rows context = {yk_cpu_device_of(dev), s, &rows};
    yk_cpu_pool_run(context.cpu->pool, rows.n_tokens, 1, finish_rows, &context);
  }
  return YK_OK;
}
