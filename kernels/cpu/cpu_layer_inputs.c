/* cpu_layer_inputs.c - the operations layer_inputs and multiply (kernels/device.h). */
#include <math.h>

#include "kernels/cpu/cpu_rows.h"

enum { MIN_ROWS = 4 };

typedef struct inputs_context {
  const yk_cpu_device *cpu;
  const yk_layer_inputs_args *args;
} inputs_context;

/* The embedding of one row for one layer. */
static void input_of(const inputs_context *c, int64_t row, int32_t layer)
{
  const yk_layer_inputs_args *a = c->args;
  const yk_dtype dtype = c->cpu->base.dtype;
  const int64_t from = (row * a->n_layers + layer) * a->size, to = (row * a->n_layers + layer) * a->width;
  const int64_t embedded = ((int64_t)a->token_ids[row] * a->n_layers + layer) * a->width;
  double squares = 0;
  for (int32_t i = 0; i < a->size; i++) {
    const double x = (double)(a->projected_scale * yk_dtype_load(dtype, a->projected, (size_t)(from + i)));
    squares += x * x;
  }
  const float factor = a->projected_scale / sqrtf((float)(squares / a->size) + a->eps);
  for (int32_t i = 0; i < a->width; i++) {
    const size_t element = (size_t)(a->first + i);
    const float projected =
        factor * yk_dtype_load(dtype, a->projected, (size_t)from + element) * yk_dtype_load(dtype, a->norm_w, element);
    const float embedding = a->embed_scale * yk_dtype_load(dtype, a->table, (size_t)(embedded + i));
    yk_dtype_store(dtype, a->y, (size_t)(to + i), (projected + embedding) * (float)M_SQRT1_2);
  }
}

static void input_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const inputs_context *c = context;
  (void)thread;
  for (int64_t row = begin; row < end; row++)
    for (int32_t layer = 0; layer < c->args->n_layers; layer++) input_of(c, row, layer);
}

yk_status yk_cpu_layer_inputs(yk_device *dev, const yk_layer_inputs_args *args, yk_err *err)
{
  inputs_context context = {yk_cpu_device_of(dev), args};
  (void)err;
  yk_cpu_pool_run(context.cpu->pool, args->n_tokens, 1, input_rows, &context);
  return YK_OK;
}

typedef struct multiply_context {
  yk_dtype dtype;
  const yk_multiply_args *args;
} multiply_context;

static void multiply_rows(void *context, int thread, int64_t begin, int64_t end)
{
  const multiply_context *c = context;
  const yk_multiply_args *a = c->args;
  (void)thread;
  for (int64_t row = begin; row < end; row++)
    for (int32_t i = 0; i < a->width; i++) {
      const size_t at = (size_t)(row * a->width + i);
      const float factor = yk_dtype_load(c->dtype, a->factors, (size_t)(row * a->stride + i));
      yk_dtype_store(c->dtype, a->x, at, yk_dtype_load(c->dtype, a->x, at) * factor);
    }
}

yk_status yk_cpu_multiply(yk_device *dev, const yk_multiply_args *args, yk_err *err)
{
  multiply_context context = {dev->dtype, args};
  (void)err;
  yk_cpu_pool_run(yk_cpu_device_of(dev)->pool, args->n_rows, MIN_ROWS, multiply_rows, &context);
  return YK_OK;
}
