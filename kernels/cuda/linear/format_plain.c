/* format_plain.c - plain weights on a GPU: act [n, k], multiplied by cuBLAS, or by the kernel of few outputs. A single
 * part that the device already holds (an embedding that is also lm_head) is multiplied in place. */
#include "base/checked.h"
#include "kernels/cuda/layout/format.h"

/* ---- Arithmetic, on any machine ---------------------------------------------------------------------------------- */

static int64_t weight_bytes(const yk_cuda_gemm *gemm)
{
  return gemm->n * gemm->k * 2;
}

/* Whether the layer is one plain slice over all of k whose rows the device holds. */
static bool uses_resident(const yk_linear_spec *spec)
{
  const yk_linear_part *part = &spec->parts[0];
  return spec->n_parts == 1 && spec->n_matrices == 1 && part->is_resident && part->x_size == 0 &&
         part->weight.format == YK_WEIGHT_PLAIN && yk_range_size(part->k) == part->weight.k;
}

#ifdef YOKE_HAVE_CUDA
#include "kernels/cuda/blas/blas.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/staging.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/gemm/dense/few_outputs.h"
#include "kernels/cuda/gemm/dense/sliced_plain.h"
#include "kernels/cuda/gemm/grouped/grouped.h"
#include "kernels/cuda/linear/convert.h"

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

enum { CONVERT_BYTES = 16 << 20 /* bytes of a weight per conversion step */ };

static yk_status load_converted(yk_cuda_device *cuda, char *to, const char *from, const yk_linear_part *part,
                                yk_err *err)
{
  int64_t k = yk_range_size(part->k), n = yk_range_size(part->n), bytes = (int64_t)yk_dtype_bytes(part->weight.dtype);
  int64_t block = yk_min_i64(n, yk_max_i64(1, CONVERT_BYTES / (k * bytes)));
  YK_TRY(yk_cuda_grow(cuda, &cuda->landing, (size_t)(block * k * bytes), err));
  for (int64_t row = 0; row < n; row += block) {
    int64_t n_rows = yk_min_i64(block, n - row);
    YK_TRY(yk_cuda_upload_rows(cuda, cuda->landing.ptr, from + row * part->weight.k * bytes, (size_t)(k * bytes),
                               (size_t)(part->weight.k * bytes), (size_t)n_rows, err));
    YK_TRY(yk_cuda_check(cuda,
                         yk_cuda_launch_convert(cuda->base.dtype, to + row * k * 2, part->weight.dtype,
                                                cuda->landing.ptr, n_rows * k, cuda->stream),
                         "conversion of weights", err));
  }
  return YK_OK;
}

static yk_status load(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights, const yk_linear_part *part,
                      int64_t first_column, yk_err *err)
{
  const yk_weight_view *w = &part->weight;
  int64_t bytes = (int64_t)yk_dtype_bytes(w->dtype);
  char *to = (char *)weights + first_column * gemm->k * 2;
  const char *from = (const char *)w->plain + (part->n.begin * w->k + part->k.begin) * bytes;
  if (w->dtype != gemm->dtype) return load_converted(cuda, to, from, part, err);
  return yk_cuda_upload_rows(cuda, to, from, (size_t)(yk_range_size(part->k) * bytes), (size_t)(w->k * bytes),
                             (size_t)yk_range_size(part->n), err);
}

/* ---- The 16-bit GEMM --------------------------------------------------------------------------------------------- */

/* cuBLAS writes y with any stride and in either type, but neither adds a bias nor applies an activation. */
static bool writes_in_place(const yk_cuda_gemm *gemm, const void *y, int64_t y_stride)
{
  (void)y, (void)y_stride;
  return !gemm->has_bias && gemm->activation.kind == YK_ACTIVATION_NONE;
}

static yk_status forward(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, yk_err *err)
{
  const yk_cuda_gemm *gemm = call->gemm;
  size_t y_bytes = yk_dtype_bytes(call->y_dtype);
  if (gemm->k == 0)
    return yk_cuda_check(cuda,
                         cudaMemset2DAsync(call->y, (size_t)call->y_stride * y_bytes, 0, (size_t)gemm->n * y_bytes,
                                           (size_t)call->n_rows, cuda->stream),
                         "zeroing the result of a GEMM", err);
  const yk_plain_gemm plain = {.x = call->x,
                               .w = call->weights,
                               .y = call->y,
                               .m = call->n_rows,
                               .n = gemm->n,
                               .k = gemm->k,
                               .y_stride = call->y_stride,
                               .dtype = gemm->dtype,
                               .y_dtype = call->y_dtype};
  if (gemm->k_slices > 0)
    return yk_cuda_check(cuda, yk_sliced_plain_launch(&cuda->wna16, &plain, gemm->k_slices, cuda->stream),
                         "GEMM of slices of K", err);
  if (yk_few_outputs_takes(&plain))
    return yk_cuda_check(cuda, yk_few_outputs_launch(&plain, cuda->stream), "GEMM of few outputs", err);
  yk_cuda_blas_gemm blas = {.x = call->x,
                            .w = call->weights,
                            .y = call->y,
                            .m = call->n_rows,
                            .n = gemm->n,
                            .k = gemm->k,
                            .y_stride = call->y_stride,
                            .dtype = gemm->dtype,
                            .y_dtype = call->y_dtype};
  return yk_cuda_blame(cuda, yk_cuda_blas_multiply(cuda->blas, &blas, err), err);
}

static yk_status forward_grouped(yk_cuda_device *cuda, const yk_cuda_grouped_call *call, yk_err *err)
{
  const yk_gemm_desc desc = {.k = call->gemm->k,
                             .n = call->gemm->n,
                             .group = call->gemm->k,
                             .dtype = call->gemm->dtype,
                             .activation = yk_cuda_gemm_activation(call->gemm)};
  const yk_grouped_call grouped = {.weights = call->weights,
                                   .bias = call->bias,
                                   .bias_dtype = YK_F32,
                                   .matrix_bytes = call->matrix_bytes,
                                   .n_matrices = call->n_matrices,
                                   .n_rows = call->args->n_rows,
                                   .x = call->args->x,
                                   .row_of_slot = call->args->row_of_slot,
                                   .starts = call->args->starts,
                                   .max_slots = call->args->max_slots,
                                   .y = call->args->y};
  return yk_cuda_blame(cuda, yk_16_bits_grouped_forward(&desc, &grouped, cuda->stream, err), err);
}
#endif

/* ---- The row ----------------------------------------------------------------------------------------------------- */

const yk_cuda_gemm_kind yk_cuda_gemm_16_bits = {
    .name = "16 bits",
    .takes_slices = true,
    .weight_bytes = weight_bytes,
    .uses_resident = uses_resident,
#ifdef YOKE_HAVE_CUDA
    .writes_in_place = writes_in_place,
    .forward = forward,
    .forward_grouped = forward_grouped,
#endif
};

const yk_cuda_format yk_cuda_format_plain = {
    .name = "plain",
    .weight_format = YK_WEIGHT_PLAIN,
    .rounds = true,
    .gemm = &yk_cuda_gemm_16_bits,
#ifdef YOKE_HAVE_CUDA
    .load = load,
#endif
};
