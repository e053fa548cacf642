/* msmodelslim_tensors.c - int8 weights [n, k] of three kinds.
 *
 *   W8A16          w = (q - weight_offset) * weight_scale, one scale per output or group of inputs
 *   W8A8, W8A8S    y = (sum over k of x_q * q + quant_bias) * deq_scale, x_q = round(x / input_scale + input_offset);
 *                  quant_bias contains the layer's bias and the contribution of input_offset
 *   W8A8_DYNAMIC   w = q * weight_scale, and one scale per row of x
 *
 * Source: msmodelslim's files; vllm-ascend, quantization/w8a16.py, w8a8.py, w8a8_dynamic.py. */
#include "loader/foreign/msmodelslim_tensors.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "loader/integers/int8_inputs.h"
#include "loader/integers/quant_tensors.h"
#include "loader/model/quant_rules.h"

yk_status yk_msmodelslim_begin(const char *module, const yk_quant_scheme *scheme, yk_weight_view *view, yk_err *err)
{
  YK_TRY(yk_quant_begin(module, scheme, view, err));
  view->folds_bias = scheme->inputs == YK_INPUTS_STATIC;
  return yk_int8_inputs_begin(module, scheme, view, err);
}

/* ---- Single numbers ---------------------------------------------------------------------------------------------- */

static float float_at(const yk_tensor *tensor, yk_dtype dtype, int64_t i)
{
  uint32_t element = 0; /* data in files may be unaligned */
  size_t n_bytes = yk_dtype_bytes(dtype);
  memcpy(&element, (const char *)tensor->data + (size_t)i * n_bytes, n_bytes);
  return yk_dtype_load(dtype, &element, 0);
}

/* Read a tensor of one element, with or without a dimension. */
static yk_status read_one(const yk_shards *shards, const char *module, const char *suffix, float *out, yk_err *err)
{
  const yk_tensor *tensor = yk_tensors_find(shards, module, suffix, NULL);
  const yk_tensor_wish wish = {suffix, YK_TENSORS_FLOAT, tensor && tensor->n_dims == 0 ? 0 : 1, {1, 0}};
  yk_dtype dtype = YK_F32;
  YK_TRY(yk_tensors_require(shards, module, &wish, &dtype, &tensor, err));
  *out = float_at(tensor, dtype, 0);
  return YK_OK;
}

static yk_status read_inputs(const yk_shards *shards, const char *module, yk_inputs *inputs, yk_err *err)
{
  float offset;
  YK_TRY(read_one(shards, module, "input_scale", &inputs->scale, err));
  YK_TRY(read_one(shards, module, "input_offset", &offset, err));
  if (!(inputs->scale > 0) || !isfinite(inputs->scale))
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s.input_scale: expected a finite number above 0, found %g",
                      yk_shards_source(shards), module, (double)inputs->scale);
  if (!(offset >= -128 && offset <= 127) || rintf(offset) != offset)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s.input_offset: expected a whole number of -128 to 127, found %g",
                      yk_shards_source(shards), module, (double)offset);
  inputs->zero = (int32_t)offset;
  return YK_OK;
}

/* ---- Scales ------------------------------------------------------------------------------------------------------ */

static yk_status read_products(const yk_shards *shards, const char *module, yk_weight_view *view, yk_err *err)
{
  const yk_tensor *scale = yk_tensors_find(shards, module, "deq_scale", NULL), *bias;
  bool is_i64 = scale && scale->dtype == YK_TENSOR_I64;
  yk_tensor_wish wish = {"deq_scale", is_i64 ? YK_TENSORS_I64 : YK_TENSORS_FLOAT, 1, {view->n, 0}};
  const yk_tensor_wish bias_wish = {"quant_bias", YK_TENSORS_I32, 1, {view->n, 0}};
  yk_dtype dtype = YK_F32;
  YK_TRY(yk_tensors_require(shards, module, &wish, &dtype, &scale, err));
  YK_TRY(yk_tensors_require(shards, module, &bias_wish, NULL, &bias, err));
  YK_TRY(read_inputs(shards, module, &view->inputs, err));
  if (dtype != YK_F32)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected F32 or I64, found %s", yk_shards_source(shards),
                      scale->name, yk_tensor_dtype_name(scale->dtype));
  view->packing = is_i64 ? YK_PACKING_PRODUCTS_I64 : YK_PACKING_PRODUCTS;
  view->dtype = YK_F32;
  view->scales = scale->data;
  view->product_bias = bias->data;
  return YK_OK;
}

/* [n], or [n, groups]. The tensor's shape gives the number of groups; the description may give it too. */
static yk_status read_scale(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                            yk_weight_view *view, yk_tensor_wish *wish, yk_err *err)
{
  const yk_tensor *scale = yk_tensors_find(shards, module, "weight_scale", NULL);
  int64_t n_groups = view->k / view->group;
  bool has_groups = scheme->group_size > 0 || scheme->inputs != YK_INPUTS_FLOAT;
  if (scale && scale->n_dims == 2 && !has_groups && scale->shape[1] > 0 && view->k % scale->shape[1] == 0)
    n_groups = scale->shape[1];
  *wish = (yk_tensor_wish){"weight_scale", YK_TENSORS_FLOAT, 2, {view->n, n_groups}};
  if (scale && scale->n_dims == 1 && n_groups == 1) wish->n_dims = 1;
  YK_TRY(yk_tensors_require(shards, module, wish, &view->dtype, &scale, err));
  view->group = view->k / n_groups;
  view->scales = scale->data;
  return YK_OK;
}

/* Read weight_offset if it exists: zero points with the type and shape of the scales. For quantised inputs all must be
 * zero. */
static yk_status read_offset(const yk_shards *shards, const char *module, yk_tensor_wish wish, yk_weight_view *view,
                             yk_err *err)
{
  const yk_tensor *offset;
  yk_dtype dtype = YK_F32;
  wish.suffix = "weight_offset";
  view->has_zeros = false;
  if (!yk_tensors_find(shards, module, wish.suffix, NULL)) return YK_OK;
  YK_TRY(yk_tensors_require(shards, module, &wish, &dtype, &offset, err));
  if (view->inputs.kind != YK_INPUTS_FLOAT) {
    for (int64_t i = 0; i < view->n; i++)
      if (float_at(offset, dtype, i) != 0)
        return yk_err_set(err, YK_E_UNSUPPORTED,
                          "%s: tensor %s: output %" PRId64
                          ": %g is not supported with inputs of 8 bits for each token; supported: 0",
                          yk_shards_source(shards), offset->name, i, (double)float_at(offset, dtype, i));
    return YK_OK;
  }
  if (dtype != view->dtype)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected the type of weight_scale, %s, found %s",
                      yk_shards_source(shards), offset->name, yk_dtype_name(view->dtype), yk_dtype_name(dtype));
  view->has_zeros = true;
  view->qzeros = offset->data;
  return YK_OK;
}

yk_status yk_msmodelslim_read(const yk_shards *shards, const char *module, const yk_quant_scheme *scheme,
                              yk_weight_view *view, yk_err *err)
{
  const yk_tensor_wish weight_wish = {"weight", YK_TENSORS_I8, 2, {view->n, view->k}};
  const yk_tensor *weight;
  yk_tensor_wish scale_wish;
  YK_TRY(yk_msmodelslim_begin(module, scheme, view, err));
  YK_TRY(yk_tensors_require(shards, module, &weight_wish, NULL, &weight, err));
  view->tensor = weight->name;
  view->qweight = weight->data;
  if (scheme->inputs == YK_INPUTS_STATIC) return read_products(shards, module, view, err);
  YK_TRY(read_scale(shards, module, scheme, view, &scale_wish, err));
  return read_offset(shards, module, scale_wish, view, err);
}

/* ---- Norms ------------------------------------------------------------------------------------------------------- */

/* The number of layers that read a norm, how many of them are quantised, and one name of each kind. */
typedef struct readers {
  int n, n_quantised;
  char quantised[YK_WEIGHT_NAME_BYTES], of_floats[YK_WEIGHT_NAME_BYTES];
} readers;

static yk_status find_readers(const yk_model_config *config, yk_weight_role norm, int layer, readers *out, yk_err *err)
{
  static const yk_weight_role of_attention[] = {YK_ROLE_Q, YK_ROLE_K, YK_ROLE_V}, of_ffn[] = {YK_ROLE_GATE, YK_ROLE_UP};
  static const yk_weight_role of_experts[] = {YK_ROLE_EXPERT_GATE, YK_ROLE_EXPERT_UP, YK_ROLE_ROUTER};
  static const yk_weight_role of_final[] = {YK_ROLE_LM_HEAD};
  bool before_experts = norm == YK_ROLE_FFN_NORM && config->experts.layers[layer];
  const yk_weight_role *roles = norm == YK_ROLE_ATTENTION_NORM ? of_attention
                                : before_experts               ? of_experts
                                : norm == YK_ROLE_FFN_NORM     ? of_ffn
                                                               : of_final;
  memset(out, 0, sizeof *out);
  out->n = norm == YK_ROLE_ATTENTION_NORM || before_experts ? 3 : norm == YK_ROLE_FFN_NORM ? 2 : 1;
  for (int i = 0; i < out->n; i++) {
    const yk_quant_scheme *scheme;
    char name[YK_WEIGHT_NAME_BYTES];
    yk_weight_name(config, roles[i], layer, name);
    YK_TRY(yk_quant_scheme_of(&config->quant, name, &scheme, err));
    memcpy(scheme ? out->quantised : out->of_floats, name, sizeof name);
    out->n_quantised += scheme != NULL;
  }
  return YK_OK;
}

/* An offset of zeros counts as none. An offset without elements has the wrong shape, which is reported when it is
 * read. */
static bool is_none(const yk_tensor *offset)
{
  return !offset || (offset->n_bytes > 0 && yk_tensors_is_zero(offset));
}

static bool is_same(const yk_tensor *a, const yk_tensor *b)
{
  return a->dtype == b->dtype && a->n_bytes == b->n_bytes && memcmp(a->data, b->data, a->n_bytes) == 0;
}

yk_status yk_msmodelslim_norm_of(const yk_model_config *config, const yk_shards *shards, yk_weight_role role, int layer,
                                 yk_norm_tensors *out, yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  readers r;
  yk_weight_name(config, role, layer, name);
  YK_TRY(find_readers(config, role, layer, &r, err));
  const yk_tensor *plain = yk_tensors_find(shards, name, "weight", NULL);
  const yk_tensor *scaled = yk_tensors_find(shards, name, "module.weight", NULL);
  bool reads_scaled = scaled && (!plain || r.n_quantised > 0);
  *out = (yk_norm_tensors){reads_scaled ? "module.weight" : "weight", reads_scaled ? "module.bias" : "bias"};
  const yk_tensor *offset = yk_tensors_find(shards, name, out->offset, NULL);
  if (is_none(offset)) out->offset = NULL;
  bool is_mixed = reads_scaled && plain && r.n_quantised < r.n;
  if (is_mixed && (out->offset || !is_same(plain, scaled)))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: %s reads %s.module.weight and %s reads %s.weight: norms that differ within a layer are not "
                      "supported",
                      yk_shards_source(shards), r.quantised, name, r.of_floats, name);
  return YK_OK;
}
