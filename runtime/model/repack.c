#include "model/repack.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "loader/integers/folded_bias.h"
#include "loader/integers/group_order.h"
#include "loader/integers/int4.h"
#include "loader/integers/int8.h"
#include "model/repack_floats.h"

enum { FOLDED_N = 128 /* biases that are folded as one piece of work */ };

/* ---- What becomes of a part -------------------------------------------------------------------------------------- */

typedef enum way { AS_IT_IS, INT4_CHECKED, INT4_REPACKED, BYTES_REPACKED, FLOATS_REORDERED, DEQUANTISED } way;

static bool keeps(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  if (dev->linear_keeps) return dev->linear_keeps(spec, i);
  const yk_weight_view *weight = &spec->parts[i].weight;
  return weight->format == YK_WEIGHT_PLAIN || (weight->format == YK_WEIGHT_AWQ && !weight->act_order);
}

static bool is_empty(const yk_linear_part *part)
{
  return yk_range_size(part->k) == 0 || yk_range_size(part->n) == 0;
}

bool yk_repack_dequantises(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  bool is_bytes = part->weight.format == YK_WEIGHT_INT8 || part->weight.format == YK_WEIGHT_FP8;
  bool is_unsorted = part->weight.act_order && part->k_places == 0 && !is_empty(part);
  return (is_bytes && part->as_16_bits) || is_unsorted || !keeps(dev, spec, i);
}

bool yk_repack_sorts(const yk_model_device *dev, const yk_linear_part *part)
{
  const yk_linear_spec alone = {.parts = {*part}, .n_parts = 1, .n_matrices = 1};
  return part->weight.act_order && !part->as_16_bits && !is_empty(part) && keeps(dev, &alone, 0);
}

static way way_of(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  if (yk_repack_dequantises(dev, spec, i)) return DEQUANTISED;
  switch (part->weight.format) {
  case YK_WEIGHT_AWQ:
    if (is_empty(part)) return AS_IT_IS;
    return yk_int4_is_ready(&part->weight) && !part->n_order ? INT4_CHECKED : INT4_REPACKED;
  case YK_WEIGHT_INT8:
  case YK_WEIGHT_FP8: return BYTES_REPACKED;
  case YK_WEIGHT_PLAIN: break;
  }
  return part->n_order ? FLOATS_REORDERED : AS_IT_IS;
}

/* In places, where inputs or outputs are put into another order. */
static yk_weight_slice slice_of(const yk_linear_part *part)
{
  yk_weight_slice slice = {part->k.begin, part->k.end, part->n.begin, part->n.end};
  if (part->k_places > 0) slice.k_begin = 0, slice.k_end = part->k_places;
  if (part->n_order) slice.n_begin = 0, slice.n_end = yk_range_size(part->n);
  return slice;
}

static int64_t float_row_bytes(const yk_linear_part *part)
{
  return part->weight.k * (int64_t)yk_dtype_bytes(part->weight.dtype);
}

static yk_dtype plain_dtype(const yk_model_device *dev)
{
  return dev->dtype == YK_F32 ? YK_F16 : dev->dtype;
}

static int64_t plain_bytes(const yk_model_device *dev, const yk_linear_part *part)
{
  int64_t n_elements = yk_range_size(part->k) * yk_range_size(part->n);
  return yk_round_up_i64(n_elements * (int64_t)yk_dtype_bytes(plain_dtype(dev)), YK_DEVICE_ALIGNMENT_BYTES);
}

static int64_t aligned(int64_t n_bytes)
{
  return yk_round_up_i64(n_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

/* Of a part's orders: inputs, groups and columns of x, then biases in the order of outputs. */
static int64_t order_bytes(const yk_linear_part *part)
{
  int64_t n_bias = part->n_order && part->weight.bias ? yk_range_size(part->n) : 0;
  return aligned(3 * part->k_places * (int64_t)sizeof(int32_t)) +
         aligned(n_bias * (int64_t)yk_dtype_bytes(part->weight.bias_dtype));
}

/* What of an order its size follows from. */
static const yk_slice_order *outline_of(const yk_linear_part *part, yk_slice_order *order)
{
  static const int32_t some;
  *order = (yk_slice_order){
      .inputs = part->k_places > 0 ? &some : NULL, .group = part->group_local, .outputs = part->n_order};
  return order->inputs || order->outputs ? order : NULL;
}

/* What a part takes of the buffer: its weight, and behind it its orders. */
static int64_t weight_bytes(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  const yk_weight_slice slice = slice_of(part);
  yk_slice_order outline;
  const yk_slice_order *order = outline_of(part, &outline);
  int64_t n_bytes = 0;
  if (is_empty(part)) return 0;
  switch (way_of(dev, spec, i)) {
  case INT4_REPACKED: n_bytes = (int64_t)yk_int4_repacked_bytes(&part->weight, &slice, order); break;
  case BYTES_REPACKED:
    n_bytes = (int64_t)yk_int8_repacked_bytes(&part->weight, &slice, order, part->group_local);
    break;
  case FLOATS_REORDERED: n_bytes = yk_range_size(part->n) * float_row_bytes(part); break;
  case DEQUANTISED: n_bytes = plain_bytes(dev, part); break;
  case AS_IT_IS:
  case INT4_CHECKED: break;
  }
  return aligned(n_bytes);
}

/* ---- Orders ------------------------------------------------------------------------------------------------------ */

/* x_size of the part that a sorted one becomes: sorted inputs of a share without padding are x as it is. */
static int64_t x_size_of(const yk_linear_part *part)
{
  int64_t size = yk_range_size(part->k);
  return part->k_places == 0 || (part->k_is_sorted && part->k_places == size) ? 0 : size;
}

/* That part, without its data. */
static void become_sorted(yk_linear_part *part)
{
  if (part->k_places == 0) return;
  part->x_size = x_size_of(part);
  part->k = (yk_range){0, part->k_places};
  part->weight.k = part->k_places;
  part->weight.group = part->group_local;
  part->weight.act_order = false;
  part->weight.g_idx = NULL;
  part->k_places = 0;
  part->k_is_sorted = false;
}

/* memory: order_bytes. */
static void order_biases(yk_linear_part *part, char *memory)
{
  if (!part->n_order || !part->weight.bias) return;
  size_t element = yk_dtype_bytes(part->weight.bias_dtype);
  char *biases = memory + aligned(3 * part->k_places * (int64_t)sizeof(int32_t));
  for (int64_t i = 0; i < yk_range_size(part->n); i++)
    memcpy(biases + (size_t)i * element, (const char *)part->weight.bias + (size_t)part->n_order[i] * element, element);
  part->weight.bias = biases;
}

/* memory: order_bytes. *order is what the part's slice stands in, NULL inside where that is as it was. */
static yk_status make_order(yk_linear_part *part, char *memory, yk_slice_order *order, yk_err *err)
{
  const yk_group_share share = {part->k.begin, part->k.end, part->k_is_sorted};
  const yk_group_places places = {part->k_places, part->group_local};
  int32_t *inputs = (int32_t *)(void *)memory, *groups = inputs + places.n, *columns = groups + places.n;
  *order = (yk_slice_order){.group = part->group_local, .outputs = part->n_order};
  order_biases(part, memory);
  if (places.n == 0) return YK_OK;
  YK_TRY(yk_group_order_fill(&part->weight, &share, &places, inputs, groups, err));
  order->inputs = inputs;
  order->groups = groups;
  int32_t next = 0;
  for (int64_t i = 0; i < places.n; i++)
    columns[i] = inputs[i] < 0 ? -1 : share.of_sorted ? next++ : inputs[i] - (int32_t)share.begin;
  part->x_order = columns;
  return YK_OK;
}

/* ---- A part that is no longer where the checkpoint has it -------------------------------------------------------- */

/* The slice becomes the whole weight. */
static void begin_at_0(yk_linear_part *part)
{
  yk_weight_view *weight = &part->weight;
  if (weight->bias)
    weight->bias = (const char *)weight->bias + (size_t)part->n.begin * yk_dtype_bytes(weight->bias_dtype);
  part->k = (yk_range){0, yk_range_size(part->k)};
  part->n = (yk_range){0, yk_range_size(part->n)};
  weight->k = part->k.end;
  weight->n = part->n.end;
}

/* The part that a dequantised one becomes, without its data. */
static yk_linear_part plain_part(const yk_model_device *dev, const yk_linear_part *part)
{
  yk_linear_part plain = *part;
  begin_at_0(&plain);
  const yk_weight_view *weight = &plain.weight;
  plain.weight = (yk_weight_view){.format = YK_WEIGHT_PLAIN,
                                  .k = weight->k,
                                  .n = weight->n,
                                  .dtype = plain_dtype(dev),
                                  .tensor = weight->tensor,
                                  .bias = weight->bias,
                                  .bias_dtype = weight->bias_dtype};
  plain.group_local = 0;
  plain.as_16_bits = false;
  plain.n_order = NULL;
  return plain;
}

/* memory: plain_bytes. */
static yk_status dequantise(const yk_model_device *dev, yk_cpu_pool *pool, yk_linear_part *part, char *memory,
                            char *order_memory, yk_err *err)
{
  const yk_linear_part source = *part;
  order_biases(part, order_memory);
  if (part->n_order) part->n = (yk_range){0, yk_range_size(part->n)};
  *part = plain_part(dev, part);
  part->weight.plain = memory;
  return yk_repack_as_floats(pool, &source, part->weight.dtype, memory, err);
}

/* order: the slice's, or NULL. memory: weight_bytes. */
static yk_status repack_int4(yk_cpu_pool *pool, yk_linear_part *part, const yk_slice_order *order, void *memory,
                             yk_err *err)
{
  const yk_weight_slice slice = slice_of(part);
  yk_int4_repacked repacked;
  YK_TRY(yk_int4_repack(&part->weight, &slice, order, pool, memory, &repacked, err));
  part->weight = repacked.weight;
  part->k = (yk_range){slice.k_begin - repacked.first_k, slice.k_end - repacked.first_k};
  part->n = (yk_range){slice.n_begin - repacked.first_n, slice.n_end - repacked.first_n};
  return YK_OK;
}

static yk_status repack_bytes(yk_cpu_pool *pool, yk_linear_part *part, const yk_slice_order *order, void *memory,
                              yk_err *err)
{
  const yk_weight_slice slice = slice_of(part);
  yk_weight_view repacked;
  YK_TRY(yk_int8_repack(&part->weight, &slice, order, part->group_local, pool, memory, &repacked, err));
  part->weight = repacked;
  part->k = (yk_range){0, repacked.k};
  part->n = (yk_range){0, repacked.n};
  return YK_OK;
}

/* Rows of a plain weight, all inputs of each. */
static void reorder_floats(yk_cpu_pool *pool, yk_linear_part *part, char *memory)
{
  int64_t n = yk_range_size(part->n);
  yk_repack_rows(pool, part, memory);
  part->weight.plain = memory;
  part->weight.n = n;
  part->n = (yk_range){0, n};
}

/* ---- All parts --------------------------------------------------------------------------------------------------- */

static yk_status repack(yk_cpu_pool *pool, yk_linear_part *part, way chosen, char *memory, char *order_memory,
                        yk_err *err)
{
  yk_slice_order made;
  bool has_order = part->k_places > 0 || part->n_order;
  const yk_slice_order *order = has_order ? &made : NULL;
  if (has_order) YK_TRY(make_order(part, order_memory, &made, err));
  part->x_size = x_size_of(part);
  if (part->x_size == 0) part->x_order = NULL;
  if (chosen == INT4_REPACKED)
    YK_TRY(repack_int4(pool, part, order, memory, err));
  else if (chosen == BYTES_REPACKED)
    YK_TRY(repack_bytes(pool, part, order, memory, err));
  else
    reorder_floats(pool, part, memory);
  part->k_places = 0;
  part->k_is_sorted = false;
  part->n_order = NULL;
  return YK_OK;
}

static yk_status bring_part(const yk_model_device *dev, const yk_linear_spec *spec, int i, yk_cpu_pool *pool,
                            char *memory, yk_linear_part *out, yk_err *err)
{
  const yk_weight_slice slice = slice_of(out);
  way chosen = way_of(dev, spec, i);
  if (is_empty(out)) {
    if (chosen == DEQUANTISED) *out = plain_part(dev, out);
    return YK_OK;
  }
  switch (chosen) {
  case INT4_CHECKED: return yk_int4_check_scales(&out->weight, &slice, pool, err);
  case INT4_REPACKED:
  case BYTES_REPACKED:
  case FLOATS_REORDERED: return repack(pool, out, chosen, memory, memory + weight_bytes(dev, spec, i), err);
  case DEQUANTISED: return dequantise(dev, pool, out, memory, memory + weight_bytes(dev, spec, i), err);
  case AS_IT_IS: break;
  }
  return YK_OK;
}

static int64_t buffer_bytes(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  return is_empty(&spec->parts[i]) ? 0 : weight_bytes(dev, spec, i) + order_bytes(&spec->parts[i]);
}

static yk_status reserve(yk_rank_buffer *buffer, size_t n_bytes, yk_err *err)
{
  if (n_bytes <= buffer->n_bytes) return YK_OK;
  free(buffer->memory);
  *buffer = (yk_rank_buffer){.memory = malloc(n_bytes + YK_DEVICE_ALIGNMENT_BYTES)};
  if (!buffer->memory) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu bytes of repacked weights", n_bytes);
  buffer->n_bytes = n_bytes;
  return YK_OK;
}

static char *aligned_memory(const yk_rank_buffer *buffer)
{
  uintptr_t unaligned = (uintptr_t)buffer->memory % YK_DEVICE_ALIGNMENT_BYTES;
  return (char *)buffer->memory + (unaligned ? YK_DEVICE_ALIGNMENT_BYTES - unaligned : 0);
}

/* The layer with the weights of one of its matrices. */
static yk_linear_spec spec_of(const yk_linear_spec *spec, int32_t matrix)
{
  yk_linear_spec of_matrix = *spec;
  for (int i = 0; i < spec->n_parts; i++) of_matrix.parts[i] = yk_linear_part_of(&spec->parts[i], matrix);
  return of_matrix;
}

static int64_t matrix_buffer_bytes(const yk_model_device *dev, const yk_linear_spec *of_matrix)
{
  int64_t n_bytes = 0;
  for (int i = 0; i < of_matrix->n_parts; i++) n_bytes += buffer_bytes(dev, of_matrix, i);
  return n_bytes;
}

/* memory: matrix_buffer_bytes. */
static yk_status bring_matrix(const yk_model_device *dev, const yk_linear_spec *of_matrix, yk_cpu_pool *pool,
                              char *memory, yk_linear_part *out, yk_err *err)
{
  for (int i = 0; i < of_matrix->n_parts; i++) {
    out[i] = of_matrix->parts[i];
    YK_TRY(bring_part(dev, of_matrix, i, pool, memory, &out[i], err));
    memory += buffer_bytes(dev, of_matrix, i);
  }
  return YK_OK;
}

/* What all matrices of a layer have together: views [n_parts, n_matrices - 1], and the orders of x of each part that
 * has one. */
typedef struct of_layer {
  yk_weight_view *views;
  int32_t *orders[YK_MAX_LINEAR_PARTS]; /* [n_matrices, k_places] */
} of_layer;

static int64_t views_bytes(const yk_linear_spec *spec)
{
  return aligned((int64_t)(spec->n_matrices - 1) * spec->n_parts * (int64_t)sizeof(yk_weight_view));
}

static int64_t orders_bytes(const yk_linear_spec *spec, int i)
{
  return aligned(spec->n_matrices * spec->parts[i].k_places * (int64_t)sizeof(int32_t));
}

static of_layer of_layer_at(const yk_linear_spec *spec, char *memory)
{
  of_layer layer = {.views = (yk_weight_view *)(void *)memory};
  memory += views_bytes(spec);
  for (int i = 0; i < spec->n_parts; memory += orders_bytes(spec, i++)) layer.orders[i] = (int32_t *)(void *)memory;
  return layer;
}

/* Matrices that are alike in the checkpoint are alike when they are brought. */
static yk_status bring_matrices(const yk_model_device *dev, const yk_linear_spec *spec, yk_cpu_pool *pool,
                                const of_layer *layer, char *memory, yk_linear_spec *out, yk_err *err)
{
  int32_t n_more = spec->n_matrices - 1;
  for (int32_t m = 0; m <= n_more; m++) {
    yk_linear_part parts[YK_MAX_LINEAR_PARTS];
    const yk_linear_spec of_matrix = spec_of(spec, m);
    YK_TRY(bring_matrix(dev, &of_matrix, pool, memory, parts, err));
    memory += matrix_buffer_bytes(dev, &of_matrix);
    for (int i = 0; i < spec->n_parts; i++) {
      int64_t k = yk_range_size(parts[i].k);
      if (parts[i].x_order) memcpy(layer->orders[i] + m * k, parts[i].x_order, (size_t)k * sizeof(int32_t));
      if (m == 0)
        out->parts[i] = parts[i];
      else
        layer->views[i * n_more + m - 1] = parts[i].weight;
    }
  }
  for (int i = 0; i < spec->n_parts; i++) {
    if (n_more > 0) out->parts[i].more_weights = layer->views + i * n_more;
    if (out->parts[i].x_order) out->parts[i].x_order = layer->orders[i];
  }
  return YK_OK;
}

yk_status yk_repack_layer(const yk_model_device *dev, const yk_linear_spec *spec, yk_cpu_pool *pool,
                          yk_rank_buffer *buffer, yk_linear_spec *out, yk_err *err)
{
  int64_t n_bytes = 0, of_layer_bytes = views_bytes(spec);
  if (spec->n_matrices > 1) YK_TRY(yk_linear_check(spec, err));
  for (int32_t m = 0; m < spec->n_matrices; m++) {
    const yk_linear_spec of_matrix = spec_of(spec, m);
    n_bytes += matrix_buffer_bytes(dev, &of_matrix);
  }
  for (int i = 0; i < spec->n_parts; i++) of_layer_bytes += orders_bytes(spec, i);
  YK_TRY(reserve(buffer, (size_t)(of_layer_bytes + n_bytes), err));
  const of_layer layer = of_layer_at(spec, aligned_memory(buffer));
  *out = *spec;
  return bring_matrices(dev, spec, pool, &layer, aligned_memory(buffer) + of_layer_bytes, out, err);
}

/* Biases stand where the outputs of the brought weight do, so there may be room before them. */
static int64_t folded_bytes(const yk_linear_part *source, const yk_linear_part *brought)
{
  bool folds = source->use_bias && source->weight.folds_bias && yk_range_size(source->n) > 0;
  return folds ? aligned(brought->n.end * (int64_t)sizeof(float)) : 0;
}

typedef struct folding {
  const yk_linear_part *source;
  float *to;
} folding;

static yk_status fold_blocks(void *context, int64_t begin, int64_t end, yk_err *err)
{
  const folding *f = context;
  const yk_linear_part *source = f->source;
  end = yk_min_i64(end * FOLDED_N, yk_range_size(source->n));
  begin *= FOLDED_N;
  if (!source->n_order)
    return yk_folded_bias(&source->weight, source->n.begin + begin, source->n.begin + end, f->to + begin, err);
  for (int64_t i = begin; i < end; i++)
    YK_TRY(yk_folded_bias(&source->weight, source->n_order[i], source->n_order[i] + 1, f->to + i, err));
  return YK_OK;
}

static yk_status fold_biases(yk_cpu_pool *pool, const yk_linear_part *source, float *to, yk_err *err)
{
  folding f = {source, to};
  return yk_cpu_pool_try(pool, yk_ceil_div_i64(yk_range_size(source->n), FOLDED_N), 1, fold_blocks, &f, err);
}

yk_status yk_repack_biases(const yk_linear_spec *spec, yk_cpu_pool *pool, yk_rank_buffer *buffer,
                           yk_linear_spec *brought, yk_err *err)
{
  int64_t n_bytes = 0, at = 0;
  for (int i = 0; i < spec->n_parts; i++) n_bytes += folded_bytes(&spec->parts[i], &brought->parts[i]);
  if (n_bytes == 0) return YK_OK;
  YK_TRY(reserve(buffer, (size_t)n_bytes, err));
  for (int i = 0; i < spec->n_parts; i++) {
    yk_linear_part *part = &brought->parts[i];
    int64_t taken = folded_bytes(&spec->parts[i], part);
    if (taken == 0) continue;
    float *bias = (float *)(void *)(aligned_memory(buffer) + at);
    YK_TRY(fold_biases(pool, &spec->parts[i], bias + part->n.begin, err));
    part->weight.bias = bias;
    part->weight.bias_dtype = YK_F32;
    at += taken;
  }
  return YK_OK;
}

/* The layer as it is brought, without its data. */
static yk_linear_spec outline_of_brought(const yk_model_device *dev, const yk_linear_spec *spec)
{
  yk_linear_spec brought = *spec;
  for (int i = 0; i < spec->n_parts; i++)
    if (yk_repack_dequantises(dev, spec, i))
      brought.parts[i] = plain_part(dev, &spec->parts[i]);
    else
      become_sorted(&brought.parts[i]);
  return brought;
}

int64_t yk_repack_bytes(const yk_model_device *dev, const yk_linear_spec *spec)
{
  const yk_linear_spec brought = outline_of_brought(dev, spec);
  return dev->linear_bytes(&brought);
}

int64_t yk_repack_mixture_scratch_bytes(const yk_model_device *dev, const yk_mixture_sizes *sizes,
                                        const yk_linear_spec *gate_up, const yk_linear_spec *down)
{
  if (!dev->mixture_scratch_bytes) return 0;
  if (!gate_up) return dev->mixture_scratch_bytes(sizes, NULL, NULL);
  const yk_linear_spec to_inner = outline_of_brought(dev, gate_up), to_outputs = outline_of_brought(dev, down);
  return dev->mixture_scratch_bytes(sizes, &to_inner, &to_outputs);
}

int32_t yk_repack_n_unkept(const yk_model_device *dev, const yk_linear_spec *spec)
{
  int32_t n = 0;
  for (int i = 0; i < spec->n_parts; i++) n += !spec->parts[i].as_16_bits && yk_repack_dequantises(dev, spec, i);
  return n;
}

int32_t yk_repack_n_float_inputs(const yk_model_device *dev, const yk_linear_spec *spec)
{
  int32_t n = 0;
  for (int i = 0; i < spec->n_parts; i++)
    n += spec->parts[i].weight.inputs.kind != YK_INPUTS_FLOAT && yk_repack_dequantises(dev, spec, i);
  return n;
}
