#include <string.h>

#include "loader/hf/hf_parts.h"

/* Class default of every family with a window, used if the key is missing; null means no window. */
enum { DEFAULT_WINDOW_TOKENS = 4096, DEFAULT_MAX_WINDOW_LAYERS = 28 };

static yk_status read_window(yk_json root, const char *file, int32_t *window, yk_err *err)
{
  yk_json value = yk_json_get(root, "sliding_window");
  *window = value.doc ? 0 : DEFAULT_WINDOW_TOKENS;
  return yk_json_get_i32(root, file, "sliding_window", false, 1, YK_MAX_POSITIONS, window, err);
}

yk_status yk_hf_read_layer_types(yk_json root, const char *file, int32_t n_layers, const char *other, bool *is_other,
                                 yk_err *err)
{
  yk_json types = yk_json_get(root, "layer_types");
  if (!yk_json_is_given(types)) return YK_OK;
  if (!yk_json_is(types, YK_JSON_ARRAY) || yk_json_size(types) != (size_t)n_layers)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: key \"layer_types\": expected an array of num_hidden_layers = %d strings, found %s of %zu",
                      file, n_layers, yk_json_type_name(types), yk_json_size(types));
  for (int32_t i = 0; i < n_layers; i++) {
    const char *type = yk_json_string(yk_json_at(types, (size_t)i));
    is_other[i] = type && strcmp(type, other) == 0;
    if (!is_other[i] && (!type || strcmp(type, "full_attention") != 0))
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: layer_types[%d] %s%s%s is not supported; supported: full_attention, %s", file, i,
                        type ? "\"" : "", type ? type : "(not a string)", type ? "\"" : "", other);
  }
  return YK_OK;
}

/* layer_types, if present, decides which layers have the window. */
static yk_status apply_layer_types(yk_json root, const char *file, int32_t window, yk_model_config *config, yk_err *err)
{
  bool has_window[YK_MAX_LAYERS];
  YK_TRY(yk_hf_read_layer_types(root, file, config->n_layers, "sliding_attention", has_window, err));
  for (int32_t i = 0; i < config->n_layers; i++) {
    if (has_window[i] && window == 0)
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: layer_types[%d] is \"sliding_attention\", but sliding_window is off for this model", file,
                        i);
    config->window_tokens[i] = has_window[i] ? window : 0;
  }
  return YK_OK;
}

/* Families with windows in all layers but every second or sixth. */
static yk_status read_pattern(yk_json root, const char *file, const yk_model_config *config, int32_t *window,
                              int32_t *pattern, yk_err *err)
{
  const bool is_gemma3 = yk_family_is_gemma3(config->family), is_gemma4 = yk_family_is_gemma4(config->family);
  if (config->family != YK_FAMILY_GPT_OSS && !is_gemma3 && !is_gemma4) return YK_OK;
  *window = is_gemma3 ? DEFAULT_WINDOW_TOKENS : is_gemma4 ? 512 : 128;
  *pattern = is_gemma3 || is_gemma4 ? 6 : 2;
  if (is_gemma3) YK_TRY(yk_json_get_i32(root, file, "sliding_window_pattern", false, 1, INT32_MAX, pattern, err));
  return yk_json_get_i32(root, file, "sliding_window", false, 1, YK_MAX_POSITIONS, window, err);
}

yk_status yk_hf_read_windows(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  int32_t window = 0, first_layer = 0;
  if (yk_family_is_llama4(config->family)) return yk_hf_read_llama4_chunks(root, file, config, err);
  const bool is_qwen_moe = config->family == YK_FAMILY_QWEN3_MOE || config->family == YK_FAMILY_QWEN2_MOE;
  if (config->family == YK_FAMILY_MISTRAL || config->family == YK_FAMILY_MISTRAL3_VL) {
    YK_TRY(read_window(root, file, &window, err));
  } else if (config->family == YK_FAMILY_MIXTRAL || config->family == YK_FAMILY_PHI3 ||
             yk_family_is_ministral3(config->family)) { /* none without the key */
    YK_TRY(yk_json_get_i32(root, file, "sliding_window", false, 1, YK_MAX_POSITIONS, &window, err));
  } else if (config->family == YK_FAMILY_QWEN2 || config->family == YK_FAMILY_QWEN3 || is_qwen_moe) {
    bool use_window = false;
    YK_TRY(yk_json_get_bool(root, file, "use_sliding_window", false, &use_window, err));
    if (use_window) YK_TRY(read_window(root, file, &window, err));
  }
  if (config->family == YK_FAMILY_QWEN2 || config->family == YK_FAMILY_QWEN3 ||
      config->family == YK_FAMILY_QWEN2_MOE) { /* in Qwen3-MoE every layer has the window */
    first_layer = DEFAULT_MAX_WINDOW_LAYERS;
    YK_TRY(yk_json_get_i32(root, file, "max_window_layers", false, 0, INT32_MAX, &first_layer, err));
  }
  int32_t pattern = 0; /* every layer of that number has no window, unless layer_types decides */
  YK_TRY(read_pattern(root, file, config, &window, &pattern, err));
  for (int32_t i = 0; i < config->n_layers; i++)
    config->window_tokens[i] = i >= first_layer && !(pattern > 0 && (i + 1) % pattern == 0) ? window : 0;
  if (yk_family_is_hybrid(config->family)) return YK_OK;        /* hf_delta.c */
  if (config->family == YK_FAMILY_GRANITE_HYBRID) return YK_OK; /* hf_granite.c */
  if (config->family == YK_FAMILY_DEEPSEEK_V32 || config->family == YK_FAMILY_GLM_MOE_DSA)
    return YK_OK; /* all of indexed attention */
  return yk_json_is_given(yk_json_get(root, "layer_types")) ? apply_layer_types(root, file, window, config, err)
                                                            : YK_OK;
}
