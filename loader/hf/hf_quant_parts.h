/* hf_quant_parts.h - settings shared by the configurations of all quantisation methods. Not for use outside the
 * loader. */
#ifndef YK_LOADER_HF_QUANT_PARTS_H
#define YK_LOADER_HF_QUANT_PARTS_H

#include "base/json.h"
#include "loader/model/quant_rules.h"

/* yk_hf_refuse_value - YK_E_UNSUPPORTED: "LABEL: KEY VALUE is not supported; supported: SUPPORTED". */
yk_status yk_hf_refuse_value(yk_json object, const char *label, const char *key, const char *supported, yk_err *err);

/* yk_hf_require_unset - refuse a value of key unless it is absent, null, false or empty. */
yk_status yk_hf_require_unset(yk_json object, const char *label, const char *key, yk_err *err);

/* yk_hf_get_bits - the format for a number of bits: 4 or, with may_be_8, 8. *out is unchanged if the key is missing and
 *   not required. */
yk_status yk_hf_get_bits(yk_json object, const char *label, const char *key, bool required, bool may_be_8,
                         yk_weight_format *out, yk_err *err);

/* yk_hf_get_group_size - a power of 2 from 16 to 1024, or -1. *out is unchanged if the key is missing and not
 * required. */
yk_status yk_hf_get_group_size(yk_json object, const char *label, const char *key, bool required, int32_t *out,
                               yk_err *err);

/* yk_hf_add_skips - add a list of names that are not quantised (missing or null: none) as rules. */
yk_status yk_hf_add_skips(yk_json object, const char *label, const char *key, yk_name_match match,
                          yk_quant_config *quant, yk_err *err);

#endif
