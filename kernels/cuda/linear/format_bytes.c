/* format_bytes.c - 8-bit weights (integers and floats) and 4-bit floats, which arrive as bytes too, with float inputs
 * on a GPU: packed for the GEMM of 16-bit activations (gemm/dense/dense.h). Integers whose inputs are in another order
 * than x, and which that GEMM does not take, are rounded to 16 bits here: the loader cannot dequantise a part that is
 * sorted by group. */
#include <string.h>

#include "base/checked.h"
#include "kernels/cuda/gemm/packed_sizes.h"
#include "kernels/cuda/layout/format.h"
#include "kernels/cuda/linear/format_wna16.h"

/* ---- Arithmetic, on any machine ---------------------------------------------------------------------------------- */

/* Checks that the zeros of a part's slice are within the packed form's range, which ends 1/256 below 128, the
 * resolution of zeros. */
static yk_status check_zeros(const yk_linear_part *part, int index, yk_err *err)
{
  const yk_weight_view *w = &part->weight;
  if (!w->has_zeros || yk_range_size(part->k) == 0) return YK_OK;
  int64_t n_groups = yk_ceil_div_i64(w->k, w->group);
  for (int64_t i = part->n.begin * n_groups; i < part->n.end * n_groups; i++) {
    float zero; /* the source may be unaligned */
    memcpy(&zero, (const char *)w->qzeros + i * (int64_t)sizeof zero, sizeof zero);
    if (!(zero >= -128.0f && zero <= 128.0f))
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "linear part %d: output %lld, group %lld: expected a zero from -128 to 128, found %g", index,
                        (long long)(i / n_groups), (long long)(i % n_groups), (double)zero);
  }
  return YK_OK;
}

static yk_status check(const yk_linear_part *part, int index, yk_err *err)
{
  YK_TRY(yk_linear_check_bytes(part, index, err));
  return part->weight.inputs.kind == YK_INPUTS_FLOAT ? check_zeros(part, index, err) : YK_OK;
}

static bool has_float_inputs(const yk_linear_spec *spec, int i)
{
  return spec->parts[i].weight.inputs.kind == YK_INPUTS_FLOAT;
}

/* Inputs of the slice that share a scale in the packed form: all inputs, if one group covers the slice. */
static int64_t packed_group(const yk_linear_part *part)
{
  return yk_min_i64(part->group_local, yk_range_size(part->k));
}

/* The WNA16 GEMM takes slices of whole half panels (8 columns) and of k a multiple of 32, whose groups are one, or
 * multiples of `multiple`; no part with as_16_bits. */
static bool can_pack(const yk_linear_spec *spec, int i, int64_t multiple)
{
  const yk_linear_part *part = &spec->parts[i];
  int64_t k = yk_range_size(part->k), n = yk_range_size(part->n), group = packed_group(part);
  if (part->as_16_bits || !has_float_inputs(spec, i) || k == 0 || k % 32 || n % 8) return false;
  return group == k || group % multiple == 0;
}

static bool takes_packed(const yk_linear_spec *spec, int i)
{
  const bool is_fp4 = spec->parts[i].weight.format == YK_WEIGHT_FP4;
  return !spec->f32_output && can_pack(spec, i, is_fp4 ? YK_GEMM_GROUP_UNIT(YK_GEMM_FP4) : 32);
}

static bool takes_packed_to_f32(const yk_linear_spec *spec, int i)
{
  return spec->f32_output && can_pack(spec, i, 128);
}

/* Among the parts that are not packed, only those with an order of inputs arrive as 8 bits: the others are dequantised
 * while they are loaded (yk_cuda_linear_keeps). */
static bool takes_as_16_bits(const yk_linear_spec *spec, int i)
{
  return spec->parts[i].x_size > 0 && has_float_inputs(spec, i) && !spec->parts[i].as_16_bits;
}

#ifdef YOKE_HAVE_CUDA
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/linear/convert.h"
#include "kernels/cuda/linear/stage.h"

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static yk_status load_packed(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights, const yk_linear_part *part,
                             int64_t first_column, yk_err *err)
{
  yk_gemm_rows source;
  const yk_gemm_desc desc = yk_gemm_desc_of(gemm);
  YK_TRY(yk_cuda_stage_rows(cuda, part, &source, err));
  return yk_cuda_blame(
      cuda, yk_gemm_pack_rows(&desc, weights, &source, first_column, yk_range_size(part->n), cuda->stream, err), err);
}

static yk_status load_as_16_bits(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights,
                                 const yk_linear_part *part, int64_t first_column, yk_err *err)
{
  const int32_t *order;
  yk_gemm_rows source;
  YK_TRY(yk_cuda_stage_rows(cuda, part, &source, err));
  YK_TRY(yk_cuda_stage_order(cuda, part, &order, err));
  const yk_cuda_unpack_target to = {gemm->dtype, (char *)weights + first_column * gemm->k * 2, gemm->k, order};
  return yk_cuda_check(
      cuda, yk_cuda_launch_unpack_int8(&to, &source, yk_range_size(part->k), yk_range_size(part->n), cuda->stream),
      "unpacking of 8-bit weights", err);
}
#endif

/* ---- The rows ---------------------------------------------------------------------------------------------------- */

const yk_cuda_format yk_cuda_format_int8 = {
    .name = "int8",
    .weight_format = YK_WEIGHT_INT8,
    .check = check,
    .takes = takes_packed,
    .fuse_key = packed_group,
    .takes_order = true,
    .gemm = &yk_cuda_gemm_wna16_int8,
#ifdef YOKE_HAVE_CUDA
    .load = load_packed,
#endif
};

const yk_cuda_format yk_cuda_format_int8_to_f32 = {
    .name = "int8 to float32",
    .weight_format = YK_WEIGHT_INT8,
    .check = check,
    .takes = takes_packed_to_f32,
    .fuse_key = packed_group,
    .takes_order = true,
    .gemm = &yk_cuda_gemm_wna16_int8_to_f32,
#ifdef YOKE_HAVE_CUDA
    .load = load_packed,
#endif
};

const yk_cuda_format yk_cuda_format_int8_as_16_bits = {
    .name = "int8 as 16 bits",
    .weight_format = YK_WEIGHT_INT8,
    .check = check,
    .takes = takes_as_16_bits,
    .takes_order = true,
    .rounds = true,
    .undoes_order = true,
    .gemm = &yk_cuda_gemm_16_bits,
#ifdef YOKE_HAVE_CUDA
    .load = load_as_16_bits,
#endif
};

const yk_cuda_format yk_cuda_format_fp8 = {
    .name = "fp8",
    .weight_format = YK_WEIGHT_FP8,
    .check = check,
    .takes = takes_packed,
    .fuse_key = packed_group,
    .gemm = &yk_cuda_gemm_wna16_fp8,
#ifdef YOKE_HAVE_CUDA
    .load = load_packed,
#endif
};

const yk_cuda_format yk_cuda_format_fp4 = {
    .name = "fp4",
    .weight_format = YK_WEIGHT_FP4,
    .check = check,
    .takes = takes_packed,
    .fuse_key = packed_group,
    .gemm = &yk_cuda_gemm_wna16_fp4,
#ifdef YOKE_HAVE_CUDA
    .load = load_packed,
#endif
};
