/* hf_quant_parts.h - what the configurations of all quantisation methods say alike. Not for use outside the loader. */
#ifndef YK_LOADER_HF_QUANT_PARTS_H
#define YK_LOADER_HF_QUANT_PARTS_H

#include "base/json.h"
#include "loader/model/quant_rules.h"

/* yk_hf_refuse_value - YK_E_UNSUPPORTED: "LABEL: KEY VALUE is not supported; supported: SUPPORTED". */
yk_status yk_hf_refuse_value(yk_json object, const char *label, const char *key, const char *supported, yk_err *err);

/* yk_hf_require_unset - refuses a value of key that is neither absent, null, false nor empty. */
yk_status yk_hf_require_unset(yk_json object, const char *label, const char *key, yk_err *err);

/* yk_hf_get_bits - the format that bits mean: 4 or, where that may be, 8. *out stays where the key is absent and not
 *   required. */
yk_status yk_hf_get_bits(yk_json object, const char *label, const char *key, bool required, bool may_be_8,
                         yk_weight_format *out, yk_err *err);

/* yk_hf_get_group_size - a power of 2 from 16 to 1024, or -1; *out stays where the key is absent and not required. */
yk_status yk_hf_get_group_size(yk_json object, const char *label, const char *key, bool required, int32_t *out,
                               yk_err *err);

/* yk_hf_add_skips - a list of names that are not quantised (absent or null: none) as rules. */
yk_status yk_hf_add_skips(yk_json object, const char *label, const char *key, yk_name_match match,
                          yk_quant_config *quant, yk_err *err);

#endif
