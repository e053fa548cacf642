/* hf_mamba.c - the keys of config.json for Mamba2: Nemotron-H and Granite, which have other names for most of them. */
#include <math.h>
#include <string.h>

#include "kernels/mamba.h"
#include "loader/hf/hf_parts.h"

/* The name of a key: Nemotron's, or that of Granite and of older Nemotrons if the file has it. */
static const char *name_in(yk_json root, const char *name, const char *other_name)
{
  return yk_json_get(root, other_name).doc ? other_name : name;
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
             *taps = name_in(root, "conv_kernel", "mamba_d_conv"),
             *heads = name_in(root, "mamba_num_heads", "mamba_n_heads");
  int32_t n_taps = YK_MAMBA_TAPS;
  YK_TRY(yk_json_get_i32(root, file, heads, true, 1, YK_MAX_HEADS, &mamba->n_heads, err));
  YK_TRY(yk_json_get_i32(root, file, groups, true, 1, YK_MAX_HEADS, &mamba->n_groups, err));
  if (mamba->n_heads % mamba->n_groups != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a divisor of the %d heads of %s, found %d", file, groups,
                      mamba->n_heads, heads, mamba->n_groups);
  YK_TRY(read_multiple(root, file, name_in(root, "mamba_head_dim", "mamba_d_head"), &mamba->head_dim, err));
  YK_TRY(read_multiple(root, file, name_in(root, "ssm_state_size", "mamba_d_state"), &mamba->state_size, err));
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
  YK_TRY(yk_json_get_bool(root, file, name_in(root, "use_bias", "mamba_proj_bias"), false, &mamba->has_biases, err));
  YK_TRY(yk_json_get_str(root, file, "mamba_hidden_act", false, &activation, err));
  if (!activation || strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: mamba_hidden_act \"%s\" is not supported; supported: silu (swish)",
                    file, activation);
}
