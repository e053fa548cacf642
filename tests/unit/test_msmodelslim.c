/* msmodelslim's descriptions: their legal contents, and the files next to them. */
#include "unit/msmodelslim_fixture.h"

#include "each_case.h"
#include "loader/model/quant_rules.h"

static yk_status parse(const char *description, yk_model_config *out, yk_err *err)
{
  char *text = double_quoted(description);
  const yk_config_texts texts = {.config = config_text,
                                 .config_bytes = sizeof config_text - 1,
                                 .description = text,
                                 .description_bytes = strlen(text),
                                 .description_file = "quant_model_description.json"};
  yk_status status = yk_model_config_parse(&texts, NULL, out, err);
  free(text);
  return status;
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
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].description, cases[i].status, cases[i].words, parse(cases[i].description, &config, &err),
                 &err);
  }
}

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
      cmocka_unit_test(descriptions),     cmocka_unit_test(caches_of_8_bits),
      cmocka_unit_test(bad_descriptions), cmocka_unit_test(a_description_is_checked),
      cmocka_unit_test(one_set_of_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
