/* hf_quant_gptq.c - the settings of GPTQ checkpoints, as auto-gptq, optimum and gptqmodel write them. */
#include <string.h>

#include "loader/hf/hf_quant_methods.h"
#include "loader/hf/hf_quant_parts.h"

/* Keys of an override that describe how weights were computed, not how they are stored. */
static bool is_about_search(const char *key)
{
  static const char *const keys[] = {"sym",
                                     "desc_act",
                                     "static_groups",
                                     "true_sequential",
                                     "damp_percent",
                                     "mse",
                                     "hessian",
                                     "act_group_aware",
                                     "damp_auto_increment",
                                     "gptaq",
                                     "failsafe",
                                     "fallback",
                                     "foem",
                                     "smooth",
                                     "smoother"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(key, keys[i]) == 0) return true;
  return false;
}

static yk_status read_override(yk_json object, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  YK_JSON_EACH_KEY(at, object)
  {
    const char *key = yk_json_string(at);
    if (strcmp(key, "bits") != 0 && strcmp(key, "group_size") != 0 && !is_about_search(key))
      return yk_hf_refuse_value(object, label, key, "bits, group_size, sym, desc_act", err);
  }
  YK_TRY(yk_hf_get_bits(object, label, "bits", false, scheme->packing == YK_PACKING_GPTQ, &scheme->format, err));
  YK_TRY(yk_json_get_bool(object, label, "desc_act", false, &scheme->act_order, err));
  return yk_hf_get_group_size(object, label, "group_size", false, &scheme->group_size, err);
}

yk_status yk_hf_add_dynamic(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char dynamic[] = "dynamic";
  yk_json patterns = yk_json_get(object, dynamic);
  if (!yk_json_is_given(patterns)) return YK_OK;
  if (!yk_json_is(patterns, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an object, found %s", label, dynamic,
                      yk_json_type_name(patterns));
  YK_JSON_EACH_KEY(at, patterns)
  {
    const char *pattern = yk_json_string(at);
    yk_json override = yk_json_member(at);
    bool skips = strncmp(pattern, "-:", 2) == 0, is_marked = skips || strncmp(pattern, "+:", 2) == 0;
    yk_quant_scheme scheme = quant->scheme;
    if (!skips) {
      if (!yk_json_is(override, YK_JSON_OBJECT))
        return yk_err_set(err, YK_E_FORMAT, "%s: dynamic \"%.80s\": expected an object, found %s", label, pattern,
                          yk_json_type_name(override));
      YK_TRY(read_override(override, label, &scheme, err));
    }
    YK_TRY(yk_quant_rules_add(&quant->rules, YK_NAME_BEGINS_LIKE, pattern + (is_marked ? 2 : 0), skips ? NULL : &scheme,
                              label, dynamic, err));
  }
  return YK_OK;
}

/* gptqmodel writes checkpoint_format and, in later versions, also format. */
static yk_status read_version(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char *const keys[] = {"checkpoint_format", "format"};
  quant->scheme.zeros = YK_ZEROS_LESS_ONE;
  for (int i = 0; i < 2; i++) {
    const char *format;
    YK_TRY(yk_json_get_str(object, label, keys[i], false, &format, err));
    if (!format) continue;
    if (strcmp(format, "gptq") != 0 && strcmp(format, "gptq_v2") != 0)
      return yk_hf_refuse_value(object, label, keys[i], "gptq, gptq_v2", err);
    quant->scheme.zeros = strcmp(format, "gptq") == 0 ? YK_ZEROS_LESS_ONE : YK_ZEROS_STORED;
    return YK_OK;
  }
  return YK_OK;
}

yk_status yk_hf_read_gptq(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  bool symmetric = true;
  const char *pack_dtype;
  quant->method = YK_QUANT_GPTQ;
  quant->scheme.packing = YK_PACKING_GPTQ;
  YK_TRY(yk_hf_get_bits(object, label, "bits", true, true, &quant->scheme.format, err));
  YK_TRY(yk_hf_get_group_size(object, label, "group_size", true, &quant->scheme.group_size, err));
  YK_TRY(read_version(object, label, quant, err));
  YK_TRY(yk_json_get_str(object, label, "pack_dtype", false, &pack_dtype, err));
  if (pack_dtype && strcmp(pack_dtype, "int32") != 0)
    return yk_hf_refuse_value(object, label, "pack_dtype", "int32", err);
  YK_TRY(yk_json_get_bool(object, label, "desc_act", false, &quant->scheme.act_order, err));
  YK_TRY(yk_json_get_bool(object, label, "sym", false, &symmetric, err)); /* zeros are stored for either value */
  static const char *const others[] = {"is_marlin_format", "adapter", "rotation"};
  for (int i = 0; i < 3; i++) YK_TRY(yk_hf_require_unset(object, label, others[i], err));
  YK_TRY(yk_hf_add_skips(object, label, "modules_to_not_convert", YK_NAME_CONTAINS, quant, err));
  return yk_hf_add_dynamic(object, label, quant, err);
}
