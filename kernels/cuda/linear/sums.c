/* sums.c - the steps of a layer of one part whose integer sums ranks add (yk_linear_sums_args). All steps are
 * asynchronous on the stream, so that decode graphs record them. */
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/linear/adapted.h"
#include "kernels/cuda/linear/linear.h"
#include "kernels/cuda/linear/prepared.h"
#include "kernels/cuda/rows/quantise.h"

/* The layer's one GEMM; NULL if the rank's slice has no outputs, so that there is no work. */
static const yk_cuda_gemm *gemm_of(const yk_linear *linear)
{
  return linear->layout.n_gemms > 0 ? &linear->layout.gemms[0] : NULL;
}

yk_status yk_cuda_linear_maxima(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  if (!linear)
    return yk_cuda_check(cuda,
                         cudaMemsetAsync(args->maxima, 0, (size_t)args->n_tokens * sizeof *args->maxima, cuda->stream),
                         "zeros of largest inputs", err);
  const yk_cuda_gemm *gemm = gemm_of(linear);
  if (!gemm) return YK_OK;
  return yk_cuda_check(cuda,
                       yk_cuda_launch_maxima(dev->dtype, args->maxima, args->x, args->n_tokens, gemm->k, cuda->stream),
                       "largest inputs", err);
}

/* Kinds with sums always write in place: the scratch begins with the quantised rows. */
yk_status yk_cuda_linear_sums(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  const yk_cuda_gemm *gemm = gemm_of(linear);
  YK_TRY(yk_cuda_enter(cuda, err));
  if (!gemm) return YK_OK;
  int64_t n_rows = yk_cuda_block_rows(linear, gemm);
  for (int64_t row = 0; row < args->n_tokens; row += n_rows) {
    yk_cuda_gemm_call call = {.gemm = gemm,
                              .weights = linear->memory + gemm->weights,
                              .quantised = cuda->scratch.ptr,
                              .y_dtype = gemm->dtype,
                              .sums = args->sums + row * gemm->n,
                              .n_rows = yk_min_i64(n_rows, args->n_tokens - row)};
    YK_TRY(gemm->kind->quantise(cuda, gemm, cuda->scratch.ptr, (const char *)args->x + row * gemm->k * 2,
                                args->maxima + row, call.n_rows, err));
    YK_TRY(gemm->kind->forward(cuda, &call, err));
  }
  return YK_OK;
}

static yk_status scale(yk_cuda_device *cuda, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  const yk_cuda_gemm *gemm = gemm_of(linear);
  if (args->is_zeros)
    return yk_cuda_check(
        cuda,
        cudaMemsetAsync(args->y, 0, (size_t)(args->n_tokens * gemm->n) * yk_dtype_bytes(gemm->dtype), cuda->stream),
        "zeros of a layer's result", err);
  const yk_cuda_gemm_call call = {.gemm = gemm,
                                  .weights = linear->memory + gemm->weights,
                                  .bias = gemm->has_bias ? linear->memory + gemm->bias : NULL,
                                  .y = args->y,
                                  .y_dtype = gemm->dtype,
                                  .sums = args->sums,
                                  .n_rows = args->n_tokens};
  return gemm->kind->scale_sums(cuda, &call, args->maxima, err);
}

yk_status yk_cuda_linear_scale(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  const yk_cuda_gemm *gemm = gemm_of(linear);
  YK_TRY(yk_cuda_enter(cuda, err));
  if (!gemm) return YK_OK;
  const yk_cuda_adapted adapted = {
      .linear = linear, .adapters = args->adapters, .n_rows = args->n_tokens, .x = args->x};
  YK_TRY(yk_cuda_adapted_begin(cuda, &adapted, err));
  YK_TRY(scale(cuda, linear, args, err));
  return yk_cuda_adapted_add(cuda, &adapted, args->y, gemm->n, err);
}
