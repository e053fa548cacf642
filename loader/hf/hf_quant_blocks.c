/* hf_quant_blocks.c - the settings of 4-bit and 8-bit floats in small blocks with a scale that is an 8-bit float.
 * Sources: compressed_tensors, quantization/quant_scheme.py; OCP Microscaling Formats (MX), 2023. */
#include <strings.h>

#include "loader/hf/hf_quant_methods.h"
#include "loader/hf/hf_quant_parts.h"

enum { NVFP4_BLOCK = 16, MX_BLOCK = 32 };

static bool is_nvfp4(yk_packing packing)
{
  return packing == YK_PACKING_NVFP4 || packing == YK_PACKING_NVFP4_FACTOR;
}

yk_quant_scheme yk_hf_block_scheme(yk_packing packing)
{
  return (yk_quant_scheme){.format = packing == YK_PACKING_MXFP8 ? YK_WEIGHT_FP8 : YK_WEIGHT_FP4,
                           .packing = packing,
                           .group_size = is_nvfp4(packing) ? NVFP4_BLOCK : MX_BLOCK,
                           .group_outputs = 1,
                           .zeros = YK_ZEROS_NONE};
}

yk_status yk_hf_read_block_floats(yk_json weights, const char *label, yk_packing packing, yk_quant_scheme *scheme,
                                  yk_err *err)
{
  *scheme = yk_hf_block_scheme(packing);
  const char *expected = is_nvfp4(packing) ? "tensor_group" : "group", *strategy;
  const int32_t n_bits = packing == YK_PACKING_MXFP8 ? 8 : 4;
  int64_t bits = n_bits, group = scheme->group_size;
  bool symmetric = true;
  YK_TRY(yk_json_get_i64(weights, label, "num_bits", false, 1, 64, &bits, err));
  if (bits != n_bits) return yk_hf_refuse_value(weights, label, "num_bits", n_bits == 8 ? "8" : "4", err);
  YK_TRY(yk_json_get_bool(weights, label, "symmetric", false, &symmetric, err));
  if (!symmetric) return yk_hf_refuse_value(weights, label, "symmetric", "true of type float", err);
  YK_TRY(yk_hf_require_unset(weights, label, "dynamic", err));
  YK_TRY(yk_hf_require_unset(weights, label, "block_structure", err));
  YK_TRY(yk_json_get_i64(weights, label, "group_size", false, INT32_MIN, INT32_MAX, &group, err));
  if (group != scheme->group_size)
    return yk_hf_refuse_value(weights, label, "group_size", is_nvfp4(packing) ? "16" : "32", err);
  YK_TRY(yk_json_get_str(weights, label, "strategy", false, &strategy, err));
  return !strategy || strcasecmp(strategy, expected) == 0
             ? YK_OK
             : yk_hf_refuse_value(weights, label, "strategy", expected, err);
}
