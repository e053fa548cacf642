/* quantization_config and quantize_config.json of every method, and refusals. */
#include "unit/hf_config_fixture.h"

#include "loader/model/quant_rules.h"

#define AWQ "'quant_method': 'awq', 'bits': 4, 'group_size': 32"

/* The configuration's scheme of a module, or NULL. */
static const yk_quant_scheme *scheme_of(const yk_model_config *config, const char *module)
{
  const yk_quant_scheme *scheme;
  yk_err err = YK_ERR_INIT;
  expect_ok(module, yk_quant_scheme_of(&config->quant, module, &scheme, &err), &err);
  return scheme;
}

static void quantisation(void **state)
{
  (void)state;
  yk_model_config config = good("{'quantization_config': {" AWQ ", 'version': 'GEMM', 'zero_point': true,"
                                " 'modules_to_not_convert': ['lm_head', 'layers.1.mlp']}}");
  assert_int_equal(config.quant.method, YK_QUANT_AWQ);
  assert_int_equal(config.quant.scheme.packing, YK_PACKING_AWQ_GEMM);
  assert_int_equal(config.quant.scheme.group_size, 32);
  assert_null(scheme_of(&config, "model.layers.1.mlp.down_proj"));
  assert_non_null(scheme_of(&config, "model.layers.10.mlp.down_proj"));
  assert_non_null(scheme_of(&config, "model.layers.1.self_attn.q_proj"));
  yk_model_config_free(&config);

  config = good("{'quantization_config': {" AWQ ", 'modules_to_not_convert': ['mlp.gate']}}"); /* any part of a name */
  assert_true(yk_quant_may_have(&config.quant, YK_WEIGHT_AWQ));
  assert_false(yk_quant_may_have(&config.quant, YK_WEIGHT_INT8));
  assert_null(scheme_of(&config, "model.layers.1.mlp.gate"));
  assert_null(scheme_of(&config, "model.layers.1.mlp.gate_proj"));
  assert_non_null(scheme_of(&config, "model.layers.1.mlp.shared_expert_gate"));
  assert_non_null(scheme_of(&config, "model.layers.1.mlp.experts.1.gate_proj"));
  yk_model_config_free(&config);

  config = good("{'quantization_config': {" AWQ ", 'modules_to_not_convert': null}}");
  assert_int_equal(config.quant.method, YK_QUANT_AWQ);
  assert_null(config.quant.rules);
  config = good("{'quantization_config': {'quant_method': 'awq', 'bits': 4, 'group_size': -1}}");
  assert_int_equal(config.quant.scheme.group_size, -1);
  assert_int_equal(good("{'quantization_config': null}").quant.method, YK_QUANT_NONE);

  /* A separate file in the older spelling; config.json takes precedence if both exist. */
  const char *own = "{'zero_point': true, 'q_group_size': 64, 'w_bit': 4, 'version': 'GEMM'}";
  config = load_good("{}", NULL, own);
  assert_int_equal(config.quant.method, YK_QUANT_AWQ);
  assert_int_equal(config.quant.scheme.group_size, 64);
  assert_int_equal(load_good("{}", NULL, "{'q_group_size': 64, 'w_bit': 4}").quant.method, YK_QUANT_AWQ);
  config = load_good("{'quantization_config': {" AWQ "}}", NULL, own);
  assert_int_equal(config.quant.scheme.group_size, 32);
}

static void unsupported_quantisation(void **state)
{
  (void)state;
  static const bad_case cases[] = {
      {"{'quantization_config': {'quant_method': 'fp6'}}", YK_E_UNSUPPORTED,
       "quant_method \"fp6\"|supported: awq, gptq"},
      {"{'quantization_config': {'bits': 4}}", YK_E_FORMAT, "quantization_config|\"quant_method\" is missing"},
      {"{'quantization_config': 4}", YK_E_FORMAT, "quantization_config|expected an object"},
      {"{'compression_config': {}}", YK_E_FORMAT, "compression_config|\"quant_method\" is missing"},
      {"{'quantization_config': {'quant_method': 'awq', 'bits': 8, 'group_size': 64}}", YK_E_UNSUPPORTED,
       "bits 8|supported: 4"},
      {"{'quantization_config': {'quant_method': 'awq', 'bits': 4, 'group_size': 48}}", YK_E_UNSUPPORTED,
       "group_size 48|supported: 16, 32, 64"},
      {"{'quantization_config': {'quant_method': 'awq', 'bits': 4, 'group_size': 0}}", YK_E_UNSUPPORTED,
       "group_size 0|supported: 16"},
      {"{'quantization_config': {'quant_method': 'awq', 'bits': 4}}", YK_E_FORMAT, "\"group_size\" is missing"},
      {"{'quantization_config': {'quant_method': 'awq', 'group_size': 64}}", YK_E_FORMAT, "\"bits\" is missing"},
      {"{'quantization_config': {" AWQ ", 'version': 'marlin'}}", YK_E_UNSUPPORTED,
       "version \"marlin\"|supported: gemm, gemv, gemv_fast"},
      {"{'quantization_config': {" AWQ ", 'zero_point': 1}}", YK_E_FORMAT, "\"zero_point\"|true or false"},
      {"{'quantization_config': {" AWQ ", 'modules_to_not_convert': 'lm_head'}}", YK_E_FORMAT,
       "\"modules_to_not_convert\"|found string"},
      {"{'quantization_config': {" AWQ ", 'modules_to_not_convert': ['a', 3]}}", YK_E_FORMAT,
       "modules_to_not_convert[1]"},
      {"{'quantization_config': {" AWQ ", 'modules_to_not_convert': ['']}}", YK_E_FORMAT, "modules_to_not_convert[0]"},
  };
  EXPECT_BAD(cases);
  /* Checked before anything that such a file may lack or have in another form. */
  static const bad_case first[] = {
      {"{'hidden_size': '-', 'rope_scaling': 7, 'quantization_config': {'quant_method': 'hqq'}}", YK_E_UNSUPPORTED,
       "\"hqq\"|supported: awq"},
      {"{'architectures': ['X'], 'quantization_config': {'quant_method': 'hqq'}}", YK_E_UNSUPPORTED,
       "architecture \"X\""},
  };
  EXPECT_BAD(first);
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_error("gptq file", YK_E_UNSUPPORTED, "quantize_config.json|bits 3|supported: 4",
               load("{}", NULL, "{'bits': 3, 'group_size': 128, 'desc_act': false}", &config, &err), &err);
}

#define GPTQ                 "'quant_method': 'gptq', 'bits': 4, 'group_size': 64"
#define COMPRESSED           "'quant_method': 'compressed-tensors', 'format': 'pack-quantized'"
#define INT4_32              "'num_bits': 4, 'type': 'int', 'symmetric': true, 'strategy': 'group', 'group_size': 32"
#define TRANSFORMS(location) "'transform_config': {'config_groups': {'R1': {'apply': [{'location': " location "}]}}}"
#define FLOATS_8             "'num_bits': 8, 'type': 'float'"
#define ROUND                "'quant_method': 'auto-round', 'bits': 4, 'group_size': 128"

/* The group size of a module, 0 for one that is not quantised. */
static int group_of(const yk_model_config *config, const char *module)
{
  const yk_quant_scheme *scheme = scheme_of(config, module);
  return scheme ? scheme->group_size : 0;
}

static void gptq(void **state)
{
  (void)state;
  yk_model_config config = good("{'quantization_config': {" GPTQ ", 'desc_act': true, 'sym': false}}");
  assert_int_equal(config.quant.scheme.packing, YK_PACKING_GPTQ);
  assert_int_equal(config.quant.scheme.zeros, YK_ZEROS_LESS_ONE);
  yk_model_config_free(&config);
  config = good("{'quantization_config': {" GPTQ ", 'checkpoint_format': 'gptq'}}");
  assert_int_equal(config.quant.scheme.zeros, YK_ZEROS_LESS_ONE);
  yk_model_config_free(&config);
  config = good("{'quantization_config': {" GPTQ ", 'checkpoint_format': 'gptq_v2', 'pack_dtype': 'int32',"
                " 'dynamic': {'-:.*[.]0[.].*k_proj': {}, '+:.*up_proj': {'bits': 4, 'group_size': 32, 'sym': true},"
                " 'model.layers.1.': {'group_size': -1, 'foem': {'beta': 0.2}, 'smooth': {}, 'smoother': {}},"
                " '.*up_proj': {'group_size': 256}}}}");
  assert_int_equal(config.quant.scheme.zeros, YK_ZEROS_STORED);
  assert_int_equal(group_of(&config, "model.layers.0.self_attn.k_proj"), 0);
  assert_int_equal(group_of(&config, "model.layers.0.self_attn.q_proj"), 64);
  assert_int_equal(group_of(&config, "model.layers.1.mlp.up_proj"), 32);
  assert_int_equal(group_of(&config, "model.layers.1.mlp.down_proj"), -1);
  assert_int_equal(group_of(&config, "x.model.layers.1.mlp.down_proj"), 64); /* patterns begin where names do */
  yk_model_config_free(&config);
  config = load_good("{}", NULL, "{'bits': 4, 'group_size': 128, 'desc_act': false}");
  assert_int_equal(config.quant.method, YK_QUANT_GPTQ);
  yk_model_config_free(&config);
}

static void compressed_tensors(void **state)
{
  (void)state;
  yk_model_config config =
      good("{'quantization_config': {" COMPRESSED ", 'ignore': ['lm_head', 're:.*v_proj'], 'transform_config': {},"
           " 'config_groups': {'a': {'targets': ['Linear'], 'weights': {" INT4_32 ", 'actorder': 'weight'}},"
           " 'b': {'targets': ['re:.*mlp[.]'], 'weights': {'num_bits': 4, 'symmetric': false, 'strategy': 'channel'}},"
           " 'W4A16': ['model.layers.1.mlp.up_proj'],"
           " 'c': {'targets': ['model.layers.0.mlp.up_proj'], 'format': 'pack-quantized',"
           "       'weights': {'num_bits': 4, 'group_size': 64}}}}}");
  assert_int_equal(config.quant.method, YK_QUANT_COMPRESSED_TENSORS);
  assert_int_equal(group_of(&config, "lm_head"), 0);
  assert_int_equal(group_of(&config, "model.layers.0.self_attn.v_proj"), 0);
  assert_int_equal(group_of(&config, "model.layers.0.self_attn.q_proj"), 32);
  assert_int_equal(group_of(&config, "model.layers.0.mlp.down_proj"), -1);
  assert_int_equal(scheme_of(&config, "model.layers.0.mlp.down_proj")->zeros, YK_ZEROS_STORED);
  assert_int_equal(scheme_of(&config, "model.layers.1.mlp.up_proj")->zeros, YK_ZEROS_NONE);
  assert_int_equal(group_of(&config, "model.layers.1.mlp.up_proj"), 128);
  assert_int_equal(group_of(&config, "model.layers.0.mlp.up_proj"), 64);
  yk_model_config_free(&config);
  config = good("{'quantization_config': {" COMPRESSED ", 'config_groups': {"
                "'a': {'targets': ['re:.*proj', 'k_proj'], 'weights': {" INT4_32 "}},"
                "'b': {'targets': ['re:.*down_proj', 'k_proj'], 'weights': {'num_bits': 4, 'group_size': 64}}}}}");
  assert_int_equal(group_of(&config, "up_proj"), 32);
  assert_int_equal(group_of(&config, "down_proj"), 64); /* the first by its text */
  assert_int_equal(group_of(&config, "k_proj"), 64);    /* the last of equal ones */
  assert_true(yk_quant_may_have(&config.quant, YK_WEIGHT_AWQ));
  assert_false(yk_quant_may_have(&config.quant, YK_WEIGHT_PLAIN));
  yk_model_config_free(&config);
  config = good("{'quantization_config': {" COMPRESSED
                ", 'config_groups': {'a': {'targets': ['Linear'], 'weights': {" INT4_32 "}}}"
                ", " TRANSFORMS("'weight_output'}, {'location': 'weight_input'") "}}");
  assert_int_equal(group_of(&config, "model.x"), 32);
  yk_model_config_free(&config);
  config = good("{'compression_config': {" COMPRESSED ", 'config_groups': {'w4a16_asym': ['re:model.*']}}}");
  assert_int_equal(group_of(&config, "model.x"), 128);
  assert_int_equal(group_of(&config, "lm_head"), 0);
  yk_model_config_free(&config);
}

static void inputs_of_4_bits(void **state)
{
  (void)state;
  yk_model_config config =
      good("{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
           " 'weights': {" INT4_32 "}, 'input_activations': {" FLOATS_8 ", 'symmetric': true, 'dynamic': true,"
           " 'strategy': 'token', 'group_size': null}}, 'w4afp8': ['re:.*mlp'],"
           " 'b': {'targets': ['re:.*q_proj'], 'weights': {" INT4_32 "}, 'input_activations': null}}}}");
  assert_int_equal(scheme_of(&config, "model.layers.0.self_attn.v_proj")->inputs, YK_INPUTS_FP8);
  assert_int_equal(scheme_of(&config, "model.layers.0.mlp.up_proj")->inputs, YK_INPUTS_FP8);
  assert_int_equal(group_of(&config, "model.layers.0.mlp.up_proj"), 128);
  assert_int_equal(scheme_of(&config, "model.layers.0.self_attn.q_proj")->inputs, YK_INPUTS_FLOAT);
  assert_true(yk_quant_may_have_inputs(&config.quant, YK_INPUTS_FP8));
  assert_false(yk_quant_may_have_inputs(&config.quant, YK_INPUTS_STATIC));
  yk_model_config_free(&config);
  config = good("{'quantization_config': {" COMPRESSED ", 'config_groups': {'W4A16': ['Linear']}}}");
  assert_false(yk_quant_may_have_inputs(&config.quant, YK_INPUTS_FP8));
  yk_model_config_free(&config);
}

static void auto_round(void **state)
{
  (void)state;
  yk_model_config config =
      good("{'quantization_config': {" ROUND ", 'packing_format': 'auto_round', 'data_type': 'int', 'act_bits': 16,"
           " 'extra_config': {'.*up.*': {'group_size': 32}, 'model.layers.0.mlp.up_proj': {'bits': 16}}}}");
  assert_int_equal(config.quant.scheme.packing, YK_PACKING_GPTQ);
  assert_int_equal(config.quant.scheme.zeros, YK_ZEROS_STORED);
  assert_int_equal(group_of(&config, "model.layers.0.mlp.up_proj"), 0);
  assert_int_equal(group_of(&config, "model.layers.1.mlp.up_proj"), 32);
  assert_int_equal(group_of(&config, "model.layers.1.mlp.down_proj"), 128);
  yk_model_config_free(&config);
  config = good("{'quantization_config': {" ROUND ", 'packing_format': 'auto_round:auto_gptq:exllamav2'}}");
  assert_int_equal(config.quant.scheme.zeros, YK_ZEROS_LESS_ONE);
  config = good("{'quantization_config': {" ROUND ", 'backend': 'auto_round:auto_awq'}}");
  assert_int_equal(config.quant.scheme.packing, YK_PACKING_AWQ_GEMM);
}

/* Bits of a module, 0 for one that is not quantised. */
static int bits_of(const yk_model_config *config, const char *module)
{
  const yk_quant_scheme *scheme = scheme_of(config, module);
  return !scheme ? 0 : scheme->format == YK_WEIGHT_INT8 ? 8 : scheme->format == YK_WEIGHT_AWQ ? 4 : -1;
}

static void eight_bits(void **state)
{
  (void)state;
  yk_model_config config =
      good("{'quantization_config': {'quant_method': 'gptq', 'bits': 8, 'group_size': 64, 'dynamic': {"
           "'-:.*k_proj': {}, '+:.*up_proj': {'bits': 4}, '+:.*q_proj': {'group_size': 32}}}}");
  assert_int_equal(bits_of(&config, "model.layers.0.self_attn.k_proj"), 0);
  assert_int_equal(bits_of(&config, "model.layers.0.mlp.up_proj"), 4);
  assert_int_equal(bits_of(&config, "model.layers.0.self_attn.q_proj"), 8);
  assert_int_equal(group_of(&config, "model.layers.0.self_attn.q_proj"), 32);
  assert_int_equal(bits_of(&config, "model.layers.0.mlp.down_proj"), 8);
  yk_model_config_free(&config);
  config = good("{'quantization_config': {" GPTQ ", 'dynamic': {'.*down_proj': {'bits': 8, 'group_size': -1}}}}");
  assert_int_equal(bits_of(&config, "model.layers.0.mlp.down_proj"), 8);
  assert_int_equal(group_of(&config, "model.layers.0.mlp.down_proj"), -1);
  assert_int_equal(bits_of(&config, "model.layers.0.mlp.up_proj"), 4);
  yk_model_config_free(&config);
  config = good("{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
                " 'weights': {'num_bits': 8, 'strategy': 'channel', 'symmetric': false}}, 'w8a16': ['re:.*mlp'],"
                " 'b': {'targets': ['re:.*q_proj'], 'weights': {" INT4_32 "}}}}}");
  assert_int_equal(bits_of(&config, "model.layers.0.self_attn.v_proj"), 8);
  assert_int_equal(scheme_of(&config, "model.layers.0.self_attn.v_proj")->zeros, YK_ZEROS_STORED);
  assert_int_equal(bits_of(&config, "model.layers.0.self_attn.q_proj"), 4);
  assert_int_equal(bits_of(&config, "model.layers.0.mlp.up_proj"), 8);
  assert_int_equal(group_of(&config, "model.layers.0.mlp.up_proj"), 128);
  assert_true(scheme_of(&config, "model.layers.0.mlp.up_proj")->may_be_channel);
  yk_model_config_free(&config);
  config = good("{'quantization_config': {'quant_method': 'auto-round', 'bits': 8, 'group_size': 128,"
                " 'extra_config': {'.*up.*': {'bits': 4}, 'x': {'bits': 16}}}}");
  assert_int_equal(bits_of(&config, "model.layers.0.mlp.up_proj"), 4);
  assert_int_equal(bits_of(&config, "model.layers.0.mlp.down_proj"), 8);
  assert_int_equal(bits_of(&config, "x"), 0);
  yk_model_config_free(&config);
}

static void awq_versions(void **state)
{
  (void)state;
  assert_int_equal(good("{'quantization_config': {" AWQ ", 'version': 'gemv'}}").quant.scheme.packing,
                   YK_PACKING_AWQ_GEMV);
  assert_int_equal(good("{'quantization_config': {" AWQ ", 'version': 'GEMV_FAST'}}").quant.scheme.packing,
                   YK_PACKING_AWQ_GEMV_FAST);
  assert_int_equal(good("{'quantization_config': {" AWQ ", 'zero_point': false}}").quant.scheme.zeros,
                   YK_ZEROS_OPTIONAL);
}

/* One unsupported setting in each: its key and value are in the message. */
/* A group of 4-bit weights with these settings of its inputs. */
#define INPUTS_REFUSED(settings, expected)                                                                             \
  {                                                                                                                    \
    "{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'], 'weights': {" INT4_32     \
    "}, 'input_activations': {" settings "}}}}}",                                                                      \
        YK_E_UNSUPPORTED, "input_activations: " expected                                                               \
  }

static const bad_case refused_methods[] = {
    {"{'quantization_config': {'quant_method': 'gptq', 'bits': 3, 'group_size': 64}}", YK_E_UNSUPPORTED, "bits 3"},
    {"{'quantization_config': {'quant_method': 'gptq', 'bits': 4}}", YK_E_FORMAT, "\"group_size\" is missing"},
    {"{'quantization_config': {" GPTQ ", 'checkpoint_format': 'marlin'}}", YK_E_UNSUPPORTED,
     "checkpoint_format \"marlin\"|supported: gptq, gptq_v2"},
    {"{'quantization_config': {" GPTQ ", 'pack_dtype': 'int16'}}", YK_E_UNSUPPORTED, "pack_dtype \"int16\""},
    {"{'quantization_config': {" GPTQ ", 'is_marlin_format': true}}", YK_E_UNSUPPORTED, "is_marlin_format true"},
    {"{'quantization_config': {" GPTQ ", 'rotation': 'hadamard'}}", YK_E_UNSUPPORTED, "rotation \"hadamard\""},
    {"{'quantization_config': {" GPTQ ", 'dynamic': []}}", YK_E_FORMAT, "\"dynamic\"|found array"},
    {"{'quantization_config': {" GPTQ ", 'dynamic': {'+:x': 4}}}", YK_E_FORMAT, "dynamic \"+:x\"|found integer"},
    {"{'quantization_config': {" GPTQ ", 'dynamic': {'+:x': {'bits': 2}}}}", YK_E_UNSUPPORTED, "bits 2"},
    {"{'quantization_config': {" GPTQ ", 'dynamic': {'+:x': {'adapter': 'a'}}}}", YK_E_UNSUPPORTED, "adapter \"a\""},
    {"{'quantization_config': {" GPTQ ", 'dynamic': {'-:(x': {}}}}", YK_E_FORMAT, "dynamic|(x|regular expression"},
    {"{'quantization_config': {'quant_method': 'compressed-tensors', 'format': 'marlin-24'}}", YK_E_UNSUPPORTED,
     "format \"marlin-24\"|pack-quantized"},
    {"{'quantization_config': {" COMPRESSED "}}", YK_E_FORMAT, "\"config_groups\"|found nothing"},
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'W4A4': ['Linear']}}}", YK_E_UNSUPPORTED,
     "preset \"W4A4\"|W4A16, W4A16_ASYM, W4AFP8, W4A8"},
    {"{'quantization_config': {" COMPRESSED ", 'transform_config': {'a': 1}, 'config_groups': {}}}", YK_E_UNSUPPORTED,
     "transform_config {\"a\": 1}"},
    {"{'quantization_config': {" COMPRESSED ", " TRANSFORMS("'weight_input'}, {'location': 'input'") "}}",
     YK_E_UNSUPPORTED, "transform_config: R1: location \"input\"|weight_input, weight_output"},
    {"{'quantization_config': {" COMPRESSED ", 'moe_sparsity_config': {'method': 'prune', 'num_experts': [6, 8]}}}",
     YK_E_UNSUPPORTED, "moe_sparsity_config {\"method\": \"prune\", \"num_experts\": [6, 8]}|supported: null"},
    {"{'quantization_config': {" COMPRESSED ", " TRANSFORMS("5") "}}", YK_E_UNSUPPORTED, "R1: location 5"},
    {"{'quantization_config': {" COMPRESSED ", 'transform_config': {'config_groups': {'R1': {}}}}}", YK_E_UNSUPPORTED,
     "R1: apply (absent)"},
    {"{'quantization_config': {" COMPRESSED ", 'sparsity_config': {'format': 'sparse-24-bitmask'},"
     " 'config_groups': {}}}",
     YK_E_UNSUPPORTED, "format \"sparse-24-bitmask\"|dense"},
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'weights': {" INT4_32 "}}}}}", YK_E_FORMAT,
     "targets: expected an array"},
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
     " 'weights': {" INT4_32 "}, 'input_activations': {'num_bits': 8, 'type': 'complex'}}}}}",
     YK_E_UNSUPPORTED, "input_activations: type \"complex\" is not supported; supported: int, float"},
    INPUTS_REFUSED("'num_bits': 8, 'type': 'int'", "dynamic (absent)|true"),
    INPUTS_REFUSED("'num_bits': 8, 'dynamic': true, 'symmetric': false", "symmetric false|true"),
    INPUTS_REFUSED("'num_bits': 16, 'type': 'int', 'dynamic': true", "num_bits 16|8"),
    INPUTS_REFUSED("'num_bits': 8, 'type': 'int', 'dynamic': true, 'strategy': 'tensor'", "strategy \"tensor\"|token"),
    INPUTS_REFUSED("'type': 'float'", "num_bits (absent)|8"),
    INPUTS_REFUSED("'num_bits': 4, 'type': 'float'", "num_bits 4|8"),
    INPUTS_REFUSED(FLOATS_8, "dynamic (absent)|true"),
    INPUTS_REFUSED(FLOATS_8 ", 'dynamic': false", "dynamic false|true"),
    INPUTS_REFUSED(FLOATS_8 ", 'dynamic': 'local'", "dynamic \"local\"|true"),
    INPUTS_REFUSED(FLOATS_8 ", 'dynamic': true, 'symmetric': false", "symmetric false|true"),
    INPUTS_REFUSED(FLOATS_8 ", 'dynamic': true", "strategy (absent)|token"),
    INPUTS_REFUSED(FLOATS_8 ", 'dynamic': true, 'strategy': 'tensor'", "strategy \"tensor\"|token"),
    INPUTS_REFUSED(FLOATS_8 ", 'dynamic': true, 'strategy': 'token', 'group_size': 128", "group_size 128"),
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
     " 'weights': {'num_bits': 8, 'group_size': 32}, 'input_activations': {'num_bits': 8, 'type': 'float'}}}}}",
     YK_E_UNSUPPORTED, "input_activations: not supported beside packed weights of 8 bits"},
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
     " 'weights': {" INT4_32 "}, 'input_activations': 8}}}}",
     YK_E_FORMAT, "input_activations: expected an object, found integer"},
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
     " 'weights': {'num_bits': 3}}}}}",
     YK_E_UNSUPPORTED, "num_bits 3"},
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
     " 'weights': {'num_bits': 4, 'type': 'float'}}}}}",
     YK_E_UNSUPPORTED, "type \"float\""},
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
     " 'weights': {'num_bits': 4, 'strategy': 'tensor'}}}}}",
     YK_E_UNSUPPORTED, "strategy \"tensor\""},
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
     " 'weights': {" INT4_32 ", 'actorder': 'random'}}}}}",
     YK_E_UNSUPPORTED, "actorder \"random\""},
    {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['re:['],"
     " 'weights': {" INT4_32 "}}}}}",
     YK_E_FORMAT, "targets: \"[\"|regular expression"},
    {"{'quantization_config': {" ROUND ", 'packing_format': 'auto_round:auto_gptqmodel'}}", YK_E_UNSUPPORTED,
     "packing_format \"auto_round:auto_gptqmodel\"|auto_round:auto_awq"},
    {"{'quantization_config': {" ROUND ", 'data_type': 'mx_fp'}}", YK_E_UNSUPPORTED, "data_type \"mx_fp\""},
    {"{'quantization_config': {" ROUND ", 'act_bits': 8}}", YK_E_UNSUPPORTED, "act_bits 8"},
    {"{'quantization_config': {" ROUND ", 'extra_config': {'x': {'bits': 3}}}}", YK_E_UNSUPPORTED,
     "bits 3|supported: 4, 8"},
    {"{'quantization_config': {" ROUND ", 'packing_format': 'auto_round:auto_awq',"
     " 'extra_config': {'x': {'bits': 8}}}}",
     YK_E_UNSUPPORTED, "bits 8|supported: 4"},
    {"{'quantization_config': {" AWQ ", 'dynamic': {'+:x': {'bits': 8}}}}", YK_E_UNSUPPORTED, "bits 8|supported: 4"},
};

static void refusals_of_other_methods(void **state)
{
  (void)state;
  EXPECT_BAD(refused_methods);
}

static void a_pattern_without_end(void **state)
{
  (void)state;
  yk_model_config config = good("{'quantization_config': {" GPTQ ", 'dynamic': {'-:(a|aa)+$': {}}}}");
  const yk_quant_scheme *scheme;
  yk_err err = YK_ERR_INIT;
  expect_error("steps", YK_E_FORMAT, "pattern|module aaaa",
               yk_quant_scheme_of(&config.quant, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", &scheme, &err),
               &err);
  yk_model_config_free(&config);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantisation),
      cmocka_unit_test(unsupported_quantisation),
      cmocka_unit_test(gptq),
      cmocka_unit_test(compressed_tensors),
      cmocka_unit_test(inputs_of_4_bits),
      cmocka_unit_test(auto_round),
      cmocka_unit_test(eight_bits),
      cmocka_unit_test(awq_versions),
      cmocka_unit_test(refusals_of_other_methods),
      cmocka_unit_test(a_pattern_without_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
