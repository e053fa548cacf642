/* format_awq.c - AWQ weights on a GPU: packed for the WNA16 GEMM (gemm/dense/dense.h); or, if that GEMM does not take a
 * slice or as_16_bits is set, each weight rounded to 16 bits for the GEMM of plain weights. */
#include "kernels/cuda/linear/format_awq.h"
#include "base/checked.h"
#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/linear/format_wna16.h"

/* ---- Arithmetic, on any machine ---------------------------------------------------------------------------------- */

static yk_status check(const yk_linear_part *part, int index, yk_err *err)
{
  YK_TRY(yk_linear_check_awq(part, index, err));
  if (part->weight.dtype != YK_F32) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "linear part %d: AWQ scales: expected float16 or bfloat16, found float32",
                    index);
}

/* All inputs of the slice, if one group covers the slice. */
int64_t yk_cuda_awq_packed_group(const yk_linear_part *part)
{
  return yk_min_i64(part->group_local, yk_range_size(part->k));
}

/* The WNA16 GEMM takes slices of whole words (8 columns) and of k a multiple of 32, whose groups are one, or multiples
 * of 32 that divide the checkpoint's; float32 results only of slices of K, and no part with as_16_bits. */
static bool takes_packed(const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  int64_t k = yk_range_size(part->k), n = yk_range_size(part->n);
  if (part->as_16_bits || (spec->f32_output && spec->k_slices == 0) || k == 0 || k % 32 || n % 8) return false;
  int64_t group = yk_cuda_awq_packed_group(part), phase = part->k.begin % part->weight.group;
  return group == k || (group % 32 == 0 && part->weight.group % group == 0 && phase % group == 0);
}

#ifdef YOKE_HAVE_CUDA
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/staging.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/linear/convert.h"
#include "kernels/cuda/linear/stage.h"

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Uploads the tensors of an AWQ slice, cut to the words and groups that the slice overlaps: see stage.h. */
static yk_status stage(yk_cuda_device *cuda, const yk_linear_part *part, yk_gemm_source *source, yk_err *err)
{
  const yk_weight_view *w = &part->weight;
  int64_t first_word = part->n.begin / 8, n_words = yk_ceil_div_i64(part->n.end, 8) - first_word;
  int64_t first_group = part->k.begin / w->group, n_groups = yk_ceil_div_i64(part->k.end, w->group) - first_group;
  int64_t k = yk_range_size(part->k), row_bytes = n_words * 4, stride = w->n / 8 * 4;
  int64_t zeros_at = yk_round_up_i64(k * row_bytes, YK_DEVICE_ALIGNMENT_BYTES);
  int64_t scales_at = yk_round_up_i64(zeros_at + n_groups * row_bytes, YK_DEVICE_ALIGNMENT_BYTES);
  YK_TRY(yk_cuda_grow(cuda, &cuda->landing, (size_t)(scales_at + n_groups * row_bytes * 4), err));
  char *to = cuda->landing.ptr;
  *source = (yk_gemm_source){.qweight = cuda->landing.ptr,
                             .qzeros = (const int32_t *)(const void *)(to + zeros_at),
                             .scales = to + scales_at,
                             .scales_dtype = w->dtype,
                             .words_per_row = n_words,
                             .first_column = part->n.begin % 8,
                             .group = w->group,
                             .k_phase = part->k.begin % w->group};
  YK_TRY(yk_cuda_upload_rows(cuda, to, (const char *)w->qweight + part->k.begin * stride + first_word * 4,
                             (size_t)row_bytes, (size_t)stride, (size_t)k, err));
  YK_TRY(yk_cuda_upload_rows(cuda, to + zeros_at, (const char *)w->qzeros + first_group * stride + first_word * 4,
                             (size_t)row_bytes, (size_t)stride, (size_t)n_groups, err));
  return yk_cuda_upload_rows(cuda, to + scales_at, (const char *)w->scales + first_group * w->n * 2 + first_word * 16,
                             (size_t)row_bytes * 4, (size_t)w->n * 2, (size_t)n_groups, err);
}

yk_status yk_cuda_awq_load_packed(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights,
                                  const yk_linear_part *part, int64_t first_column, yk_err *err)
{
  yk_gemm_source source;
  const yk_gemm_desc desc = yk_gemm_desc_of(gemm);
  YK_TRY(stage(cuda, part, &source, err));
  return yk_cuda_blame(
      cuda, yk_gemm_pack(&desc, weights, &source, first_column, yk_range_size(part->n), cuda->stream, err), err);
}

static yk_status load_as_16_bits(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights,
                                 const yk_linear_part *part, int64_t first_column, yk_err *err)
{
  const int32_t *order;
  yk_gemm_source source;
  YK_TRY(stage(cuda, part, &source, err));
  YK_TRY(yk_cuda_stage_order(cuda, part, &order, err));
  const yk_cuda_unpack_target to = {gemm->dtype, (char *)weights + first_column * gemm->k * 2, gemm->k, order};
  return yk_cuda_check(
      cuda, yk_cuda_launch_unpack_awq(&to, &source, yk_range_size(part->k), yk_range_size(part->n), cuda->stream),
      "unpacking of AWQ weights", err);
}
#endif

/* ---- The rows ---------------------------------------------------------------------------------------------------- */

const yk_cuda_format yk_cuda_format_awq = {
    .name = "awq",
    .weight_format = YK_WEIGHT_AWQ,
    .check = check,
    .takes = takes_packed,
    .fuse_key = yk_cuda_awq_packed_group,
    .takes_order = true,
    .gemm = &yk_cuda_gemm_wna16_int4,
#ifdef YOKE_HAVE_CUDA
    .load = yk_cuda_awq_load_packed,
#endif
};

const yk_cuda_format yk_cuda_format_awq_as_16_bits = {
    .name = "awq as 16 bits",
    .weight_format = YK_WEIGHT_AWQ,
    .check = check,
    .takes_order = true,
    .rounds = true,
    .undoes_order = true,
    .gemm = &yk_cuda_gemm_16_bits,
#ifdef YOKE_HAVE_CUDA
    .load = load_as_16_bits,
#endif
};
