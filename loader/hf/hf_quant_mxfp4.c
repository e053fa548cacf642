/* hf_quant_mxfp4.c - the method "mxfp4" of gpt-oss: only its experts are quantised. Source: Mxfp4Config and
 * replace_with_mxfp4_linear of transformers. */
#include "loader/hf/hf_quant_methods.h"
#include "loader/hf/hf_quant_parts.h"

yk_status yk_hf_read_mxfp4(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  quant->method = YK_QUANT_MXFP4;
  quant->scheme = yk_hf_block_scheme(YK_PACKING_MXFP4);
  quant->only_named = true;
  YK_TRY(yk_hf_add_skips(object, label, "modules_to_not_convert", YK_NAME_HAS_PARTS, quant, err));
  return yk_quant_rules_add(&quant->rules, YK_NAME_HAS_PARTS, "mlp.experts", &quant->scheme, label, "quant_method",
                            err);
}
