#include "loader/int8.h"

#include <inttypes.h>
#include <math.h>

#include "base/float8.h"
#include "loader/int8_packing.h"

enum { ALIGNMENT = 64 };

static const yk_int8_ops *const packings[YK_N_PACKINGS] = {[YK_PACKING_GPTQ] = &yk_int8_gptq,
                                                           [YK_PACKING_COMPRESSED] = &yk_int8_compressed,
                                                           [YK_PACKING_ROWS] = &yk_int8_rows,
                                                           [YK_PACKING_BLOCKS] = &yk_int8_blocks};

/* Where the parts of a repacked slice lie in its buffer. */
typedef struct extent {
  int64_t k, n, n_groups;
  size_t scales_at, zeros_at, n_bytes;
} extent;

static extent extent_of(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t group_local)
{
  extent e = {.k = slice->k_end - slice->k_begin, .n = slice->n_end - slice->n_begin};
  e.n_groups = yk_ceil_div_i64(e.k, group_local);
  int64_t scale_bytes = yk_round_up_i64(e.n * e.n_groups * (int64_t)sizeof(float), ALIGNMENT);
  e.scales_at = (size_t)yk_round_up_i64(e.k * e.n, ALIGNMENT);
  e.zeros_at = e.scales_at + (size_t)scale_bytes;
  e.n_bytes = e.zeros_at + (weight->has_zeros ? (size_t)scale_bytes : 0);
  return e;
}

size_t yk_int8_repacked_bytes(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t group_local)
{
  return extent_of(weight, slice, group_local).n_bytes;
}

static const char *name_of(const yk_weight_view *weight)
{
  return weight->tensor ? weight->tensor : "an 8-bit weight";
}

static bool has_nan(const uint8_t *codes, int64_t n)
{
  uint8_t found = 0; /* no early end, so that compilers make vectors of the loop */
  for (int64_t i = 0; i < n; i++) found |= yk_e4m3_is_nan(codes[i]);
  return found;
}

/* The codes of a slice are numbers. */
static yk_status check_codes(const yk_weight_view *weight, const yk_weight_slice *slice, const uint8_t *codes,
                             int64_t stride, yk_err *err)
{
  int64_t n_k = slice->k_end - slice->k_begin;
  for (int64_t n = slice->n_begin; n < slice->n_end; n++, codes += stride) {
    if (!has_nan(codes, n_k)) continue;
    int64_t i = 0;
    while (!yk_e4m3_is_nan(codes[i])) i++;
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: row %" PRId64 ", column %" PRId64
                      ": expected a number, found the code 0x%02X, which is none",
                      name_of(weight), n, slice->k_begin + i, codes[i]);
  }
  return YK_OK;
}

yk_status yk_int8_read(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride,
                       yk_err *err)
{
  packings[weight->packing]->read(weight, slice, to, stride);
  return weight->format == YK_WEIGHT_FP8 ? check_codes(weight, slice, (const uint8_t *)to, stride, err) : YK_OK;
}

static yk_status check_finite(const yk_weight_view *weight, const yk_int8_groups *groups, const char *what,
                              const float *numbers, yk_err *err)
{
  for (int64_t i = 0; i < groups->n; i++)
    if (!isfinite(numbers[i]))
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: its %s of group %" PRId64 ", output %" PRId64 ": expected a finite number, found %g",
                        name_of(weight), what, groups->first + i, groups->output, (double)numbers[i]);
  return YK_OK;
}

yk_status yk_int8_read_scales(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t n, float *scales,
                              float *zeros, yk_err *err)
{
  const yk_int8_ops *ops = packings[weight->packing];
  yk_int8_groups groups = {.output = n, .first = slice->k_begin / weight->group};
  groups.n = yk_ceil_div_i64(slice->k_end, weight->group) - groups.first;
  ops->scales(weight, &groups, scales);
  YK_TRY(check_finite(weight, &groups, "scale", scales, err));
  if (!zeros) return YK_OK;
  if (!weight->qzeros) {
    memset(zeros, 0, (size_t)groups.n * sizeof *zeros);
    return YK_OK;
  }
  ops->zeros(weight, &groups, zeros);
  return check_finite(weight, &groups, "zero point", zeros, err);
}

/* The groups of a slice, of which each holds at least one local group, become the local ones in place. */
static void repeat(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t group_local, int64_t n_groups,
                   float *numbers)
{
  int64_t first = slice->k_begin / weight->group;
  for (int64_t i = n_groups - 1; i > 0; i--)
    numbers[i] = numbers[(slice->k_begin + i * group_local) / weight->group - first];
}

yk_status yk_int8_repack(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t group_local, void *buffer,
                         yk_weight_view *out, yk_err *err)
{
  const extent e = extent_of(weight, slice, group_local);
  float *scales = (float *)(void *)((char *)buffer + e.scales_at);
  float *zeros = weight->has_zeros ? (float *)(void *)((char *)buffer + e.zeros_at) : NULL;
  YK_TRY(yk_int8_read(weight, slice, buffer, e.k, err));
  for (int64_t i = 0; i < e.n; i++) {
    float *to = scales + i * e.n_groups, *to_zeros = zeros ? zeros + i * e.n_groups : NULL;
    YK_TRY(yk_int8_read_scales(weight, slice, slice->n_begin + i, to, to_zeros, err));
    repeat(weight, slice, group_local, e.n_groups, to);
    if (to_zeros) repeat(weight, slice, group_local, e.n_groups, to_zeros);
  }
  *out = *weight;
  out->packing = YK_PACKING_ROWS;
  out->k = e.k;
  out->n = e.n;
  out->group = group_local;
  out->dtype = YK_F32;
  out->qweight = buffer;
  out->scales = scales;
  out->qzeros = zeros;
  out->zeros_less_one = false;
  if (out->bias) out->bias = (const char *)out->bias + (size_t)slice->n_begin * yk_dtype_bytes(out->bias_dtype);
  return YK_OK;
}
