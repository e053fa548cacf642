#include "loader/adapter/adapter_config.h"

#include <float.h>
#include <math.h>
#include <string.h>

static yk_status refuse(const char *name, const char *key, yk_json found, const char *why, yk_err *err)
{
  const char *text = yk_json_text(found);
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s: found %.60s, which is not supported%s%s", name, key,
                    text ? text : yk_json_type_name(found), why ? ": " : "", why ? why : "");
}

static bool is_falsy(yk_json value)
{
  switch (yk_json_kind_of(value)) {
  case YK_JSON_ABSENT:
  case YK_JSON_NULL:
  case YK_JSON_FALSE: return true;
  case YK_JSON_ARRAY:
  case YK_JSON_OBJECT: return yk_json_size(value) == 0;
  default: return false;
  }
}

/* Keys of PEFT that have an effect on the result unless they are false, null or empty. */
static yk_status refuse_variants(yk_json root, const char *name, yk_err *err)
{
  static const struct {
    const char *key, *why;
  } keys[] = {{"use_dora", "DoRA"},
              {"modules_to_save", "weights of whole modules are not taken from adapters; merge the adapter"},
              {"lora_bias", "biases of adapters"},
              {"fan_in_fan_out", "weights that are stored transposed"},
              {"trainable_token_indices", "embeddings of single tokens"},
              {"layer_replication", "copies of layers"},
              {"alora_invocation_tokens", "activated LoRA"},
              {"arrow_config", "Arrow"}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    yk_json value = yk_json_get(root, keys[i].key);
    if (!is_falsy(value)) return refuse(name, keys[i].key, value, keys[i].why, err);
  }
  YK_JSON_EACH_KEY(key, root)
  {
    const char *text = yk_json_text(key);
    if (strncmp(text, "use_", 4) != 0 || strcmp(text, "use_rslora") == 0) continue;
    if (!is_falsy(yk_json_member(key))) return refuse(name, text, yk_json_member(key), "a variant of LoRA", err);
  }
  return YK_OK;
}

/* These initialisations subtract the adapter's initial value from the base model's weights, so the adapter belongs to
 * different weights. */
static yk_status refuse_changed_bases(yk_json root, const char *name, yk_err *err)
{
  static const char *const methods[] = {"pissa", "olora", "corda", "loftq"};
  const char *method = yk_json_string(yk_json_get(root, "init_lora_weights"));
  for (size_t i = 0; method && i < sizeof methods / sizeof *methods; i++)
    if (strncmp(method, methods[i], strlen(methods[i])) == 0)
      return refuse(name, "init_lora_weights", yk_json_get(root, "init_lora_weights"),
                    "the adapter belongs to changed weights of the base model; convert it to a plain LoRA with PEFT",
                    err);
  return YK_OK;
}

static bool is_array_of(yk_json value, bool (*is_fine)(yk_json))
{
  if (!yk_json_is(value, YK_JSON_ARRAY)) return false;
  YK_JSON_EACH(element, value) if (!is_fine(element)) return false;
  return true;
}

static bool is_string(yk_json value)
{
  return yk_json_is(value, YK_JSON_STRING);
}

/* The tensors show which modules of which layers have an adapter. */
static yk_status check_targets(yk_json root, const char *name, yk_err *err)
{
  static const char *const of_modules[] = {"target_modules", "exclude_modules", "layers_pattern"};
  for (size_t i = 0; i < sizeof of_modules / sizeof *of_modules; i++) {
    yk_json value = yk_json_get(root, of_modules[i]);
    if (yk_json_is_given(value) && !is_string(value) && !is_array_of(value, is_string))
      return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a string or an array of strings, found %s", name,
                        of_modules[i], yk_json_type_name(value));
  }
  yk_json layers = yk_json_get(root, "layers_to_transform");
  if (yk_json_is_given(layers) && !yk_json_is_integer(layers) && !is_array_of(layers, yk_json_is_integer))
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: layers_to_transform: expected an integer or an array of integers, found %s", name,
                      yk_json_type_name(layers));
  return YK_OK;
}

static const char *number_or_type(yk_json value)
{
  const char *text = is_string(value) ? NULL : yk_json_text(value);
  return text ? text : yk_json_type_name(value);
}

static yk_status read_numbers(yk_json root, const char *name, yk_adapter_config *out, yk_err *err)
{
  int64_t rank = 8; /* PEFT's defaults */
  out->alpha = 8;
  yk_json r = yk_json_get(root, "r"), alpha = yk_json_get(root, "lora_alpha"),
          root_of = yk_json_get(root, "use_rslora");
  if (yk_json_is_given(r) && (!yk_json_to_i64(r, &rank) || rank < 1 || rank > YK_ADAPTER_MAX_RANK))
    return yk_err_set(err, YK_E_FORMAT, "%s: r: expected an integer of 1 to %d, found %.40s", name, YK_ADAPTER_MAX_RANK,
                      number_or_type(r));
  if (yk_json_is_given(alpha) && (!yk_json_to_f64(alpha, &out->alpha) || !isfinite(out->alpha)))
    return yk_err_set(err, YK_E_FORMAT, "%s: lora_alpha: expected a finite number, found %.40s", name,
                      number_or_type(alpha));
  if (yk_json_is_given(root_of) && !yk_json_is_bool(root_of))
    return yk_err_set(err, YK_E_FORMAT, "%s: use_rslora: expected true or false, found %s", name,
                      yk_json_type_name(root_of));
  out->rank = (int32_t)rank;
  out->scales_by_root = yk_json_is(root_of, YK_JSON_TRUE);
  YK_TRY(yk_patterns_read(yk_json_get(root, "rank_pattern"), name, "rank_pattern", &out->ranks, err));
  return yk_patterns_read(yk_json_get(root, "alpha_pattern"), name, "alpha_pattern", &out->alphas, err);
}

static yk_status read_root(yk_json root, const char *name, yk_adapter_config *out, yk_err *err)
{
  if (!yk_json_is(root, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", name, yk_json_type_name(root));
  yk_json type = yk_json_get(root, "peft_type"), bias = yk_json_get(root, "bias");
  if (!is_string(type))
    return yk_err_set(err, YK_E_FORMAT, "%s: peft_type: expected \"LORA\", found %s", name, yk_json_type_name(type));
  if (!yk_json_equals(type, "LORA")) return refuse(name, "peft_type", type, "expected LORA", err);
  if (yk_json_is_given(bias) && !yk_json_equals(bias, "none"))
    return refuse(name, "bias", bias, "expected none: biases of the base model stay as they are", err);
  YK_TRY(refuse_variants(root, name, err));
  YK_TRY(refuse_changed_bases(root, name, err));
  YK_TRY(check_targets(root, name, err));
  return read_numbers(root, name, out, err);
}

yk_status yk_adapter_config_parse(const char *name, const char *text, size_t n_bytes, yk_adapter_config *out,
                                  yk_err *err)
{
  yk_json_doc *doc;
  *out = (yk_adapter_config){0};
  YK_TRY(yk_json_parse(name, text, n_bytes, NULL, &doc, err));
  yk_status status = read_root(yk_json_root(doc), name, out, err);
  yk_json_free(doc);
  return status;
}

void yk_adapter_config_free(yk_adapter_config *config)
{
  yk_patterns_free(&config->ranks);
  yk_patterns_free(&config->alphas);
}

float yk_adapter_config_scale(const yk_adapter_config *config, const char *module, int32_t rank)
{
  double alpha = yk_patterns_value(&config->alphas, module, config->alpha);
  double scale = alpha / (config->scales_by_root ? sqrt(rank) : rank);
  return fabs(scale) <= FLT_MAX ? (float)scale : NAN;
}

int32_t yk_adapter_config_rank(const yk_adapter_config *config, const char *module)
{
  double rank = yk_patterns_value(&config->ranks, module, config->rank);
  return rank >= 1 && rank <= YK_ADAPTER_MAX_RANK && rank == floor(rank) ? (int32_t)rank : 0;
}
