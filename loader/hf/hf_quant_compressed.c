/* hf_quant_compressed.c - the settings of compressed-tensors checkpoints: integers of 4 or 8 bits in "pack-quantized",
 * unpacked 8-bit integers, 8-bit floats, and blocks of 4-bit and 8-bit floats.
 * Source: compressed_tensors, quantization/{quant_config,quant_scheme,quant_args}.py and utils/match.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "loader/hf/hf_quant_methods.h"
#include "loader/hf/hf_quant_parts.h"

enum { LABEL_BYTES = 256 };

static const char packed[] = "pack-quantized", float_quantized[] = "float-quantized", naive[] = "naive-quantized",
                  int_quantized[] = "int-quantized", mixed[] = "mixed-precision", targets_key[] = "targets";

/* The formats of floats in blocks. */
static const struct block_format {
  const char *name;
  yk_packing packing;
} block_formats[] = {{"nvfp4-pack-quantized", YK_PACKING_NVFP4},
                     {"mxfp4-pack-quantized", YK_PACKING_MXFP4},
                     {"mxfp8-quantized", YK_PACKING_MXFP8}};

static const struct block_format *find_block_format(const char *name)
{
  for (size_t i = 0; i < sizeof block_formats / sizeof *block_formats; i++)
    if (strcmp(name, block_formats[i].name) == 0) return &block_formats[i];
  return NULL;
}

typedef enum target_kind { TARGET_NAME, TARGET_REGEX, TARGET_CLASS } target_kind;

/* A target of a group, the group's scheme, and the target's index among the targets of all groups. */
typedef struct target {
  const char *text;
  yk_quant_scheme scheme;
  size_t place;
} target;

static target_kind kind_of(const char *text)
{
  if (strncmp(text, "re:", 3) == 0) return TARGET_REGEX;
  return strcmp(text, "Linear") == 0 ? TARGET_CLASS : TARGET_NAME;
}

/* Priority of targets that match the same module: a name, then a regular expression, then a class; within a kind the
 * first by text, over all groups; among equal texts the last (match_targets, apply_quantization_config). */
static int compare_targets(const void *left, const void *right)
{
  const target *a = left, *b = right;
  int kinds = (int)kind_of(a->text) - (int)kind_of(b->text), texts = strcmp(a->text, b->text);
  if (kinds != 0) return kinds;
  return texts != 0 ? texts : a->place < b->place ? 1 : -1;
}

/* A class target applies to every layer, since all layers in question are of the class Linear. */
static yk_status add_target(const char *text, const yk_quant_scheme *scheme, const char *label, const char *key,
                            yk_quant_config *quant, yk_err *err)
{
  target_kind kind = kind_of(text);
  yk_name_match match = kind == TARGET_NAME ? YK_NAME_IS : YK_NAME_BEGINS_LIKE;
  const char *pattern = kind == TARGET_REGEX ? text + 3 : kind == TARGET_CLASS ? ".*" : text;
  return yk_quant_rules_add(&quant->rules, match, pattern, scheme, label, key, err);
}

static yk_status require_names(yk_json list, const char *label, const char *key, yk_err *err)
{
  if (!yk_json_is(list, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected an array of module names, found %s", label, key,
                      yk_json_type_name(list));
  for (size_t i = 0; i < yk_json_size(list); i++)
    if (!yk_json_is(yk_json_at(list, i), YK_JSON_STRING))
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%zu]: expected a module name", label, key, i);
  return YK_OK;
}

static yk_status add_ignored(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char key[] = "ignore";
  yk_json list = yk_json_get(object, key);
  if (!yk_json_is_given(list)) return YK_OK;
  YK_TRY(require_names(list, label, key, err));
  for (size_t i = 0; i < yk_json_size(list); i++)
    YK_TRY(add_target(yk_json_string(yk_json_at(list, i)), NULL, label, key, quant, err));
  return YK_OK;
}

static yk_status require_text(yk_json object, const char *label, const char *key, const char *expected, yk_err *err)
{
  const char *text;
  YK_TRY(yk_json_get_str(object, label, key, false, &text, err));
  return !text || strcmp(text, expected) == 0 ? YK_OK : yk_hf_refuse_value(object, label, key, expected, err);
}

/* Read strategy, or derive it from the other keys. */
static yk_status read_groups(yk_json weights, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  const char *strategy;
  int32_t group_size = 0;
  yk_json value = yk_json_get(weights, "group_size");
  YK_TRY(yk_json_get_str(weights, label, "strategy", false, &strategy, err));
  if (yk_json_is_given(value)) {
    group_size = -1;
    YK_TRY(yk_hf_get_group_size(weights, label, "group_size", true, &group_size, err));
  }
  if (!strategy) strategy = group_size > 0 ? "group" : group_size == -1 ? "channel" : "tensor";
  if (strcmp(strategy, "group") == 0 && group_size > 0)
    scheme->group_size = group_size;
  else if (strcmp(strategy, "channel") == 0)
    scheme->group_size = -1;
  else
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: strategy \"%s\" with group_size %d is not supported; supported: group with a group_size, "
                      "channel",
                      label, strategy, group_size);
  return YK_OK;
}

static yk_status read_weights(yk_json weights, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  static const char *const orders[] = {"weight", "static", "group", "dynamic"}; /* the last two are equivalent */
  bool symmetric = true;
  const char *order;
  if (!yk_json_is(weights, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: weights: expected an object, found %s", label, yk_json_type_name(weights));
  YK_TRY(yk_hf_get_bits(weights, label, "num_bits", true, true, &scheme->format, err));
  YK_TRY(require_text(weights, label, "type", "int", err));
  YK_TRY(yk_json_get_bool(weights, label, "symmetric", false, &symmetric, err));
  YK_TRY(yk_hf_require_unset(weights, label, "dynamic", err));
  YK_TRY(yk_hf_require_unset(weights, label, "block_structure", err));
  YK_TRY(yk_json_get_str(weights, label, "actorder", false, &order, err));
  bool is_known = !order;
  for (int i = 0; order && i < 4; i++) is_known = is_known || strcasecmp(order, orders[i]) == 0;
  if (!is_known) return yk_hf_refuse_value(weights, label, "actorder", "null, weight, group", err);
  scheme->packing = YK_PACKING_COMPRESSED;
  scheme->act_order = order && (strcasecmp(order, orders[2]) == 0 || strcasecmp(order, orders[3]) == 0);
  scheme->zeros = symmetric ? YK_ZEROS_NONE : YK_ZEROS_STORED;
  return read_groups(weights, label, scheme, err);
}

/* The inputs of 4-bit integers: floats, or 8 bits, which are floats or integers, with a scale for each row. */
static yk_status read_rounding(yk_json inputs, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  static const char *const unset[] = {"group_size", "block_structure", "actorder"};
  bool dynamic = false, symmetric = true;
  int64_t n_bits = 0;
  char of_inputs[LABEL_BYTES];
  snprintf(of_inputs, sizeof of_inputs, "%s: input_activations", label);
  if (!yk_json_is_given(inputs)) return YK_OK;
  if (!yk_json_is(inputs, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", of_inputs, yk_json_type_name(inputs));
  if (scheme->format != YK_WEIGHT_AWQ)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: not supported beside packed weights of 8 bits; supported: null",
                      of_inputs);
  const char *type, *strategy;
  YK_TRY(yk_json_get_str(inputs, of_inputs, "type", false, &type, err));
  const bool is_float = type && strcasecmp(type, "float") == 0;
  if (type && !is_float && strcasecmp(type, "int") != 0)
    return yk_hf_refuse_value(inputs, of_inputs, "type", "int, float", err);
  if (!yk_json_to_i64(yk_json_get(inputs, "num_bits"), &n_bits) || n_bits != 8)
    return yk_hf_refuse_value(inputs, of_inputs, "num_bits", "8", err);
  for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
    YK_TRY(yk_hf_require_unset(inputs, of_inputs, unset[i], err));
  if (yk_json_is(yk_json_get(inputs, "dynamic"), YK_JSON_STRING))
    return yk_hf_refuse_value(inputs, of_inputs, "dynamic", "true", err);
  YK_TRY(yk_json_get_bool(inputs, of_inputs, "dynamic", false, &dynamic, err));
  YK_TRY(yk_json_get_bool(inputs, of_inputs, "symmetric", false, &symmetric, err));
  YK_TRY(yk_json_get_str(inputs, of_inputs, "strategy", false, &strategy, err));
  if (!dynamic) return yk_hf_refuse_value(inputs, of_inputs, "dynamic", "true", err);
  if (!symmetric) return yk_hf_refuse_value(inputs, of_inputs, "symmetric", "true", err);
  if (!strategy || strcasecmp(strategy, "token") != 0)
    return yk_hf_refuse_value(inputs, of_inputs, "strategy", "token", err);
  scheme->inputs = is_float ? YK_INPUTS_FP8 : YK_INPUTS_INT8;
  return YK_OK;
}

static bool are_bytes(const char *format)
{
  return strcmp(format, int_quantized) == 0 || strcmp(format, naive) == 0;
}

/* A group of weights of 4-bit integers, each in a byte. */
static yk_status read_int4_bytes(yk_json group, const char *label, yk_quant_scheme *scheme, yk_err *err)
{
  char of_weights[LABEL_BYTES];
  yk_json weights = yk_json_get(group, "weights");
  snprintf(of_weights, sizeof of_weights, "%s: weights", label);
  YK_TRY(read_weights(weights, of_weights, scheme, err));
  if (scheme->zeros != YK_ZEROS_NONE) return yk_hf_refuse_value(weights, of_weights, "symmetric", "true", err);
  if (scheme->act_order) return yk_hf_refuse_value(weights, of_weights, "actorder", "null, weight", err);
  scheme->packing = YK_PACKING_BYTES;
  return read_rounding(yk_json_get(group, "input_activations"), label, scheme, err);
}

static bool read_block_preset(const char *name, yk_quant_scheme *scheme)
{
  static const struct {
    const char *name;
    yk_packing packing;
    int32_t input_bits;
  } presets[] = {{"NVFP4", YK_PACKING_NVFP4, 4},    {"NVFP4A16", YK_PACKING_NVFP4, 0},  {"MXFP4", YK_PACKING_MXFP4, 4},
                 {"MXFP4A16", YK_PACKING_MXFP4, 0}, {"MXFP4XFP8", YK_PACKING_MXFP4, 8}, {"MXFP8", YK_PACKING_MXFP8, 8},
                 {"MXFP8A16", YK_PACKING_MXFP8, 0}};
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
    if (strcasecmp(name, presets[i].name) != 0) continue;
    *scheme = yk_hf_block_scheme(presets[i].packing);
    scheme->input_bits = presets[i].input_bits;
    return true;
  }
  return false;
}

/* Source: compressed_tensors, quantization/quant_scheme.py. W8A16 has a scale per channel up to version 0.17, later a
 * scale per group; both are read. */
static yk_status read_preset(const char *name, const char *label, const char *format, yk_quant_scheme *scheme,
                             yk_err *err)
{
  static const struct {
    const char *name;
    yk_weight_format format;
    yk_packing packing;
    int32_t group_outputs, group_size;
    yk_quant_zeros zeros;
  } presets[] = {{"W4A16", YK_WEIGHT_AWQ, YK_PACKING_COMPRESSED, 1, 128, YK_ZEROS_NONE},
                 {"W4A16_ASYM", YK_WEIGHT_AWQ, YK_PACKING_COMPRESSED, 1, 128, YK_ZEROS_STORED},
                 {"W4AFP8", YK_WEIGHT_AWQ, YK_PACKING_COMPRESSED, 1, 128, YK_ZEROS_NONE},
                 {"W4A8", YK_WEIGHT_AWQ, YK_PACKING_COMPRESSED, 1, 128, YK_ZEROS_NONE},
                 {"W8A16", YK_WEIGHT_INT8, YK_PACKING_COMPRESSED, 1, 128, YK_ZEROS_NONE},
                 {"W8A8", YK_WEIGHT_INT8, YK_PACKING_BLOCKS, 1, -1, YK_ZEROS_NONE},
                 {"INT8", YK_WEIGHT_INT8, YK_PACKING_BLOCKS, 1, -1, YK_ZEROS_NONE},
                 {"FP8", YK_WEIGHT_FP8, YK_PACKING_BLOCKS, -1, -1, YK_ZEROS_NONE},
                 {"FP8_DYNAMIC", YK_WEIGHT_FP8, YK_PACKING_BLOCKS, 1, -1, YK_ZEROS_NONE},
                 {"FP8_BLOCK", YK_WEIGHT_FP8, YK_PACKING_BLOCKS, 128, 128, YK_ZEROS_NONE}};
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
    if (strcasecmp(name, presets[i].name) != 0) continue;
    bool is_w8a8 = presets[i].format == YK_WEIGHT_INT8 && presets[i].packing == YK_PACKING_BLOCKS;
    bool has_fp8_inputs = strcmp(presets[i].name, "W4AFP8") == 0,
         has_int8_inputs = strcmp(presets[i].name, "W4A8") == 0;
    bool is_int4_bytes = presets[i].format == YK_WEIGHT_AWQ && format && are_bytes(format);
    if (is_int4_bytes && presets[i].zeros != YK_ZEROS_NONE) break;
    *scheme = (yk_quant_scheme){.format = presets[i].format,
                                .packing = is_int4_bytes ? YK_PACKING_BYTES : presets[i].packing,
                                .group_size = presets[i].group_size,
                                .may_be_channel = presets[i].format == YK_WEIGHT_INT8,
                                .group_outputs = presets[i].group_outputs,
                                .zeros = presets[i].zeros,
                                .inputs = is_w8a8           ? YK_INPUTS_PER_TOKEN
                                          : has_fp8_inputs  ? YK_INPUTS_FP8
                                          : has_int8_inputs ? YK_INPUTS_INT8
                                                            : YK_INPUTS_FLOAT,
                                .input_bits = presets[i].format == YK_WEIGHT_FP8 ? 8 : 0};
    return YK_OK;
  }
  if (read_block_preset(name, scheme)) return YK_OK;
  return yk_err_set(
      err, YK_E_UNSUPPORTED,
      "%s: config_groups: preset \"%.80s\" is not supported; supported: W4A16, W4A16_ASYM, W4AFP8, "
      "W4A8, W8A16, W8A8, INT8, FP8, FP8_DYNAMIC, FP8_BLOCK, NVFP4, NVFP4A16, MXFP4, MXFP4A16, MXFP4XFP8, "
      "MXFP8, MXFP8A16",
      label, name);
}

/* Bits of inputs of type "float"; 0 if not a known float type. */
static int32_t float_bits(yk_json args)
{
  const char *type = yk_json_string(yk_json_get(args, "type"));
  int64_t bits;
  if (!type || strcasecmp(type, "float") != 0 || !yk_json_to_i64(yk_json_get(args, "num_bits"), &bits)) return 0;
  return bits == 4 || bits == 8 ? (int32_t)bits : 0;
}

/* Weights of type "float". format: of the group, NULL if the configuration only names a mixture of formats. */
static yk_status read_floats(yk_json group, const char *label, const char *format, yk_quant_scheme *scheme, yk_err *err)
{
  static const char inputs_key[] = "input_activations";
  yk_json inputs = yk_json_get(group, inputs_key);
  const struct block_format *blocks = format ? find_block_format(format) : NULL;
  if (format && !blocks && strcmp(format, float_quantized) != 0 && strcmp(format, naive) != 0)
    return yk_err_set(
        err, YK_E_UNSUPPORTED,
        "%s: weights of type \"float\" in format \"%.80s\" are not supported; supported: %s, %s, %s, %s, %s", label,
        format, float_quantized, naive, block_formats[0].name, block_formats[1].name, block_formats[2].name);
  if (blocks)
    YK_TRY(yk_hf_read_block_floats(yk_json_get(group, "weights"), label, blocks->packing, scheme, err));
  else
    YK_TRY(yk_hf_read_float_weights(yk_json_get(group, "weights"), label, scheme, err));
  scheme->input_bits = float_bits(inputs);
  return scheme->input_bits ? YK_OK : yk_hf_require_unset(group, label, inputs_key, err);
}

/* Whether a group of type "int" stores unpacked bytes. Without a format the presence of input_activations decides, as
 * in the tool. */
static bool holds_bytes(yk_json group, const char *format)
{
  if (format) return are_bytes(format);
  yk_json inputs = yk_json_get(group, "input_activations");
  return yk_json_is_given(inputs);
}

/* Read a group given in full, or a preset's name with its targets. format: of all groups; NULL if each group has its
 * own. */
static yk_status read_group(yk_json group, const char *name, const char *label, const char *format,
                            yk_quant_scheme *scheme, yk_json *targets, yk_err *err)
{
  if (yk_json_is(group, YK_JSON_ARRAY)) {
    *targets = group;
    return read_preset(name, label, format, scheme, err);
  }
  if (!yk_json_is(group, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: config_groups: %.80s: expected an object or an array, found %s", label,
                      name, yk_json_type_name(group));
  const char *own_format;
  yk_json weights = yk_json_get(group, "weights"), type = yk_json_get(weights, "type");
  YK_TRY(yk_json_get_str(group, label, "format", false, &own_format, err));
  if (own_format) format = own_format;
  *targets = yk_json_get(group, targets_key);
  YK_TRY(yk_hf_require_unset(group, label, "output_activations", err));
  if (yk_json_is(type, YK_JSON_STRING) && strcasecmp(yk_json_string(type), "float") == 0)
    return read_floats(group, label, format, scheme, err);
  int64_t n_bits;
  if (holds_bytes(group, format))
    return yk_json_to_i64(yk_json_get(weights, "num_bits"), &n_bits) && n_bits == 4
               ? read_int4_bytes(group, label, scheme, err)
               : yk_hf_read_integers(group, label, scheme, err);
  if (format && strcmp(format, packed) != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: weights of type \"int\" in format \"%.80s\" are not supported; supported: %s, %s, %s", label,
                      format, packed, int_quantized, naive);
  YK_TRY(read_weights(weights, label, scheme, err));
  return read_rounding(yk_json_get(group, "input_activations"), label, scheme, err);
}

/* Collect the targets of all groups, in order. all: capacity for the total length of the groups' lists. */
static yk_status gather_targets(yk_json groups, const char *label, const char *format, target *all, size_t *n,
                                yk_err *err)
{
  *n = 0;
  YK_JSON_EACH_KEY(at, groups)
  {
    const char *name = yk_json_string(at);
    yk_quant_scheme scheme = {0};
    yk_json texts;
    YK_TRY(read_group(yk_json_member(at), name, label, format, &scheme, &texts, err));
    YK_TRY(require_names(texts, label, targets_key, err));
    for (size_t i = 0; i < yk_json_size(texts); i++, ++*n)
      all[*n] = (target){.text = yk_json_string(yk_json_at(texts, i)), .scheme = scheme, .place = *n};
  }
  return YK_OK;
}

static yk_status add_groups(yk_json groups, const char *label, const char *format, yk_quant_config *quant, yk_err *err)
{
  size_t n = 0;
  YK_JSON_EACH_KEY(at, groups)
  {
    yk_json group = yk_json_member(at);
    n += yk_json_size(yk_json_is(group, YK_JSON_ARRAY) ? group : yk_json_get(group, targets_key));
  }
  target *all = calloc(n + 1, sizeof *all);
  if (!all) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu targets", label, n);
  yk_status status = gather_targets(groups, label, format, all, &n, err);
  if (status == YK_OK) qsort(all, n, sizeof *all, compare_targets);
  for (size_t i = 0; status == YK_OK && i < n; i++)
    status = add_target(all[i].text, &all[i].scheme, label, targets_key, quant, err);
  free(all);
  return status;
}

/* Read the KV cache's scheme: one static scale for K and one for V per layer. */
static yk_status read_kv_cache(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char key[] = "kv_cache_scheme";
  yk_json scheme = yk_json_get(object, key);
  const char *type, *strategy;
  bool symmetric = true;
  int64_t n_bits = 0;
  char of_scheme[LABEL_BYTES];
  snprintf(of_scheme, sizeof of_scheme, "%s: %s", label, key);
  if (!yk_json_is_given(scheme)) return YK_OK;
  if (!yk_json_is(scheme, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", of_scheme, yk_json_type_name(scheme));
  YK_TRY(yk_json_get_str(scheme, of_scheme, "type", false, &type, err));
  YK_TRY(yk_json_get_str(scheme, of_scheme, "strategy", false, &strategy, err));
  YK_TRY(yk_json_get_bool(scheme, of_scheme, "symmetric", false, &symmetric, err));
  YK_TRY(yk_json_get_i64(scheme, of_scheme, "num_bits", true, 1, 64, &n_bits, err));
  YK_TRY(yk_hf_require_unset(scheme, of_scheme, "dynamic", err));
  if (n_bits != 8) return yk_hf_refuse_value(scheme, of_scheme, "num_bits", "8", err);
  if (!symmetric) return yk_hf_refuse_value(scheme, of_scheme, "symmetric", "true", err);
  if (strategy && strcmp(strategy, "tensor") != 0)
    return yk_hf_refuse_value(scheme, of_scheme, "strategy", "tensor", err);
  if (type && strcasecmp(type, "float") != 0 && strcasecmp(type, "int") != 0)
    return yk_hf_refuse_value(scheme, of_scheme, "type", "float, int", err);
  quant->kv_format = type && strcasecmp(type, "float") == 0 ? YK_KV_FP8 : YK_KV_INT8;
  return YK_OK;
}

/* Rotations that are already contained in the weights, on both sides of a layer, need no work. Rotations of activations
 * are refused. Source: compressed_tensors, transform/transform_args.py: is_online. */
static yk_status check_transforms(yk_json object, const char *label, yk_err *err)
{
  static const char key[] = "transform_config", location_key[] = "location";
  static const char supported[] = "weight_input, weight_output";
  yk_json schemes = yk_json_get(yk_json_get(object, key), "config_groups");
  char of_scheme[LABEL_BYTES];
  if (!yk_json_is(schemes, YK_JSON_OBJECT)) return yk_hf_require_unset(object, label, key, err);
  YK_JSON_EACH_KEY(at, schemes)
  {
    const char *name = yk_json_string(at);
    yk_json scheme = yk_json_member(at);
    yk_json uses = yk_json_get(scheme, "apply");
    snprintf(of_scheme, sizeof of_scheme, "%s: %s: %.80s", label, key, name);
    if (!yk_json_is(uses, YK_JSON_ARRAY))
      return yk_hf_refuse_value(scheme, of_scheme, "apply", "an array of transforms", err);
    YK_JSON_EACH(use, uses)
    {
      const char *location = yk_json_string(yk_json_get(use, location_key));
      if (!location || (strcmp(location, "weight_input") != 0 && strcmp(location, "weight_output") != 0))
        return yk_hf_refuse_value(use, of_scheme, location_key, supported, err);
    }
  }
  return YK_OK;
}

yk_status yk_hf_read_compressed(yk_json object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char config_groups[] = "config_groups";
  quant->method = YK_QUANT_COMPRESSED_TENSORS;
  quant->only_named = true;
  quant->scheme.packing = YK_PACKING_COMPRESSED;
  const char *format;
  YK_TRY(yk_json_get_str(object, label, "format", false, &format, err));
  if (!format || (strcmp(format, packed) != 0 && strcmp(format, float_quantized) != 0 && strcmp(format, naive) != 0 &&
                  strcmp(format, int_quantized) != 0 && strcmp(format, mixed) != 0 && !find_block_format(format)))
    return yk_hf_refuse_value(object, label, "format",
                              "pack-quantized, int-quantized, float-quantized, naive-quantized, nvfp4-pack-quantized, "
                              "mxfp4-pack-quantized, mxfp8-quantized, mixed-precision",
                              err);
  if (strcmp(format, mixed) == 0) format = NULL;
  YK_TRY(check_transforms(object, label, err));
  YK_TRY(yk_hf_require_unset(object, label, "moe_sparsity_config", err)); /* layers with fewer experts than others */
  YK_TRY(read_kv_cache(object, label, quant, err));
  yk_json sparsity = yk_json_get(object, "sparsity_config");
  if (yk_json_is(sparsity, YK_JSON_OBJECT) && yk_json_size(sparsity) > 0)
    YK_TRY(require_text(sparsity, label, "format", "dense", err));
  yk_json groups = yk_json_get(object, config_groups);
  YK_TRY(add_ignored(object, label, quant, err));
  if (!yk_json_is(groups, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an object, found %s", label, config_groups,
                      yk_json_type_name(groups));
  return add_groups(groups, label, format, quant, err);
}
