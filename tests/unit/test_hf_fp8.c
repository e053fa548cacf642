/* Configurations of weights in 8-bit floats: the layers, the outputs and inputs that share a scale, and refusals.
 */
#include "unit/config_fixture.h"


static yk_quant_config good(const char *text)
{
  yk_quant_config quant;
  yk_err err = YK_ERR_INIT;
  expect_ok(text, config_read_quant(text, &quant, &err), &err);
  return quant;
}

/* The scheme of a module is in 8-bit floats with these groups; 0, 0: the module is not quantised. */
static void expect_groups(const yk_quant_config *quant, const char *module, int32_t outputs, int32_t inputs)
{
  const yk_quant_scheme *scheme;
  yk_err err = YK_ERR_INIT;
  expect_ok(module, yk_quant_scheme_of(quant, module, &scheme, &err), &err);
  if (!scheme) {
    assert_int_equal(outputs, 0);
    return;
  }
  assert_int_equal(scheme->format, YK_WEIGHT_FP8);
  assert_int_equal(scheme->packing, YK_PACKING_BLOCKS);
  assert_int_equal(scheme->group_outputs, outputs);
  assert_int_equal(scheme->group_size, inputs);
}

static void method_fp8(void **state)
{
  (void)state;
  yk_quant_config quant = good("'quant_method': 'fp8', 'fmt': 'e4m3', 'activation_scheme': 'dynamic',"
                               " 'weight_block_size': [128, 64],"
                               " 'modules_to_not_convert': ['lm_head', 'layers.1.mlp', 'mlp.gate', 'model.layers.3'],"
                               " 'ignored_layers': ['model.layers.0.self_attn.k_proj', 'model.layers.2.mlp.up']");
  assert_int_equal(quant.method, YK_QUANT_FP8);
  assert_int_equal(quant.scheme.input_bits, 8);
  expect_groups(&quant, "model.layers.0.mlp.up_proj", 128, 64);
  expect_groups(&quant, "model.layers.1.mlp.up_proj", 0, 0);
  expect_groups(&quant, "model.layers.0.self_attn.k_proj", 0, 0);
  expect_groups(&quant, "model.layers.10.self_attn.k_proj", 128, 64);
  expect_groups(&quant, "model.layers.2.mlp.up_proj", 128, 64);
  expect_groups(&quant, "model.layers.0.mlp.gate", 0, 0);
  expect_groups(&quant, "model.layers.0.mlp.gate_proj", 128, 64);
  expect_groups(&quant, "model.layers.3.self_attn.o_proj", 0, 0);
  expect_groups(&quant, "model.layers.30.self_attn.o_proj", 128, 64);
  yk_quant_rules_free(quant.rules);
  static const char *const whole[] = {"'quant_method': 'fp8'",
                                      "'quant_method': 'fp8', 'activation_scheme': 'static', 'ignored_layers': null",
                                      "'quant_method': 'FP8', 'weight_block_size': null, 'dequantize': false"};
  for (size_t i = 0; each_case(i, i < sizeof whole / sizeof *whole); i++) {
    quant = good(whole[i]);
    expect_groups(&quant, "model.layers.0.mlp.up_proj", -1, -1);
  }
}

#define COMPRESSED(format, groups)                                                                                     \
  "'quant_method': 'compressed-tensors', 'format': '" format "', 'config_groups': {" groups "}"
#define GROUP(weights, more) "'a': {'targets': ['Linear'], 'weights': {'type': 'float', " weights "}" more "}"
#define INPUTS               ", 'input_activations': {'num_bits': 8, 'type': 'float', 'strategy': 'token'}"

static void compressed_tensors(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int32_t outputs, inputs;
    int32_t input_bits;
  } cases[] = {
      {COMPRESSED("float-quantized", GROUP("'num_bits': 8, 'strategy': 'tensor'", INPUTS)), -1, -1, 8},
      {COMPRESSED("float-quantized", GROUP("'num_bits': 8, 'strategy': 'channel'", INPUTS)), 1, -1, 8},
      {COMPRESSED("naive-quantized", GROUP("'num_bits': 8, 'strategy': 'channel', 'group_size': -1", "")), 1, -1, 0},
      {COMPRESSED("naive-quantized", GROUP("'strategy': 'group', 'group_size': 32, 'actorder': 'static'", "")), 1, 32,
       0},
      {COMPRESSED("float-quantized", GROUP("'num_bits': 8, 'strategy': 'block', 'block_structure': [128, 96]", INPUTS)),
       128, 96, 8},
      {COMPRESSED("float-quantized", GROUP("'strategy': 'block', 'block_structure': '64x7'", "")), 64, 7, 0},
      {COMPRESSED("float-quantized", GROUP("'num_bits': 8", "")), -1, -1, 0},
      {COMPRESSED("float-quantized", GROUP("'group_size': -1", "")), 1, -1, 0},
      {COMPRESSED("float-quantized", GROUP("'group_size': 64", "")), 1, 64, 0},
      {COMPRESSED("mixed-precision", GROUP("'strategy': 'channel'", ", 'format': 'float-quantized'")), 1, -1, 0},
      {COMPRESSED("float-quantized", "'FP8': ['Linear']"), -1, -1, 8},
      {COMPRESSED("float-quantized", "'fp8_dynamic': ['Linear']"), 1, -1, 8},
      {COMPRESSED("float-quantized", "'FP8_BLOCK': ['Linear']"), 128, 128, 8},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_quant_config quant = good(cases[i].text);
    const yk_quant_scheme *scheme;
    yk_err err = YK_ERR_INIT;
    expect_groups(&quant, "model.layers.0.mlp.up_proj", cases[i].outputs, cases[i].inputs);
    expect_ok("scheme", yk_quant_scheme_of(&quant, "model.layers.0.mlp.up_proj", &scheme, &err), &err);
    assert_int_equal(scheme->input_bits, cases[i].input_bits);
    yk_quant_rules_free(quant.rules);
  }
}

#define KV_SCHEME(text) "'quant_method': 'compressed-tensors', 'format': 'naive-quantized', 'config_groups': {}, " text

static void kv_cache_scheme(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    yk_kv_format format;
  } cases[] = {
      {KV_SCHEME("'kv_cache_scheme': null"), YK_KV_ACT},
      {KV_SCHEME("'kv_cache_scheme': {'num_bits': 8, 'type': 'float', 'strategy': 'tensor', 'dynamic': false}"),
       YK_KV_FP8},
      {KV_SCHEME("'kv_cache_scheme': {'num_bits': 8, 'type': 'FLOAT', 'symmetric': true}"), YK_KV_FP8},
      {KV_SCHEME("'kv_cache_scheme': {'num_bits': 8, 'type': 'int', 'strategy': 'tensor'}"), YK_KV_INT8},
      {KV_SCHEME("'kv_cache_scheme': {'num_bits': 8}"), YK_KV_INT8},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_quant_config quant = good(cases[i].text);
    assert_int_equal(quant.kv_format, cases[i].format);
    yk_quant_rules_free(quant.rules);
  }
}

static void refusals(void **state)
{
  (void)state;
  static const unsupported_quant cases[] = {
      {"'quant_method': 'fp8', 'fmt': 'e5m2'", "fmt \"e5m2\"|supported: e4m3"},
      {"'quant_method': 'fp8', 'activation_scheme': 'local'", "activation_scheme \"local\"|dynamic, static"},
      {"'quant_method': 'fp8', 'weight_scale_semantics': 'inverse'", "weight_scale_semantics \"inverse\"|null"},
      {"'quant_method': 'fp8', 'weight_block_size': [128]", "weight_block_size [128]|[outputs, inputs]"},
      {"'quant_method': 'fp8', 'weight_block_size': [128, 0]", "weight_block_size [128, 0]"},
      {"'quant_method': 'fp8', 'weight_block_size': [-1, 128]", "weight_block_size [-1, 128]"},
      {"'quant_method': 'fp8', 'weight_block_size': [128, 70000]", "weight_block_size [128, 70000]|65536"},
      {"'quant_method': 'fp8', 'weight_block_size': [128, 12.5]", "weight_block_size [128, 12.5]"},
      {"'quant_method': 'fp8', 'weight_block_size': [1, 1, 1]", "weight_block_size [1, 1, 1]"},
      {"'quant_method': 'fp8', 'weight_block_size': 128", "weight_block_size 128"},
      {"'quant_method': 'fp8', 'weight_block_size': '128x'", "weight_block_size \"128x\""},
      {"'quant_method': 'fp8', 'weight_block_size': '1x1x1'", "weight_block_size \"1x1x1\""},
      {COMPRESSED("float-quantized", GROUP("'num_bits': 4", "")), "num_bits 4|8 of type float"},
      {COMPRESSED("float-quantized", GROUP("'symmetric': false", "")), "symmetric false"},
      {COMPRESSED("float-quantized", GROUP("'dynamic': true", "")), "dynamic true"},
      {COMPRESSED("float-quantized", GROUP("'actorder': 'group'", "")), "actorder \"group\""},
      {COMPRESSED("float-quantized", GROUP("'strategy': 'token'", "")), "strategy \"token\"|tensor, channel, group"},
      {COMPRESSED("float-quantized", GROUP("'strategy': 'block'", "")), "block_structure (absent)"},
      {COMPRESSED("float-quantized", GROUP("'strategy': 'tensor', 'block_structure': [8, 8]", "")),
       "block_structure [8, 8]"},
      {COMPRESSED("float-quantized", GROUP("'strategy': 'group', 'group_size': 48", "")), "group_size 48"},
      {COMPRESSED("float-quantized", GROUP("'num_bits': 8", ", 'input_activations': {'num_bits': 8, 'type': 'int'}")),
       "input_activations {\"num_bits\": 8, \"type\": \"int\"}"},
      {COMPRESSED("float-quantized", GROUP("'num_bits': 8", ", 'output_activations': {'num_bits': 8}")),
       "output_activations"},
      {COMPRESSED("pack-quantized", GROUP("'num_bits': 8", "")), "type \"float\"|\"pack-quantized\"|float-quantized"},
      {COMPRESSED("float-quantized", "'a': {'targets': ['Linear'], 'weights': {'num_bits': 4, 'group_size': 32}}"),
       "type \"int\"|\"float-quantized\"|pack-quantized"},
      {KV_SCHEME("'kv_cache_scheme': {'num_bits': 4, 'type': 'int'}"),
       "config: kv_cache_scheme: num_bits 4|supported: 8"},
      {KV_SCHEME("'kv_cache_scheme': {'num_bits': 8, 'type': 'bool'}"), "kv_cache_scheme|type \"bool\"|float, int"},
      {KV_SCHEME("'kv_cache_scheme': {'num_bits': 8, 'dynamic': true}"), "kv_cache_scheme|dynamic true"},
      {KV_SCHEME("'kv_cache_scheme': {'num_bits': 8, 'symmetric': false}"), "kv_cache_scheme|symmetric false"},
      {KV_SCHEME("'kv_cache_scheme': {'num_bits': 8, 'strategy': 'attn_head'}"),
       "kv_cache_scheme|strategy \"attn_head\"|supported: tensor"},
  };
  expect_unsupported_quants(cases, sizeof cases / sizeof *cases);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(method_fp8), cmocka_unit_test(compressed_tensors),
                                     cmocka_unit_test(kv_cache_scheme), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
