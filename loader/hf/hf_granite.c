/* hf_granite.c - the keys of config.json for Granite with Mamba2: the size of the FFN, and the kinds of layers. */
#include <string.h>

#include "loader/hf/hf_parts.h"

yk_status yk_hf_read_granite_ffn_size(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  int32_t n_experts;
  YK_TRY(yk_json_get_i32(root, file, "num_local_experts", true, 0, YK_MAX_EXPERTS, &n_experts, err));
  const char *key = n_experts > 0 ? "intermediate_size" : "shared_intermediate_size";
  return yk_json_get_i32(root, file, key, true, 1, YK_MAX_FFN, &config->ffn_size, err);
}

yk_status yk_hf_read_granite_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  if (config->family != YK_FAMILY_GRANITE_HYBRID) return YK_OK;
  const char *key = yk_json_get(root, "layers_block_type").doc ? "layers_block_type" : "layer_types";
  yk_json types = yk_json_get(root, key);
  if (!yk_json_is(types, YK_JSON_ARRAY) || yk_json_size(types) != (size_t)config->n_layers)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: key \"%s\": expected an array of num_hidden_layers = %d strings, found %s of %zu", file, key,
                      config->n_layers, yk_json_type_name(types), yk_json_size(types));
  for (int32_t i = 0; i < config->n_layers; i++) {
    const char *type = yk_json_string(yk_json_at(types, (size_t)i));
    const bool is_mamba = type && (strcmp(type, "mamba") == 0 || strcmp(type, "linear_attention") == 0);
    if (!is_mamba && !(type && (strcmp(type, "attention") == 0 || strcmp(type, "full_attention") == 0)))
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: %s[%d] %s%s%s is not supported; supported: mamba (linear_attention), attention "
                        "(full_attention)",
                        file, key, i, type ? "\"" : "", type ? type : "(not a string)", type ? "\"" : "");
    config->mamba.layers[i] = is_mamba;
  }
  return YK_OK;
}
