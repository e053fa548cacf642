/* Weights stored as bytes, and 8-bit inputs: the configurations that are read, the tensors that they need, and
 * refusals. */
#include <math.h>

#include "unit/config_fixture.h"

#include "each_case.h"
#include "loader/integers/quant_tensors.h"
#include "loader/model/quant_rules.h"

static const char module[] = "model.layers.0.mlp.up_proj";

static yk_status read_config(const char *keys, yk_quant_config *quant, yk_err *err)
{
  char all[2048];
  snprintf(all, sizeof all, "'quant_method': 'compressed-tensors', %s", keys);
  return config_read_quant(all, quant, err);
}

#define IN_FORMAT(format, groups)    "'format': '" format "', 'config_groups': {" groups "}"
#define GROUP(weights, inputs, more) "'a': {'targets': ['Linear'], 'weights': {" weights "}, " inputs more "}"
#define INTS(weights, inputs)        IN_FORMAT("int-quantized", GROUP(weights, inputs, ""))
#define CHANNEL                      "'num_bits': 8, 'type': 'int', 'strategy': 'channel'"
#define NO_INPUTS                    "'input_activations': null"
#define TOKEN                        "'num_bits': 8, 'type': 'int', 'strategy': 'token', 'dynamic': true"
#define INPUTS(settings)             "'input_activations': {" settings "}"
#define INT4                         "'num_bits': 4, 'type': 'int', 'strategy': 'group', 'group_size': 32"

static void fields_that_are_read(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int32_t outputs, group;
    yk_inputs_kind inputs;
    bool has_zeros;
  } cases[] = {
      {INTS(CHANNEL, INPUTS(TOKEN ", 'symmetric': true, 'group_size': null, 'observer': null")), 1, -1,
       YK_INPUTS_PER_TOKEN, false},
      {INTS("'num_bits': 8, 'group_size': -1", INPUTS(TOKEN)), 1, -1, YK_INPUTS_PER_TOKEN, false},
      {INTS("'num_bits': 8", INPUTS("'num_bits': 8, 'dynamic': false")), -1, -1, YK_INPUTS_STATIC, false},
      {INTS(CHANNEL, INPUTS("'strategy': 'tensor', 'symmetric': true")), 1, -1, YK_INPUTS_STATIC, false},
      {INTS(CHANNEL, INPUTS("'strategy': 'tensor', 'symmetric': false")), 1, -1, YK_INPUTS_STATIC, true},
      {INTS("'strategy': 'tensor', 'actorder': null", INPUTS(TOKEN)), -1, -1, YK_INPUTS_PER_TOKEN, false},
      {INTS(CHANNEL, NO_INPUTS), 1, -1, YK_INPUTS_FLOAT, false},
      {INTS("'num_bits': 8, 'strategy': 'group', 'group_size': 32", NO_INPUTS), 1, 32, YK_INPUTS_FLOAT, false},
      {IN_FORMAT("naive-quantized", GROUP(CHANNEL, INPUTS(TOKEN), "")), 1, -1, YK_INPUTS_PER_TOKEN, false},
      {IN_FORMAT("mixed-precision", GROUP(CHANNEL, INPUTS(TOKEN), "")), 1, -1, YK_INPUTS_PER_TOKEN, false},
      {IN_FORMAT("mixed-precision", GROUP(CHANNEL, NO_INPUTS, ", 'format': 'int-quantized'")), 1, -1, YK_INPUTS_FLOAT,
       false},
      {IN_FORMAT("int-quantized", "'W8A8': ['Linear']"), 1, -1, YK_INPUTS_PER_TOKEN, false},
      {IN_FORMAT("int-quantized", "'int8': ['re:.*_proj']"), 1, -1, YK_INPUTS_PER_TOKEN, false},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_quant_config quant;
    const yk_quant_scheme *scheme;
    yk_err err = YK_ERR_INIT;
    expect_ok(cases[i].text, read_config(cases[i].text, &quant, &err), &err);
    expect_ok(cases[i].text, yk_quant_scheme_of(&quant, module, &scheme, &err), &err);
    assert_non_null(scheme);
    assert_int_equal(scheme->format, YK_WEIGHT_INT8);
    assert_int_equal(scheme->packing, YK_PACKING_BLOCKS);
    assert_int_equal(scheme->group_outputs, cases[i].outputs);
    assert_int_equal(scheme->group_size, cases[i].group);
    assert_int_equal(scheme->inputs, cases[i].inputs);
    assert_int_equal(scheme->has_input_zeros, cases[i].has_zeros);
    yk_quant_rules_free(quant.rules);
  }
}

/* A separate group for some modules, others ignored, and 4 bits in the same model. */
static void groups_side_by_side(void **state)
{
  (void)state;
  yk_quant_config quant;
  yk_err err = YK_ERR_INIT;
  const char *text = "'format': 'mixed-precision', 'ignore': ['lm_head', 're:.*k_proj'], 'config_groups': {"
                     "'a': {'targets': ['Linear'], 'weights': {" CHANNEL
                     "}, " INPUTS(TOKEN) "},"
                                         " 'b': {'targets': ['re:.*o_proj'], 'weights': {'num_bits': 4, 'type': 'int',"
                                         " 'strategy': 'group', 'group_size': 32}, 'format': 'pack-quantized'},"
                                         " 'c': {'targets': ['model.layers.1.mlp.up_proj'], 'weights': {" CHANNEL
                                         "}, " INPUTS("'strategy': 'tensor', 'symmetric': false") "}}";
  static const struct {
    const char *module;
    int packing; /* -1: not quantised */
    yk_inputs_kind inputs;
  } cases[] = {{"lm_head", -1, YK_INPUTS_FLOAT},
               {"model.layers.0.self_attn.k_proj", -1, YK_INPUTS_FLOAT},
               {"model.layers.0.self_attn.q_proj", YK_PACKING_BLOCKS, YK_INPUTS_PER_TOKEN},
               {"model.layers.0.self_attn.o_proj", YK_PACKING_COMPRESSED, YK_INPUTS_FLOAT},
               {"model.layers.1.mlp.up_proj", YK_PACKING_BLOCKS, YK_INPUTS_STATIC},
               {"model.layers.1.mlp.gate_proj", YK_PACKING_BLOCKS, YK_INPUTS_PER_TOKEN}};
  expect_ok("groups", read_config(text, &quant, &err), &err);
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    const yk_quant_scheme *scheme;
    expect_ok(cases[i].module, yk_quant_scheme_of(&quant, cases[i].module, &scheme, &err), &err);
    assert_int_equal(scheme ? (int)scheme->packing : -1, cases[i].packing);
    if (scheme) assert_int_equal(scheme->inputs, cases[i].inputs);
  }
  yk_quant_rules_free(quant.rules);
}

/* 4-bit integers in bytes, with inputs of either type, and packed. */
static void integers_of_4_bits(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    yk_packing packing;
    int32_t group;
    yk_inputs_kind inputs;
  } cases[] = {
      {INTS(INT4, INPUTS(TOKEN)), YK_PACKING_BYTES, 32, YK_INPUTS_INT8},
      {INTS(INT4, INPUTS("'num_bits': 8, 'strategy': 'token', 'dynamic': true")), YK_PACKING_BYTES, 32, YK_INPUTS_INT8},
      {INTS("'num_bits': 4, 'strategy': 'channel', 'actorder': 'weight'", INPUTS(TOKEN)), YK_PACKING_BYTES, -1,
       YK_INPUTS_INT8},
      {INTS(INT4, INPUTS("'num_bits': 8, 'type': 'float', 'strategy': 'token', 'dynamic': true")), YK_PACKING_BYTES, 32,
       YK_INPUTS_FP8},
      {INTS(INT4, NO_INPUTS), YK_PACKING_BYTES, 32, YK_INPUTS_FLOAT},
      {IN_FORMAT("naive-quantized", GROUP(INT4, INPUTS(TOKEN), "")), YK_PACKING_BYTES, 32, YK_INPUTS_INT8},
      {IN_FORMAT("mixed-precision", GROUP(INT4, INPUTS(TOKEN), "")), YK_PACKING_BYTES, 32, YK_INPUTS_INT8},
      {IN_FORMAT("pack-quantized", GROUP(INT4, INPUTS(TOKEN), "")), YK_PACKING_COMPRESSED, 32, YK_INPUTS_INT8},
      {IN_FORMAT("int-quantized", "'W4A8': ['Linear']"), YK_PACKING_BYTES, 128, YK_INPUTS_INT8},
      {IN_FORMAT("pack-quantized", "'w4a8': ['Linear']"), YK_PACKING_COMPRESSED, 128, YK_INPUTS_INT8},
      {IN_FORMAT("int-quantized", "'W4AFP8': ['Linear']"), YK_PACKING_BYTES, 128, YK_INPUTS_FP8},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_quant_config quant;
    const yk_quant_scheme *scheme;
    yk_err err = YK_ERR_INIT;
    expect_ok(cases[i].text, read_config(cases[i].text, &quant, &err), &err);
    expect_ok(cases[i].text, yk_quant_scheme_of(&quant, module, &scheme, &err), &err);
    assert_non_null(scheme);
    assert_int_equal(scheme->format, YK_WEIGHT_AWQ);
    assert_int_equal(scheme->packing, cases[i].packing);
    assert_int_equal(scheme->group_size, cases[i].group);
    assert_int_equal(scheme->zeros, YK_ZEROS_NONE);
    assert_int_equal(scheme->inputs, cases[i].inputs);
    yk_quant_rules_free(quant.rules);
  }
}

static void refusals(void **state)
{
  (void)state;
  static const struct {
    yk_status status;
    const char *text, *words;
  } cases[] = {
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS(TOKEN ", 'symmetric': false")),
       "input_activations: symmetric false|true where dynamic"},
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS("'num_bits': 8, 'strategy': 'tensor', 'dynamic': true")),
       "input_activations: strategy \"tensor\"|supported: token"},
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS("'dynamic': true")), "input_activations: strategy (absent)|token"},
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS("'strategy': 'token'")), "input_activations: strategy \"token\"|tensor"},
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS("'strategy': 'group', 'group_size': 128, 'dynamic': true")),
       "input_activations: group_size 128"},
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS("'dynamic': 'local'")), "input_activations: dynamic \"local\""},
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS("'num_bits': 4")), "input_activations: num_bits 4|supported: 8"},
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS("'num_bits': 8.5")), "input_activations: num_bits 8.5"},
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS("'num_bits': 8, 'type': 'float'")), "input_activations: type \"float\""},
      {YK_E_UNSUPPORTED, INTS(CHANNEL, INPUTS("'actorder': 'group'")), "input_activations: actorder \"group\""},
      {YK_E_FORMAT, INTS(CHANNEL, "'input_activations': 8"), "input_activations|expected an object, found integer"},
      {YK_E_FORMAT, INTS(CHANNEL, INPUTS("'dynamic': 1")), "input_activations|\"dynamic\"|found integer"},
      {YK_E_UNSUPPORTED, INTS("'num_bits': 3, 'strategy': 'channel'", INPUTS(TOKEN)), "weights: num_bits 3"},
      {YK_E_UNSUPPORTED, INTS(INT4 ", 'symmetric': false", INPUTS(TOKEN)), "weights: symmetric false|true"},
      {YK_E_UNSUPPORTED, INTS(INT4 ", 'actorder': 'group'", INPUTS(TOKEN)), "weights: actorder \"group\"|null, weight"},
      {YK_E_UNSUPPORTED, INTS("'num_bits': 4, 'strategy': 'tensor'", INPUTS(TOKEN)), "weights: strategy \"tensor\""},
      {YK_E_UNSUPPORTED, INTS(INT4, INPUTS("'num_bits': 8, 'strategy': 'token'")),
       "input_activations: dynamic (absent)"},
      {YK_E_UNSUPPORTED, INTS(INT4, INPUTS("'num_bits': 4, 'strategy': 'token', 'dynamic': true")),
       "input_activations: num_bits 4|8"},
      {YK_E_UNSUPPORTED, INTS("'symmetric': false, 'strategy': 'channel'", INPUTS(TOKEN)), "weights: symmetric false"},
      {YK_E_UNSUPPORTED, INTS("'dynamic': true", INPUTS(TOKEN)), "weights: dynamic true"},
      {YK_E_UNSUPPORTED, INTS("'actorder': 'group', 'strategy': 'channel'", INPUTS(TOKEN)), "weights: actorder"},
      {YK_E_UNSUPPORTED, INTS("'strategy': 'group', 'group_size': 32", INPUTS(TOKEN)),
       "weights: strategy \"group\"|input_activations is null"},
      {YK_E_UNSUPPORTED, INTS("'strategy': 'block', 'block_structure': [8, 8]", INPUTS(TOKEN)), "block_structure"},
      {YK_E_UNSUPPORTED, INTS("'strategy': 'group', 'group_size': 48", NO_INPUTS), "group_size 48"},
      {YK_E_UNSUPPORTED, IN_FORMAT("int-quantized", GROUP(CHANNEL, INPUTS(TOKEN), ", 'output_activations': {'a': 1}")),
       "output_activations"},
      {YK_E_UNSUPPORTED, IN_FORMAT("float-quantized", GROUP(CHANNEL, INPUTS(TOKEN), "")), "format \"float-quantized\""},
      {YK_E_FORMAT, IN_FORMAT("int-quantized", "'a': {'targets': ['Linear']}"), "weights: expected an object"},
      {YK_E_UNSUPPORTED, IN_FORMAT("int-quantized", "'W4A4': ['Linear']"), "preset \"W4A4\"|W8A8, INT8"},
      {YK_E_UNSUPPORTED, IN_FORMAT("int-quantized", "'W4A16_ASYM': ['Linear']"), "preset \"W4A16_ASYM\""},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_quant_config quant;
    yk_err err = YK_ERR_INIT;
    yk_status status = read_config(cases[i].text, &quant, &err);
    yk_quant_rules_free(quant.rules);
    expect_error(cases[i].text, cases[i].status, cases[i].words, status, &err);
  }
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

enum { ROWS = 20, COLUMNS = 36, N_BYTES = 2 * ROWS * COLUMNS };

/* A file of the layer's tensors, whose bytes are the first of N_BYTES. */
static yk_status read_layer(const char *tensors, const void *bytes, const yk_quant_scheme *scheme, yk_weight_view *view,
                            yk_err *err)
{
  yk_shards *shards;
  temp_dir dir = temp_dir_make();
  write_layer(&dir, tensors, bytes, N_BYTES);
  *view = (yk_weight_view){.k = COLUMNS, .n = ROWS};
  expect_ok("open", yk_shards_open(dir.path, NULL, &shards, err), err);
  yk_status status = yk_quant_read(shards, "layer", scheme, view, err);
  yk_shards_close(shards);
  temp_dir_remove(&dir);
  return status;
}

static yk_quant_scheme scheme_of(yk_inputs_kind inputs, bool has_zeros)
{
  return (yk_quant_scheme){.format = YK_WEIGHT_INT8,
                           .packing = YK_PACKING_BLOCKS,
                           .group_size = -1,
                           .group_outputs = 1,
                           .zeros = YK_ZEROS_NONE,
                           .inputs = inputs,
                           .has_input_zeros = has_zeros};
}

#define LAYER  "weight I8 [20,36] 720;weight_scale F32 [20,1] 80;"
#define SCALE  "input_scale F32 [1] 4;"
#define STATIC YK_INPUTS_STATIC

/* A scale of 0.25 and a zero of -7, or of 0 if the configuration has none, in every type and shape. */
static void tensors_of_static_inputs(void **state)
{
  (void)state;
  static const struct {
    const char *header;
    yk_dtype dtype;
  } cases[] = {{LAYER "input_scale F32 [1] 4;input_zero_point I8 [1] 1;", YK_F32},
               {LAYER "input_scale BF16 [] 2;input_zero_point I8 [] 1;", YK_BF16},
               {LAYER "input_scale F16 [1] 2;input_zero_point I8 [1] 1;", YK_F16}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++)
    for (int has_zeros = 0; has_zeros < 2; has_zeros++) {
      uint8_t bytes[N_BYTES] = {0};
      yk_weight_view view;
      yk_err err = YK_ERR_INIT;
      yk_quant_scheme scheme = scheme_of(STATIC, has_zeros);
      yk_dtype_store(cases[i].dtype, bytes + 800, 0, 0.25f);
      bytes[800 + yk_dtype_bytes(cases[i].dtype)] = has_zeros ? (uint8_t)-7 : 0;
      expect_ok(cases[i].header, read_layer(cases[i].header, bytes, &scheme, &view, &err), &err);
      assert_int_equal(view.format, YK_WEIGHT_INT8);
      assert_int_equal(view.group, COLUMNS);
      assert_int_equal(view.group_n, 1);
      assert_false(view.has_zeros);
      assert_int_equal(view.inputs.kind, STATIC);
      assert_true(view.inputs.scale == 0.25f);
      assert_int_equal(view.inputs.zero, has_zeros ? -7 : 0);
    }
}

static void tensors_that_do_not_fit(void **state)
{
  (void)state;
  static const struct {
    yk_inputs_kind inputs;
    bool has_zeros;
    const char *header, *words;
  } bad[] = {
      {STATIC, false, LAYER, "layer.input_scale is missing"},
      {STATIC, false, LAYER "input_scale F32 [20] 80;", "layer.input_scale|expected|[1], found F32 [20]"},
      {STATIC, false, LAYER "input_scale F32 [1,1] 4;", "layer.input_scale|[1], found F32 [1, 1]"},
      {STATIC, false, LAYER "input_scale I8 [1] 1;", "layer.input_scale|found I8"},
      {STATIC, true, LAYER SCALE, "layer.input_zero_point is missing"},
      {STATIC, true, LAYER SCALE "input_zero_point I32 [1] 4;", "layer.input_zero_point|expected I8 [1], found I32"},
      {STATIC, true, LAYER SCALE "input_zero_point I8 [2] 2;", "layer.input_zero_point|I8 [1], found I8 [2]"},
      {YK_INPUTS_PER_TOKEN, false, "weight I8 [20,36] 720;", "layer.weight_scale|missing"},
      {YK_INPUTS_PER_TOKEN, false, "weight U8 [20,36] 720;weight_scale F32 [20,1] 80;", "I8 [20, 36], found U8"},
      {YK_INPUTS_PER_TOKEN, false, "weight I8 [36,20] 720;weight_scale F32 [20,1] 80;",
       "I8 [20, 36], found I8 [36, 20]"},
      {YK_INPUTS_PER_TOKEN, false, "weight I8 [20,36] 720;weight_scale F32 [1] 4;", "[20], found F32 [1]"},
      {YK_INPUTS_PER_TOKEN, false, "weight F8_E4M3 [20,36] 720;weight_scale F32 [20,1] 80;", "found F8_E4M3"},
  };
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof *bad); i++) {
    uint8_t bytes[N_BYTES] = {0};
    yk_weight_view view;
    yk_err err = YK_ERR_INIT;
    yk_quant_scheme scheme = scheme_of(bad[i].inputs, bad[i].has_zeros);
    yk_dtype_store(YK_F32, bytes + 800, 0, 0.25f);
    yk_status status = read_layer(bad[i].header, bytes, &scheme, &view, &err);
    expect_error(bad[i].header, YK_E_FORMAT, bad[i].words, status, &err);
  }
}

static void scales_that_are_none(void **state)
{
  (void)state;
  static const float scales[] = {0.0f, -0.5f, NAN, INFINITY};
  for (size_t i = 0; each_case(i, i < sizeof scales / sizeof *scales); i++) {
    uint8_t bytes[N_BYTES] = {0};
    yk_weight_view view;
    yk_err err = YK_ERR_INIT;
    yk_quant_scheme scheme = scheme_of(STATIC, false);
    yk_dtype_store(YK_F32, bytes + 800, 0, scales[i]);
    yk_status status = read_layer(LAYER SCALE, bytes, &scheme, &view, &err);
    expect_error("scale", YK_E_FORMAT, "layer.input_scale|a finite number above 0", status, &err);
  }
}

/* Sums of this number of products would overflow; weights with float inputs may have this number. */
static void too_many_inputs(void **state)
{
  (void)state;
  for (int more = 0; more < 2; more++)
    for (yk_inputs_kind inputs = YK_INPUTS_FLOAT; inputs <= STATIC; inputs++) {
      yk_quant_scheme scheme = scheme_of(inputs, false);
      yk_weight_view view = {.k = YK_MAX_QUANTISED_INPUTS + more, .n = 1};
      yk_err err = YK_ERR_INIT;
      yk_status status = yk_quant_begin("layer", &scheme, &view, &err);
      if (more && inputs != YK_INPUTS_FLOAT)
        expect_error("begin", YK_E_UNSUPPORTED, "layer: 65537 inputs of 8 bits|up to 65536", status, &err);
      else
        expect_ok("begin", status, &err);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fields_that_are_read),     cmocka_unit_test(groups_side_by_side),
      cmocka_unit_test(integers_of_4_bits),       cmocka_unit_test(refusals),
      cmocka_unit_test(tensors_of_static_inputs), cmocka_unit_test(tensors_that_do_not_fit),
      cmocka_unit_test(scales_that_are_none),     cmocka_unit_test(too_many_inputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
