#include "loader/integers/int8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/float8.h"
#include "loader/integers/int8_packing.h"

enum {
  ALIGNMENT = 64,
  BLOCK_N = 64,               /* outputs per item of work */
  MIN_THREAD_BYTES = 1 << 17, /* bytes per thread */
  MIN_THREAD_GROUPS = 1 << 13 /* scales per thread: less work costs more than it saves */
};

static const yk_int8_ops *const packings[YK_N_PACKINGS] = {[YK_PACKING_GPTQ] = &yk_int8_gptq,
                                                           [YK_PACKING_COMPRESSED] = &yk_int8_compressed,
                                                           [YK_PACKING_ROWS] = &yk_int8_rows,
                                                           [YK_PACKING_PRODUCTS] = &yk_int8_products,
                                                           [YK_PACKING_PRODUCTS_I64] = &yk_int8_products_i64,
                                                           [YK_PACKING_BLOCKS] = &yk_int8_blocks,
                                                           [YK_PACKING_NVFP4] = &yk_fp4_nv,
                                                           [YK_PACKING_NVFP4_FACTOR] = &yk_fp4_nv_factor,
                                                           [YK_PACKING_MXFP4] = &yk_fp4_mx,
                                                           [YK_PACKING_MXFP8] = &yk_fp8_mx};

/* Layout of a repacked slice in its buffer. */
typedef struct extent {
  int64_t k, n, n_groups;
  size_t scales_at, zeros_at;
  size_t places_at; /* i32 [n of the weight], if outputs are reordered */
  size_t n_bytes;
} extent;

static extent extent_of(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                        int64_t group_local)
{
  bool outputs = order && order->outputs;
  extent e = {.k = slice->k_end - slice->k_begin, .n = slice->n_end - slice->n_begin};
  e.n_groups = yk_ceil_div_i64(e.k, group_local);
  int64_t scale_bytes = yk_round_up_i64(e.n * e.n_groups * (int64_t)sizeof(float), ALIGNMENT);
  e.scales_at = (size_t)yk_round_up_i64(e.k * e.n, ALIGNMENT);
  e.zeros_at = e.scales_at + (size_t)scale_bytes;
  e.places_at = e.zeros_at + (weight->has_zeros ? (size_t)scale_bytes : 0);
  e.n_bytes = e.places_at + (outputs ? (size_t)weight->n * sizeof(int32_t) : 0);
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
  uint8_t found = 0; /* no early exit, so that the loop can be vectorised */
  for (int64_t i = 0; i < n; i++) found |= yk_e4m3_is_nan(codes[i]);
  return found;
}

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

/* Expand in place from the groups of a slice to local groups. Each group contains at least one local group. */
static void repeat(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t group_local, int64_t n_groups,
                   float *numbers)
{
  int64_t first = slice->k_begin / weight->group;
  for (int64_t i = n_groups - 1; i > 0; i--)
    numbers[i] = numbers[(slice->k_begin + i * group_local) / weight->group - first];
}

/* State shared by the threads that repack one slice. */
typedef struct repacking {
  const yk_weight_view *weight;
  const yk_weight_slice *slice;
  const yk_slice_order *order; /* or NULL */
  const extent *e;
  int64_t group_local;
  yk_weight_slice taken; /* with an order: the part of the weight that may belong to the slice */
  int8_t *bytes;         /* [n, k] */
  int32_t *places;       /* positions of the weight's outputs, if they are reordered; -1: not in the slice */
  float *scales, *zeros; /* [n, groups]; zeros may be NULL */
} repacking;

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

/* Read blocks of BLOCK_N outputs in the weight's order. */
static yk_status read_blocks(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const repacking *r = context;
  yk_weight_slice outputs = *r->slice;
  outputs.n_begin = r->slice->n_begin + begin * BLOCK_N;
  outputs.n_end = yk_min_i64(r->slice->n_begin + end * BLOCK_N, r->slice->n_end);
  return yk_int8_read(r->weight, &outputs, r->bytes + begin * BLOCK_N * r->e->k, r->e->k, err);
}

/* The part of the weight to read: the slice's range, or with reordered outputs all outputs, and with reordered inputs
 * the smallest range that contains these inputs. */
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

/* Write one output's bytes; from contains its inputs from `first` on. */
static void put_inputs(const yk_slice_order *order, const int8_t *from, int64_t first, int64_t k, int8_t *to)
{
  if (!order->inputs)
    memcpy(to, from, (size_t)k);
  else
    for (int64_t i = 0; i < k; i++) to[i] = order->inputs[i] < 0 ? 0 : from[order->inputs[i] - first];
}

/* Read one block of outputs, through bytes [BLOCK_N, inputs of the part], and write them in order. */
static yk_status read_in_order(const repacking *r, int64_t index, int8_t *bytes, yk_err *err)
{
  yk_weight_slice block = r->taken;
  int64_t stride = r->taken.k_end - r->taken.k_begin;
  block.n_begin = r->taken.n_begin + index * BLOCK_N;
  block.n_end = yk_min_i64(block.n_begin + BLOCK_N, r->taken.n_end);
  YK_TRY(yk_int8_read(r->weight, &block, bytes, stride, err));
  for (int64_t n = block.n_begin; n < block.n_end; n++) {
    int64_t place = r->places ? r->places[n] : n - r->slice->n_begin;
    if (place < 0) continue;
    put_inputs(r->order, bytes + (n - block.n_begin) * stride, r->taken.k_begin, r->e->k, r->bytes + place * r->e->k);
  }
  return YK_OK;
}

static yk_status read_blocks_in_order(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const repacking *r = context;
  yk_status status = YK_OK;
  size_t n_bytes = (size_t)(BLOCK_N * yk_max_i64(r->taken.k_end - r->taken.k_begin, 1));
  int8_t *bytes = malloc(n_bytes);
  if (!bytes) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu bytes of weights in another order", n_bytes);
  for (int64_t i = begin; i < end && status == YK_OK; i++) status = read_in_order(r, i, bytes, err);
  free(bytes);
  return status;
}

static yk_status take_bytes(repacking *r, yk_cpu_pool *pool, yk_err *err)
{
  int64_t min_blocks = yk_ceil_div_i64(MIN_THREAD_BYTES, BLOCK_N * yk_max_i64(r->e->k, 1));
  if (!r->order) return yk_cpu_pool_try(pool, yk_ceil_div_i64(r->e->n, BLOCK_N), min_blocks, read_blocks, r, err);
  r->taken = taken_of(r->weight, r->slice, r->order);
  if (r->places) {
    memset(r->places, 0xFF, (size_t)r->weight->n * sizeof *r->places);
    for (int64_t i = 0; i < r->e->n; i++) r->places[r->order->outputs[i]] = (int32_t)i;
  }
  int64_t n_blocks = yk_ceil_div_i64(r->taken.n_end - r->taken.n_begin, BLOCK_N);
  return yk_cpu_pool_try(pool, n_blocks, min_blocks, read_blocks_in_order, r, err);
}

/* ---- Scales and zeros -------------------------------------------------------------------------------------------- */

/* Scales and zeros of output n for each local group. numbers: f32 [2, groups of the weight]. */
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

static yk_status read_scales(const repacking *r, int64_t n, float *scales, float *zeros, yk_err *err)
{
  YK_TRY(yk_int8_read_scales(r->weight, r->slice, n, scales, zeros, err));
  repeat(r->weight, r->slice, r->group_local, r->e->n_groups, scales);
  if (zeros) repeat(r->weight, r->slice, r->group_local, r->e->n_groups, zeros);
  return YK_OK;
}

/* Process outputs [begin, end) of the repacked weight. numbers: as for gather_scales, or NULL: inputs keep their
 * order. */
static yk_status take_outputs(const repacking *r, int64_t begin, int64_t end, float *numbers, yk_err *err)
{
  int64_t n_groups = r->e->n_groups;
  for (int64_t i = begin; i < end; i++) {
    float *scales = r->scales + i * n_groups, *zeros = r->zeros ? r->zeros + i * n_groups : NULL;
    int64_t n = r->places ? r->order->outputs[i] : r->slice->n_begin + i;
    if (numbers)
      YK_TRY(gather_scales(r->weight, r->order, n, n_groups, numbers, scales, zeros, err));
    else
      YK_TRY(read_scales(r, n, scales, zeros, err));
  }
  return YK_OK;
}

static yk_status take_scales(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const repacking *r = context;
  if (!r->order || !r->order->inputs) return take_outputs(r, begin, end, NULL, err);
  float *numbers = malloc((size_t)(2 * yk_int8_n_groups(r->weight)) * sizeof *numbers);
  if (!numbers) return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of a weight's groups");
  yk_status status = take_outputs(r, begin, end, numbers, err);
  free(numbers);
  return status;
}

/* ---- The whole slice --------------------------------------------------------------------------------------------- */

yk_status yk_int8_repack(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                         int64_t group_local, yk_cpu_pool *pool, void *buffer, yk_weight_view *out, yk_err *err)
{
  const extent e = extent_of(weight, slice, order, group_local);
  char *base = buffer;
  repacking r = {.weight = weight,
                 .slice = slice,
                 .order = order,
                 .e = &e,
                 .group_local = group_local,
                 .bytes = buffer,
                 .scales = (float *)(void *)(base + e.scales_at)};
  if (weight->has_zeros) r.zeros = (float *)(void *)(base + e.zeros_at);
  if (order && order->outputs) r.places = (int32_t *)(void *)(base + e.places_at);
  YK_TRY(take_bytes(&r, pool, err));
  YK_TRY(
      yk_cpu_pool_try(pool, e.n, yk_ceil_div_i64(MIN_THREAD_GROUPS, yk_max_i64(e.n_groups, 1)), take_scales, &r, err));
  *out = *weight;
  out->packing = YK_PACKING_ROWS;
  out->k = e.k;
  out->n = e.n;
  out->group = group_local;
  out->dtype = YK_F32;
  out->qweight = buffer;
  out->scales = r.scales;
  out->qzeros = r.zeros;
  out->global_scale = NULL;
  out->zeros_less_one = false;
  out->act_order = false;
  out->g_idx = NULL;
  if (out->bias) out->bias = (const char *)out->bias + (size_t)slice->n_begin * yk_dtype_bytes(out->bias_dtype);
  return YK_OK;
}
