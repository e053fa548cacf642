/* hf_quant_modelopt.c - the settings of checkpoints that nvidia-modelopt wrote: in hf_quant_config.json under the key
 * "quantization", or in config.json's quantization_config.
 * Sources: nvidia-modelopt, torch/export/{quant_utils,convert_hf_config}.py; modelopt.py of vLLM,
 * model_executor/layers/quantization. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "loader/hf/hf_quant_methods.h"
#include "loader/hf/hf_quant_parts.h"
#include "loader/model/weight_names.h"

enum { LABEL_BYTES = 256 };

static const char algo_key[] = "quant_algo", mixed[] = "MIXED_PRECISION";

/* An algorithm, with its weights. FP8 has a scale for each tensor, output or block. */
static const struct algorithm {
  const char *name;
  yk_packing packing;
  int32_t group_outputs, group_size; /* of BLOCKS */
  int32_t input_bits;
} algorithms[] = {{"NVFP4", YK_PACKING_NVFP4_FACTOR, 1, -1, 4},
                  {"W4A16_NVFP4", YK_PACKING_NVFP4_FACTOR, 1, -1, 0},
                  {"W4A8_NVFP4_FP8", YK_PACKING_NVFP4_FACTOR, 1, -1, 8},
                  {"MXFP8", YK_PACKING_MXFP8, 1, -1, 8},
                  {"FP8", YK_PACKING_BLOCKS, -1, -1, 8},
                  {"FP8_PER_CHANNEL_PER_TOKEN", YK_PACKING_BLOCKS, 1, -1, 8},
                  {"FP8_PB_WO", YK_PACKING_BLOCKS, 128, 128, 0}};

static const char supported[] = "NVFP4, W4A16_NVFP4, W4A8_NVFP4_FP8, MXFP8, FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO";

/* The scheme of an object with quant_algo, in capitals or not, and group_size. */
static yk_status read_algorithm(yk_json object, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  const char *name;
  int64_t group = 0;
  YK_TRY(yk_json_get_str(object, label, algo_key, true, &name, err));
  YK_TRY(yk_json_get_i64(object, label, "group_size", false, INT32_MIN, INT32_MAX, &group, err));
  YK_TRY(yk_hf_require_unset(object, label, "has_zero_point", err));
  YK_TRY(yk_hf_require_unset(object, label, "pre_quant_scale", err)); /* a factor of every input */
  for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
    const struct algorithm *a = &algorithms[i];
    if (!name || strcasecmp(name, a->name) != 0) continue;
    bool is_block = a->packing != YK_PACKING_BLOCKS;
    *scheme = is_block ? yk_hf_block_scheme(a->packing)
                       : (yk_quant_scheme){.format = YK_WEIGHT_FP8,
                                           .packing = a->packing,
                                           .group_size = a->group_size,
                                           .group_outputs = a->group_outputs,
                                           .zeros = YK_ZEROS_NONE};
    scheme->input_bits = a->input_bits;
    if (!is_block || group == 0 || group == scheme->group_size) return YK_OK;
    return yk_hf_refuse_value(object, label, "group_size", scheme->group_size == 16 ? "16" : "32", err);
  }
  return yk_hf_refuse_value(object, label, algo_key, supported, err);
}

/* Whether the text model has a module: others, such as mtp.layers.0.mlp, may have algorithms that are not supported. */
static bool is_of_text(const char *module)
{
  return yk_weight_within_text(module) || yk_name_has_parts(module, "lm_head");
}

/* Rules for the modules of the key "quantized_layers", each with an algorithm. A name such as
 * model.layers.0.mlp.experts stands for all modules within. */
static yk_status add_layers(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char key[] = "quantized_layers";
  yk_json layers = yk_json_get(object, key);
  char of_layer[LABEL_BYTES];
  if (!yk_json_is(layers, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an object, found %s", label, key,
                      yk_json_type_name(layers));
  YK_JSON_EACH_KEY(at, layers)
  {
    const char *module = yk_json_string(at);
    yk_quant_scheme scheme;
    if (!is_of_text(module)) continue;
    snprintf(of_layer, sizeof of_layer, "%.80s: %s: %.120s", label, key, module);
    YK_TRY(read_algorithm(yk_json_member(at), of_layer, &scheme, err));
    YK_TRY(yk_quant_rules_add(&quant->rules, YK_NAME_BEGINS, module, &scheme, label, key, err));
    if (quant->scheme.group_size == 0) quant->scheme = scheme;
  }
  return YK_OK;
}

/* A pattern of Python's fnmatch as a regular expression that matches the whole name. */
static void append_glob(yk_strbuf *out, const char *pattern)
{
  for (const char *c = pattern; *c; c++) {
    if (*c == '*')
      yk_strbuf_append_str(out, ".*");
    else if (*c == '?')
      yk_strbuf_append_str(out, ".");
    else if (strchr("\\^$.|+()[]{}", *c))
      yk_strbuf_append_fmt(out, "\\%c", *c);
    else
      yk_strbuf_append(out, c, 1);
  }
  yk_strbuf_append_str(out, "$");
}

static yk_status add_excluded(yk_json object, const char *label, const char *key, yk_quant_config *quant, yk_err *err)
{
  yk_json list = yk_json_get(object, key);
  if (!yk_json_is_given(list)) return YK_OK;
  if (!yk_json_is(list, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an array of strings, found %s", label, key,
                      yk_json_type_name(list));
  YK_JSON_EACH(item, list)
  {
    const char *pattern = yk_json_string(item);
    if (!pattern) return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected module names", label, key);
    if (!strpbrk(pattern, "*?")) {
      YK_TRY(yk_quant_rules_add(&quant->rules, YK_NAME_HAS_PARTS, pattern, NULL, label, key, err));
      continue;
    }
    yk_strbuf regex = YK_STRBUF_INIT;
    append_glob(&regex, pattern);
    yk_status status = regex.failed
                           ? yk_err_set(err, YK_E_NOMEM, "%s: no memory for %s", label, key)
                           : yk_quant_rules_add(&quant->rules, YK_NAME_BEGINS_LIKE, regex.data, NULL, label, key, err);
    yk_strbuf_free(&regex);
    YK_TRY(status);
  }
  return YK_OK;
}

/* The KV cache's numbers: "FP8", or in config.json an object with them. */
static yk_status read_kv_cache(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char key[] = "kv_cache_quant_algo", scheme_key[] = "kv_cache_scheme";
  yk_json algorithm = yk_json_get(object, key), scheme = yk_json_get(object, scheme_key);
  int64_t bits = 0;
  if (yk_json_is(scheme, YK_JSON_OBJECT)) {
    YK_TRY(yk_json_get_i64(scheme, label, "num_bits", true, 1, 64, &bits, err));
    if (bits != 8) return yk_hf_refuse_value(object, label, scheme_key, "8 bits", err);
    quant->kv_format = YK_KV_FP8;
    return YK_OK;
  }
  if (!yk_json_is_given(algorithm)) return yk_hf_require_unset(object, label, scheme_key, err);
  if (!yk_json_is(algorithm, YK_JSON_STRING) || strcmp(yk_json_string(algorithm), "FP8") != 0)
    return yk_hf_refuse_value(object, label, key, "FP8, null", err);
  quant->kv_format = YK_KV_FP8;
  return YK_OK;
}

yk_status yk_hf_read_modelopt(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  yk_json inner = yk_json_get(object, "quantization");
  const char *name;
  if (yk_json_is(inner, YK_JSON_OBJECT)) object = inner;
  quant->method = YK_QUANT_MODELOPT;
  YK_TRY(yk_json_get_str(object, label, algo_key, true, &name, err));
  YK_TRY(read_kv_cache(object, label, quant, err));
  YK_TRY(add_excluded(object, label, "exclude_modules", quant, err));
  YK_TRY(add_excluded(object, label, "ignore", quant, err));
  if (name && strcasecmp(name, mixed) == 0) {
    quant->only_named = true;
    return add_layers(object, label, quant, err);
  }
  return read_algorithm(object, label, &quant->scheme, err);
}
