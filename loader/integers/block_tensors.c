#include "loader/integers/block_tensors.h"

#include <string.h>

#include "base/checked.h"

static const char scale_name[] = "weight_scale", scale_inv_name[] = "weight_scale_inv";

void yk_block_tensors_begin(const yk_quant_scheme *scheme, yk_weight_view *view)
{
  view->format = scheme->format;
  view->packing = YK_PACKING_BLOCKS;
  view->group = scheme->group_size < 0 ? view->k : yk_min_i64(scheme->group_size, view->k);
  view->group_n = scheme->group_outputs < 0 ? view->n : yk_min_i64(scheme->group_outputs, view->n);
}

/* Find the scale under one of its two names. */
static yk_status find_scale(const yk_shards *shards, const char *module, const yk_tensor **out, yk_err *err)
{
  const yk_tensor *scale = yk_tensors_find(shards, module, scale_name, NULL);
  const yk_tensor *inverse = yk_tensors_find(shards, module, scale_inv_name, NULL);
  if (!scale == !inverse)
    return yk_err_set(err, YK_E_FORMAT, "%s: expected one of %s.%s and %s.%s, %s", yk_shards_source(shards), module,
                      scale_inv_name, module, scale_name, scale ? "found both" : "both are missing");
  *out = scale ? scale : inverse;
  return YK_OK;
}

/* nvidia-modelopt writes scales of blocks as [rows, 1, columns, 1], which have the same bytes as [rows, columns]. */
static bool is_spaced(const yk_tensor *scale, int64_t rows, int64_t columns)
{
  const int64_t shape[] = {rows, 1, columns, 1};
  return scale->n_dims == 4 && memcmp(scale->shape, shape, sizeof shape) == 0;
}

static yk_status read_scale(const yk_shards *shards, const char *module, yk_weight_view *view, yk_err *err)
{
  int64_t rows = yk_ceil_div_i64(view->n, view->group_n), columns = yk_ceil_div_i64(view->k, view->group);
  const yk_tensor *scale;
  YK_TRY(find_scale(shards, module, &scale, err));
  bool is_inverse = strcmp(scale->name + strlen(module) + 1, scale_inv_name) == 0;
  yk_tensor_wish wish = {is_inverse ? scale_inv_name : scale_name, YK_TENSORS_FLOAT, 2, {rows, columns}};
  if (is_spaced(scale, rows, columns)) wish = (yk_tensor_wish){wish.suffix, wish.kind, 4, {rows, 1, columns, 1}};
  if (columns == 1 && (scale->n_dims == 1 || (scale->n_dims == 0 && rows == 1))) wish.n_dims = scale->n_dims;
  YK_TRY(yk_tensors_require(shards, module, &wish, &view->dtype, &scale, err));
  view->scales = scale->data;
  return YK_OK;
}

yk_status yk_block_tensors_read(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                                yk_weight_view *view, yk_err *err)
{
  const char *file;
  const yk_tensor *weight = yk_tensors_find(shards, module, "weight", &file);
  if (weight && weight->dtype == YK_TENSOR_F8_E5M2 && scheme->format == YK_WEIGHT_FP8)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: tensor %s: dtype F8_E5M2 is not supported; supported: F8_E4M3", file,
                      weight->name);
  yk_block_tensors_begin(scheme, view);
  const yk_tensor_kind kind = scheme->format == YK_WEIGHT_FP8 ? YK_TENSORS_FP8 : YK_TENSORS_I8;
  const yk_tensor_wish wish = {"weight", kind, 2, {view->n, view->k}};
  YK_TRY(yk_tensors_require(shards, module, &wish, NULL, &weight, err));
  YK_TRY(read_scale(shards, module, view, err));
  view->tensor = weight->name;
  view->qweight = weight->data;
  return YK_OK;
}
