/* float_scales.c - packings whose scales are 8-bit floats: 4-bit floats, two of them in a byte, and 8-bit floats. */
#include "base/float8.h"
#include "loader/integers/int8_packing.h"

static void read_halves(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride)
{
  const uint8_t *from = (const uint8_t *)weight->qweight + slice->n_begin * (weight->k / 2);
  for (int64_t n = slice->n_begin; n < slice->n_end; n++, to += stride, from += weight->k / 2)
    for (int64_t k = slice->k_begin; k < slice->k_end; k++)
      to[k - slice->k_begin] = (int8_t)(from[k / 2] >> 4 * (k % 2) & 0xF);
}

static const uint8_t *first_scale(const yk_weight_view *weight, const yk_int8_groups *groups)
{
  return (const uint8_t *)weight->scales + groups->output * yk_int8_n_groups(weight) + groups->first;
}

static float global_scale(const yk_weight_view *weight)
{
  float scale; /* data in files may be unaligned */
  memcpy(&scale, weight->global_scale, sizeof scale);
  return scale;
}

static void divided_scales(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  const uint8_t *codes = first_scale(weight, groups);
  const float divisor = global_scale(weight);
  for (int64_t i = 0; i < groups->n; i++) to[i] = yk_e4m3_to_f32(codes[i]) / divisor;
}

static void multiplied_scales(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  const uint8_t *codes = first_scale(weight, groups);
  const float factor = global_scale(weight);
  for (int64_t i = 0; i < groups->n; i++) to[i] = yk_e4m3_to_f32(codes[i]) * factor;
}

static void power_scales(const yk_weight_view *weight, const yk_int8_groups *groups, float *to)
{
  const uint8_t *codes = first_scale(weight, groups);
  for (int64_t i = 0; i < groups->n; i++) to[i] = yk_e8m0_to_f32(codes[i]);
}

const yk_int8_ops yk_fp4_nv = {.read = read_halves, .scales = divided_scales};
const yk_int8_ops yk_fp4_nv_factor = {.read = read_halves, .scales = multiplied_scales};
const yk_int8_ops yk_fp4_mx = {.read = read_halves, .scales = power_scales};
const yk_int8_ops yk_fp8_mx = {.read = yk_int8_read_rows, .scales = power_scales};
