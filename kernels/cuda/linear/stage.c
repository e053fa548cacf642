#include "kernels/cuda/linear/stage.h"

#include "base/checked.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/staging.h"
#include "kernels/cuda/layout/layout.h"

yk_status yk_cuda_stage_rows(yk_cuda_device *cuda, const yk_linear_part *part, yk_gemm_rows *rows, yk_err *err)
{
  const yk_weight_view *w = &part->weight;
  int64_t k = yk_range_size(part->k), n = yk_range_size(part->n), all_groups = yk_ceil_div_i64(w->k, w->group);
  int64_t first_group = part->k.begin / w->group, n_groups = yk_ceil_div_i64(part->k.end, w->group) - first_group;
  size_t scale_bytes = (size_t)n_groups * sizeof(float), scale_stride = (size_t)all_groups * sizeof(float);
  int64_t scales_at = yk_round_up_i64(n * k, YK_DEVICE_ALIGNMENT_BYTES);
  int64_t zeros_at = yk_round_up_i64(scales_at + n * (int64_t)scale_bytes, YK_DEVICE_ALIGNMENT_BYTES);
  int64_t first_scale = (part->n.begin * all_groups + first_group) * (int64_t)sizeof(float);
  YK_TRY(yk_cuda_grow(cuda, &cuda->landing, (size_t)zeros_at + (w->has_zeros ? (size_t)n * scale_bytes : 0), err));
  char *to = cuda->landing.ptr;
  *rows = (yk_gemm_rows){.bytes = cuda->landing.ptr,
                         .scales = (const float *)(const void *)(to + scales_at),
                         .zeros = w->has_zeros ? (const float *)(const void *)(to + zeros_at) : NULL,
                         .row_bytes = k,
                         .n_groups = n_groups,
                         .group = w->group,
                         .k_phase = part->k.begin % w->group};
  YK_TRY(yk_cuda_upload_rows(cuda, to, (const char *)w->qweight + part->n.begin * w->k + part->k.begin, (size_t)k,
                             (size_t)w->k, (size_t)n, err));
  YK_TRY(yk_cuda_upload_rows(cuda, to + scales_at, (const char *)w->scales + first_scale, scale_bytes, scale_stride,
                             (size_t)n, err));
  if (!w->has_zeros) return YK_OK;
  return yk_cuda_upload_rows(cuda, to + zeros_at, (const char *)w->qzeros + first_scale, scale_bytes, scale_stride,
                             (size_t)n, err);
}

yk_status yk_cuda_stage_order(yk_cuda_device *cuda, const yk_linear_part *part, const int32_t **order, yk_err *err)
{
  size_t bytes = (size_t)yk_range_size(part->k) * sizeof(int32_t);
  *order = NULL;
  if (part->x_size == 0) return YK_OK;
  YK_TRY(yk_cuda_grow(cuda, &cuda->landing_order, bytes, err));
  *order = cuda->landing_order.ptr;
  return yk_cuda_upload(&cuda->base, cuda->landing_order.ptr, part->x_order, bytes, err);
}
