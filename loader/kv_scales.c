#include "loader/kv_scales.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

yk_status yk_kv_scale_names_of(const yk_model_config *config, yk_weight_role role, int layer, yk_kv_scale_names *out,
                               yk_err *err)
{
  const char *projection = role == YK_ROLE_K ? ".k_proj" : ".v_proj";
  *out = (yk_kv_scale_names){.scale = role == YK_ROLE_K ? "k_scale" : "v_scale"};
  yk_weight_name(config, role, layer, out->module);
  char *own = strrchr(out->module, '.');
  if (!own) own = out->module + strlen(out->module);
  if (config->quant.method == YK_QUANT_MSMODELSLIM) {
    out->scale = "kv_cache_scale";
    out->offset = "kv_cache_offset";
    if (strcmp(own, projection) == 0) return YK_OK;
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "static scales of the KV cache in module %s are not supported; supported: in k_proj and v_proj",
                      out->module);
  }
  *own = '\0';
  if (config->quant.method == YK_QUANT_MODELOPT)
    snprintf(own, sizeof out->module - (size_t)(own - out->module), "%s", projection);
  return YK_OK;
}

static bool is_absent(const yk_model_config *config, const yk_shards *shards, yk_weight_role role, int layer)
{
  yk_kv_scale_names names;
  return yk_kv_scale_names_of(config, role, layer, &names, NULL) == YK_OK &&
         !yk_tensors_find(shards, names.module, names.scale, NULL);
}

/* ModelOpt writes no scales of K and V whose range it did not measure. */
static bool is_unmeasured(const yk_model_config *config, const yk_shards *shards, int layer)
{
  return config->quant.method == YK_QUANT_MODELOPT && is_absent(config, shards, YK_ROLE_K, layer) &&
         is_absent(config, shards, YK_ROLE_V, layer);
}

/* Read floats first .. first + n - 1 of a tensor of n_all, or repeat its single number n times. */
static yk_status read_floats(const yk_shards *shards, const char *module, const char *suffix, bool is_one,
                             int64_t n_all, int64_t first, int64_t n, float *out, yk_err *err)
{
  yk_tensor_wish wish = {suffix, YK_TENSORS_FLOAT, 1, {is_one ? 1 : n_all, 0}};
  const yk_tensor *found = yk_tensors_find(shards, module, suffix, NULL), *tensor;
  yk_dtype dtype;
  if (is_one && found && found->n_dims == 0) wish.n_dims = 0;
  YK_TRY(yk_tensors_require(shards, module, &wish, &dtype, &tensor, err));
  const char *data = tensor->data;
  size_t element_bytes = yk_dtype_bytes(dtype);
  for (int64_t i = 0; i < n; i++) {
    char element[sizeof(float)]; /* the file's data may be unaligned */
    memcpy(element, data + (size_t)(is_one ? 0 : first + i) * element_bytes, element_bytes);
    out[i] = yk_dtype_load(dtype, element, 0);
  }
  return YK_OK;
}

static yk_status check(const yk_shards *shards, const yk_kv_scale_names *names, int64_t n, const float *scales,
                       const float *offsets, yk_err *err)
{
  for (int64_t i = 0; i < n; i++) {
    if (!(isfinite(scales[i]) && scales[i] > 0))
      return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s.%s: expected finite numbers above 0, found %g",
                        yk_shards_source(shards), names->module, names->scale, (double)scales[i]);
    if (!isfinite(offsets[i]))
      return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s.%s: expected finite numbers, found %g",
                        yk_shards_source(shards), names->module, names->offset, (double)offsets[i]);
  }
  return YK_OK;
}

yk_status yk_kv_scales_read(const yk_model_config *config, const yk_shards *shards, yk_weight_role role, int layer,
                            int64_t first, int64_t n, float *scales, float *offsets, yk_err *err)
{
  const yk_attention_widths widths = yk_model_config_widths(config, layer);
  const int64_t n_all = (int64_t)widths.n_kv_heads * widths.head_dim;
  yk_kv_scale_names names;
  for (int64_t i = 0; i < n; i++) scales[i] = 1.0f;
  for (int64_t i = 0; i < n; i++) offsets[i] = 0.0f;
  if (is_unmeasured(config, shards, layer)) return YK_OK;
  YK_TRY(yk_kv_scale_names_of(config, role, layer, &names, err));
  YK_TRY(read_floats(shards, names.module, names.scale, !names.offset, n_all, first, n, scales, err));
  if (names.offset) YK_TRY(read_floats(shards, names.module, names.offset, false, n_all, first, n, offsets, err));
  return check(shards, &names, n, scales, offsets, err);
}
