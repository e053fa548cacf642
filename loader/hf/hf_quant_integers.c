/* hf_quant_integers.c - the settings of compressed-tensors layers with unpacked 8-bit integer weights
 * ("int-quantized"), and of their inputs.
 * Source: compressed_tensors, quantization/{quant_args,quant_scheme}.py. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "loader/hf/hf_quant_methods.h"
#include "loader/hf/hf_quant_parts.h"

enum { LABEL_BYTES = 256 };

/* The text of key, or `absent` if the key is missing, must equal expected. */
static yk_status require_text(yk_json object, const char *label, const char *key, const char *expected,
                              const char *absent, yk_err *err)
{
  const char *text;
  YK_TRY(yk_json_get_str(object, label, key, false, &text, err));
  if (!text) text = absent;
  return strcasecmp(text, expected) == 0 ? YK_OK : yk_hf_refuse_value(object, label, key, expected, err);
}

static yk_status require_8_bits(yk_json object, const char *label, yk_err *err)
{
  yk_json bits = yk_json_get(object, "num_bits");
  int64_t n_bits;
  if (bits.doc && !(yk_json_to_i64(bits, &n_bits) && n_bits == 8))
    return yk_hf_refuse_value(object, label, "num_bits", "8", err);
  YK_TRY(require_text(object, label, "type", "int", "int", err));
  return yk_hf_require_unset(object, label, "block_structure", err);
}

/* Inputs have a scale per row, or one static scale for the layer from the file, with or without a zero point. */
static yk_status read_inputs(yk_json inputs, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  bool symmetric = true, dynamic = false;
  if (!yk_json_is(inputs, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", label, yk_json_type_name(inputs));
  YK_TRY(require_8_bits(inputs, label, err));
  YK_TRY(yk_hf_require_unset(inputs, label, "group_size", err));
  YK_TRY(yk_hf_require_unset(inputs, label, "actorder", err));
  if (yk_json_is(yk_json_get(inputs, "dynamic"), YK_JSON_STRING))
    return yk_hf_refuse_value(inputs, label, "dynamic", "true, false", err);
  YK_TRY(yk_json_get_bool(inputs, label, "dynamic", false, &dynamic, err));
  YK_TRY(yk_json_get_bool(inputs, label, "symmetric", false, &symmetric, err));
  if (dynamic && !symmetric) return yk_hf_refuse_value(inputs, label, "symmetric", "true where dynamic is true", err);
  scheme->inputs = dynamic ? YK_INPUTS_PER_TOKEN : YK_INPUTS_STATIC;
  scheme->has_input_zeros = !symmetric;
  return require_text(inputs, label, "strategy", dynamic ? "token" : "tensor", "tensor", err);
}

static yk_status read_groups(yk_json weights, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  const char *strategy;
  yk_json size = yk_json_get(weights, "group_size");
  YK_TRY(yk_json_get_str(weights, label, "strategy", false, &strategy, err));
  int64_t group_size;
  if (!strategy) strategy = !yk_json_to_i64(size, &group_size) ? "tensor" : group_size < 0 ? "channel" : "group";
  scheme->group_size = -1;
  scheme->group_outputs = strcasecmp(strategy, "tensor") == 0 ? -1 : 1;
  if (scheme->group_outputs == -1 || strcasecmp(strategy, "channel") == 0) return YK_OK;
  if (strcasecmp(strategy, "group") != 0 || scheme->inputs != YK_INPUTS_FLOAT)
    return yk_hf_refuse_value(weights, label, "strategy", "tensor, channel, and group where input_activations is null",
                              err);
  return yk_hf_get_group_size(weights, label, "group_size", true, &scheme->group_size, err);
}

yk_status yk_hf_read_integers(yk_json group, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  static const char weights_key[] = "weights", inputs_key[] = "input_activations";
  char of_weights[LABEL_BYTES], of_inputs[LABEL_BYTES];
  yk_json weights = yk_json_get(group, weights_key), inputs = yk_json_get(group, inputs_key);
  bool symmetric = true;
  snprintf(of_weights, sizeof of_weights, "%s: %s", label, weights_key);
  snprintf(of_inputs, sizeof of_inputs, "%s: %s", label, inputs_key);
  *scheme = (yk_quant_scheme){.format = YK_WEIGHT_INT8, .packing = YK_PACKING_BLOCKS, .zeros = YK_ZEROS_NONE};
  if (!yk_json_is(weights, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", of_weights, yk_json_type_name(weights));
  if (yk_json_is_given(inputs)) YK_TRY(read_inputs(inputs, of_inputs, scheme, err));
  YK_TRY(require_8_bits(weights, of_weights, err));
  YK_TRY(yk_json_get_bool(weights, of_weights, "symmetric", false, &symmetric, err));
  if (!symmetric) return yk_hf_refuse_value(weights, of_weights, "symmetric", "true", err);
  YK_TRY(yk_hf_require_unset(weights, of_weights, "dynamic", err));
  YK_TRY(require_text(weights, of_weights, "actorder", "weight", "weight", err));
  return read_groups(weights, of_weights, scheme, err);
}
