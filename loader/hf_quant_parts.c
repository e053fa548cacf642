#include "loader/hf_quant_parts.h"

#include <stdlib.h>

yk_status yk_hf_refuse_value(const json_t *object, const char *label, const char *key, const char *supported,
                             yk_err *err)
{
  enum { SHOWN_BYTES = 80 };
  char *text = yk_tree_text(json_object_get(object, key), JSON_ENCODE_ANY | JSON_COMPACT);
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
  YK_TRY(yk_tree_get_i64(object, label, key, required, -1, INT32_MAX, &bits, err));
  if (bits != 4 && !(may_be_8 && bits == 8))
    return yk_hf_refuse_value(object, label, key, may_be_8 ? "4, 8" : "4", err);
  *out = bits == 8 ? YK_WEIGHT_INT8 : YK_WEIGHT_AWQ;
  return YK_OK;
}

yk_status yk_hf_get_group_size(const json_t *object, const char *label, const char *key, bool required, int32_t *out,
                               yk_err *err)
{
  int64_t group = *out;
  YK_TRY(yk_tree_get_i64(object, label, key, required, INT32_MIN, INT32_MAX, &group, err));
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
                      yk_tree_type_name(list));
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    if (!json_is_string(item) || json_string_length(item) == 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%zu]: expected a module name", label, key, i);
    YK_TRY(yk_quant_rules_add(&quant->rules, match, json_string_value(item), NULL, label, key, err));
  }
  return YK_OK;
}
