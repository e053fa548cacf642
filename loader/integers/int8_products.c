/* int8_products.c - unpacked bytes whose scales are the weights' scales times the inputs' scale ("deq_scale"), as
 * msmodelslim writes them for static inputs: float32, or the lower half of a 64-bit integer.
 * Source: msmodelslim, the save functions of its W8A8 linear layers; torch_npu, npu_trans_quant_param. */
#include "loader/integers/int8_packing.h"

static void scales_of(const yk_weight_view *weight, const yk_int8_groups *groups, int64_t stride, float *to)
{
  yk_int8_floats(YK_F32, weight->scales, groups->output * stride, stride, groups->n, to);
  for (int64_t i = 0; i < groups->n; i++) to[i] /= weight->inputs.scale;
}

static void scales(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  scales_of(weight, groups, 1, to);
}

static void scales_i64(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  scales_of(weight, groups, 2, to);
}

const yk_int8_ops yk_int8_products = {.read = yk_int8_read_rows, .scales = scales};
const yk_int8_ops yk_int8_products_i64 = {.read = yk_int8_read_rows, .scales = scales_i64};
