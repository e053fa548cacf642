#include "kernels/cuda/quantize/quantize.h"

#include <inttypes.h>

#include "base/checked.h"
#include "kernels/cuda/blas/blas.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/quantize/awq_quantize.h"
#include "kernels/cuda/quantize/awq_search.h"

/* Resets found: nothing bad, no loss. */
static yk_status clear_found(yk_cuda_device *cuda, yk_awq_found *found, yk_err *err)
{
  YK_TRY(yk_cuda_enter(cuda, err));
  cudaError_t error = cudaMemsetAsync(&found->first_bad, 0xFF, sizeof found->first_bad, cuda->stream);
  if (error == cudaSuccess) error = cudaMemsetAsync(&found->loss, 0, sizeof found->loss, cuda->stream);
  return yk_cuda_check(cuda, error, "quantise", err);
}

yk_status yk_cuda_awq_quantize(yk_device *dev, const yk_awq_quantize_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (!yk_cuda_awq_takes(&args->weight))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "GPU %d: quantise: expected groups of 32, 64, 128 or all %" PRId64 " inputs, found %" PRId64,
                      cuda->ordinal, args->weight.k, args->weight.group);
  YK_TRY(clear_found(cuda, args->found, err));
  return yk_cuda_check(cuda, yk_cuda_launch_awq_quantize(args, cuda->stream), "quantise", err);
}

yk_status yk_cuda_awq_observe(yk_device *dev, const yk_awq_observe_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_awq_observe(dev->dtype, args, cuda->stream), "observe", err);
}

/* A slice of a weight's outputs from `first` on, as many as are searched at once. */
static yk_awq_floats slice_of(const yk_awq_floats *weight, int64_t first)
{
  yk_awq_floats slice = *weight;
  slice.n = yk_min_i64(YK_AWQ_SLICE_OUTPUTS, weight->n - first);
  slice.w = (const char *)weight->w + first * weight->k * (int64_t)yk_dtype_bytes(weight->dtype);
  if (weight->n_scales) slice.n_scales += first;
  if (weight->limits) slice.limits += first * (weight->k / weight->group);
  return slice;
}

/* scratch: errors [slice, k], the resulting changes of outputs [n_rows, slice], partial sums */
static yk_status add_slice_loss(yk_cuda_device *cuda, const yk_awq_loss_args *args, int64_t first, yk_err *err)
{
  const yk_awq_floats slice = slice_of(&args->weight, first);
  float *errors = args->scratch, *y = errors + slice.n * slice.k;
  double *partials = (double *)(void *)(y + yk_round_up_i64(args->n_rows * slice.n, 2));
  YK_TRY(
      yk_cuda_check(cuda, yk_cuda_launch_awq_errors(&slice, first, errors, args->found, cuda->stream), "errors", err));
  const yk_cuda_blas_gemm gemm = {.x = args->rows,
                                  .w = errors,
                                  .y = y,
                                  .m = args->n_rows,
                                  .n = slice.n,
                                  .k = slice.k,
                                  .y_stride = slice.n,
                                  .dtype = YK_F32,
                                  .y_dtype = YK_F32};
  YK_TRY(yk_cuda_blame(cuda, yk_cuda_blas_multiply(cuda->blas, &gemm, err), err));
  return yk_cuda_check(cuda,
                       yk_cuda_launch_awq_add_squares(y, args->n_rows * slice.n, partials, args->found, cuda->stream),
                       "loss", err);
}

yk_status yk_cuda_awq_loss(yk_device *dev, const yk_awq_loss_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(clear_found(cuda, args->found, err));
  for (int64_t first = 0; first < args->weight.n; first += YK_AWQ_SLICE_OUTPUTS)
    YK_TRY(add_slice_loss(cuda, args, first, err));
  return YK_OK;
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

static yk_status find_grams(yk_cuda_device *cuda, const yk_awq_limits_args *args, yk_err *err)
{
  const yk_awq_floats *weight = &args->weight;
  YK_TRY(yk_cuda_check(
      cuda,
      yk_cuda_launch_awq_divide(args->rows, weight->k_scales, args->n_rows, weight->k, args->scratch, cuda->stream),
      "inputs", err));
  const yk_cuda_blas_grams grams = {.x = args->scratch,
                                    .grams = args->grams,
                                    .n_rows = args->n_rows,
                                    .group = weight->group,
                                    .n_groups = weight->k / weight->group};
  return yk_cuda_blame(cuda, yk_cuda_blas_find_grams(cuda->blas, &grams, err), err);
}

/* scratch: changes [slice, k], their products with the inputs' products [slice, k], losses [slice, groups] */
static yk_status find_slice_limits(yk_cuda_device *cuda, const yk_awq_limits_args *args, int64_t first, yk_err *err)
{
  const yk_awq_floats slice = slice_of(&args->weight, first);
  int64_t n_groups = slice.k / slice.group;
  float *changes = args->scratch, *dots = changes + slice.n * slice.k, *losses = dots + slice.n * slice.k;
  float *limits = args->limits + first * n_groups;
  const yk_cuda_blas_groups groups = {
      .x = changes, .grams = args->grams, .y = dots, .n_rows = slice.n, .group = slice.group, .n_groups = n_groups};
  for (int i = 0; i < YK_AWQ_LIMITS; i++) {
    float factor = 1.0f - (float)i / YK_AWQ_GRID;
    cudaError_t error = yk_cuda_launch_awq_changes(&slice, first, factor, changes, args->found, cuda->stream);
    YK_TRY(yk_cuda_check(cuda, error, "changes", err));
    YK_TRY(yk_cuda_blame(cuda, yk_cuda_blas_multiply_groups(cuda->blas, &groups, err), err));
    error = yk_cuda_launch_awq_take_better(&slice, factor, i == 0, changes, dots, losses, limits, cuda->stream);
    YK_TRY(yk_cuda_check(cuda, error, "limits", err));
  }
  return YK_OK;
}

yk_status yk_cuda_awq_limits(yk_device *dev, const yk_awq_limits_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(clear_found(cuda, args->found, err));
  YK_TRY(find_grams(cuda, args, err));
  for (int64_t first = 0; first < args->weight.n; first += YK_AWQ_SLICE_OUTPUTS)
    YK_TRY(find_slice_limits(cuda, args, first, err));
  return YK_OK;
}
