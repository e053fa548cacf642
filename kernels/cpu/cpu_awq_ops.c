/* cpu_awq_ops.c - quantising as operations of the CPU device: see kernels/awq_quantize.h. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_awq.h"
#include "kernels/cpu/cpu_device.h"

yk_status yk_cpu_awq_quantize(yk_device *dev, const yk_awq_quantize_args *args, yk_err *err)
{
  (void)err;
  args->found->first_bad = yk_awq_quantize(yk_cpu_device_of(dev)->pool, &args->weight, &args->out);
  return YK_OK;
}

/* ---- Observing --------------------------------------------------------------------------------------------------- */

typedef struct observe_task {
  const yk_awq_observe_args *args;
  yk_dtype dtype;
} observe_task;

static void observe_columns(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const observe_task *task = context;
  const yk_awq_observe_args *a = task->args;
  for (int32_t i = 0; i < a->n_tokens; i++) {
    int64_t token = a->first_token + i, row = token * a->n_kept / a->n_text;
    float *kept = yk_awq_is_kept(token, a->n_text, a->n_kept) ? a->kept + row * a->k : NULL;
    for (int64_t j = begin; j < end; j++) {
      float x = yk_dtype_load(task->dtype, a->x, (size_t)(i * a->x_stride + j));
      a->sums[j] += fabs((double)x);
      if (kept) kept[j] = x;
    }
  }
}

yk_status yk_cpu_awq_observe(yk_device *dev, const yk_awq_observe_args *args, yk_err *err)
{
  (void)err;
  observe_task task = {args, dev->dtype};
  yk_cpu_pool_run(yk_cpu_device_of(dev)->pool, args->k, 256, observe_columns, &task);
  return YK_OK;
}

/* ---- Searching --------------------------------------------------------------------------------------------------- */

/* y [n_rows, slice's outputs] = rows errors^T, computed as a linear layer of plain weights. */
static yk_status multiply(yk_device *dev, const yk_awq_loss_args *args, int64_t n, const float *errors, float *y,
                          yk_err *err)
{
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = args->n_rows};
  spec.parts[0] = (yk_linear_part){
      .weight = {.format = YK_WEIGHT_PLAIN, .k = args->weight.k, .n = n, .dtype = YK_F32, .plain = errors},
      .k = {0, args->weight.k},
      .n = {0, n}};
  yk_linear_args forward = {.x = args->rows, .y = y, .n_tokens = args->n_rows, .y_stride = n};
  yk_linear *linear;
  YK_TRY(yk_cpu_linear_create(dev, &spec, &linear, err));
  yk_status status = yk_cpu_linear_forward(dev, linear, &forward, err);
  yk_cpu_linear_destroy(dev, linear);
  return status;
}

yk_status yk_cpu_awq_loss(yk_device *dev, const yk_awq_loss_args *args, yk_err *err)
{
  const yk_awq_floats *weight = &args->weight;
  *args->found = (yk_awq_found){.first_bad = -1};
  if (dev->dtype != YK_F32)
    return yk_err_set(err, YK_E_UNSUPPORTED, "cpu device: awq_loss: expected float32 activations, found %s",
                      yk_dtype_name(dev->dtype));
  for (int64_t row = 0; row < weight->n; row += YK_AWQ_SLICE_OUTPUTS) {
    yk_awq_floats slice = *weight;
    slice.n = yk_min_i64(YK_AWQ_SLICE_OUTPUTS, weight->n - row);
    slice.w = (const char *)weight->w + row * weight->k * (int64_t)yk_dtype_bytes(weight->dtype);
    if (weight->n_scales) slice.n_scales += row;
    if (weight->limits) slice.limits += row * (weight->k / weight->group);
    float *errors = args->scratch, *y = errors + slice.n * slice.k;
    int64_t bad = yk_awq_errors(yk_cpu_device_of(dev)->pool, &slice, errors);
    if (bad >= 0) {
      args->found->first_bad = row * (weight->k / weight->group) + bad;
      return YK_OK;
    }
    YK_TRY(multiply(dev, args, slice.n, errors, y, err));
    for (int64_t i = 0; i < args->n_rows * slice.n; i++) args->found->loss += (double)y[i] * (double)y[i];
  }
  return YK_OK;
}

yk_status yk_cpu_awq_limits(yk_device *dev, const yk_awq_limits_args *args, yk_err *err)
{
  (void)err;
  yk_cpu_pool *pool = yk_cpu_device_of(dev)->pool;
  const yk_awq_floats *weight = &args->weight;
  yk_awq_grams(pool, args->rows, args->n_rows, weight->k, weight->group, weight->k_scales, args->grams);
  args->found->first_bad = yk_awq_find_limits(pool, weight, args->grams, args->limits);
  return YK_OK;
}
