/* hf_quant_fp8.c - the settings of 8-bit float weights: the method "fp8", and "float" weights of compressed-tensors.
 * Sources: FineGrainedFP8Config of transformers; fp8.py of vLLM, model_executor/layers/quantization;
 * compressed_tensors, quantization/quant_args.py. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "loader/hf/hf_quant_methods.h"
#include "loader/hf/hf_quant_parts.h"

enum { MAX_BLOCK = 1 << 16, WHOLE = -1 };

/* Read the block that shares a scale, as [outputs, inputs]; older files of compressed-tensors write "128x128". */
static yk_status read_block(yk_json object, const char *label, const char *key, yk_quant_scheme *scheme, yk_err *err)
{
  yk_json value = yk_json_get(object, key);
  int64_t sizes[2] = {0, 0};
  char rest;
  if (yk_json_is(value, YK_JSON_ARRAY) && yk_json_size(value) == 2)
    for (size_t i = 0; i < 2; i++) {
      if (!yk_json_to_i64(yk_json_at(value, i), &sizes[i])) sizes[i] = 0;
    }
  else if (yk_json_is(value, YK_JSON_STRING) &&
           sscanf(yk_json_string(value), "%7" SCNd64 "x%7" SCNd64 "%c", &sizes[0], &sizes[1], &rest) != 2)
    sizes[0] = 0;
  if (sizes[0] < 1 || sizes[0] > MAX_BLOCK || sizes[1] < 1 || sizes[1] > MAX_BLOCK)
    return yk_hf_refuse_value(object, label, key, "[outputs, inputs] of 1 to 65536 each", err);
  scheme->group_outputs = (int32_t)sizes[0];
  scheme->group_size = (int32_t)sizes[1];
  return YK_OK;
}

/* The text of key, in lower case, must be a or b, or the key must be missing. */
static yk_status require_either(yk_json object, const char *label, const char *key, const char *a, const char *b,
                                const char *supported, yk_err *err)
{
  const char *text;
  YK_TRY(yk_json_get_str(object, label, key, false, &text, err));
  if (!text || strcasecmp(text, a) == 0 || strcasecmp(text, b) == 0) return YK_OK;
  return yk_hf_refuse_value(object, label, key, supported, err);
}

static yk_quant_scheme float8_scheme(void)
{
  return (yk_quant_scheme){.format = YK_WEIGHT_FP8,
                           .packing = YK_PACKING_BLOCKS,
                           .group_size = WHOLE,
                           .group_outputs = WHOLE,
                           .zeros = YK_ZEROS_NONE};
}

yk_status yk_hf_read_fp8(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char block_size[] = "weight_block_size";
  quant->method = YK_QUANT_FP8;
  quant->scheme = float8_scheme();
  quant->scheme.input_bits = 8; /* true for every layer: the method has no other activations */
  YK_TRY(require_either(object, label, "fmt", "e4m3", "float8_e4m3fn", "e4m3", err));
  YK_TRY(require_either(object, label, "activation_scheme", "dynamic", "static", "dynamic, static", err));
  YK_TRY(yk_hf_require_unset(object, label, "weight_scale_semantics", err)); /* gptqmodel: a weight is code / scale */
  yk_json block = yk_json_get(object, block_size);
  if (yk_json_is_given(block)) YK_TRY(read_block(object, label, block_size, &quant->scheme, err));
  YK_TRY(yk_hf_add_skips(object, label, "ignored_layers", YK_NAME_IS, quant, err));
  /* vLLM compares whole names (is_layer_skipped), transformers 5 the beginning or the end of a name
   * (should_convert_module), transformers 4 any part of a name. Published checkpoints list whole names, or parts such
   * as "mlp.gate", which is no part of "mlp.gate_proj". */
  return yk_hf_add_skips(object, label, "modules_to_not_convert", YK_NAME_HAS_PARTS, quant, err);
}

/* The strategy that applies if the key is missing. */
static const char *strategy_of(yk_json weights)
{
  yk_json group = yk_json_get(weights, "group_size");
  int64_t size;
  if (!yk_json_to_i64(group, &size)) return "tensor";
  return size < 0 ? "channel" : "group";
}

yk_status yk_hf_read_float_weights(yk_json weights, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  bool symmetric = true;
  const char *strategy;
  int64_t bits = 8;
  *scheme = float8_scheme();
  YK_TRY(yk_json_get_i64(weights, label, "num_bits", false, 1, 64, &bits, err));
  if (bits != 8) return yk_hf_refuse_value(weights, label, "num_bits", "8 of type float", err);
  YK_TRY(yk_json_get_bool(weights, label, "symmetric", false, &symmetric, err));
  if (!symmetric) return yk_hf_refuse_value(weights, label, "symmetric", "true of type float", err);
  YK_TRY(yk_hf_require_unset(weights, label, "dynamic", err));
  YK_TRY(require_either(weights, label, "actorder", "weight", "static", "null, weight", err));
  YK_TRY(yk_json_get_str(weights, label, "strategy", false, &strategy, err));
  if (!strategy) strategy = strategy_of(weights);
  if (strcasecmp(strategy, "block") == 0) return read_block(weights, label, "block_structure", scheme, err);
  YK_TRY(yk_hf_require_unset(weights, label, "block_structure", err));
  if (strcasecmp(strategy, "tensor") == 0) return YK_OK;
  scheme->group_outputs = 1;
  if (strcasecmp(strategy, "channel") == 0) return YK_OK;
  if (strcasecmp(strategy, "group") == 0)
    return yk_hf_get_group_size(weights, label, "group_size", true, &scheme->group_size, err);
  return yk_hf_refuse_value(weights, label, "strategy", "tensor, channel, group, block", err);
}
