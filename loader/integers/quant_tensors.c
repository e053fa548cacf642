#include "loader/integers/quant_tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "loader/integers/int4_packing.h"

const char *yk_quant_suffix(const yk_shards *shards, const char *module)
{
  for (yk_packing packing = 0; packing < YK_N_PACKINGS; packing++) {
    const yk_packing_row *row = yk_packing_row_of(packing);
    const yk_tensor *weight = row->names.weight ? yk_tensors_find(shards, module, row->names.weight, NULL) : NULL;
    if (weight && (!row->marks || row->marks(weight))) return row->names.weight;
  }
  return NULL;
}

yk_status yk_quant_begin(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err)
{
  const yk_packing_row *row = yk_packing_row_of(scheme->packing);
  if (row->begin) return row->begin(module, scheme, view, err);
  const yk_packing_grain unit = row->grain ? row->grain(scheme->format) : (yk_packing_grain){1, 1, ""};
  view->format = scheme->format;
  view->packing = scheme->packing;
  bool is_channel = scheme->group_size == -1 || (scheme->may_be_channel && view->k % scheme->group_size != 0);
  view->group = is_channel ? view->k : scheme->group_size;
  view->zeros_less_one = scheme->zeros == YK_ZEROS_LESS_ONE;
  view->has_zeros = scheme->zeros != YK_ZEROS_NONE;
  view->act_order = scheme->act_order && view->group < view->k; /* until g_idx is read */
  view->inputs.kind = scheme->inputs;
  if (view->k % view->group != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: %" PRId64 " inputs: expected a multiple of group_size %" PRId64, module,
                      view->k, view->group);
  if (view->k % unit.k != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: %" PRId64 " inputs: expected a multiple of %" PRId64 " (%s)", module,
                      view->k, unit.k, unit.why);
  if (view->n % unit.n != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: %" PRId64 " outputs: expected a multiple of %" PRId64 " (%s)", module,
                      view->n, unit.n, unit.why);
  return YK_OK;
}

/* weight_shape repeats N and K: check it. */
static yk_status check_shape(const yk_shards *shards, const char *module, const yk_packing_names *names,
                             const yk_weight_view *view, yk_err *err)
{
  if (!names->shape) return YK_OK;
  const yk_tensor_wish wish = {names->shape, YK_TENSORS_I64, 1, {2, 0}};
  const yk_tensor *tensor;
  int64_t shape[2];
  YK_TRY(yk_tensors_require(shards, module, &wish, NULL, &tensor, err));
  memcpy(shape, tensor->data, sizeof shape);
  if (shape[0] == view->n && shape[1] == view->k) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: tensor %s: expected the values %" PRId64 ", %" PRId64 ", found %" PRId64 ", %" PRId64,
                    yk_shards_source(shards), tensor->name, view->n, view->k, shape[0], shape[1]);
}

static int32_t group_at(const yk_tensor *g_idx, int64_t k)
{
  return (int32_t)yk_int4_word(g_idx->data, k);
}

/* compressed-tensors writes -1 everywhere without act order: groups are then runs of neighbouring inputs. */
static bool is_unset(const yk_tensor *g_idx, const yk_weight_view *view)
{
  bool unset = yk_packing_row_of(view->packing)->blank_is_minus_one;
  for (int64_t k = 0; unset && k < view->k; k++) unset = group_at(g_idx, k) == -1;
  return unset;
}

bool yk_quant_is_blank(const yk_tensor *g_idx, yk_packing packing)
{
  return yk_packing_row_of(packing)->blank_is_zeros && yk_tensors_is_zero(g_idx);
}

/* compressed-tensors forms a group from each group_size of the sorted inputs, independent of the numbers in g_idx. The
 * result is the same only if all groups have that size. */
static yk_status check_sizes(const yk_shards *shards, const yk_tensor *g_idx, const yk_weight_view *view, yk_err *err)
{
  int64_t n_groups = view->k / view->group, group = 0;
  if (!yk_packing_row_of(view->packing)->blank_is_minus_one) return YK_OK;
  int64_t *sizes = calloc((size_t)n_groups, sizeof *sizes);
  if (!sizes) return yk_err_set(err, YK_E_NOMEM, "no memory for the sizes of %" PRId64 " groups", n_groups);
  for (int64_t k = 0; k < view->k; k++) sizes[group_at(g_idx, k)]++;
  while (group < n_groups && sizes[group] == view->group) group++;
  int64_t size = group < n_groups ? sizes[group] : 0;
  free(sizes);
  if (group == n_groups) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: tensor %s: group %" PRId64 ": expected %" PRId64 " inputs (group_size), found %" PRId64,
                    yk_shards_source(shards), g_idx->name, group, view->group, size);
}

/* Groups that are not contiguous mean that the inputs were reordered (desc_act, actorder). */
static yk_status read_groups(const yk_shards *shards, const char *module, const yk_packing_names *names,
                             bool is_required, yk_weight_view *view, yk_err *err)
{
  bool is_there = names->g_idx && yk_tensors_find(shards, module, names->g_idx, NULL);
  view->act_order = false;
  if (!is_there && (!is_required || view->group == view->k)) return YK_OK;
  const yk_tensor_wish wish = {names->g_idx, YK_TENSORS_I32, 1, {view->k, 0}};
  const yk_tensor *tensor;
  int64_t n_groups = view->k / view->group;
  YK_TRY(yk_tensors_require(shards, module, &wish, NULL, &tensor, err));
  if (is_unset(tensor, view) || (!is_required && yk_quant_is_blank(tensor, view->packing))) return YK_OK;
  bool is_contiguous = true;
  for (int64_t k = 0; k < view->k; k++) {
    int32_t group = group_at(tensor, k);
    if (group < 0 || group >= n_groups)
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: tensor %s: input %" PRId64 ": expected a group from 0 to %" PRId64 ", found %d",
                        yk_shards_source(shards), tensor->name, k, n_groups - 1, group);
    is_contiguous = is_contiguous && group == k / view->group;
  }
  if (is_contiguous) return YK_OK;
  view->act_order = true;
  view->g_idx = tensor->data;
  return check_sizes(shards, tensor, view, err);
}

/* The scale of the whole tensor. Zero would turn all weights into zeros, or infinities if it divides. */
static yk_status read_global_scale(const yk_shards *shards, const char *module, const char *suffix,
                                   yk_weight_view *view, yk_err *err)
{
  if (!suffix) return YK_OK;
  yk_tensor_wish wish = {suffix, YK_TENSORS_FLOAT, 1, {1, 0}};
  const yk_tensor *found = yk_tensors_find(shards, module, suffix, NULL), *tensor;
  yk_dtype dtype;
  float scale;
  if (found && found->n_dims == 0) wish.n_dims = 0;
  YK_TRY(yk_tensors_require(shards, module, &wish, &dtype, &tensor, err));
  if (dtype != YK_F32)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected F32, found %s", yk_shards_source(shards), tensor->name,
                      yk_dtype_name(dtype));
  memcpy(&scale, tensor->data, sizeof scale);
  if (!isfinite(scale) || scale == 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected a finite number other than 0, found %g",
                      yk_shards_source(shards), tensor->name, (double)scale);
  view->global_scale = tensor->data;
  return YK_OK;
}

yk_status yk_quant_read(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                        yk_weight_view *view, yk_err *err)
{
  const yk_packing_row *row = yk_packing_row_of(scheme->packing);
  if (row->read) return row->read(shards, module, scheme, view, err);
  const yk_packing_names *names = &row->names;
  yk_quant_scheme of_module = *scheme;
  const yk_tensor *found = yk_tensors_find(shards, module, names->scales, NULL);
  if (scheme->may_be_channel && found && found->n_dims == 2 && found->shape[1] == 1) of_module.group_size = -1;
  YK_TRY(yk_quant_begin(module, &of_module, view, err));
  const yk_packing_wishes w = row->wishes(view);
  const yk_tensor *weight, *zeros = NULL, *scales;
  yk_dtype zeros_dtype = YK_F32;
  YK_TRY(yk_tensors_require(shards, module, &w.weight, NULL, &weight, err));
  YK_TRY(yk_tensors_require(shards, module, &w.scales, &view->dtype, &scales, err));
  bool has_zeros = scheme->zeros != YK_ZEROS_NONE;
  if (!has_zeros && names->zeros) YK_TRY(yk_tensors_require_symmetric(shards, module, names->zeros, err));
  if (scheme->zeros == YK_ZEROS_OPTIONAL) has_zeros = yk_tensors_find(shards, module, names->zeros, NULL) != NULL;
  if (has_zeros) YK_TRY(yk_tensors_require(shards, module, &w.zeros, &zeros_dtype, &zeros, err));
  if (zeros && w.zeros.kind == YK_TENSORS_FLOAT && zeros_dtype != view->dtype)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected the type of %s, %s, found %s",
                      yk_shards_source(shards), zeros->name, scales->name, yk_dtype_name(view->dtype),
                      yk_dtype_name(zeros_dtype));
  YK_TRY(check_shape(shards, module, names, view, err));
  YK_TRY(read_groups(shards, module, names, scheme->act_order, view, err));
  YK_TRY(read_global_scale(shards, module, names->global_scale, view, err));
  view->tensor = weight->name;
  view->qweight = weight->data;
  view->qzeros = zeros ? zeros->data : NULL;
  view->scales = scales->data;
  return YK_OK;
}
