/* hf_quant.c - finds the method of a quantisation configuration, and what all methods read alike. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "loader/hf_parts.h"
#include "loader/hf_quant_parts.h"

static const char supported_methods[] = "awq, gptq, compressed-tensors, auto-round, fp8, none";

yk_status yk_hf_refuse_value(const json_t *object, const char *label, const char *key, const char *supported,
                             yk_err *err)
{
  enum { SHOWN_BYTES = 80 };
  char *text = yk_json_text(json_object_get(object, key), JSON_ENCODE_ANY | JSON_COMPACT);
  yk_status status = yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s %.*s is not supported; supported: %s", label, key,
                                SHOWN_BYTES, text ? text : "(absent)", supported);
  free(text);
  return status;
}

yk_status yk_hf_require_unset(const json_t *object, const char *label, const char *key, yk_err *err)
{
  const json_t *value = json_object_get(object, key);
  bool is_empty =
      (json_is_object(value) && json_object_size(value) == 0) || (json_is_array(value) && json_array_size(value) == 0);
  if (!value || json_is_null(value) || json_is_false(value) || is_empty) return YK_OK;
  return yk_hf_refuse_value(object, label, key, "null", err);
}

yk_status yk_hf_get_bits(const json_t *object, const char *label, const char *key, bool required, bool may_be_8,
                         yk_weight_format *out, yk_err *err)
{
  int64_t bits = *out == YK_WEIGHT_INT8 ? 8 : 4;
  YK_TRY(yk_json_get_i64(object, label, key, required, -1, INT32_MAX, &bits, err));
  if (bits != 4 && !(may_be_8 && bits == 8))
    return yk_hf_refuse_value(object, label, key, may_be_8 ? "4, 8" : "4", err);
  *out = bits == 8 ? YK_WEIGHT_INT8 : YK_WEIGHT_AWQ;
  return YK_OK;
}

yk_status yk_hf_get_group_size(const json_t *object, const char *label, const char *key, bool required, int32_t *out,
                               yk_err *err)
{
  int64_t group = *out;
  YK_TRY(yk_json_get_i64(object, label, key, required, INT32_MIN, INT32_MAX, &group, err));
  bool fits = group == -1 || (group >= 16 && group <= 1024 && (group & (group - 1)) == 0);
  if (!fits) return yk_hf_refuse_value(object, label, key, "16, 32, 64, 128, 256, 512, 1024, -1", err);
  *out = (int32_t)group;
  return YK_OK;
}

yk_status yk_hf_add_skips(const json_t *object, const char *label, const char *key, yk_name_match match,
                          yk_quant_config *quant, yk_err *err)
{
  const json_t *list = json_object_get(object, key);
  if (!list || json_is_null(list)) return YK_OK;
  if (!json_is_array(list))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an array of strings, found %s", label, key,
                      yk_json_type_name(list));
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    if (!json_is_string(item) || json_string_length(item) == 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%zu]: expected a module name", label, key, i);
    YK_TRY(yk_quant_rules_add(&quant->rules, match, json_string_value(item), NULL, label, key, err));
  }
  return YK_OK;
}

/* The method by name. Files of their own do not always name it: GPTQ's have desc_act, AWQ's w_bit or zero_point. */
static yk_status find_method(const json_t *object, const char *label, const char **method, yk_err *err)
{
  YK_TRY(yk_json_get_str(object, label, "quant_method", false, method, err));
  if (*method) return YK_OK;
  if (json_object_get(object, "desc_act"))
    *method = "gptq";
  else if (json_object_get(object, "w_bit") || json_object_get(object, "zero_point"))
    *method = "awq";
  else if (json_object_get(object, "config_groups"))
    *method = "compressed-tensors";
  else
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"quant_method\" is missing, expected one of %s", label,
                      supported_methods);
  return YK_OK;
}

static yk_status read_settings(const json_t *object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const struct {
    const char *name;
    yk_hf_quant_reader read;
  } methods[] = {{"awq", yk_hf_read_awq},
                 {"gptq", yk_hf_read_gptq},
                 {"compressed-tensors", yk_hf_read_compressed},
                 {"auto-round", yk_hf_read_auto_round},
                 {"intel/auto-round", yk_hf_read_auto_round},
                 {"fp8", yk_hf_read_fp8}};
  if (!json_is_object(object))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", label, yk_json_type_name(object));
  const char *method;
  YK_TRY(find_method(object, label, &method, err));
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (strcasecmp(method, methods[i].name) == 0) return methods[i].read(object, label, quant, err);
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: quant_method \"%s\" is not supported; supported: %s", label, method,
                    supported_methods);
}

yk_status yk_hf_read_quant(const json_t *root, const json_t *separate, const char *separate_file,
                           yk_quant_config *quant, yk_err *err)
{
  *quant = (yk_quant_config){.method = YK_QUANT_NONE};
  static const char *const keys[] = {"quantization_config", "compression_config"}; /* the second: older files */
  static const char *const labels[] = {"config.json: quantization_config", "config.json: compression_config"};
  for (int i = 0; i < 2; i++) {
    const json_t *object = json_object_get(root, keys[i]);
    if (object && !json_is_null(object)) return read_settings(object, labels[i], quant, err);
  }
  if (separate) return read_settings(separate, separate_file, quant, err);
  return YK_OK;
}
