#include "loader/int8.h"

#include <inttypes.h>
#include <math.h>

#include "base/float8.h"
#include "loader/int8_packing.h"

enum { ALIGNMENT = 64, ORDERED_N = 64 /* outputs that are read at once to be put in order */ };

static const yk_int8_ops *const packings[YK_N_PACKINGS] = {[YK_PACKING_GPTQ] = &yk_int8_gptq,
                                                           [YK_PACKING_COMPRESSED] = &yk_int8_compressed,
                                                           [YK_PACKING_ROWS] = &yk_int8_rows,
                                                           [YK_PACKING_PRODUCTS] = &yk_int8_products,
                                                           [YK_PACKING_PRODUCTS_I64] = &yk_int8_products_i64,
                                                           [YK_PACKING_BLOCKS] = &yk_int8_blocks};

/* Where the parts of a repacked slice lie in its buffer. What the last three hold serves to put it in order. */
typedef struct extent {
  int64_t k, n, n_groups;
  size_t scales_at, zeros_at;
  size_t bytes_at;   /* [ORDERED_N, k of the weight], where inputs or outputs change their order */
  size_t places_at;  /* i32 [n of the weight], where outputs do */
  size_t numbers_at; /* f32 [2, groups of the weight], where inputs do */
  size_t n_bytes;
} extent;

static extent extent_of(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                        int64_t group_local)
{
  bool inputs = order && order->inputs, outputs = order && order->outputs;
  extent e = {.k = slice->k_end - slice->k_begin, .n = slice->n_end - slice->n_begin};
  e.n_groups = yk_ceil_div_i64(e.k, group_local);
  int64_t scale_bytes = yk_round_up_i64(e.n * e.n_groups * (int64_t)sizeof(float), ALIGNMENT);
  e.scales_at = (size_t)yk_round_up_i64(e.k * e.n, ALIGNMENT);
  e.zeros_at = e.scales_at + (size_t)scale_bytes;
  e.bytes_at = e.zeros_at + (weight->has_zeros ? (size_t)scale_bytes : 0);
  e.places_at = e.bytes_at + (inputs || outputs ? (size_t)yk_round_up_i64(weight->k * ORDERED_N, ALIGNMENT) : 0);
  e.numbers_at = e.places_at + (outputs ? (size_t)yk_round_up_i64(weight->n * (int64_t)sizeof(int32_t), ALIGNMENT) : 0);
  e.n_bytes = e.numbers_at + (inputs ? (size_t)(2 * yk_int8_n_groups(weight)) * sizeof(float) : 0);
  return e;
}

size_t yk_int8_repacked_bytes(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                              int64_t group_local)
{
  return extent_of(weight, slice, order, group_local).n_bytes;
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

/* ---- In another order -------------------------------------------------------------------------------------------- */

/* What the slice takes of the weight: its inputs as they stand there, and all outputs that may be of it. */
static yk_weight_slice taken_of(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order)
{
  yk_weight_slice taken = *slice;
  if (order->outputs) {
    taken.n_begin = 0;
    taken.n_end = weight->n;
  }
  if (!order->inputs) return taken;
  taken.k_begin = weight->k;
  taken.k_end = 0;
  for (int64_t i = 0; i < slice->k_end; i++) {
    if (order->inputs[i] < 0) continue;
    taken.k_begin = yk_min_i64(taken.k_begin, order->inputs[i]);
    taken.k_end = yk_max_i64(taken.k_end, order->inputs[i] + 1);
  }
  return taken;
}

/* One output's bytes: from holds its inputs from first on. */
static void put_inputs(const yk_slice_order *order, const int8_t *from, int64_t first, int64_t k, int8_t *to)
{
  if (!order->inputs)
    memcpy(to, from, (size_t)k);
  else
    for (int64_t i = 0; i < k; i++) to[i] = order->inputs[i] < 0 ? 0 : from[order->inputs[i] - first];
}

/* Bytes of a slice in another order, read as they stand in the weight. */
static yk_status read_in_order(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                               const extent *e, char *buffer, yk_err *err)
{
  const yk_weight_slice taken = taken_of(weight, slice, order);
  int8_t *bytes = (int8_t *)buffer + e->bytes_at;
  int32_t *places = (int32_t *)(void *)(buffer + e->places_at); /* of outputs; -1: not of the slice */
  int64_t stride = taken.k_end - taken.k_begin;
  if (order->outputs) memset(places, 0xFF, (size_t)weight->n * sizeof *places);
  for (int64_t i = 0; order->outputs && i < e->n; i++) places[order->outputs[i]] = (int32_t)i;
  yk_weight_slice block = taken;
  for (; block.n_begin < taken.n_end; block.n_begin = block.n_end) {
    block.n_end = yk_min_i64(block.n_begin + ORDERED_N, taken.n_end);
    YK_TRY(yk_int8_read(weight, &block, bytes, stride, err));
    for (int64_t n = block.n_begin; n < block.n_end; n++) {
      int64_t place = order->outputs ? places[n] : n - slice->n_begin;
      if (place < 0) continue;
      int8_t *to = (int8_t *)buffer + place * e->k;
      put_inputs(order, bytes + (n - block.n_begin) * stride, taken.k_begin, e->k, to);
    }
  }
  return YK_OK;
}

/* Scales and zeros of output n by local groups. numbers: f32 [2, groups of the weight]. */
static yk_status gather_scales(const yk_weight_view *weight, const yk_slice_order *order, int64_t n, int64_t n_groups,
                               float *numbers, float *scales, float *zeros, yk_err *err)
{
  const yk_weight_slice all = {.k_end = weight->k};
  float *all_zeros = numbers + yk_int8_n_groups(weight);
  YK_TRY(yk_int8_read_scales(weight, &all, n, numbers, zeros ? all_zeros : NULL, err));
  for (int64_t i = 0; i < n_groups; i++) scales[i] = numbers[order->groups[i]];
  for (int64_t i = 0; zeros && i < n_groups; i++) zeros[i] = all_zeros[order->groups[i]];
  return YK_OK;
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

static yk_status read_scales(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t group_local, int64_t n,
                             int64_t n_groups, float *scales, float *zeros, yk_err *err)
{
  YK_TRY(yk_int8_read_scales(weight, slice, n, scales, zeros, err));
  repeat(weight, slice, group_local, n_groups, scales);
  if (zeros) repeat(weight, slice, group_local, n_groups, zeros);
  return YK_OK;
}

yk_status yk_int8_repack(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                         int64_t group_local, void *buffer, yk_weight_view *out, yk_err *err)
{
  const extent e = extent_of(weight, slice, order, group_local);
  char *base = buffer;
  float *scales = (float *)(void *)(base + e.scales_at), *numbers = (float *)(void *)(base + e.numbers_at);
  float *zeros = weight->has_zeros ? (float *)(void *)(base + e.zeros_at) : NULL;
  if (order)
    YK_TRY(read_in_order(weight, slice, order, &e, base, err));
  else
    YK_TRY(yk_int8_read(weight, slice, buffer, e.k, err));
  for (int64_t i = 0; i < e.n; i++) {
    float *to = scales + i * e.n_groups, *to_zeros = zeros ? zeros + i * e.n_groups : NULL;
    int64_t n = order && order->outputs ? order->outputs[i] : slice->n_begin + i;
    if (order && order->inputs)
      YK_TRY(gather_scales(weight, order, n, e.n_groups, numbers, to, to_zeros, err));
    else
      YK_TRY(read_scales(weight, slice, group_local, n, e.n_groups, to, to_zeros, err));
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
  out->act_order = false;
  out->g_idx = NULL;
  if (out->bias) out->bias = (const char *)out->bias + (size_t)slice->n_begin * yk_dtype_bytes(out->bias_dtype);
  return YK_OK;
}
