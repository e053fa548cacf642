#include "loader/repack.h"

#include <string.h>

#include "base/checked.h"
#include "loader/integers/folded_bias.h"
#include "loader/integers/format.h"
#include "loader/integers/group_order.h"
#include "loader/repack_floats.h"
#include "loader/repack_int8.h"

enum { FOLDED_N = 128 /* biases folded per item of work */ };

static int64_t aligned(int64_t n_bytes)
{
  return yk_round_up_i64(n_bytes, YK_REPACK_ALIGNMENT_BYTES);
}

static int64_t n_inputs(const yk_repack_request *r)
{
  return r->slice.k_end - r->slice.k_begin;
}

static int64_t n_outputs(const yk_repack_request *r)
{
  return r->slice.n_end - r->slice.n_begin;
}

static bool is_empty(const yk_repack_request *r)
{
  return n_inputs(r) == 0 || n_outputs(r) == 0;
}

typedef enum way { AS_IT_IS, REPACKED, FLOATS, INTEGERS } way;

static way way_of(const yk_repack_request *r)
{
  if (r->as_floats && yk_weight_is_quantised(r->weight->format)) return FLOATS;
  if (r->as_int8 && !yk_weight_is_quantised(r->weight->format)) return INTEGERS;
  if (is_empty(r)) return AS_IT_IS;
  bool has_order = r->k_places > 0 || r->n_order;
  return has_order || !yk_loader_format_of(r->weight->format)->is_ready(r->weight) ? REPACKED : AS_IT_IS;
}

/* The slice to read, in positions of the order if inputs or outputs are reordered. */
static yk_slice_source source_of(const yk_repack_request *r, const yk_slice_order *order)
{
  yk_slice_source source = {.weight = r->weight, .slice = r->slice, .order = order, .group_local = r->group_local};
  if (r->k_places > 0) source.slice.k_begin = 0, source.slice.k_end = r->k_places;
  if (r->n_order) source.slice.n_begin = 0, source.slice.n_end = n_outputs(r);
  return source;
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

static int64_t integers_bytes(const yk_repack_request *r)
{
  return aligned(n_inputs(r) * n_outputs(r));
}

static int64_t weight_bytes(const yk_repack_request *r)
{
  static const int32_t some; /* only whether an order is present matters */
  const yk_slice_order order = {
      .inputs = r->k_places > 0 ? &some : NULL, .group = r->group_local, .outputs = r->n_order};
  const yk_slice_source source = source_of(r, order.inputs || order.outputs ? &order : NULL);
  switch (way_of(r)) {
  case REPACKED: return aligned((int64_t)yk_loader_format_of(r->weight->format)->repacked_bytes(&source));
  case FLOATS: return aligned(n_inputs(r) * n_outputs(r) * (int64_t)yk_dtype_bytes(r->dtype));
  case INTEGERS: return integers_bytes(r) + aligned(n_outputs(r) * (int64_t)sizeof(float));
  case AS_IT_IS: break;
  }
  return 0;
}

/* Bytes of the arrays of inputs, groups and columns of x. */
static int64_t inputs_bytes(const yk_repack_request *r)
{
  return aligned(3 * r->k_places * (int64_t)sizeof(int32_t));
}

static bool has_folded_bias(const yk_repack_request *r)
{
  return r->folds_bias && r->weight->folds_bias && n_outputs(r) > 0;
}

/* Bytes of reordered biases, or of folded biases, which are indexed like the outputs of the repacked weight. */
static int64_t bias_bytes(const yk_repack_request *r)
{
  if (has_folded_bias(r)) return aligned(r->slice.n_end * (int64_t)sizeof(float));
  bool is_ordered = r->n_order && r->weight->bias;
  return is_ordered ? aligned(n_outputs(r) * (int64_t)yk_dtype_bytes(r->weight->bias_dtype)) : 0;
}

int64_t yk_repack_buffer_bytes(const yk_repack_request *request)
{
  return weight_bytes(request) + inputs_bytes(request) + bias_bytes(request);
}

/* ---- The order of inputs ----------------------------------------------------------------------------------------- */

/* A sorted share without padding reads x without an order. memory: inputs_bytes. */
static yk_status sort_inputs(const yk_repack_request *r, char *memory, yk_slice_order *order, yk_repack_result *out,
                             yk_err *err)
{
  const yk_group_share share = {r->slice.k_begin, r->slice.k_end, r->k_is_sorted};
  const yk_group_places places = {.n = r->k_places, .group = r->group_local};
  int32_t *inputs = (int32_t *)(void *)memory, *groups = inputs + places.n, *columns = groups + places.n, next = 0;
  YK_TRY(yk_group_order_fill(r->weight, &share, &places, inputs, groups, err));
  order->inputs = inputs;
  order->groups = groups;
  if (r->k_is_sorted && r->k_places == n_inputs(r)) return YK_OK;
  for (int64_t i = 0; i < places.n; i++)
    columns[i] = inputs[i] < 0 ? -1 : r->k_is_sorted ? next++ : inputs[i] - (int32_t)share.begin;
  out->x_order = columns;
  out->x_size = n_inputs(r);
  return YK_OK;
}

/* ---- Biases ------------------------------------------------------------------------------------------------------ */

/* The weight with its biases in the order of outputs. memory: bias_bytes. */
static yk_weight_view order_biases(const yk_repack_request *r, char *memory)
{
  yk_weight_view weight = *r->weight;
  if (!r->n_order || !weight.bias || has_folded_bias(r)) return weight;
  size_t element = yk_dtype_bytes(weight.bias_dtype);
  for (int64_t i = 0; i < n_outputs(r); i++)
    memcpy(memory + (size_t)i * element, (const char *)weight.bias + (size_t)r->n_order[i] * element, element);
  weight.bias = memory;
  return weight;
}

typedef struct folding {
  const yk_repack_request *request;
  float *to;
} folding;

static yk_status fold_blocks(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const folding *f = context;
  const yk_repack_request *r = f->request;
  int64_t first = r->slice.n_begin;
  end = yk_min_i64(end * FOLDED_N, n_outputs(r));
  begin *= FOLDED_N;
  if (!r->n_order) return yk_folded_bias(r->weight, first + begin, first + end, f->to + begin, err);
  for (int64_t i = begin; i < end; i++)
    YK_TRY(yk_folded_bias(r->weight, r->n_order[i], r->n_order[i] + 1, f->to + i, err));
  return YK_OK;
}

/* memory: bias_bytes. */
static yk_status fold_biases(const yk_repack_request *r, yk_cpu_pool *pool, char *memory, yk_repack_result *out,
                             yk_err *err)
{
  if (!has_folded_bias(r)) return YK_OK;
  float *biases = (float *)(void *)memory;
  folding f = {r, biases + out->slice.n_begin};
  out->weight.bias = biases;
  out->weight.bias_dtype = YK_F32;
  return yk_cpu_pool_try(pool, yk_ceil_div_i64(n_outputs(r), FOLDED_N), 1, fold_blocks, &f, err);
}

/* ---- The whole slice --------------------------------------------------------------------------------------------- */

/* memory, order_memory, bias_memory: space for the weight, its orders and its biases. */
static yk_status repack_slice(const yk_repack_request *r, yk_cpu_pool *pool, void *memory, char *order_memory,
                              char *bias_memory, yk_repack_result *out, yk_err *err)
{
  const yk_weight_view weight = order_biases(r, bias_memory);
  yk_slice_order order = {.group = r->group_local, .outputs = r->n_order};
  if (r->k_places > 0) YK_TRY(sort_inputs(r, order_memory, &order, out, err));
  yk_slice_source source = source_of(r, order.inputs || order.outputs ? &order : NULL);
  yk_repacked_slice repacked;
  source.weight = &weight;
  YK_TRY(yk_loader_format_of(weight.format)->repack(&source, pool, memory, &repacked, err));
  out->weight = repacked.weight;
  out->slice = repacked.slice;
  return YK_OK;
}

/* A converted weight without its elements; bias_memory: space for its biases. */
static void begin_conversion(const yk_repack_request *r, yk_weight_format format, yk_dtype dtype, char *bias_memory,
                             yk_repack_result *out)
{
  const yk_weight_view weight = order_biases(r, bias_memory);
  int64_t first = r->n_order ? 0 : r->slice.n_begin;
  out->weight = (yk_weight_view){.format = format,
                                 .k = n_inputs(r),
                                 .n = n_outputs(r),
                                 .dtype = dtype,
                                 .tensor = weight.tensor,
                                 .bias_dtype = weight.bias_dtype};
  out->slice = (yk_weight_slice){0, n_inputs(r), 0, n_outputs(r)};
  if (weight.bias) out->weight.bias = (const char *)weight.bias + (size_t)first * yk_dtype_bytes(weight.bias_dtype);
}

/* memory, bias_memory: space for the weight and its biases. */
static yk_status convert_slice(const yk_repack_request *r, yk_cpu_pool *pool, void *memory, char *bias_memory,
                               yk_repack_result *out, yk_err *err)
{
  begin_conversion(r, YK_WEIGHT_PLAIN, r->dtype, bias_memory, out);
  if (is_empty(r)) return YK_OK;
  out->weight.plain = memory;
  return yk_repack_floats(r, pool, memory, err);
}

/* The same for 8-bit integers. */
static yk_status quantise_slice(const yk_repack_request *r, yk_cpu_pool *pool, void *memory, char *bias_memory,
                                yk_repack_result *out, yk_err *err)
{
  float *scales = (float *)(void *)((char *)memory + integers_bytes(r));
  begin_conversion(r, YK_WEIGHT_INT8, YK_F32, bias_memory, out);
  out->weight.packing = YK_PACKING_ROWS;
  out->weight.group = n_inputs(r);
  if (is_empty(r)) return YK_OK;
  out->weight.qweight = memory;
  out->weight.scales = scales;
  return yk_repack_int8(r, pool, memory, scales, err);
}

static yk_status check_slice(const yk_repack_request *r, yk_cpu_pool *pool, yk_err *err)
{
  const yk_loader_format *format = yk_loader_format_of(r->weight->format);
  return format->check_ready && !is_empty(r) ? format->check_ready(r->weight, &r->slice, pool, err) : YK_OK;
}
yk_status yk_repack(const yk_repack_request *request, yk_cpu_pool *pool, void *buffer, yk_repack_result *out,
                    yk_err *err)
{
  char *order_memory = (char *)buffer + weight_bytes(request), *bias_memory = order_memory + inputs_bytes(request);
  *out = (yk_repack_result){.weight = *request->weight, .slice = request->slice};
  switch (way_of(request)) {
  case REPACKED: YK_TRY(repack_slice(request, pool, buffer, order_memory, bias_memory, out, err)); break;
  case FLOATS: YK_TRY(convert_slice(request, pool, buffer, bias_memory, out, err)); break;
  case INTEGERS: YK_TRY(quantise_slice(request, pool, buffer, bias_memory, out, err)); break;
  case AS_IT_IS: YK_TRY(check_slice(request, pool, err)); break;
  }
  return fold_biases(request, pool, bias_memory, out, err);
}
