/* msmodelslim's checkpoints: what the description may say, the tensors of each kind of layer and norm, what is folded
 * into biases; and every way in which a file can be wrong. */
#include <inttypes.h>
#include <math.h>

#include "unit/loader_fixture.h"

#include "base/dtype.h"
#include "loader/checkpoint.h"
#include "loader/folded_bias.h"
#include "loader/quant_rules.h"

#define Q    "model.layers.0.self_attn.q_proj"
#define DOWN "model.layers.0.mlp.down_proj"
#define NORM "model.layers.0.input_layernorm"

static const char config_text[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8, \"intermediate_size\": 8, \"num_hidden_layers\": "
    "1,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 2, \"vocab_size\": 16, \"max_position_embeddings\": 32}";

/* ' for ", which keeps tables readable. */
static const char *quoted(const char *text)
{
  static char copy[4096];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *c = copy; *c; c++)
    if (*c == '\'') *c = '"';
  return copy;
}

/* ---- The description --------------------------------------------------------------------------------------------- */

static yk_status parse(const char *description, yk_model_config *out, yk_err *err)
{
  const char *text = quoted(description);
  const yk_config_texts texts = {.config = config_text,
                                 .config_bytes = sizeof config_text - 1,
                                 .description = text,
                                 .description_bytes = strlen(text),
                                 .description_file = "quant_model_description.json"};
  return yk_model_config_parse(&texts, NULL, out, err);
}

static void expect_scheme(const yk_model_config *config, const char *module, const yk_quant_scheme *expected)
{
  const yk_quant_scheme *scheme;
  yk_err err = YK_ERR_INIT;
  expect_ok(module, yk_quant_scheme_of(&config->quant, module, &scheme, &err), &err);
  assert_int_equal(scheme != NULL, expected != NULL);
  if (!scheme) return;
  assert_int_equal(scheme->format, YK_WEIGHT_INT8);
  assert_int_equal(scheme->packing, expected->packing);
  assert_int_equal(scheme->group_size, expected->group_size);
  assert_int_equal(scheme->zeros, expected->zeros);
  assert_int_equal(scheme->inputs, expected->inputs);
}

static void descriptions(void **state)
{
  (void)state;
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_ok(
      "description",
      parse("{'model_quant_type': 'W8A8', 'version': '1.0.0', 'group_size': 64, 'metadata': {}, 'kv_cache_type':"
            " null, 'kv_quant_type': '', 'fa_quant_type': 'FLOAT', 'a.weight': 'W8A16', 'a.weight_scale': 'W8A16',"
            " 'b.weight': 'W8A8', 'b.bias': 'FLOAT', 'c.weight': 'W8A8S', 'c.deq_scale': 'W8A8S',"
            " 'd.weight': 'W8A8_DYNAMIC', 'e.weight': 'FLOAT', 'n.module.weight': 'W8A8'}",
            &config, &err),
      &err);
  assert_int_equal(config.quant.method, YK_QUANT_MSMODELSLIM);
  assert_true(config.quant.only_named);
  const yk_quant_scheme floats = {.packing = YK_PACKING_ROWS, .group_size = 64, .zeros = YK_ZEROS_OPTIONAL};
  const yk_quant_scheme fixed = {
      .packing = YK_PACKING_PRODUCTS, .group_size = -1, .zeros = YK_ZEROS_NONE, .inputs = YK_INPUTS_STATIC};
  const yk_quant_scheme token = {
      .packing = YK_PACKING_ROWS, .group_size = -1, .zeros = YK_ZEROS_NONE, .inputs = YK_INPUTS_PER_TOKEN};
  expect_scheme(&config, "a", &floats);
  expect_scheme(&config, "b", &fixed);
  expect_scheme(&config, "c", &fixed);
  expect_scheme(&config, "d", &token);
  expect_scheme(&config, "e", NULL);
  expect_scheme(&config, "f", NULL);
  yk_model_config_free(&config);
  expect_ok("no groups", parse("{'group_size': 0, 'a.weight': 'W8A16'}", &config, &err), &err);
  expect_scheme(&config, "a",
                &(yk_quant_scheme){.packing = YK_PACKING_ROWS, .group_size = -1, .zeros = YK_ZEROS_OPTIONAL});
  yk_model_config_free(&config);
}

static void caches_of_8_bits(void **state)
{
  (void)state;
  static const char *const descriptions[] = {
      "{'kv_cache_type': 'C8', 'a.k_proj.kv_cache_scale': 'C8', 'a.k_proj.kv_cache_offset': 'W8A8'}",
      "{'kv_quant_type': 'C8', 'a.v_proj.kv_cache_scale': 'FLOAT'}", "{'kv_cache_type': 'FLOAT'}"};
  for (int i = 0; i < 3; i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_ok(descriptions[i], parse(descriptions[i], &config, &err), &err);
    assert_int_equal(config.quant.kv_format, i < 2 ? YK_KV_INT8 : YK_KV_ACT);
    yk_model_config_free(&config);
  }
}

static void bad_descriptions(void **state)
{
  (void)state;
  static const struct {
    const char *description;
    yk_status status;
    const char *words;
  } cases[] = {
      {"[]", YK_E_FORMAT, "quant_model_description.json|expected an object, found array"},
      {"{'a.weight': 'W8A16'", YK_E_FORMAT, "quant_model_description.json|line 1"},
      {"{'a.weight': 'W8A16', 'a.weight': 'FLOAT'}", YK_E_FORMAT, "duplicate"},
      {"{'a.weight': 'W4A16'}", YK_E_UNSUPPORTED, "a.weight: \"W4A16\"|supported: FLOAT, W8A16, W8A8, W8A8S"},
      {"{'a.weight': 'W8A8_MIX'}", YK_E_UNSUPPORTED, "a.weight: \"W8A8_MIX\""},
      {"{'k_proj.kv_cache_scale': 'C8'}", YK_E_UNSUPPORTED, "k_proj.kv_cache_scale: \"C8\""},
      {"{'kv_cache_type': 'C4'}", YK_E_UNSUPPORTED, "kv_cache_type \"C4\"|supported: FLOAT, C8"},
      {"{'kv_quant_type': 'C16'}", YK_E_UNSUPPORTED, "kv_quant_type \"C16\"|supported: FLOAT, C8"},
      {"{'fa_quant_type': 'C8'}", YK_E_UNSUPPORTED, "fa_quant_type \"C8\"|supported: FLOAT"},
      {"{'kv_cache_type': 'C8', 'k_proj.weight': 'C8'}", YK_E_UNSUPPORTED, "k_proj.weight: \"C8\""},
      {"{'fa_quant_type': 'FAQuant'}", YK_E_UNSUPPORTED, "fa_quant_type \"FAQuant\""},
      {"{'reduce_quant_type': {'a': 1}}", YK_E_UNSUPPORTED, "reduce_quant_type"},
      {"{'a.weight': 1}", YK_E_FORMAT, "\"a.weight\"|found integer"},
      {"{'a.weight': 'FLOAT', 'a.weight_scale': 'W8A16'}", YK_E_FORMAT, "a.weight_scale|\"FLOAT\"|found \"W8A16\""},
      {"{'a.deq_scale': 'W8A8'}", YK_E_FORMAT, "\"a.weight\"|no such key"},
      {"{'group_size': 48, 'a.weight': 'W8A16'}", YK_E_UNSUPPORTED, "group_size 48"},
      {"{'group_size': '64'}", YK_E_FORMAT, "\"group_size\"|found string"},
      {"{'.weight': 'W8A16'}", YK_E_FORMAT, "module's name of 1 to"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].description, cases[i].status, cases[i].words, parse(cases[i].description, &config, &err),
                 &err);
  }
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* A file's tensors, as they are added; names may be in any order. */
typedef struct file_builder {
  char header[4096], data[4096];
  size_t n_data;
} file_builder;

/* value: of every element, as the type has it. */
static void add(file_builder *f, const char *name, const char *dtype, const char *shape, int64_t n, double value)
{
  size_t used = strlen(f->header), begin = f->n_data;
  for (int64_t i = 0; i < n; i++) {
    char *to = f->data + f->n_data;
    float f32 = (float)value;
    uint16_t f16 = yk_f32_to_f16(f32);
    int32_t i32 = (int32_t)value;
    int64_t i64 = 0;
    memcpy(&i64, &f32, 4); /* as deq_scale has it */
    if (strcmp(dtype, "I8") == 0) *to = (char)i32;
    if (strcmp(dtype, "F16") == 0) memcpy(to, &f16, 2);
    if (strcmp(dtype, "F32") == 0) memcpy(to, &f32, 4);
    if (strcmp(dtype, "I32") == 0) memcpy(to, &i32, 4);
    if (strcmp(dtype, "I64") == 0) memcpy(to, &i64, 8);
    f->n_data += dtype[1] == '8' ? 1 : (size_t)atoi(dtype + 1) / 8;
  }
  snprintf(f->header + used, sizeof f->header - used,
           "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", used ? "," : "{", name, dtype, shape,
           begin, f->n_data);
}

static void write_weights(const temp_dir *dir, const char *name, const file_builder *f)
{
  char header[4200];
  snprintf(header, sizeof header, "%s}", f->header[0] ? f->header : "{");
  yk_strbuf image = safetensors_image(header, f->data, f->n_data);
  write_file(dir, name, image.data, image.length);
  yk_strbuf_free(&image);
}

/* A directory of one file and a description, opened. */
static yk_status open_with(const temp_dir *dir, const file_builder *f, const char *description, const yk_log *log,
                           yk_checkpoint **out, yk_err *err)
{
  write_text(dir, "config.json", config_text);
  write_text(dir, "quant_model_description_w8a8.json", quoted(description));
  write_weights(dir, "quant_model_weight_w8a8.safetensors", f);
  return yk_checkpoint_open(dir->path, log, out, err);
}

typedef struct tensor {
  const char *suffix, *dtype, *shape;
  int64_t n;
  double value;
} tensor;

enum { MAX_TENSORS = 5 };

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
  temp_dir_remove(&dir); /* what is mapped stays */
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

static void bad_tensors(void **state)
{
  (void)state;
  static const struct {
    const char *kind;
    tensor tensors[MAX_TENSORS];
    yk_status status;
    const char *words;
  } cases[] = {
      {"W8A16",
       {{"weight", "F16", "[8,8]", 64, 1}},
       YK_E_FORMAT,
       "_w8a8.safetensors|" Q ".weight|I8 [8, 8]|F16 [8, 8]"},
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
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_checkpoint *checkpoint;
    yk_weight_view view;
    yk_err err = YK_ERR_INIT;
    char what[32];
    snprintf(what, sizeof what, "case %zu", i);
    expect_error(what, cases[i].status, cases[i].words,
                 read_q(cases[i].kind, cases[i].tensors, &checkpoint, &view, &err), &err);
    yk_checkpoint_close(checkpoint);
  }
}

/* ---- KV cache ---------------------------------------------------------------------------------------------------- */

/* Scales and offsets of K, of which there are 8 channels, as the file has them. */
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
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    expect_error(cases[i].words, YK_E_FORMAT, cases[i].words,
                 read_k_channels(&cases[i].scale, &cases[i].offset, 0, 4, scales, offsets, &err), &err);
}

/* ---- Norms ------------------------------------------------------------------------------------------------------- */

/* A directory whose norm has these tensors; q is of a kind, k and v are quantised. */
static yk_status read_norm(const tensor *tensors, const char *kind_of_q, yk_weight_view *q, yk_vector_view *norm,
                           yk_checkpoint **checkpoint, yk_err *err)
{
  file_builder f = {0};
  char description[512];
  const temp_dir dir = temp_dir_make();
  for (int i = 0; i < MAX_TENSORS && tensors[i].suffix; i++)
    add(&f, tensors[i].suffix, tensors[i].dtype, tensors[i].shape, tensors[i].n, tensors[i].value);
  static const char *const modules[] = {"q", "k", "v"};
  snprintf(description, sizeof description, "{");
  for (int i = 0; i < 3; i++) {
    char name[80];
    const char *kind = i == 0 ? kind_of_q : "W8A16";
    snprintf(name, sizeof name, "model.layers.0.self_attn.%s_proj.weight", modules[i]);
    add(&f, name, strcmp(kind, "FLOAT") == 0 ? "F16" : "I8", "[8,8]", 64, 1);
    snprintf(description + strlen(description), sizeof description - strlen(description), "%s'%s': '%s'", i ? ", " : "",
             name, kind);
  }
  snprintf(description + strlen(description), sizeof description - strlen(description), "}");
  *checkpoint = NULL;
  yk_status status = open_with(&dir, &f, description, NULL, checkpoint, err);
  temp_dir_remove(&dir);
  if (status == YK_OK) status = yk_checkpoint_norm(*checkpoint, YK_ROLE_ATTENTION_NORM, 0, 8, norm, err);
  *q = (yk_weight_view){.k = 8, .n = 8, .inputs = {.kind = YK_INPUTS_PER_TOKEN}};
  if (status == YK_OK) status = yk_checkpoint_add_offset(*checkpoint, YK_ROLE_Q, 0, q, err);
  return status;
}

static float first_of(const void *data)
{
  float value;
  memcpy(&value, data, sizeof value);
  return value;
}

#define PLAIN_NORM                                                                                                     \
  {                                                                                                                    \
    NORM ".weight", "F32", "[8]", 8, 1                                                                                 \
  }
#define SCALED_NORM                                                                                                    \
  {                                                                                                                    \
    NORM ".module.weight", "F32", "[8]", 8, 2                                                                          \
  }
#define SAME_NORM                                                                                                      \
  {                                                                                                                    \
    NORM ".module.weight", "F32", "[8]", 8, 1                                                                          \
  }
#define OFFSET                                                                                                         \
  {                                                                                                                    \
    NORM ".module.bias", "F32", "[8]", 8, 5                                                                            \
  }
#define NO_OFFSET                                                                                                      \
  {                                                                                                                    \
    NORM ".module.bias", "F32", "[8]", 8, 0                                                                            \
  }
#define NEW_OFFSET                                                                                                     \
  {                                                                                                                    \
    NORM ".bias", "F32", "[8]", 8, 6                                                                                   \
  }

static void norms(void **state)
{
  (void)state;
  static const struct {
    const char *what;
    tensor tensors[MAX_TENSORS];
    const char *kind_of_q;
    float weight, offset; /* 0: none */
  } cases[] = {{"scaled", {PLAIN_NORM, SCALED_NORM, OFFSET}, "W8A16", 2, 5},
               {"scaled alone", {SCALED_NORM, OFFSET}, "W8A16", 2, 5},
               {"scaled alone, read by floats too", {SCALED_NORM, OFFSET}, "FLOAT", 2, 5},
               {"zeros", {PLAIN_NORM, SCALED_NORM, NO_OFFSET}, "W8A16", 2, 0},
               {"the same", {PLAIN_NORM, SAME_NORM, NO_OFFSET}, "FLOAT", 1, 0},
               {"newer", {PLAIN_NORM, NEW_OFFSET}, "FLOAT", 1, 6},
               {"plain", {PLAIN_NORM}, "W8A16", 1, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_checkpoint *checkpoint;
    yk_weight_view q;
    yk_vector_view norm;
    yk_err err = YK_ERR_INIT;
    expect_ok(cases[i].what, read_norm(cases[i].tensors, cases[i].kind_of_q, &q, &norm, &checkpoint, &err), &err);
    if (first_of(norm.data) != cases[i].weight || (q.x_offset ? first_of(q.x_offset) : 0) != cases[i].offset)
      fail_msg("%s: weight %g", cases[i].what, (double)first_of(norm.data));
    assert_int_equal(q.folds_bias, cases[i].offset != 0);
    assert_int_equal(q.inputs.kind, cases[i].offset != 0 ? YK_INPUTS_FLOAT : YK_INPUTS_PER_TOKEN);
    yk_checkpoint_close(checkpoint);
  }
}

static void bad_norms(void **state)
{
  (void)state;
  static const struct {
    const char *what;
    tensor tensors[MAX_TENSORS];
    yk_status status;
    const char *words;
  } cases[] = {
      {"two", {PLAIN_NORM, SCALED_NORM}, YK_E_UNSUPPORTED, "_proj reads " NORM ".module.weight|" Q " reads"},
      {"an offset for some", {PLAIN_NORM, SAME_NORM, OFFSET}, YK_E_UNSUPPORTED, "norms that differ"},
      {"missing", {{"x", "F32", "[8]", 8, 1}}, YK_E_FORMAT, NORM ".weight is missing"},
      {"shape of the offset",
       {PLAIN_NORM, {NORM ".bias", "F32", "[4]", 4, 1}},
       YK_E_FORMAT,
       NORM ".bias|[8]|found F32 [4]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_checkpoint *checkpoint;
    yk_weight_view q;
    yk_vector_view norm;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].what, cases[i].status, cases[i].words,
                 read_norm(cases[i].tensors, "FLOAT", &q, &norm, &checkpoint, &err), &err);
    yk_checkpoint_close(checkpoint);
  }
  static const tensor final[MAX_TENSORS] = {
      PLAIN_NORM, {"model.norm.weight", "F32", "[8]", 8, 1}, {"model.norm.bias", "F32", "[8]", 8, 1}};
  yk_checkpoint *checkpoint;
  yk_weight_view q;
  yk_vector_view norm;
  yk_err err = YK_ERR_INIT;
  expect_ok("final", read_norm(final, "FLOAT", &q, &norm, &checkpoint, &err), &err);
  expect_error("final", YK_E_UNSUPPORTED, "model.norm.bias|layers' norms",
               yk_checkpoint_norm(checkpoint, YK_ROLE_FINAL_NORM, 0, 8, &norm, &err), &err);
  yk_checkpoint_close(checkpoint);
}

/* ---- Biases ------------------------------------------------------------------------------------------------------ */

/* Offsets before floats and before integers of more inputs and outputs than a block has. */
static void offsets_become_biases(void **state)
{
  (void)state;
  enum { K = 300, N = 140, FIRST = 3 };
  static float plain[N * K], offsets[K], scales[N], zeros[N], own[N], found[N];
  static int8_t bytes[N * K];
  yk_err err = YK_ERR_INIT;
  for (int i = 0; i < N * K; i++) {
    bytes[i] = (int8_t)(i * 37 >> 2);
    plain[i] = (float)(i % 17) / 8 - 1;
  }
  for (int k = 0; k < K; k++) offsets[k] = (float)(k % 5) - 2;
  for (int n = 0; n < N; n++) {
    scales[n] = 0.5f + (float)n;
    zeros[n] = (float)(n % 3);
    own[n] = (float)n;
  }
  yk_weight_view floats = {.k = K, .n = N, .dtype = YK_F32, .plain = plain, .bias = own, .bias_dtype = YK_F32};
  yk_weight_view integers = {.format = YK_WEIGHT_INT8,
                             .packing = YK_PACKING_ROWS,
                             .k = K,
                             .n = N,
                             .group = K,
                             .dtype = YK_F32,
                             .qweight = bytes,
                             .scales = scales,
                             .qzeros = zeros,
                             .has_zeros = true};
  floats.folds_bias = integers.folds_bias = true;
  floats.x_offset = integers.x_offset = offsets;
  floats.x_offset_dtype = integers.x_offset_dtype = YK_F32;
  for (int of_integers = 0; of_integers < 2; of_integers++) {
    expect_ok("fold", yk_folded_bias(of_integers ? &integers : &floats, FIRST, N, found, &err), &err);
    for (int n = FIRST; n < N; n++) {
      double expected = of_integers ? 0 : (double)own[n];
      for (int k = 0; k < K; k++) {
        double w = of_integers ? ((double)bytes[n * K + k] - zeros[n]) * scales[n] : (double)plain[n * K + k];
        expected += w * offsets[k];
      }
      if (fabs(found[n - FIRST] - expected) > 1e-5 * fabs(expected) + 1e-4)
        fail_msg("output %d: %g, expected %g", n, (double)found[n - FIRST], expected);
    }
  }
  offsets[7] = INFINITY;
  expect_error("infinite", YK_E_FORMAT, "a weight|bias of output 3", yk_folded_bias(&floats, FIRST, N, found, &err),
               &err);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

typedef struct log_lines {
  char text[1024];
} log_lines;

static void keep_line(void *user, yk_log_level level, const char *message)
{
  log_lines *lines = user;
  size_t used = strlen(lines->text);
  if (level == YK_LOG_WARN) snprintf(lines->text + used, sizeof lines->text - used, "%s\n", message);
}

static void a_description_is_checked(void **state)
{
  (void)state;
  const temp_dir dir = temp_dir_make();
  log_lines lines = {""};
  const yk_log log = {YK_LOG_DEBUG, keep_line, &lines};
  file_builder f = {0};
  yk_checkpoint *checkpoint;
  yk_err err = YK_ERR_INIT;
  add(&f, DOWN ".weight", "F16", "[8,8]", 64, 1);
  expect_error("missing", YK_E_FORMAT, "description_w8a8.json|" Q ".weight|quant_model_weight_w8a8.safetensors",
               open_with(&dir, &f, "{'" Q ".weight': 'W8A16'}", NULL, &checkpoint, &err), &err);
  expect_ok("lm_head", open_with(&dir, &f, "{'lm_head.weight': 'FLOAT'}", &log, &checkpoint, &err), &err);
  expect_words("warnings", "1 tensor is not in quant_model_weight_w8a8.safetensors|lm_head.weight|not named|" DOWN,
               lines.text);
  yk_checkpoint_close(checkpoint);
  temp_dir_remove(&dir);
}

static void one_set_of_files(void **state)
{
  (void)state;
  const temp_dir dir = temp_dir_make();
  const file_builder empty = {0};
  yk_checkpoint *checkpoint;
  yk_err err = YK_ERR_INIT;
  expect_ok("one", open_with(&dir, &empty, "{}", NULL, &checkpoint, &err), &err);
  yk_checkpoint_close(checkpoint);
  write_weights(&dir, "quant_model_weight_w8a16.safetensors", &empty);
  expect_error("two files", YK_E_FORMAT, "_w8a16.safetensors and quant_model_weight_w8a8.safetensors",
               yk_checkpoint_open(dir.path, NULL, &checkpoint, &err), &err);
  static const char index[] = "quant_model_weight_w8a8.safetensors.index.json";
  write_text(&dir, index, "{\"weight_map\": {\"x\": \"quant_model_weight_w8a8-00001.safetensors\"}}");
  expect_error("missing shard", YK_E_IO, "w8a8.safetensors.index.json: shard quant_model_weight_w8a8-00001.safetensors",
               yk_checkpoint_open(dir.path, NULL, &checkpoint, &err), &err);
  write_text(&dir, index, "{\"weight_map\": {\"x\": \"../x\"}}");
  expect_error("a way out", YK_E_FORMAT, "w8a8.safetensors.index.json|tensor x|../x",
               yk_checkpoint_open(dir.path, NULL, &checkpoint, &err), &err);
  write_text(&dir, "quant_model_weight_x.safetensors.index.json", "{}");
  expect_error("two indices", YK_E_FORMAT, "expected one index|_w8a8.safetensors.index.json|_x.safetensors.index.json",
               yk_checkpoint_open(dir.path, NULL, &checkpoint, &err), &err);
  write_text(&dir, "quant_model_description.json", "{}");
  expect_error("two descriptions", YK_E_FORMAT,
               "expected one file|quant_model_description.json and quant_model_description_w8a8.json",
               yk_checkpoint_open(dir.path, NULL, &checkpoint, &err), &err);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptions),
      cmocka_unit_test(caches_of_8_bits),
      cmocka_unit_test(scales_of_the_cache),
      cmocka_unit_test(bad_descriptions),
      cmocka_unit_test(layers_of_each_kind),
      cmocka_unit_test(bad_tensors),
      cmocka_unit_test(norms),
      cmocka_unit_test(bad_norms),
      cmocka_unit_test(offsets_become_biases),
      cmocka_unit_test(a_description_is_checked),
      cmocka_unit_test(one_set_of_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
