/* The tensors of each kind of msmodelslim's layers, and of its KV cache; every possible fault. */
#include <math.h>

#include "unit/msmodelslim_fixture.h"

#include "each_case.h"
#include "loader/integers/folded_bias.h"

/* q_proj, 8 inputs and 8 outputs, with these tensors and of this kind. */
static yk_status read_q(const char *kind, const tensor *tensors, yk_checkpoint **checkpoint, yk_weight_view *view,
                        yk_err *err)
{
  file_builder f = {0};
  char description[256];
  const temp_dir dir = temp_dir_make();
  for (int i = 0; i < MAX_TENSORS && tensors[i].suffix; i++) {
    char name[64];
    snprintf(name, sizeof name, Q ".%s", tensors[i].suffix);
    add(&f, name, tensors[i].dtype, tensors[i].shape, tensors[i].n, tensors[i].value);
  }
  snprintf(description, sizeof description, "{'" Q ".weight': '%s'}", kind);
  *checkpoint = NULL;
  yk_status status = open_with(&dir, &f, description, NULL, checkpoint, err);
  temp_dir_remove(&dir); /* mapped data stays */
  return status == YK_OK ? yk_checkpoint_linear(*checkpoint, Q, 8, 8, false, view, err) : status;
}

#define WEIGHT                                                                                                         \
  {                                                                                                                    \
    "weight", "I8", "[8,8]", 64, 3                                                                                     \
  }
#define STATIC_TENSORS                                                                                                 \
  WEIGHT, {"input_scale", "F32", "[1]", 1, 0.5}, {"input_offset", "F32", "[1]", 1, -7},                                \
  {                                                                                                                    \
    "quant_bias", "I32", "[8]", 8, 9                                                                                   \
  }

static void layers_of_each_kind(void **state)
{
  (void)state;
  yk_checkpoint *checkpoint;
  yk_weight_view view;
  yk_err err = YK_ERR_INIT;
  static const tensor grouped[MAX_TENSORS] = {
      WEIGHT, {"weight_scale", "F32", "[8,2]", 16, 0.5}, {"weight_offset", "F32", "[8,2]", 16, 4}};
  expect_ok("groups", read_q("W8A16", grouped, &checkpoint, &view, &err), &err);
  assert_true(view.format == YK_WEIGHT_INT8 && view.packing == YK_PACKING_ROWS && view.group == 4 && view.has_zeros);
  assert_true(view.qzeros != NULL && view.inputs.kind == YK_INPUTS_FLOAT && !view.folds_bias);
  assert_string_equal(view.tensor, Q ".weight");
  yk_checkpoint_close(checkpoint);
  static const tensor channel[MAX_TENSORS] = {WEIGHT, {"weight_scale", "F16", "[8]", 8, 0.5}};
  expect_ok("channel", read_q("W8A16", channel, &checkpoint, &view, &err), &err);
  assert_true(view.group == 8 && view.dtype == YK_F16 && !view.has_zeros && !view.qzeros);
  yk_checkpoint_close(checkpoint);
  static const tensor token[MAX_TENSORS] = {
      WEIGHT, {"weight_scale", "F32", "[8,1]", 8, 0.5}, {"weight_offset", "F32", "[8,1]", 8, 0}};
  expect_ok("token", read_q("W8A8_DYNAMIC", token, &checkpoint, &view, &err), &err);
  assert_true(view.inputs.kind == YK_INPUTS_PER_TOKEN && !view.has_zeros && view.group == 8 && !view.folds_bias);
  yk_checkpoint_close(checkpoint);
  for (int is_i64 = 0; is_i64 < 2; is_i64++) {
    const tensor fixed[MAX_TENSORS] = {STATIC_TENSORS, {"deq_scale", is_i64 ? "I64" : "F32", "[8]", 8, 0.25}};
    expect_ok("static", read_q(is_i64 ? "W8A8S" : "W8A8", fixed, &checkpoint, &view, &err), &err);
    assert_true(view.inputs.kind == YK_INPUTS_STATIC && view.inputs.scale == 0.5f && view.inputs.zero == -7);
    assert_true(view.packing == (is_i64 ? YK_PACKING_PRODUCTS_I64 : YK_PACKING_PRODUCTS) && view.folds_bias);
    float bias[8];
    expect_ok("bias", yk_folded_bias(&view, 0, 8, bias, &err), &err);
    for (int n = 0; n < 8; n++) assert_true(bias[n] == (9 - 7 * 8 * 3) * 0.25f);
    yk_checkpoint_close(checkpoint);
  }
}

static const struct {
  const char *kind;
  tensor tensors[MAX_TENSORS];
  yk_status status;
  const char *words;
} bad_tensor_cases[] = {
    {"W8A16", {{"weight", "F16", "[8,8]", 64, 1}}, YK_E_FORMAT, "_w8a8.safetensors|" Q ".weight|I8 [8, 8]|F16 [8, 8]"},
    {"W8A16", {{"weight", "I8", "[4,8]", 32, 1}}, YK_E_FORMAT, Q ".weight|[8, 8]|found I8 [4, 8]"},
    {"W8A16", {WEIGHT}, YK_E_FORMAT, Q ".weight_scale is missing|[8, 1]"},
    {"W8A16", {WEIGHT, {"weight_scale", "F32", "[8,3]", 24, 1}}, YK_E_FORMAT, Q ".weight_scale|[8, 1]|F32 [8, 3]"},
    {"W8A16", {WEIGHT, {"weight_scale", "I32", "[8]", 8, 1}}, YK_E_FORMAT, Q ".weight_scale|found I32 [8]"},
    {"W8A16",
     {WEIGHT, {"weight_scale", "F32", "[8]", 8, 1}, {"weight_offset", "F32", "[8,1]", 8, 1}},
     YK_E_FORMAT,
     Q ".weight_offset|expected F16, BF16 or F32 [8]"},
    {"W8A16",
     {WEIGHT, {"weight_scale", "F32", "[8]", 8, 1}, {"weight_offset", "F16", "[8]", 8, 1}},
     YK_E_FORMAT,
     Q ".weight_offset|type of weight_scale, float32|float16"},
    {"W8A8_DYNAMIC",
     {WEIGHT, {"weight_scale", "F32", "[8,2]", 16, 1}},
     YK_E_FORMAT,
     Q ".weight_scale|[8, 1]|F32 [8, 2]"},
    {"W8A8_DYNAMIC",
     {WEIGHT, {"weight_scale", "F32", "[8]", 8, 1}, {"weight_offset", "F32", "[8]", 8, 3}},
     YK_E_UNSUPPORTED,
     Q ".weight_offset|output 0: 3|supported: 0"},
    {"W8A8", {WEIGHT}, YK_E_FORMAT, Q ".deq_scale is missing"},
    {"W8A8", {WEIGHT, {"deq_scale", "F32", "[8]", 8, 1}}, YK_E_FORMAT, Q ".quant_bias is missing|I32 [8]"},
    {"W8A8", {STATIC_TENSORS, {"deq_scale", "F16", "[8]", 8, 1}}, YK_E_FORMAT, Q ".deq_scale|F32 or I64, found F16"},
    {"W8A8", {STATIC_TENSORS, {"deq_scale", "F32", "[4]", 4, 1}}, YK_E_FORMAT, Q ".deq_scale|[8]|found F32 [4]"},
    {"W8A8",
     {WEIGHT, {"deq_scale", "F32", "[8]", 8, 1}, {"quant_bias", "I32", "[8]", 8, 1}},
     YK_E_FORMAT,
     Q ".input_scale is missing"},
    {"W8A8",
     {WEIGHT,
      {"deq_scale", "F32", "[8]", 8, 1},
      {"quant_bias", "I32", "[8]", 8, 1},
      {"input_scale", "F32", "[1]", 1, 0},
      {"input_offset", "F32", "[]", 1, 0}},
     YK_E_FORMAT,
     Q ".input_scale|above 0, found 0"},
    {"W8A8",
     {WEIGHT,
      {"deq_scale", "F32", "[8]", 8, 1},
      {"quant_bias", "I32", "[8]", 8, 1},
      {"input_scale", "F32", "[1]", 1, 1},
      {"input_offset", "F32", "[1]", 1, 2.5}},
     YK_E_FORMAT,
     Q ".input_offset|whole number of -128 to 127, found 2.5"},
    {"FLOAT", {WEIGHT}, YK_E_FORMAT, Q ".weight|F16, BF16 or F32 [8, 8]|found I8 [8, 8]"},
};

static void bad_tensors(void **state)
{
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof bad_tensor_cases / sizeof *bad_tensor_cases); i++) {
    yk_checkpoint *checkpoint;
    yk_weight_view view;
    yk_err err = YK_ERR_INIT;
    char what[32];
    snprintf(what, sizeof what, "case %zu", i);
    expect_error(what, bad_tensor_cases[i].status, bad_tensor_cases[i].words,
                 read_q(bad_tensor_cases[i].kind, bad_tensor_cases[i].tensors, &checkpoint, &view, &err), &err);
    yk_checkpoint_close(checkpoint);
  }
}

/* Scales and offsets of K, which has 8 channels, in the file's form. */
static yk_status read_k_channels(const tensor *scale, const tensor *offset, int64_t first, int64_t n, float *scales,
                                 float *offsets, yk_err *err)
{
  static const char module[] = "model.layers.0.self_attn.k_proj";
  const temp_dir dir = temp_dir_make();
  file_builder f = {0};
  char name[64];
  const tensor *const tensors[] = {scale, offset};
  for (int i = 0; i < 2; i++) {
    if (!tensors[i]) continue;
    snprintf(name, sizeof name, "%s.%s", module, tensors[i]->suffix);
    add(&f, name, tensors[i]->dtype, tensors[i]->shape, tensors[i]->n, tensors[i]->value);
  }
  yk_checkpoint *checkpoint = NULL;
  yk_status status = open_with(&dir, &f, "{'kv_cache_type': 'C8'}", NULL, &checkpoint, err);
  temp_dir_remove(&dir);
  if (status == YK_OK) status = yk_checkpoint_kv_channels(checkpoint, YK_ROLE_K, 0, first, n, scales, offsets, err);
  yk_checkpoint_close(checkpoint);
  return status;
}

static void scales_of_the_cache(void **state)
{
  (void)state;
  float scales[4], offsets[4];
  yk_err err = YK_ERR_INIT;
  const tensor good_scale = {"kv_cache_scale", "F32", "[8]", 8, 0.5};
  const tensor good_offset = {"kv_cache_offset", "F32", "[8]", 8, -7};
  expect_ok("scales", read_k_channels(&good_scale, &good_offset, 4, 4, scales, offsets, &err), &err);
  for (int i = 0; i < 4; i++) assert_true(scales[i] == 0.5f && offsets[i] == -7.0f);
  const struct {
    tensor scale, offset;
    const char *words;
  } cases[] = {{{"weight_scale", "F32", "[8]", 8, 1}, good_offset, "k_proj.kv_cache_scale|missing"},
               {good_scale, {"weight_offset", "F32", "[8]", 8, 1}, "k_proj.kv_cache_offset|missing"},
               {{"kv_cache_scale", "F32", "[4]", 4, 1}, good_offset, "k_proj.kv_cache_scale|[8]|[4]"},
               {{"kv_cache_scale", "I8", "[8]", 8, 1}, good_offset, "k_proj.kv_cache_scale|I8"},
               {{"kv_cache_scale", "F32", "[8]", 8, 0}, good_offset, "k_proj.kv_cache_scale|above 0, found 0"},
               {{"kv_cache_scale", "F32", "[8]", 8, -1}, good_offset, "k_proj.kv_cache_scale|above 0, found -1"},
               {{"kv_cache_scale", "F32", "[8]", 8, (double)NAN}, good_offset, "k_proj.kv_cache_scale|found nan"},
               {good_scale, {"kv_cache_offset", "F32", "[8]", 8, (double)INFINITY}, "kv_cache_offset|found inf"}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++)
    expect_error(cases[i].words, YK_E_FORMAT, cases[i].words,
                 read_k_channels(&cases[i].scale, &cases[i].offset, 0, 4, scales, offsets, &err), &err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scales_of_the_cache),
      cmocka_unit_test(layers_of_each_kind),
      cmocka_unit_test(bad_tensors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
