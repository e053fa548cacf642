/* hf_nemotron.c - the keys of config.json for Nemotron-H and Nemotron-3: layers of a single sublayer, which the files
 * call blocks. */
#include <string.h>

#include "loader/hf/hf_parts.h"

static const char pattern_key[] = "hybrid_override_pattern", types_key[] = "layers_block_type";

/* A kind of block: its letter in hybrid_override_pattern, and its names in layers_block_type. */
typedef struct block_kind {
  char letter;
  const char *name, *older_name;
} block_kind;

enum { BLOCK_MAMBA, BLOCK_ATTENTION, BLOCK_EXPERTS, BLOCK_DENSE, N_BLOCK_KINDS };

static const block_kind kinds[N_BLOCK_KINDS] = {[BLOCK_MAMBA] = {'M', "linear_attention", "mamba"},
                                                [BLOCK_ATTENTION] = {'*', "full_attention", "attention"},
                                                [BLOCK_EXPERTS] = {'E', "moe", "moe"},
                                                [BLOCK_DENSE] = {'-', "mlp", "mlp"}};

static void set_block(yk_model_config *config, int32_t layer, int kind)
{
  config->mamba.layers[layer] = kind == BLOCK_MAMBA;
  config->experts.layers[layer] = kind == BLOCK_EXPERTS;
  config->parts[layer] = kind == BLOCK_MAMBA || kind == BLOCK_ATTENTION ? YK_LAYER_ATTENTION_ALONE : YK_LAYER_FFN_ALONE;
}

static yk_status check_n_layers(const char *file, const char *key, size_t n, yk_err *err)
{
  if (n > 0 && n <= YK_MAX_LAYERS) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected 1 to %d blocks, found %zu", file, key, YK_MAX_LAYERS,
                    n);
}

static yk_status read_pattern(const char *file, const char *pattern, yk_model_config *config, yk_err *err)
{
  YK_TRY(check_n_layers(file, pattern_key, strlen(pattern), err));
  config->n_layers = (int32_t)strlen(pattern);
  for (int32_t i = 0; i < config->n_layers; i++) {
    int kind = 0;
    while (kind < N_BLOCK_KINDS && kinds[kind].letter != pattern[i]) kind++;
    if (kind == N_BLOCK_KINDS)
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: %s: block %d is '%c': supported: M (Mamba2), * (attention), E (experts), - (MLP)", file,
                        pattern_key, i, pattern[i]);
    set_block(config, i, kind);
  }
  return YK_OK;
}

static yk_status read_types(const char *file, yk_json types, yk_model_config *config, yk_err *err)
{
  if (!yk_json_is(types, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an array of strings, found %s", file, types_key,
                      yk_json_type_name(types));
  YK_TRY(check_n_layers(file, types_key, yk_json_size(types), err));
  config->n_layers = (int32_t)yk_json_size(types);
  for (int32_t i = 0; i < config->n_layers; i++) {
    const char *name = yk_json_string(yk_json_at(types, (size_t)i));
    int kind = 0;
    while (name && kind < N_BLOCK_KINDS && strcmp(kinds[kind].name, name) != 0 &&
           strcmp(kinds[kind].older_name, name) != 0)
      kind++;
    if (!name || kind == N_BLOCK_KINDS)
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: %s[%d] %s%s%s is not supported; supported: linear_attention (mamba), full_attention "
                        "(attention), moe, mlp",
                        file, types_key, i, name ? "\"" : "", name ? name : "(not a string)", name ? "\"" : "");
    set_block(config, i, kind);
  }
  return YK_OK;
}

yk_status yk_hf_read_blocks(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_json types = yk_json_get(root, types_key);
  const char *pattern;
  if (yk_json_is_given(types)) return read_types(file, types, config, err);
  YK_TRY(yk_json_get_str(root, file, pattern_key, true, &pattern, err));
  return read_pattern(file, pattern, config, err);
}

bool yk_hf_has_dense_blocks(const yk_model_config *config)
{
  for (int32_t i = 0; i < config->n_layers; i++)
    if (config->parts[i] == YK_LAYER_FFN_ALONE && !config->experts.layers[i]) return true;
  return false;
}
