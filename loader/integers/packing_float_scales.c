/* packing_float_scales.c - the tensors of packings whose scales are 8-bit floats. float_scales.c reads their elements.
 * Sources: compressed_tensors, compressors/{nvfp4,mxfp4,mxfp8}/base.py; nvidia-modelopt,
 * torch/export/quant_utils.py. */
#include "loader/integers/packing.h"

static yk_packing_grain halves(yk_weight_format format)
{
  (void)format;
  return (yk_packing_grain){2, 1, "two 4-bit floats in a byte"};
}

static bool is_u8(const yk_tensor *weight)
{
  return weight->dtype == YK_TENSOR_U8;
}

static bool is_fp8(const yk_tensor *weight)
{
  return weight->dtype == YK_TENSOR_F8_E4M3;
}

static yk_packing_wishes wishes_of(const yk_weight_view *view, const char *weight, yk_tensor_kind scales)
{
  bool is_fp4 = view->format == YK_WEIGHT_FP4;
  const yk_tensor_kind kind = is_fp4 ? YK_TENSORS_U8 : YK_TENSORS_FP8;
  return (yk_packing_wishes){.weight = {weight, kind, 2, {view->n, is_fp4 ? view->k / 2 : view->k}},
                             .scales = {"weight_scale", scales, 2, {view->n, view->k / view->group}}};
}

static yk_packing_wishes nvfp4_wishes(const yk_weight_view *view)
{
  return wishes_of(view, "weight_packed", YK_TENSORS_FP8);
}

static yk_packing_wishes nvfp4_factor_wishes(const yk_weight_view *view)
{
  return wishes_of(view, "weight", YK_TENSORS_FP8);
}

static yk_packing_wishes mxfp4_wishes(const yk_weight_view *view)
{
  return wishes_of(view, "weight_packed", YK_TENSORS_U8);
}

static yk_packing_wishes mxfp8_wishes(const yk_weight_view *view)
{
  return wishes_of(view, "weight", YK_TENSORS_U8);
}

const yk_packing_row yk_packing_nvfp4 = {
    .names = {.weight = "weight_packed", .scales = "weight_scale", .global_scale = "weight_global_scale"},
    .grain = halves,
    .wishes = nvfp4_wishes};
const yk_packing_row yk_packing_nvfp4_factor = {
    .names = {.weight = "weight", .scales = "weight_scale", .global_scale = "weight_scale_2"},
    .marks = is_u8,
    .grain = halves,
    .wishes = nvfp4_factor_wishes};
const yk_packing_row yk_packing_mxfp4 = {
    .names = {.weight = "weight_packed", .scales = "weight_scale"}, .grain = halves, .wishes = mxfp4_wishes};
const yk_packing_row yk_packing_mxfp8 = {
    .names = {.weight = "weight", .scales = "weight_scale"}, .marks = is_fp8, .wishes = mxfp8_wishes};
