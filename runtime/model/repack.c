#include "model/repack.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_simd.h"
#include "loader/repack.h"

/* ---- Choosing the form of a part --------------------------------------------------------------------------------- */

static bool is_empty(const yk_linear_part *part)
{
  return yk_range_size(part->k) == 0 || yk_range_size(part->n) == 0;
}

bool yk_repack_dequantises(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  bool is_unsorted = part->weight.act_order && part->k_places == 0 && !is_empty(part);
  return is_unsorted || !dev->linear_keeps(spec, i);
}

bool yk_repack_sorts(const yk_model_device *dev, const yk_linear_part *part)
{
  const yk_linear_spec alone = {.parts = {*part}, .n_parts = 1, .n_matrices = 1};
  return part->weight.act_order && !part->as_16_bits && !is_empty(part) && dev->linear_keeps(&alone, 0);
}

static yk_dtype plain_dtype(const yk_model_device *dev)
{
  return dev->dtype == YK_F32 ? YK_F16 : dev->dtype;
}

static yk_repack_request request_of(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  return (yk_repack_request){.weight = &part->weight,
                             .slice = {part->k.begin, part->k.end, part->n.begin, part->n.end},
                             .group_local = part->group_local,
                             .k_places = part->k_places,
                             .k_is_sorted = part->k_is_sorted,
                             .n_order = part->n_order,
                             .folds_bias = part->use_bias,
                             .as_floats = yk_repack_dequantises(dev, spec, i),
                             .as_int8 = part->as_int8,
                             .dtype = plain_dtype(dev),
                             .round = yk_cpu_simd_best()->from_f32,
                             .widen = yk_cpu_simd_best()->to_f32};
}

/* ---- Outlines: parts without data, for plans --------------------------------------------------------------------- */

/* x_size of a part after sorting; 0: x is read in its own order, which holds for a share whose sorted inputs have no
 * padding. */
static int64_t x_size_of(const yk_linear_part *part)
{
  int64_t size = yk_range_size(part->k);
  return part->k_places == 0 || (part->k_is_sorted && part->k_places == size) ? 0 : size;
}

/* Change a part with sorted inputs into its repacked form. */
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

/* Change a dequantised part into its repacked form. */
static void become_plain(const yk_model_device *dev, yk_linear_part *part)
{
  part->k = (yk_range){0, yk_range_size(part->k)};
  part->n = (yk_range){0, yk_range_size(part->n)};
  part->weight =
      (yk_weight_view){.format = YK_WEIGHT_PLAIN, .k = part->k.end, .n = part->n.end, .dtype = plain_dtype(dev)};
  part->group_local = 0;
  part->as_16_bits = false;
}

/* Change a plain part with as_int8 into its repacked form. */
static void become_int8(yk_linear_part *part)
{
  part->k = (yk_range){0, yk_range_size(part->k)};
  part->n = (yk_range){0, yk_range_size(part->n)};
  part->weight = (yk_weight_view){.format = YK_WEIGHT_INT8,
                                  .k = part->k.end,
                                  .n = part->n.end,
                                  .group = part->k.end,
                                  .dtype = YK_F32,
                                  .packing = YK_PACKING_ROWS};
  part->group_local = part->k.end;
  part->as_int8 = false;
}

static yk_linear_spec outline_of_repacked(const yk_model_device *dev, const yk_linear_spec *spec)
{
  yk_linear_spec repacked = *spec;
  for (int i = 0; i < spec->n_parts; i++)
    if (spec->parts[i].as_int8)
      become_int8(&repacked.parts[i]);
    else if (yk_repack_dequantises(dev, spec, i))
      become_plain(dev, &repacked.parts[i]);
    else
      become_sorted(&repacked.parts[i]);
  return repacked;
}

bool yk_repack_keeps_int8(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_linear_spec repacked = outline_of_repacked(dev, spec);
  return dev->linear_keeps(&repacked, i);
}

int64_t yk_repack_bytes(const yk_model_device *dev, const yk_linear_spec *spec)
{
  const yk_linear_spec repacked = outline_of_repacked(dev, spec);
  return dev->linear_bytes(&repacked);
}

int64_t yk_repack_shared_bytes(const yk_model_device *dev, const yk_linear_spec *spec)
{
  if (!dev->linear_shared_bytes) return 0;
  const yk_linear_spec repacked = outline_of_repacked(dev, spec);
  return dev->linear_shared_bytes(&repacked);
}

bool yk_repack_divides(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  if (!dev->linear_divides) return true;
  const yk_linear_spec repacked = outline_of_repacked(dev, spec);
  return dev->linear_divides(&repacked, i);
}

int64_t yk_repack_mixture_scratch_bytes(const yk_model_device *dev, const yk_mixture_sizes *sizes,
                                        const yk_linear_spec *gate_up, const yk_linear_spec *down)
{
  if (!dev->mixture_scratch_bytes) return 0;
  if (!gate_up) return dev->mixture_scratch_bytes(sizes, NULL, NULL);
  const yk_linear_spec to_inner = outline_of_repacked(dev, gate_up), to_outputs = outline_of_repacked(dev, down);
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
  const yk_linear_spec repacked = outline_of_repacked(dev, spec);
  int32_t n = 0;
  for (int i = 0; i < spec->n_parts; i++) {
    const yk_inputs_kind kind = spec->parts[i].weight.inputs.kind;
    if (kind == YK_INPUTS_FP8 || kind == YK_INPUTS_INT8)
      n += !is_empty(&spec->parts[i]) && !yk_linear_rounds_inputs(&repacked, i);
    else
      n += kind != YK_INPUTS_FLOAT && yk_repack_dequantises(dev, spec, i);
  }
  return n;
}

/* ---- Data -------------------------------------------------------------------------------------------------------- */

static int64_t aligned(int64_t n_bytes)
{
  return yk_round_up_i64(n_bytes, YK_REPACK_ALIGNMENT_BYTES);
}

static int64_t buffer_bytes(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_repack_request request = request_of(dev, spec, i);
  return yk_repack_buffer_bytes(&request);
}

static yk_status repack_part(const yk_model_device *dev, const yk_linear_spec *spec, int i, yk_cpu_pool *pool,
                             char *memory, yk_linear_part *out, yk_err *err)
{
  const yk_repack_request request = request_of(dev, spec, i);
  yk_repack_result result;
  YK_TRY(yk_repack(&request, pool, memory, &result, err));
  *out = spec->parts[i];
  out->weight = result.weight;
  out->k = (yk_range){result.slice.k_begin, result.slice.k_end};
  out->n = (yk_range){result.slice.n_begin, result.slice.n_end};
  out->x_size = result.x_size;
  out->x_order = result.x_order;
  out->k_places = 0;
  out->k_is_sorted = false;
  out->n_order = NULL;
  out->as_int8 = false;
  if (request.as_int8) out->group_local = result.weight.group;
  if (!request.as_floats) return YK_OK;
  out->group_local = 0;
  out->as_16_bits = false;
  return YK_OK;
}

static yk_status reserve(yk_rank_buffer *buffer, size_t n_bytes, yk_err *err)
{
  if (n_bytes <= buffer->n_bytes) return YK_OK;
  free(buffer->memory);
  *buffer = (yk_rank_buffer){.memory = malloc(n_bytes + YK_REPACK_ALIGNMENT_BYTES)};
  if (!buffer->memory) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu bytes of repacked weights", n_bytes);
  buffer->n_bytes = n_bytes;
  return YK_OK;
}

static char *aligned_memory(const yk_rank_buffer *buffer)
{
  uintptr_t unaligned = (uintptr_t)buffer->memory % YK_REPACK_ALIGNMENT_BYTES;
  return (char *)buffer->memory + (unaligned ? YK_REPACK_ALIGNMENT_BYTES - unaligned : 0);
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

/* memory: matrix_buffer_bytes of space. */
static yk_status repack_matrix(const yk_model_device *dev, const yk_linear_spec *of_matrix, yk_cpu_pool *pool,
                               char *memory, yk_linear_part *out, yk_err *err)
{
  for (int i = 0; i < of_matrix->n_parts; i++) {
    YK_TRY(repack_part(dev, of_matrix, i, pool, memory, &out[i], err));
    memory += buffer_bytes(dev, of_matrix, i);
  }
  return YK_OK;
}

/* Data shared by all matrices of a layer: views [n_parts, n_matrices - 1], and the orders of x of each part with an
 * order. */
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

/* Matrices with equal layouts in the checkpoint have equal layouts after repacking. */
static yk_status repack_matrices(const yk_model_device *dev, const yk_linear_spec *spec, yk_cpu_pool *pool,
                                 const of_layer *layer, char *memory, yk_linear_spec *out, yk_err *err)
{
  int32_t n_more = spec->n_matrices - 1;
  for (int32_t m = 0; m <= n_more; m++) {
    yk_linear_part parts[YK_MAX_LINEAR_PARTS];
    const yk_linear_spec of_matrix = spec_of(spec, m);
    YK_TRY(repack_matrix(dev, &of_matrix, pool, memory, parts, err));
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
  return repack_matrices(dev, spec, pool, &layer, aligned_memory(buffer) + of_layer_bytes, out, err);
}
