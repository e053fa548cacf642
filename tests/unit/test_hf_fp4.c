/* Configurations of floats in blocks with 8-bit scales: compressed-tensors' and ModelOpt's, and refusals. */
#include "unit/config_fixture.h"

#define COMPRESSED(format, groups)                                                                                     \
  "'quant_method': 'compressed-tensors', 'format': '" format "', 'config_groups': {" groups "}"
#define GROUP(weights, more) "'a': {'targets': ['Linear'], 'weights': {'type': 'float', " weights "}" more "}"
#define INPUTS(bits)         ", 'input_activations': {'num_bits': " #bits ", 'type': 'float', 'dynamic': 'local'}"
#define MODELOPT(text)       "'quant_method': 'modelopt', " text

/* A module's scheme has this packing; YK_N_PACKINGS: the module is not quantised. */
static void expect_packing(const char *text, const char *module, yk_packing packing, int32_t input_bits)
{
  yk_quant_config quant;
  yk_err err = YK_ERR_INIT;
  const yk_quant_scheme *scheme;
  expect_ok(text, config_read_quant(text, &quant, &err), &err);
  expect_ok(module, yk_quant_scheme_of(&quant, module, &scheme, &err), &err);
  if (packing == YK_N_PACKINGS) {
    assert_null(scheme);
  } else {
    bool is_nv = packing == YK_PACKING_NVFP4 || packing == YK_PACKING_NVFP4_FACTOR;
    bool is_fp8 = packing == YK_PACKING_MXFP8 || packing == YK_PACKING_BLOCKS;
    assert_non_null(scheme);
    assert_int_equal(scheme->packing, packing);
    assert_int_equal(scheme->format, is_fp8 ? YK_WEIGHT_FP8 : YK_WEIGHT_FP4);
    assert_int_equal(scheme->group_size, packing == YK_PACKING_BLOCKS ? -1 : is_nv ? 16 : 32);
    assert_int_equal(scheme->input_bits, input_bits);
  }
  yk_quant_rules_free(quant.rules);
}

static void compressed_tensors(void **state)
{
  (void)state;
  static const char up[] = "model.layers.0.mlp.up_proj";
  static const char nv[] = COMPRESSED("nvfp4-pack-quantized",
                                      GROUP("'num_bits': 4, 'group_size': 16, 'strategy': 'tensor_group'", INPUTS(4)));
  expect_packing(nv, up, YK_PACKING_NVFP4, 4);
  expect_packing(COMPRESSED("nvfp4-pack-quantized", GROUP("'num_bits': 4", "")), up, YK_PACKING_NVFP4, 0);
  expect_packing(COMPRESSED("mxfp4-pack-quantized", GROUP("'num_bits': 4, 'group_size': 32", INPUTS(8))), up,
                 YK_PACKING_MXFP4, 8);
  expect_packing(COMPRESSED("mixed-precision", GROUP("'num_bits': 8", ", 'format': 'mxfp8-quantized'")), up,
                 YK_PACKING_MXFP8, 0);
  expect_packing(COMPRESSED("nvfp4-pack-quantized", "'NVFP4': ['Linear']"), up, YK_PACKING_NVFP4, 4);
  expect_packing(COMPRESSED("mxfp4-pack-quantized", "'mxfp4a16': ['Linear']"), up, YK_PACKING_MXFP4, 0);
  expect_packing(COMPRESSED("mxfp8-quantized", "'MXFP8': ['Linear']"), up, YK_PACKING_MXFP8, 8);
}

/* gpt-oss: experts alone. */
static void mxfp4(void **state)
{
  (void)state;
  static const char text[] = "'quant_method': 'mxfp4', 'modules_to_not_convert': ['model.layers.*.self_attn',"
                             " 'model.layers.*.mlp.router', 'layers.1.mlp.experts']";
  expect_packing(text, "model.layers.0.mlp.experts.3.gate_up_proj", YK_PACKING_MXFP4, 0);
  expect_packing(text, "model.layers.1.mlp.experts.3.gate_up_proj", YK_N_PACKINGS, 0);
  expect_packing(text, "model.layers.0.self_attn.q_proj", YK_N_PACKINGS, 0);
  expect_packing(text, "model.layers.0.mlp.router", YK_N_PACKINGS, 0);
}

static void modelopt(void **state)
{
  (void)state;
  static const char up[] = "model.layers.0.mlp.up_proj", o[] = "model.layers.10.self_attn.o_proj";
  static const char one[] = MODELOPT("'quant_algo': 'NVFP4', 'ignore': ['lm_head', 'model.layers.1*', 'mlp.gate']");
  expect_packing(one, up, YK_PACKING_NVFP4_FACTOR, 4);
  expect_packing(one, o, YK_N_PACKINGS, 0);
  expect_packing(one, "model.layers.0.mlp.gate", YK_N_PACKINGS, 0);
  expect_packing(one, "model.layers.0.mlp.gate_proj", YK_PACKING_NVFP4_FACTOR, 4);
  expect_packing("'producer': {'name': 'modelopt'}, 'quantization': {'quant_algo': 'W4A16_NVFP4', 'group_size': 16,"
                 " 'exclude_modules': ['*.self_attn.?_proj']}",
                 up, YK_PACKING_NVFP4_FACTOR, 0);
  expect_packing("'quantization': {'quant_algo': 'MXFP8', 'exclude_modules': ['*.self_attn.?_proj']}", o, YK_N_PACKINGS,
                 0);
  static const char mixed[] =
      MODELOPT("'quant_algo': 'MIXED_PRECISION', 'quantized_layers': {'model.layers.0.mlp.up_proj': {'quant_algo':"
               " 'NVFP4', 'group_size': 16}, 'model.layers.10.self_attn.o_proj': {'quant_algo': 'FP8'}}");
  expect_packing(mixed, up, YK_PACKING_NVFP4_FACTOR, 4);
  expect_packing(mixed, o, YK_PACKING_BLOCKS, 8);
  expect_packing(mixed, "language_model.model.layers.0.mlp.up_proj", YK_PACKING_NVFP4_FACTOR, 4);
  expect_packing(mixed, "model.language_model.layers.10.self_attn.o_proj", YK_PACKING_BLOCKS, 8);
  expect_packing(mixed, "model.visual.layers.0.mlp.up_proj", YK_N_PACKINGS, 0);
  static const char experts[] = MODELOPT(
      "'quant_algo': 'MIXED_PRECISION', 'quantized_layers': {'mtp.layers.0.mlp.experts': {'quant_algo': 'NEW'},"
      " 'model.language_model.layers.0.mlp.experts': {'quant_algo': 'W4A16_NVFP4', 'group_size': 16},"
      " 'lm_head': {'quant_algo': 'FP8_PER_CHANNEL_PER_TOKEN'}}");
  expect_packing(experts, "model.language_model.layers.0.mlp.experts.7.up_proj", YK_PACKING_NVFP4_FACTOR, 0);
  expect_packing(experts, "model.language_model.layers.0.mlp.experts", YK_PACKING_NVFP4_FACTOR, 0);
  expect_packing(experts, "model.language_model.layers.0.mlp.experts_norm", YK_N_PACKINGS, 0);
  expect_packing(experts, "lm_head", YK_PACKING_BLOCKS, 8);
  yk_quant_config quant;
  yk_err err = YK_ERR_INIT;
  /* ModelOpt writes this name in small letters, its documents have capitals. */
  static const char *const blocks[] = {MODELOPT("'quant_algo': 'fp8_pb_wo'"), MODELOPT("'quant_algo': 'FP8_PB_WO'")};
  for (size_t i = 0; each_case(i, i < 2); i++) {
    expect_ok(blocks[i], config_read_quant(blocks[i], &quant, &err), &err);
    assert_true(quant.scheme.group_outputs == 128 && quant.scheme.group_size == 128 && quant.scheme.input_bits == 0);
  }
  expect_packing(mixed, "model.layers.0.mlp.down_proj", YK_N_PACKINGS, 0);
}

static void kv_cache(void **state)
{
  (void)state;
  static const char *const texts[] = {
      MODELOPT("'quant_algo': 'NVFP4', 'kv_cache_scheme': {'num_bits': 8, 'type': 'float', 'dynamic': false}"),
      "'quantization': {'quant_algo': 'NVFP4', 'kv_cache_quant_algo': 'FP8'}"};
  for (size_t i = 0; each_case(i, i < 2); i++) {
    yk_quant_config quant;
    yk_err err = YK_ERR_INIT;
    expect_ok(texts[i], config_read_quant(texts[i], &quant, &err), &err);
    assert_int_equal(quant.kv_format, YK_KV_FP8);
  }
}

static void refusals(void **state)
{
  (void)state;
  static const unsupported_quant cases[] = {
      {COMPRESSED("nvfp4-pack-quantized", GROUP("'num_bits': 8", "")), "num_bits 8|supported: 4"},
      {COMPRESSED("nvfp4-pack-quantized", GROUP("'group_size': 32", "")), "group_size 32|supported: 16"},
      {COMPRESSED("mxfp4-pack-quantized", GROUP("'strategy': 'tensor_group'", "")), "strategy \"tensor_group\"|group"},
      {COMPRESSED("mxfp4-pack-quantized", GROUP("'symmetric': false", "")), "symmetric false"},
      {COMPRESSED("mxfp6-pack-quantized", GROUP("'num_bits': 6", "")), "\"mxfp6-pack-quantized\"|mxfp4-pack-quantized"},
      {COMPRESSED("mxfp4-pack-quantized", "'MXFP6A16': ['Linear']"), "MXFP6A16|MXFP4A16"},
      {MODELOPT("'quant_algo': 'NVFP4_AWQ'"), "quant_algo \"NVFP4_AWQ\"|supported: NVFP4, W4A16_NVFP4"},
      {MODELOPT("'quant_algo': 'NVFP4', 'group_size': 32"), "group_size 32|supported: 16"},
      {MODELOPT("'quant_algo': 'NVFP4', 'pre_quant_scale': true"), "pre_quant_scale true"},
      {MODELOPT("'quant_algo': 'NVFP4', 'kv_cache_quant_algo': 'NVFP4'"), "kv_cache_quant_algo \"NVFP4\"|FP8"},
      {MODELOPT("'quant_algo': 'MIXED_PRECISION', 'quantized_layers': {'model.b': {'quant_algo': 'W4A8_AWQ'}}"),
       "quantized_layers: model.b: quant_algo \"W4A8_AWQ\"|NVFP4"},
  };
  expect_unsupported_quants(cases, sizeof cases / sizeof *cases);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(compressed_tensors), cmocka_unit_test(mxfp4),
                                     cmocka_unit_test(modelopt), cmocka_unit_test(kv_cache),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
