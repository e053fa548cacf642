#include "loader/hf/hf_quant_parts.h"

yk_status yk_hf_refuse_value(yk_json object, const char *label, const char *key, const char *supported, yk_err *err)
{
  enum { SHOWN_BYTES = 80 };
  yk_json value = yk_json_get(object, key);
  yk_strbuf text = YK_STRBUF_INIT;
  if (value.doc)
    yk_json_append(&text, value, 0);
  else
    yk_strbuf_append_str(&text, "(absent)");
  yk_status status = yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s %.*s is not supported; supported: %s", label, key,
                                SHOWN_BYTES, text.data ? text.data : "", supported);
  yk_strbuf_free(&text);
  return status;
}

yk_status yk_hf_require_unset(yk_json object, const char *label, const char *key, yk_err *err)
{
  yk_json value = yk_json_get(object, key);
  bool is_container = yk_json_is(value, YK_JSON_OBJECT) || yk_json_is(value, YK_JSON_ARRAY);
  if (!yk_json_is_given(value) || yk_json_is(value, YK_JSON_FALSE)) return YK_OK;
  if (is_container && yk_json_size(value) == 0) return YK_OK;
  return yk_hf_refuse_value(object, label, key, "null", err);
}

yk_status yk_hf_get_bits(yk_json object, const char *label, const char *key, bool required, bool may_be_8,
                         yk_weight_format *out, yk_err *err)
{
  int64_t bits = *out == YK_WEIGHT_INT8 ? 8 : 4;
  YK_TRY(yk_json_get_i64(object, label, key, required, -1, INT32_MAX, &bits, err));
  if (bits != 4 && !(may_be_8 && bits == 8))
    return yk_hf_refuse_value(object, label, key, may_be_8 ? "4, 8" : "4", err);
  *out = bits == 8 ? YK_WEIGHT_INT8 : YK_WEIGHT_AWQ;
  return YK_OK;
}

yk_status yk_hf_get_group_size(yk_json object, const char *label, const char *key, bool required, int32_t *out,
                               yk_err *err)
{
  int64_t group = *out;
  YK_TRY(yk_json_get_i64(object, label, key, required, INT32_MIN, INT32_MAX, &group, err));
  bool fits = group == -1 || (group >= 16 && group <= 1024 && (group & (group - 1)) == 0);
  if (!fits) return yk_hf_refuse_value(object, label, key, "16, 32, 64, 128, 256, 512, 1024, -1", err);
  *out = (int32_t)group;
  return YK_OK;
}

yk_status yk_hf_add_skips(yk_json object, const char *label, const char *key, yk_name_match match,
                          yk_quant_config *quant, yk_err *err)
{
  yk_json list = yk_json_get(object, key);
  if (!yk_json_is_given(list)) return YK_OK;
  if (!yk_json_is(list, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an array of strings, found %s", label, key,
                      yk_json_type_name(list));
  for (size_t i = 0; i < yk_json_size(list); i++) {
    yk_json item = yk_json_at(list, i);
    if (!yk_json_is(item, YK_JSON_STRING) || yk_json_length(item) == 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%zu]: expected a module name", label, key, i);
    YK_TRY(yk_quant_rules_add(&quant->rules, match, yk_json_string(item), NULL, label, key, err));
  }
  return YK_OK;
}
