/* hf_gemma4.c - the keys of config.json for Gemma 4: heads of other widths in layers without a window, layers that read
 * the KV cache of other layers, and embeddings of each layer. */
#include <stdlib.h>
#include <string.h>

#include "loader/hf/hf_parts.h"

static const char overrides_key[] = "per_layer_config", shared_key[] = "num_kv_shared_layers";

enum { DEFAULT_GLOBAL_HEAD_DIM = 512 };

static yk_status read_widths(yk_json object, const char *label, const char *kv_heads_key, const char *head_dim_key,
                             yk_model_config *config, yk_err *err)
{
  YK_TRY(yk_json_get_i32(object, label, kv_heads_key, false, 1, config->n_heads, &config->n_kv_heads, err));
  YK_TRY(yk_json_get_i32(object, label, head_dim_key, false, 2, YK_MAX_HEAD_DIM, &config->head_dim, err));
  if (config->n_heads % config->n_kv_heads != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a divisor of num_attention_heads %d, found %d", label,
                      kv_heads_key, config->n_heads, config->n_kv_heads);
  if (config->head_dim % 2 == 0) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected an even number, found %d", label, head_dim_key,
                    config->head_dim);
}

/* per_layer_config, which transformers saves: an object for each layer without a window, by the layer's number, with
 * the keys whose values differ from those of layers with a window. All these objects must give the same widths. */
static yk_status read_overrides(const char *file, yk_json overrides, yk_model_config *config, yk_err *err)
{
  static const char label[] = "config.json: per_layer_config";
  const yk_attention_widths *local = &config->local;
  bool is_first = true;
  if (!yk_json_is(overrides, YK_JSON_OBJECT))
    return yk_json_wrong_type(file, overrides_key, "an object", overrides, err);
  YK_JSON_EACH_KEY(key, overrides)
  {
    const yk_attention_widths before = {config->n_kv_heads, config->head_dim, config->head_dim};
    const yk_json entry = yk_json_get(overrides, yk_json_string(key));
    if (!yk_json_is(entry, YK_JSON_OBJECT))
      return yk_json_wrong_type(label, yk_json_string(key), "an object", entry, err);
    config->n_kv_heads = local->n_kv_heads;
    config->head_dim = local->head_dim;
    YK_TRY(read_widths(entry, label, "num_key_value_heads", "head_dim", config, err));
    if (!is_first && (config->n_kv_heads != before.n_kv_heads || config->head_dim != before.head_dim))
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: layer %s: heads other than those of the layer before are not supported; supported: one "
                        "head_dim and num_key_value_heads for all layers without a window",
                        label, yk_json_string(key));
    is_first = false;
  }
  return YK_OK;
}

yk_status yk_hf_read_gemma4_widths(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  const yk_json overrides = yk_json_get(root, overrides_key);
  config->local = (yk_attention_widths){config->n_kv_heads, config->head_dim, config->head_dim};
  YK_TRY(yk_json_get_bool(root, file, "attention_k_eq_v", false, &config->values_are_keys, err));
  if (yk_json_is_given(overrides)) return read_overrides(file, overrides, config, err);
  config->head_dim = DEFAULT_GLOBAL_HEAD_DIM;
  return read_widths(root, file, config->values_are_keys ? "num_global_key_value_heads" : "num_key_value_heads",
                     "global_head_dim", config, err);
}

/* Requires that the keys of per_layer_config are the numbers of all layers without a window, and no others. */
static yk_status check_overrides(yk_json root, const yk_model_config *config, yk_err *err)
{
  const yk_json overrides = yk_json_get(root, overrides_key);
  if (!yk_json_is_given(overrides)) return YK_OK;
  bool is_given[YK_MAX_LAYERS] = {false};
  int32_t n_given = 0, n_expected = 0;
  for (int32_t i = 0; i < config->n_layers; i++) n_expected += config->window_tokens[i] == 0;
  YK_JSON_EACH_KEY(key, overrides) /* as "05" or "5" */
  {
    char *end;
    const char *text = yk_json_string(key);
    long layer = strtol(text, &end, 10);
    bool is_layer = *text >= '0' && *text <= '9' && !*end && layer < config->n_layers;
    if (!is_layer || config->window_tokens[layer] != 0 || is_given[layer]) break;
    is_given[layer] = true;
    n_given++;
  }
  if (n_given == n_expected && yk_json_size(overrides) == (size_t)n_expected) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "config.json: %s: expected the %d layers without a window, found others: widths of single layers "
                    "are not supported",
                    overrides_key, n_expected);
}

static yk_status read_shared(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  bool is_wide = false;
  YK_TRY(yk_json_get_i32(root, file, shared_key, false, 0, config->n_layers - 1, &config->n_kv_shared_layers, err));
  YK_TRY(yk_json_get_bool(root, file, "use_double_wide_mlp", false, &is_wide, err));
  if (is_wide && config->ffn_size > YK_MAX_FFN / 2)
    return yk_err_set(err, YK_E_FORMAT, "%s: intermediate_size: expected at most %d with use_double_wide_mlp, found %d",
                      file, YK_MAX_FFN / 2, config->ffn_size);
  if (is_wide && config->n_kv_shared_layers > 0) config->reader_ffn_size = 2 * config->ffn_size;
  for (int32_t i = config->n_layers - config->n_kv_shared_layers; i < config->n_layers; i++)
    if (yk_model_config_kv_layer(config, i) == i)
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: %s %d: layer %d expected a layer of its type before layer %d, whose keys and values it "
                        "reads, found none",
                        file, shared_key, config->n_kv_shared_layers, i, config->n_layers - config->n_kv_shared_layers);
  return YK_OK;
}

/* The size of the embeddings of each layer, whose vocabulary must be that of the model. */
static yk_status read_layer_inputs(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char vocab_key[] = "vocab_size_per_layer_input";
  int32_t vocab_size = 262144;
  config->layer_input_size = 256; /* a class default, as is vocab_size above */
  YK_TRY(yk_json_get_i32(root, file, "hidden_size_per_layer_input", false, 0, YK_MAX_HIDDEN, &config->layer_input_size,
                         err));
  if (config->layer_input_size == 0) return YK_OK;
  YK_TRY(yk_json_get_i32(root, file, vocab_key, false, 1, YK_MAX_VOCAB, &vocab_size, err));
  if (vocab_size == config->vocab_size) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s %d is not supported; supported: vocab_size %d", file, vocab_key,
                    vocab_size, config->vocab_size);
}

yk_status yk_hf_read_gemma4_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  if (!yk_family_is_gemma4(config->family)) return YK_OK;
  config->window_tokens[config->n_layers - 1] = 0; /* the class gives its last layer full attention in every case */
  YK_TRY(read_layer_inputs(root, file, config, err));
  YK_TRY(check_overrides(root, config, err));
  return read_shared(root, file, config, err);
}
