/* hf_quant_msmodelslim.c - the description file that msmodelslim writes with the weights: tensor name -> kind of
 * quantisation, and keys for the whole model, which contain no dot.
 * Source: msmodelslim, example files quant_model_description*.json; vllm-ascend, quantization/quant_config.py. */
#include <stdio.h>
#include <string.h>

#include "loader/hf/hf_parts.h"
#include "loader/hf/hf_quant_parts.h"
#include "loader/safetensors/json_index.h"

enum { MODULE_BYTES = 256 };

typedef struct tensor_kind {
  const char *name;
  bool is_quantised;
  yk_inputs_kind inputs;
} tensor_kind;

static const tensor_kind kinds[] = {{"FLOAT", false, YK_INPUTS_FLOAT},
                                    {"W8A16", true, YK_INPUTS_FLOAT},
                                    {"W8A8", true, YK_INPUTS_STATIC},
                                    {"W8A8S", true, YK_INPUTS_STATIC},
                                    {"W8A8_DYNAMIC", true, YK_INPUTS_PER_TOKEN}};
static const char supported_kinds[] = "FLOAT, W8A16, W8A8, W8A8S, W8A8_DYNAMIC";

/* Read the keys for the whole model. An 8-bit KV cache (C8) is supported; other values are refused. */
static yk_status read_whole(yk_json object, const char *file, yk_quant_config *quant, yk_err *err)
{
  static const char *const keys[] = {"kv_cache_type", "kv_quant_type", "fa_quant_type", "reduce_quant_type"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const char *text = yk_json_string(yk_json_get(object, keys[i]));
    bool is_of_cache = i < 2;
    if (text && (!*text || strcmp(text, "FLOAT") == 0)) continue;
    if (text && is_of_cache && strcmp(text, "C8") == 0) {
      quant->kv_format = YK_KV_INT8;
      continue;
    }
    if (text) return yk_hf_refuse_value(object, file, keys[i], is_of_cache ? "FLOAT, C8" : "FLOAT", err);
    YK_TRY(yk_hf_require_unset(object, file, keys[i], err));
  }
  return YK_OK;
}

static yk_status read_group_size(yk_json object, const char *file, int32_t *out, yk_err *err)
{
  static const char key[] = "group_size";
  yk_json value = yk_json_get(object, key);
  int64_t size;
  *out = -1;
  if (yk_json_to_i64(value, &size) && size == 0) return YK_OK; /* one scale per output */
  return yk_hf_get_group_size(object, file, key, false, out, err);
}

static yk_status kind_of(const yk_json_index *index, const char *file, const char *key, const tensor_kind **out,
                         yk_err *err)
{
  yk_json value = yk_json_index_get(index, key);
  const char *text = yk_json_string(value);
  if (!text)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%.160s\": expected one of %s, found %s", file, key, supported_kinds,
                      value.doc ? yk_json_type_name(value) : "no such key");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, text) != 0) continue;
    *out = &kinds[i];
    return YK_OK;
  }
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %.160s: \"%.40s\" is not supported; supported: %s", file, key, text,
                    supported_kinds);
}

/* The companions of a weight must have the weight's kind. */
static yk_status check_companion(const yk_json_index *index, const char *file, const char *key, const tensor_kind *kind,
                                 yk_err *err)
{
  static const char *const suffixes[] = {"weight_scale", "weight_offset", "input_scale",
                                         "input_offset", "quant_bias",    "deq_scale"};
  const char *suffix = strrchr(key, '.') + 1;
  char weight[MODULE_BYTES];
  const tensor_kind *expected;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    if (strcmp(suffix, suffixes[i]) != 0) continue;
    snprintf(weight, sizeof weight, "%.*sweight", (int)(suffix - key), key);
    YK_TRY(kind_of(index, file, weight, &expected, err));
    if (kind == expected) return YK_OK;
    return yk_err_set(err, YK_E_FORMAT, "%s: %.160s: expected \"%s\" as its weight, found \"%s\"", file, key,
                      expected->name, kind->name);
  }
  return YK_OK;
}

static yk_status read_tensor(const yk_json_index *index, const char *file, const char *key, yk_quant_config *quant,
                             yk_err *err)
{
  const tensor_kind *kind;
  const char *suffix = strrchr(key, '.');
  char module[MODULE_BYTES];
  bool is_of_cache = strcmp(suffix, ".kv_cache_scale") == 0 || strcmp(suffix, ".kv_cache_offset") == 0;
  if (is_of_cache && quant->kv_format != YK_KV_ACT) return YK_OK; /* for any kind given: C8, W8A8, FLOAT */
  YK_TRY(kind_of(index, file, key, &kind, err));
  YK_TRY(check_companion(index, file, key, kind, err));
  size_t n = (size_t)(suffix - key);
  if (!kind->is_quantised || strcmp(suffix, ".weight") != 0) return YK_OK;
  if (n == 0 || n >= sizeof module)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%.80s...\": expected a module's name of 1 to %d bytes, found %zu",
                      file, key, MODULE_BYTES - 1, n);
  memcpy(module, key, n);
  module[n] = '\0';
  yk_quant_scheme scheme = quant->scheme;
  scheme.inputs = kind->inputs;
  if (scheme.inputs != YK_INPUTS_FLOAT) scheme.group_size = -1;
  if (scheme.inputs == YK_INPUTS_STATIC) scheme.packing = YK_PACKING_PRODUCTS;
  if (scheme.inputs != YK_INPUTS_FLOAT) scheme.zeros = YK_ZEROS_NONE;
  return yk_quant_rules_add(&quant->rules, YK_NAME_IS, module, &scheme, file, key, err);
}

static yk_status read_tensors(yk_json object, const yk_json_index *index, const char *file, yk_quant_config *quant,
                              yk_err *err)
{
  YK_JSON_EACH_KEY(at, object)
  {
    const char *key = yk_json_string(at);
    if (strchr(key, '.')) YK_TRY(read_tensor(index, file, key, quant, err));
  }
  return YK_OK;
}

yk_status yk_hf_read_msmodelslim(yk_json object, const char *file, yk_quant_config *quant, yk_err *err)
{
  if (!yk_json_is(object, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", file, yk_json_type_name(object));
  quant->method = YK_QUANT_MSMODELSLIM;
  quant->only_named = true;
  quant->scheme = (yk_quant_scheme){.format = YK_WEIGHT_INT8, .packing = YK_PACKING_ROWS, .zeros = YK_ZEROS_OPTIONAL};
  YK_TRY(read_whole(object, file, quant, err));
  YK_TRY(read_group_size(object, file, &quant->scheme.group_size, err));
  yk_json_index index;
  yk_status status = yk_json_index_make(object, file, &index, err);
  if (status == YK_OK) status = read_tensors(object, &index, file, quant, err);
  yk_json_index_free(&index);
  return status;
}
