/* sums.c - the first and the last step of a layer of one part whose integer sums ranks add (yk_linear_sums_args); the
 * second step, a multiplication, is in multiply.c. */
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/linear/adapters.h"
#include "kernels/cpu/linear/prepared.h"

typedef struct sums_context {
  yk_cpu_device *cpu;
  const yk_linear *linear;
  const yk_linear_sums_args *args;
} sums_context;

static void find_maxima(void *context, int thread, int64_t begin, int64_t end)
{
  const sums_context *c = context;
  int64_t k = c->linear->x_size;
  yk_dtype dtype = c->cpu->base.dtype;
  float *chunk = c->cpu->scratch[thread].acc[0];
  for (int64_t row = begin; row < end; row++) {
    int32_t largest = 0;
    for (int64_t done = 0, n; done < k; done += n) {
      n = yk_min_i64(k - done, YK_CPU_ROW_BLOCK * YK_CPU_BLOCK_COLUMNS);
      c->cpu->simd->to_f32(chunk, dtype, yk_cpu_at(dtype, c->args->x, row * k + done), (size_t)n);
      int32_t of_chunk = yk_cpu_largest(chunk, n);
      largest = of_chunk > largest ? of_chunk : largest;
    }
    c->args->maxima[row] = largest;
  }
}

static void scale_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const sums_context *c = context;
  const yk_cpu_part *part = &c->linear->parts[0];
  const float *bias = (const float *)(const void *)(c->linear->memory + part->bias);
  yk_dtype dtype = c->cpu->base.dtype;
  float *y = c->cpu->scratch[thread].acc[0];
  for (int64_t row = begin; row < end; row++)
    for (int64_t first = 0, n; first < part->n; first += n) {
      n = yk_min_i64(part->n - first, YK_CPU_ROW_BLOCK * YK_CPU_BLOCK_COLUMNS);
      part->format->scale_sums(part, c->linear->memory + part->weights, c->args->sums + row * part->n + first,
                               c->args->maxima[row], first, n, y);
      for (int64_t i = 0; part->has_bias && i < n; i++) y[i] += bias[first + i];
      c->cpu->simd->from_f32(yk_cpu_at(dtype, c->args->y, row * part->n + first), dtype, y, (size_t)n);
    }
}

/* Adds the product of the row's adapter to the row's finished result. */
static void adapt_row(const sums_context *c, int64_t row)
{
  const yk_linear *linear = c->linear;
  const int32_t adapter = c->args->adapters[row];
  const int64_t n = linear->parts[0].n;
  yk_dtype dtype = c->cpu->base.dtype;
  float *x = c->cpu->x_f32, *product = c->cpu->x_adapted, *y = c->cpu->scratch[0].acc[0];
  if (adapter == 0) return;
  c->cpu->simd->to_f32(x, dtype, yk_cpu_at(dtype, c->args->x, row * linear->x_size), (size_t)linear->x_size);
  yk_cpu_adapters_project(c->cpu, linear, adapter, x, product);
  for (int64_t first = 0; first < linear->parts[0].n_panels; first++) {
    void *to = yk_cpu_at(dtype, c->args->y, row * n + first * YK_CPU_PANEL);
    size_t n_columns = (size_t)yk_min_i64(YK_CPU_PANEL, n - first * YK_CPU_PANEL);
    c->cpu->simd->to_f32(y, dtype, to, n_columns);
    yk_cpu_adapters_add(c->cpu, linear, 0, adapter, product, first, first + 1, y);
    c->cpu->simd->from_f32(to, dtype, y, n_columns);
  }
}

static int64_t min_rows(int64_t elements)
{
  return yk_ceil_div_i64(YK_CPU_MIN_THREAD_INPUTS, yk_max_i64(elements, 1));
}

yk_status yk_cpu_linear_maxima(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  (void)err;
  sums_context context = {yk_cpu_device_of(dev), linear, args};
  if (!linear) {
    memset(args->maxima, 0, (size_t)args->n_tokens * sizeof *args->maxima);
    return YK_OK;
  }
  yk_cpu_pool_run(context.cpu->pool, args->n_tokens, min_rows(linear->x_size), find_maxima, &context);
  return YK_OK;
}

yk_status yk_cpu_linear_scale(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  (void)err;
  sums_context context = {yk_cpu_device_of(dev), linear, args};
  int64_t n = linear->parts[0].n;
  if (args->is_zeros)
    memset(args->y, 0, (size_t)(args->n_tokens * n) * yk_dtype_bytes(dev->dtype));
  else
    yk_cpu_pool_run(context.cpu->pool, args->n_tokens, min_rows(n), scale_rows, &context);
  for (int32_t row = 0; args->adapters && row < args->n_tokens; row++) adapt_row(&context, row);
  return YK_OK;
}
