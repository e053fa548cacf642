/* hf_quant_methods.h - how the configuration of each quantisation method is read: hf_quant_NAME.c, one file for each.
 * Not for use outside the loader. */
#ifndef YK_LOADER_HF_QUANT_METHODS_H
#define YK_LOADER_HF_QUANT_METHODS_H

#include "base/json.h"
#include "loader/model/quant_rules.h"

/* What a method's own file reads: object is its configuration, label its name in messages. Rules that were added are
 * the caller's to free, also on failure. Errors: YK_E_FORMAT, YK_E_UNSUPPORTED naming key and value, YK_E_NOMEM. */
typedef yk_status (*yk_hf_quant_reader)(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);

yk_status yk_hf_read_awq(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_gptq(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_compressed(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_auto_round(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_fp8(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);

/* yk_hf_read_float_weights - what compressed-tensors says of weights of type "float", of which 8 bits are read. */
yk_status yk_hf_read_float_weights(yk_json weights, const char *label, yk_quant_scheme *scheme, yk_err *err);

/* yk_hf_read_integers - a group of compressed-tensors whose weights are bytes as they are. */
yk_status yk_hf_read_integers(yk_json group, const char *label, yk_quant_scheme *scheme, yk_err *err);

/* yk_hf_add_dynamic - the key "dynamic" of gptqmodel: {"-:regex": {}, "+:regex": {"group_size": ...}}, as rules after
 *   quant->scheme is set. */
yk_status yk_hf_add_dynamic(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);

#endif
