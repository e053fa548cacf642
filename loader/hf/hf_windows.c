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

/* layer_types, if present, sets the window of each layer. */
static yk_status apply_layer_types(yk_json types, const char *file, int32_t window, yk_model_config *config,
                                   yk_err *err)
{
  if (!yk_json_is(types, YK_JSON_ARRAY) || yk_json_size(types) != (size_t)config->n_layers)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: key \"layer_types\": expected an array of num_hidden_layers = %d strings, found %s of %zu",
                      file, config->n_layers, yk_json_type_name(types), yk_json_size(types));
  for (int32_t i = 0; i < config->n_layers; i++) {
    const char *type = yk_json_string(yk_json_at(types, (size_t)i));
    if (type && strcmp(type, "full_attention") == 0) {
      config->window_tokens[i] = 0;
    } else if (type && strcmp(type, "sliding_attention") == 0) {
      if (window == 0)
        return yk_err_set(err, YK_E_FORMAT,
                          "%s: layer_types[%d] is \"sliding_attention\", but sliding_window is off for this model",
                          file, i);
      config->window_tokens[i] = window;
    } else {
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: layer_types[%d] %s%s%s is not supported; supported: full_attention, sliding_attention",
                        file, i, type ? "\"" : "", type ? type : "(not a string)", type ? "\"" : "");
    }
  }
  return YK_OK;
}

/* Families with windows in all layers but every second or sixth. */
static yk_status read_pattern(yk_json root, const char *file, const yk_model_config *config, int32_t *window,
                              int32_t *pattern, yk_err *err)
{
  const bool is_gemma = yk_family_is_gemma3(config->family);
  if (config->family != YK_FAMILY_GPT_OSS && !is_gemma) return YK_OK;
  *window = is_gemma ? DEFAULT_WINDOW_TOKENS : 128;
  *pattern = is_gemma ? 6 : 2;
  if (is_gemma) YK_TRY(yk_json_get_i32(root, file, "sliding_window_pattern", false, 1, INT32_MAX, pattern, err));
  return yk_json_get_i32(root, file, "sliding_window", false, 1, YK_MAX_POSITIONS, window, err);
}

yk_status yk_hf_read_windows(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  int32_t window = 0, first_layer = 0;
  const bool is_qwen_moe = config->family == YK_FAMILY_QWEN3_MOE || config->family == YK_FAMILY_QWEN2_MOE;
  if (config->family == YK_FAMILY_MISTRAL) {
    YK_TRY(read_window(root, file, &window, err));
  } else if (config->family == YK_FAMILY_MIXTRAL || config->family == YK_FAMILY_PHI3) { /* none without the key */
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
  yk_json types = yk_json_get(root, "layer_types");
  if (yk_family_is_hybrid(config->family)) return YK_OK; /* hf_delta.c */
  if (config->family == YK_FAMILY_DEEPSEEK_V32 || config->family == YK_FAMILY_GLM_MOE_DSA)
    return YK_OK; /* all of indexed attention */
  if (!yk_json_is_given(types)) return YK_OK;
  return apply_layer_types(types, file, window, config, err);
}
