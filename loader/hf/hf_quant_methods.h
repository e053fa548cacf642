/* hf_quant_methods.h - readers of the configurations of quantisation methods: hf_quant_NAME.c, one file per method. Not
 * for use outside the loader. */
#ifndef YK_LOADER_HF_QUANT_METHODS_H
#define YK_LOADER_HF_QUANT_METHODS_H

#include "base/json.h"
#include "loader/model/quant_rules.h"

/* Reads a method's configuration: object is the configuration, label its name in messages. The caller frees the added
 * rules, also on failure. Errors: YK_E_FORMAT, YK_E_UNSUPPORTED naming key and value, YK_E_NOMEM. */
typedef yk_status (*yk_hf_quant_reader)(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);

/* The readers, by quant_method. */
yk_status yk_hf_read_awq(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_gptq(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_compressed(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_auto_round(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_fp8(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_mxfp4(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);
yk_status yk_hf_read_modelopt(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);

/* yk_hf_read_float_weights - read compressed-tensors' settings of weights of type "float"; only 8 bits are
 * supported. */
yk_status yk_hf_read_float_weights(yk_json weights, const char *label, yk_quant_scheme *scheme, yk_err *err);

/* yk_hf_block_scheme - the scheme of a packing whose scales are 8-bit floats: NVFP4, MXFP4, MXFP8. */
yk_quant_scheme yk_hf_block_scheme(yk_packing packing);

/* yk_hf_read_block_floats - the same from compressed-tensors' settings of weights of type "float", which must agree. */
yk_status yk_hf_read_block_floats(yk_json weights, const char *label, yk_packing packing, yk_quant_scheme *scheme,
                                  yk_err *err);

/* yk_hf_read_integers - read a group of compressed-tensors with unpacked 8-bit weights. */
yk_status yk_hf_read_integers(yk_json group, const char *label, yk_quant_scheme *scheme, yk_err *err);

/* yk_hf_add_dynamic - convert the key "dynamic" of gptqmodel, {"-:regex": {}, "+:regex": {"group_size": ...}}, to
 *   rules. quant->scheme must be set. */
yk_status yk_hf_add_dynamic(yk_json object, const char *label, yk_quant_config *quant, yk_err *err);

#endif
