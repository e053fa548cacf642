/* hf_quant_auto_round.c - the settings of auto-round's checkpoints, in its three packings.
 * Source: auto_round, export/export_to_autoround/export.py and inference/convert_model.py. */
#include <string.h>

#include "loader/hf/hf_quant_methods.h"
#include "loader/hf/hf_quant_parts.h"

/* Whether text is the packing, possibly followed by ":" and the name of a kernel. */
static bool is_packing(const char *text, const char *packing)
{
  size_t n = strlen(packing);
  return strncmp(text, packing, n) == 0 && (text[n] == '\0' || text[n] == ':');
}

/* Older files name the key "backend". */
static yk_status read_packing(yk_json object, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  const char *key = yk_json_get(object, "packing_format").doc ? "packing_format" : "backend", *name;
  YK_TRY(yk_json_get_str(object, label, key, false, &name, err));
  if (!name || strcmp(name, "auto") == 0) name = "auto_round:auto_gptq";
  bool is_gptq = is_packing(name, "auto_round:auto_gptq") || strcmp(name, "auto_round:gptq") == 0;
  bool is_awq = is_packing(name, "auto_round:auto_awq") || strcmp(name, "auto_round:awq") == 0;
  bool is_own = strcmp(name, "auto_round") == 0 || strcmp(name, "auto_round:exllamav2") == 0 ||
                strcmp(name, "auto_round:tritonv2") == 0;
  if (!is_gptq && !is_awq && !is_own)
    return yk_hf_refuse_value(object, label, key, "auto_round, auto_round:auto_gptq, auto_round:auto_awq", err);
  scheme->packing = is_awq ? YK_PACKING_AWQ_GEMM : YK_PACKING_GPTQ;
  scheme->zeros = is_gptq ? YK_ZEROS_LESS_ONE : YK_ZEROS_STORED;
  return YK_OK;
}

static yk_status check_types(yk_json object, const char *label, yk_err *err)
{
  const char *type;
  int64_t act_bits = 16;
  YK_TRY(yk_json_get_str(object, label, "data_type", false, &type, err));
  if (type && strcmp(type, "int") != 0) return yk_hf_refuse_value(object, label, "data_type", "int", err);
  YK_TRY(yk_json_get_i64(object, label, "act_bits", false, 1, 64, &act_bits, err));
  if (act_bits < 16) return yk_hf_refuse_value(object, label, "act_bits", "16", err);
  return yk_hf_require_unset(object, label, "rotation_config", err);
}

static yk_status read_override(yk_json object, const char *label, yk_quant_scheme *scheme, bool *skips, yk_err *err)
{
  int64_t bits = 4;
  if (!yk_json_is(object, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: extra_config: expected objects, found %s", label,
                      yk_json_type_name(object));
  YK_TRY(yk_json_get_i64(object, label, "bits", false, 1, 64, &bits, err));
  *skips = bits >= 16;
  if (*skips) return YK_OK;
  YK_TRY(yk_hf_get_bits(object, label, "bits", false, scheme->packing == YK_PACKING_GPTQ, &scheme->format, err));
  YK_TRY(check_types(object, label, err));
  return yk_hf_get_group_size(object, label, "group_size", false, &scheme->group_size, err);
}

/* Each entry becomes a rule: names first, then entries that can only be regular expressions. */
static yk_status read_extra(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char extra_config[] = "extra_config";
  yk_json extra = yk_json_get(object, extra_config);
  if (!yk_json_is_given(extra)) return YK_OK;
  if (!yk_json_is(extra, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an object, found %s", label, extra_config,
                      yk_json_type_name(extra));
  for (int pass = 0; pass < 2; pass++) {
    YK_JSON_EACH_KEY(at, extra)
    {
      const char *name = yk_json_string(at);
      yk_json override = yk_json_member(at);
      bool is_regex = strpbrk(name, "*+?[](){}|^$\\") != NULL, skips = false;
      yk_quant_scheme scheme = quant->scheme;
      if (is_regex != (pass == 1)) continue;
      YK_TRY(read_override(override, label, &scheme, &skips, err));
      YK_TRY(yk_quant_rules_add(&quant->rules, is_regex ? YK_NAME_CONTAINS_LIKE : YK_NAME_IS, name,
                                skips ? NULL : &scheme, label, extra_config, err));
    }
  }
  return YK_OK;
}

yk_status yk_hf_read_auto_round(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  quant->method = YK_QUANT_AUTO_ROUND;
  YK_TRY(read_packing(object, label, &quant->scheme, err));
  bool may_be_8 = quant->scheme.packing == YK_PACKING_GPTQ;
  YK_TRY(yk_hf_get_bits(object, label, "bits", true, may_be_8, &quant->scheme.format, err));
  YK_TRY(yk_hf_get_group_size(object, label, "group_size", true, &quant->scheme.group_size, err));
  YK_TRY(check_types(object, label, err));
  YK_TRY(yk_hf_add_skips(object, label, "modules_to_not_convert", YK_NAME_CONTAINS_LIKE, quant, err));
  return read_extra(object, label, quant, err);
}
