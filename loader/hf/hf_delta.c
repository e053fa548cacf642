/* hf_delta.c - the keys of config.json for gated delta nets: Qwen3-Next, Qwen3.5. */
#include <string.h>

#include "kernels/gated_delta.h"
#include "loader/hf/hf_parts.h"

enum { DEFAULT_KEY_HEADS = 16, DEFAULT_VALUE_HEADS = 32, DEFAULT_HEAD_DIM = 128, DEFAULT_INTERVAL = 4 };

static yk_status read_head_dim(yk_json root, const char *file, const char *key, int32_t *out, yk_err *err)
{
  *out = DEFAULT_HEAD_DIM;
  YK_TRY(yk_json_get_i32(root, file, key, false, 1, YK_MAX_HEAD_DIM, out, err));
  if (*out % YK_DELTA_HEAD_UNIT == 0 && *out <= YK_DELTA_MAX_HEAD_DIM) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s %d is not supported; supported: multiples of %d up to %d", file, key,
                    *out, YK_DELTA_HEAD_UNIT, YK_DELTA_MAX_HEAD_DIM);
}

static yk_status read_heads(yk_json root, const char *file, yk_delta_config *delta, yk_err *err)
{
  int32_t n_taps = YK_DELTA_TAPS;
  delta->n_key_heads = DEFAULT_KEY_HEADS;
  delta->n_value_heads = DEFAULT_VALUE_HEADS;
  YK_TRY(yk_json_get_i32(root, file, "linear_num_key_heads", false, 1, YK_MAX_HEADS, &delta->n_key_heads, err));
  YK_TRY(yk_json_get_i32(root, file, "linear_num_value_heads", false, 1, YK_MAX_HEADS, &delta->n_value_heads, err));
  if (delta->n_value_heads % delta->n_key_heads != 0)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: linear_num_value_heads: expected a multiple of linear_num_key_heads %d, found %d", file,
                      delta->n_key_heads, delta->n_value_heads);
  YK_TRY(read_head_dim(root, file, "linear_key_head_dim", &delta->key_dim, err));
  YK_TRY(read_head_dim(root, file, "linear_value_head_dim", &delta->value_dim, err));
  YK_TRY(yk_json_get_i32(root, file, "linear_conv_kernel_dim", false, 1, INT32_MAX, &n_taps, err));
  if (n_taps == YK_DELTA_TAPS) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: linear_conv_kernel_dim %d is not supported; supported: %d", file,
                    n_taps, YK_DELTA_TAPS);
}

/* The gate of attention's results, and the activation of z. */
static yk_status read_gates(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  const char *type;
  config->attention_gates = true;
  YK_TRY(yk_json_get_bool(root, file, "attn_output_gate", false, &config->attention_gates, err));
  YK_TRY(yk_json_get_str(root, file, "output_gate_type", false, &type, err));
  if (type && strcmp(type, "swish") != 0 && strcmp(type, "silu") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: output_gate_type \"%s\" is not supported; supported: swish (silu)",
                      file, type);
  if (config->activation.kind == YK_ACTIVATION_SILU) return YK_OK; /* also of the convolution */
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: hidden_act is not supported for this family; supported: silu (swish)",
                    file);
}

/* layer_types, if present, decides; otherwise every layer whose number is a multiple of full_attention_interval,
 * counted from 1, has attention. */
static yk_status read_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  int32_t interval = DEFAULT_INTERVAL;
  YK_TRY(yk_json_get_i32(root, file, "full_attention_interval", false, 1, INT32_MAX, &interval, err));
  for (int32_t i = 0; i < config->n_layers; i++) config->delta.layers[i] = (i + 1) % interval != 0;
  return yk_hf_read_layer_types(root, file, config->n_layers, "linear_attention", config->delta.layers, err);
}

yk_status yk_hf_read_delta(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  if (!yk_family_is_hybrid(config->family)) return YK_OK;
  config->delta.is_fused = config->family == YK_FAMILY_QWEN3_NEXT;
  YK_TRY(read_heads(root, file, &config->delta, err));
  YK_TRY(read_gates(root, file, config, err));
  return read_layers(root, file, config, err);
}
