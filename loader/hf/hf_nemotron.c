/* hf_nemotron.c - the keys of config.json for Nemotron-H and Nemotron-3: layers of a single sublayer, which the files
 * call blocks, and Mamba2. */
#include <math.h>
#include <string.h>

#include "kernels/mamba.h"
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

/* ---- Mamba2 ------------------------------------------------------------------------------------------------------ */

/* The name of a key: that of an older version of the class if the file has it. */
static const char *name_in(yk_json root, const char *name, const char *older_name)
{
  return yk_json_get(root, older_name).doc ? older_name : name;
}

static yk_status read_multiple(yk_json root, const char *file, const char *key, int32_t *out, yk_err *err)
{
  YK_TRY(yk_json_get_i32(root, file, key, true, 1, YK_MAX_HEAD_DIM, out, err));
  if (*out % YK_MAMBA_UNIT == 0) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s %d is not supported; supported: multiples of %d up to %d", file, key,
                    *out, YK_MAMBA_UNIT, YK_MAX_HEAD_DIM);
}

static yk_status read_mamba_sizes(yk_json root, const char *file, yk_mamba_config *mamba, yk_err *err)
{
  const char *groups = name_in(root, "n_groups", "mamba_n_groups"),
             *taps = name_in(root, "conv_kernel", "mamba_d_conv");
  int32_t n_taps = YK_MAMBA_TAPS;
  YK_TRY(yk_json_get_i32(root, file, "mamba_num_heads", true, 1, YK_MAX_HEADS, &mamba->n_heads, err));
  YK_TRY(yk_json_get_i32(root, file, groups, true, 1, YK_MAX_HEADS, &mamba->n_groups, err));
  if (mamba->n_heads % mamba->n_groups != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a divisor of the %d heads of mamba_num_heads, found %d", file,
                      groups, mamba->n_heads, mamba->n_groups);
  YK_TRY(read_multiple(root, file, "mamba_head_dim", &mamba->head_dim, err));
  YK_TRY(read_multiple(root, file, "ssm_state_size", &mamba->state_size, err));
  YK_TRY(yk_json_get_i32(root, file, taps, false, 1, INT32_MAX, &n_taps, err));
  if (n_taps == YK_MAMBA_TAPS) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s %d is not supported; supported: %d", file, taps, n_taps,
                    YK_MAMBA_TAPS);
}

/* transformers writes an infinity as {"__float__": "Infinity"}, other tools as the bare word Infinity. */
static bool read_number(yk_json value, double *out)
{
  const char *word = yk_json_string(yk_json_get(value, "__float__"));
  if (word && strcmp(word, "Infinity") == 0) {
    *out = INFINITY;
    return true;
  }
  return yk_json_to_f64(value, out);
}

/* The limits of the step, from 0 to infinity without the key. transformers ignores the key: its smaller limit is
 * time_step_min, and it has no larger one. */
static yk_status read_limits(yk_json root, const char *file, yk_mamba_config *mamba, yk_err *err)
{
  const char *key = name_in(root, "time_step_limit", "mamba_dt_limit");
  yk_json limits = yk_json_get(root, key);
  double low = 0, high = INFINITY;
  bool is_pair = yk_json_is(limits, YK_JSON_ARRAY) && yk_json_size(limits) == 2 &&
                 read_number(yk_json_at(limits, 0), &low) && read_number(yk_json_at(limits, 1), &high);
  if (yk_json_is_given(limits) && !(is_pair && low >= 0 && low < high))
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected two numbers from 0 on, the smaller one first", file, key);
  mamba->min_step = (float)low;
  mamba->max_step = (float)high;
  return YK_OK;
}

yk_status yk_hf_read_mamba(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_mamba_config *mamba = &config->mamba;
  const char *activation;
  bool is_used = false;
  for (int32_t i = 0; i < config->n_layers; i++) is_used |= mamba->layers[i];
  if (!is_used) return YK_OK;
  mamba->has_conv_bias = true;
  YK_TRY(read_mamba_sizes(root, file, mamba, err));
  YK_TRY(read_limits(root, file, mamba, err));
  YK_TRY(yk_json_get_bool(root, file, name_in(root, "use_conv_bias", "mamba_conv_bias"), false, &mamba->has_conv_bias,
                          err));
  YK_TRY(yk_json_get_bool(root, file, "use_bias", false, &mamba->has_biases, err));
  YK_TRY(yk_json_get_str(root, file, "mamba_hidden_act", false, &activation, err));
  if (!activation || strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: mamba_hidden_act \"%s\" is not supported; supported: silu (swish)",
                    file, activation);
}
