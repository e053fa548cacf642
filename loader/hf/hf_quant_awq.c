/* hf_quant_awq.c - the settings of AWQ checkpoints, as autoawq and gptqmodel write them. */
#include <strings.h>

#include "loader/hf/hf_quant_methods.h"
#include "loader/hf/hf_quant_parts.h"

/* Two generations of tools use two spellings of each key; the newer spelling is preferred. */
static const char *either(yk_json object, const char *key, const char *old_key)
{
  return !yk_json_get(object, key).doc && yk_json_get(object, old_key).doc ? old_key : key;
}

static yk_status read_packing(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const struct {
    const char *name;
    yk_packing packing;
  } versions[] = {
      {"gemm", YK_PACKING_AWQ_GEMM}, {"gemv", YK_PACKING_AWQ_GEMV}, {"gemv_fast", YK_PACKING_AWQ_GEMV_FAST}};
  static const char *const keys[] = {"version", "format", "checkpoint_format"};
  const char *version = NULL;
  for (int i = 0; i < 3 && !version; i++) YK_TRY(yk_json_get_str(object, label, keys[i], false, &version, err));
  if (!version) version = "gemm";
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    if (strcasecmp(version, versions[i].name) != 0) continue;
    quant->scheme.packing = versions[i].packing;
    return YK_OK;
  }
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: AWQ version \"%s\" is not supported; supported: gemm, gemv, gemv_fast",
                    label, version);
}

yk_status yk_hf_read_awq(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  bool zero_point = true;
  const char *group_key = either(object, "group_size", "q_group_size");
  quant->method = YK_QUANT_AWQ;
  YK_TRY(read_packing(object, label, quant, err));
  YK_TRY(yk_hf_get_bits(object, label, either(object, "bits", "w_bit"), true, false, &quant->scheme.format, err));
  YK_TRY(yk_hf_get_group_size(object, label, group_key, true, &quant->scheme.group_size, err));
  if (quant->scheme.packing != YK_PACKING_AWQ_GEMM && quant->scheme.group_size == 16) /* the padding of other packings
                                                                                       * is not defined for groups of
                                                                                       * 16 */
    return yk_hf_refuse_value(object, label, group_key, "32, 64, 128, -1", err);
  YK_TRY(yk_json_get_bool(object, label, "zero_point", false, &zero_point, err));
  quant->scheme.zeros = zero_point ? YK_ZEROS_STORED : YK_ZEROS_OPTIONAL;
  /* An entry matches anywhere in a name, so "mlp.gate" also matches "mlp.gate_proj". The same rule holds in AutoAWQ,
   * which writes the list (exclude_layers_to_not_quantize in awq/utils/module.py), in vLLM (is_layer_skipped with
   * match_mode "substring" in quantization/auto_awq.py) and in transformers 4 (replace_with_awq_linear in
   * integrations/awq.py). */
  YK_TRY(yk_hf_add_skips(object, label, "modules_to_not_convert", YK_NAME_CONTAINS, quant, err));
  return yk_hf_add_dynamic(object, label, quant, err);
}
