#include "loader/integers/int4.h"

#include <inttypes.h>
#include <math.h>

#include "loader/integers/int4_packing.h"
#include "loader/integers/int4_slice.h"

enum {
  ZERO_OF_NONE = 8,
  ALIGNMENT = 64,
  MAX_ZERO = 15,
  MIN_THREAD_BYTES = 1 << 17,  /* bytes of words per thread */
  MIN_THREAD_OUTPUTS = 1 << 13 /* groups times outputs per thread: less work costs more than it saves */
};

bool yk_int4_is_ready(const yk_weight_view *weight)
{
  return weight->packing == YK_PACKING_AWQ_GEMM && weight->qzeros;
}

/* ---- The part of a weight that a slice needs --------------------------------------------------------------------- */

static void set_inputs(const yk_weight_view *weight, const yk_weight_slice *slice, yk_int4_extent *e)
{
  int64_t group = weight->group;
  e->first_group = slice->k_begin / group;
  e->n_groups = yk_ceil_div_i64(slice->k_end, group) - e->first_group;
  e->first_line = slice->k_begin / YK_INT4_LINE_K;
  e->n_lines = yk_ceil_div_i64(slice->k_end, YK_INT4_LINE_K) - e->first_line;
  if (e->n_groups == 1) {
    e->first_k = e->first_line * YK_INT4_LINE_K;
    e->k = e->group = e->n_lines * YK_INT4_LINE_K;
  } else {
    e->first_k = e->first_group * group;
    e->k = e->n_groups * group;
    e->group = group;
  }
}

static void set_ordered_inputs(const yk_weight_view *weight, const yk_weight_slice *slice, yk_int4_extent *e)
{
  e->k = slice->k_end;
  e->group = e->order->group;
  e->n_groups = e->k / e->group;
  e->n_lines = yk_ceil_div_i64(weight->k, YK_INT4_LINE_K);
}

static yk_int4_extent extent_of(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order)
{
  yk_int4_extent e = {.order = order && order->inputs ? order : NULL, .outputs = order ? order->outputs : NULL};
  if (e.order)
    set_ordered_inputs(weight, slice, &e);
  else
    set_inputs(weight, slice, &e);
  e.first_n = slice->n_begin / 8 * 8;
  e.n = yk_round_up_i64(slice->n_end - e.first_n, 8);
  e.n_there = e.outputs ? slice->n_end : yk_min_i64(e.n, weight->n - e.first_n);
  int64_t row_bytes = e.n / 2;
  e.zeros_at = (size_t)yk_round_up_i64(e.k * row_bytes, ALIGNMENT);
  e.scales_at = e.zeros_at + (size_t)yk_round_up_i64(e.n_groups * row_bytes, ALIGNMENT);
  int64_t scale_bytes = e.n_groups * e.n * (int64_t)yk_dtype_bytes(weight->dtype);
  e.places_at = e.scales_at + (size_t)yk_round_up_i64(scale_bytes, ALIGNMENT);
  e.n_bytes = e.places_at + (e.order ? (size_t)(e.n_lines * YK_INT4_LINE_K) * sizeof(int32_t) : 0);
  return e;
}

/* The weight's output at position i of the repacked weight, and the weight's group of local group i. */
static int64_t output_at(const yk_int4_extent *e, int64_t i)
{
  return e->outputs ? e->outputs[i] : e->first_n + i;
}

static int64_t group_at(const yk_int4_extent *e, int64_t i)
{
  return e->order ? e->order->groups[i] : e->first_group + i;
}

size_t yk_int4_repacked_bytes(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order)
{
  return extent_of(weight, slice, order).n_bytes;
}

/* ---- Scales ------------------------------------------------------------------------------------------------------ */

static const char *name_of(const yk_weight_view *weight)
{
  return weight->tensor ? weight->tensor : "a 4-bit weight";
}

/* Check n scales, stride elements apart, and copy them to `to` unless NULL. False: not all are finite. */
static bool copy_scales(yk_dtype dtype, const char *from, int64_t stride, int64_t n, char *to)
{
  bool all_finite = true;
  if (dtype == YK_F32) {
    for (int64_t i = 0; i < n; i++) {
      uint32_t element;
      memcpy(&element, from + i * stride * 4, 4);
      all_finite &= (element & 0x7F800000u) != 0x7F800000u;
      if (to) memcpy(to + i * 4, &element, 4);
    }
    return all_finite;
  }
  uint16_t exponent = dtype == YK_F16 ? 0x7C00u : 0x7F80u;
  for (int64_t i = 0; i < n; i++) {
    uint16_t element;
    memcpy(&element, from + i * stride * 2, 2);
    all_finite &= (element & exponent) != exponent;
    if (to) memcpy(to + i * 2, &element, 2);
  }
  return all_finite;
}

static float scale_of(const yk_weight_view *weight, int64_t group, int64_t n)
{
  return yk_int4_float(weight->dtype, weight->scales, yk_int4_ops_of(weight->packing)->scale_at(weight, group, n));
}

/* Report the first scale of a group that is not finite. */
static yk_status refuse_scale(const yk_weight_view *weight, const yk_int4_extent *e, int64_t group, yk_err *err)
{
  int64_t i = 0;
  while (i < e->n_there - 1 && isfinite(scale_of(weight, group, output_at(e, i)))) i++;
  int64_t n = output_at(e, i);
  float scale = scale_of(weight, group, n);
  return yk_int4_refuse_scale(weight, group, n, scale, err);
}

/* take_scales for reordered outputs. */
static yk_status gather_scales(const yk_weight_view *weight, const yk_int4_extent *e, int64_t group, char *to,
                               yk_err *err)
{
  int64_t element_bytes = (int64_t)yk_dtype_bytes(weight->dtype);
  for (int64_t i = 0; i < e->n_there; i++) {
    int64_t at = yk_int4_ops_of(weight->packing)->scale_at(weight, group, e->outputs[i]);
    if (!copy_scales(weight->dtype, (const char *)weight->scales + at * element_bytes, 1, 1,
                     to ? to + i * element_bytes : NULL))
      return refuse_scale(weight, e, group, err);
  }
  if (to) memset(to + e->n_there * element_bytes, 0, (size_t)((e->n - e->n_there) * element_bytes));
  return YK_OK;
}

/* Check one group's scales, and copy them to `to` unless NULL. In every packing the scales of a group are equally
 * spaced. */
static yk_status take_scales(const yk_weight_view *weight, const yk_int4_extent *e, int64_t group, char *to,
                             yk_err *err)
{
  if (e->outputs) return gather_scales(weight, e, group, to, err);
  const yk_int4_ops *ops = yk_int4_ops_of(weight->packing);
  int64_t element_bytes = (int64_t)yk_dtype_bytes(weight->dtype), first = ops->scale_at(weight, group, e->first_n);
  int64_t stride = e->n_there > 1 ? ops->scale_at(weight, group, e->first_n + 1) - first : 1;
  const char *from = (const char *)weight->scales + first * element_bytes;
  if (!copy_scales(weight->dtype, from, stride, e->n_there, to)) return refuse_scale(weight, e, group, err);
  if (to) memset(to + e->n_there * element_bytes, 0, (size_t)((e->n - e->n_there) * element_bytes));
  return YK_OK;
}

/* ---- Zero points ------------------------------------------------------------------------------------------------- */

/* A local group: the weight's group, and the rows of the repacked weight that belong to the slice. */
typedef struct local_group {
  int64_t group, begin, end;
} local_group;

static local_group local_group_of(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_int4_extent *e,
                                  int64_t i)
{
  int64_t group = group_at(e, i);
  if (e->order) return (local_group){group, i * e->group, (i + 1) * e->group};
  return (local_group){group, yk_max_i64(slice->k_begin, group * weight->group) - e->first_k,
                       yk_min_i64(slice->k_end, (group + 1) * weight->group) - e->first_k};
}

/* For a zero of 16: decrease all q of a local group and output, within the slice, by 1. */
static yk_status lower_column(const yk_weight_view *weight, const yk_int4_extent *e, const local_group *group,
                              int64_t column, uint32_t *words, yk_err *err)
{
  static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN;
  int shift = 4 * nibble_of_column[column % 8];
  for (int64_t row = group->begin; row < group->end; row++) {
    int64_t k = e->order ? e->order->inputs[row] : e->first_k + row;
    uint32_t *word = words + row * (e->n / 8) + column / 8;
    if (k < 0) continue;
    if ((*word >> shift & 0xFu) == 0)
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: group %" PRId64 ", output %" PRId64 " has zero point 16 and, at input %" PRId64
                        ", the integer 0, which is not supported; supported: zero points 0 to 15, or 16 without "
                        "integers of 0",
                        name_of(weight), group->group, output_at(e, column), k);
    *word -= 1u << shift;
  }
  return YK_OK;
}

/* Read the zeros of up to eight outputs of the repacked weight. */
static void read_zeros(const yk_weight_view *weight, const yk_int4_extent *e, int64_t group, int64_t first, int n,
                       int zeros[8])
{
  const yk_int4_ops *ops = yk_int4_ops_of(weight->packing);
  for (int i = 0; i < 8; i++) zeros[i] = ZERO_OF_NONE;
  if (!weight->qzeros) return;
  if (!e->outputs) {
    ops->zeros(weight, group, e->first_n + first, n, zeros);
    return;
  }
  for (int i = 0; i < n; i++) {
    int64_t output = e->outputs[first + i], word = output / 8 * 8;
    int eight[8];
    ops->zeros(weight, group, word, (int)yk_min_i64(8, weight->n - word), eight);
    zeros[i] = eight[output % 8];
  }
}

static yk_status take_zeros(const yk_weight_view *weight, const yk_int4_extent *e, const local_group *group,
                            uint32_t *words, uint32_t *to, yk_err *err)
{
  static const uint8_t nibble_of_column[8] = YK_AWQ_NIBBLE_OF_COLUMN;
  for (int64_t first = 0; first < e->n_there; first += 8) {
    int zeros[8], n = (int)yk_min_i64(8, e->n_there - first);
    read_zeros(weight, e, group->group, first, n, zeros);
    uint32_t word = 0;
    for (int i = 0; i < n; i++) {
      if (zeros[i] == YK_INT4_NO_ZERO) return yk_int4_refuse_zero(weight, group->group, output_at(e, first + i), err);
      if (zeros[i] > MAX_ZERO) YK_TRY(lower_column(weight, e, group, first + i, words, err));
      word |= (uint32_t)yk_min_i64(zeros[i], MAX_ZERO) << 4 * nibble_of_column[i];
    }
    to[first / 8] = word;
  }
  return YK_OK;
}

/* ---- The whole slice --------------------------------------------------------------------------------------------- */

/* State shared by the threads that process the groups of one slice. */
typedef struct taking {
  const yk_weight_view *weight;
  const yk_weight_slice *slice;
  const yk_int4_extent *e;
  uint32_t *words, *zeros;
  char *scales; /* NULL: scales are only checked */
} taking;

/* Process the scales of local groups, and the zeros unless the scales are only checked. */
static yk_status take_groups(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const taking *t = context;
  const yk_int4_extent *e = t->e;
  for (int64_t i = begin; i < end; i++) {
    char *scales = t->scales ? t->scales + (size_t)(i * e->n) * yk_dtype_bytes(t->weight->dtype) : NULL;
    const local_group group = local_group_of(t->weight, t->slice, e, i);
    YK_TRY(take_scales(t->weight, e, group.group, scales, err));
    if (scales) YK_TRY(take_zeros(t->weight, e, &group, t->words, t->zeros + i * e->n / 8, err));
  }
  return YK_OK;
}

static yk_status take_all_groups(taking *t, yk_cpu_pool *pool, yk_err *err)
{
  int64_t min_groups = yk_ceil_div_i64(MIN_THREAD_OUTPUTS, yk_max_i64(t->e->n, 1));
  return yk_cpu_pool_try(pool, t->e->n_groups, min_groups, take_groups, t, err);
}

yk_status yk_int4_check_scales(const yk_weight_view *weight, const yk_weight_slice *slice, yk_cpu_pool *pool,
                               yk_err *err)
{
  const yk_int4_extent e = extent_of(weight, slice, NULL);
  taking t = {.weight = weight, .slice = slice, .e = &e};
  return take_all_groups(&t, pool, err);
}

/* Check the elements of positions [begin, end) of the outputs. */
static yk_status check_outputs(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const taking *t = context;
  const bool is_whole = t->e->order != NULL;
  for (int64_t i = begin; i < end; i++)
    YK_TRY(yk_int4_ops_of(t->weight->packing)
               ->check(t->weight, output_at(t->e, i), is_whole ? 0 : t->slice->k_begin,
                       is_whole ? t->weight->k : t->slice->k_end, err));
  return YK_OK;
}

static yk_status check_elements(taking *t, yk_cpu_pool *pool, yk_err *err)
{
  if (!yk_int4_ops_of(t->weight->packing)->check) return YK_OK;
  int64_t min_outputs = yk_ceil_div_i64(MIN_THREAD_BYTES, yk_max_i64(t->e->k, 1));
  return yk_cpu_pool_try(pool, t->e->n_there, min_outputs, check_outputs, t, err);
}

yk_status yk_int4_repack(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                         yk_cpu_pool *pool, void *buffer, yk_int4_repacked *out, yk_err *err)
{
  const yk_int4_extent e = extent_of(weight, slice, order);
  char *base = buffer;
  taking t = {.weight = weight,
              .slice = slice,
              .e = &e,
              .words = buffer,
              .zeros = (uint32_t *)(void *)(base + e.zeros_at),
              .scales = base + e.scales_at};
  YK_TRY(check_elements(&t, pool, err));
  yk_int4_take_words(weight, &e, pool, base);
  YK_TRY(take_all_groups(&t, pool, err));
  *out = (yk_int4_repacked){.weight = *weight, .first_k = e.first_k, .first_n = e.first_n};
  yk_weight_view *view = &out->weight;
  view->packing = YK_PACKING_AWQ_GEMM;
  view->k = e.k;
  view->n = e.n;
  view->group = e.group;
  view->qweight = t.words;
  view->qzeros = t.zeros;
  view->scales = t.scales;
  view->zeros_less_one = false;
  view->act_order = false;
  view->g_idx = NULL;
  if (view->bias) view->bias = (const char *)view->bias + (size_t)e.first_n * yk_dtype_bytes(view->bias_dtype);
  return YK_OK;
}
