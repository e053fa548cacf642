/* hf_quant.c - selects the method of a quantisation configuration. */
#include <strings.h>

#include "loader/hf/hf_parts.h"
#include "loader/hf/hf_quant_methods.h"

static const char supported_methods[] = "awq, gptq, compressed-tensors, auto-round, fp8, modelopt, mxfp4, none";

/* Find the method by name. Separate configuration files may lack the name: GPTQ's have desc_act, AWQ's w_bit or
 * zero_point. */
static yk_status find_method(yk_json object, const char *label, const char **method, yk_err *err)
{
  YK_TRY(yk_json_get_str(object, label, "quant_method", false, method, err));
  if (*method) return YK_OK;
  if (yk_json_get(object, "desc_act").doc)
    *method = "gptq";
  else if (yk_json_get(object, "w_bit").doc || yk_json_get(object, "zero_point").doc)
    *method = "awq";
  else if (yk_json_is(yk_json_get(object, "quantization"), YK_JSON_OBJECT)) /* hf_quant_config.json */
    *method = "modelopt";
  else if (yk_json_get(object, "config_groups").doc)
    *method = "compressed-tensors";
  else
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"quant_method\" is missing, expected one of %s", label,
                      supported_methods);
  return YK_OK;
}

static yk_status read_settings(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const struct {
    const char *name;
    yk_hf_quant_reader read;
  } methods[] = {{"awq", yk_hf_read_awq},
                 {"gptq", yk_hf_read_gptq},
                 {"compressed-tensors", yk_hf_read_compressed},
                 {"auto-round", yk_hf_read_auto_round},
                 {"intel/auto-round", yk_hf_read_auto_round},
                 {"fp8", yk_hf_read_fp8},
                 {"mxfp4", yk_hf_read_mxfp4},
                 {"modelopt", yk_hf_read_modelopt},
                 {"modelopt_fp4", yk_hf_read_modelopt}};
  if (!yk_json_is(object, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", label, yk_json_type_name(object));
  const char *method;
  YK_TRY(find_method(object, label, &method, err));
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (strcasecmp(method, methods[i].name) == 0) return methods[i].read(object, label, quant, err);
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: quant_method \"%s\" is not supported; supported: %s", label, method,
                    supported_methods);
}

yk_status yk_hf_read_quant(yk_json root, yk_json separate, const char *separate_file, yk_quant_config *quant,
                           yk_err *err)
{
  *quant = (yk_quant_config){.method = YK_QUANT_NONE};
  static const char *const keys[] = {"quantization_config", "compression_config"}; /* older files use the second */
  static const char *const labels[] = {"config.json: quantization_config", "config.json: compression_config"};
  for (int i = 0; i < 2; i++) {
    yk_json object = yk_json_get(root, keys[i]);
    if (yk_json_is_given(object)) return read_settings(object, labels[i], quant, err);
  }
  if (separate.doc) return read_settings(separate, separate_file, quant, err);
  return YK_OK;
}
