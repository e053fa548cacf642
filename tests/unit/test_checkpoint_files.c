/* Directories that hold something other than a checkpoint, or only its configuration. */
#include "each_case.h"
#include "unit/checkpoint_fixture.h"

static void other_formats_name_the_conversion(void **state)
{
  (void)state;
  static const struct {
    const char *file;
    yk_status status;
    const char *words;
  } cases[] = {
      {"pytorch_model.bin", YK_E_UNSUPPORTED, "pytorch_model.bin|from_pretrained(dir).save_pretrained(dir)"},
      {"pytorch_model-00001-of-00002.bin", YK_E_UNSUPPORTED, ".bin|save_pretrained"},
      {"model-q4_k_m.gguf", YK_E_UNSUPPORTED, "model-q4_k_m.gguf|GGUF|gguf_file=file).save_pretrained(new)"},
      {"consolidated.safetensors", YK_E_UNSUPPORTED, "Mistral's own format|tokenizer.json|convert_"},
      {"params.json", YK_E_UNSUPPORTED, "(params.json, consolidated*.safetensors)"},
      {"consolidated.00.pth", YK_E_UNSUPPORTED, "consolidated.00.pth|convert_"},
      {"weights.safetensors", YK_E_FORMAT, "expected model.safetensors or model.safetensors.index.json|weights"},
      {"notes.txt", YK_E_IO, "expected model.safetensors or model.safetensors.index.json, found neither"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    temp_dir dir = temp_dir_make();
    write_text(&dir, "config.json", tiny_config);
    write_text(&dir, cases[i].file, "x");
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].file, cases[i].status, cases[i].words, read_model(dir.path, NULL, &err), &err);
    temp_dir_remove(&dir);
  }
  yk_err err = YK_ERR_INIT;
  expect_error("no directory", YK_E_IO, "Qwen/Qwen3-8B|local checkpoint directory",
               read_model("Qwen/Qwen3-8B", NULL, &err), &err);
}

/* Something unsupported in the configuration is the reported cause, for any weights. */
static void the_cause_comes_first(void **state)
{
  (void)state;
  static const char mamba[] = "{\"architectures\":[\"MambaForCausalLM\"]}";
  static const char hqq[] = TINY_SIZES ",\"quantization_config\":{\"quant_method\":\"hqq\"}}";
  static const struct {
    const char *config, *weights;
    yk_status status;
    const char *words;
  } cases[] = {
      {mamba, "pytorch_model.bin", YK_E_UNSUPPORTED, "architecture \"MambaForCausalLM\""},
      {mamba, "model.safetensors", YK_E_UNSUPPORTED, "architecture \"MambaForCausalLM\""},
      {mamba, NULL, YK_E_UNSUPPORTED, "architecture \"MambaForCausalLM\""},
      {hqq, "pytorch_model.bin", YK_E_UNSUPPORTED, "quant_method \"hqq\""},
      {hqq, "model.safetensors.index.json", YK_E_UNSUPPORTED, "quant_method \"hqq\""},
      {hqq, NULL, YK_E_UNSUPPORTED, "quant_method \"hqq\""},
      {NULL, "model-q4.gguf", YK_E_UNSUPPORTED, "model-q4.gguf: GGUF is not read"},
      {NULL, "pytorch_model.bin", YK_E_UNSUPPORTED, ".bin weights are not read"},
      {NULL, "notes.txt", YK_E_IO, "config.json|No such file"},
      {NULL, "model.safetensors", YK_E_IO, "config.json|No such file"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    temp_dir dir = temp_dir_make();
    if (cases[i].config) write_text(&dir, "config.json", cases[i].config);
    if (cases[i].weights) write_text(&dir, cases[i].weights, "x");
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].words, cases[i].status, cases[i].words, read_model(dir.path, NULL, &err), &err);
    temp_dir_remove(&dir);
  }
}

static void a_file_is_no_directory(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  char path[128];
  yk_err err = YK_ERR_INIT;
  write_text(&dir, "model-Q4_K_M.gguf", "GGUF");
  snprintf(path, sizeof path, "%s/model-Q4_K_M.gguf", dir.path);
  expect_error("a GGUF file", YK_E_UNSUPPORTED, "model-Q4_K_M.gguf: GGUF is not read|save_pretrained(new)",
               read_model(path, NULL, &err), &err);
  write_text(&dir, "model.safetensors", "x");
  snprintf(path, sizeof path, "%s/model.safetensors", dir.path);
  expect_error("a file", YK_E_IO, "model.safetensors: expected a local checkpoint directory",
               read_model(path, NULL, &err), &err);
  expect_error("no GGUF file", YK_E_IO, "absent.gguf: expected a local checkpoint directory",
               read_model("/tmp/absent.gguf", NULL, &err), &err);
  temp_dir_remove(&dir);
}

/* For sizes the configuration is enough, but not if there are weights of any kind. */
static void formats_are_assumed_where_nothing_is_there(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  yk_checkpoint *checkpoint;
  yk_weight_view view;
  write_text(&dir, "config.json", TINY_SIZES ",\"torch_dtype\":\"bfloat16\"" TINY_AWQ "[\"up_proj\"]}}");
  write_text(&dir, "model.safetensors.index.json", "{}"); /* present where only JSON files were fetched */
  expect_ok("open", yk_checkpoint_open_for_sizes(dir.path, NULL, NULL, &checkpoint, &err), &err);
  assert_false(yk_checkpoint_has_weights(checkpoint));
  expect_ok("q", yk_checkpoint_linear(checkpoint, "model.layers.1.self_attn.q_proj", HIDDEN, HIDDEN, true, &view, &err),
            &err);
  assert_int_equal(view.format, YK_WEIGHT_AWQ);
  assert_int_equal(view.group, GROUP);
  assert_null(view.qweight);
  expect_ok("up", yk_checkpoint_linear(checkpoint, "model.layers.1.mlp.up_proj", HIDDEN, FFN, false, &view, &err),
            &err);
  assert_int_equal(view.format, YK_WEIGHT_PLAIN);
  assert_int_equal(view.dtype, YK_BF16);
  expect_ok("head", yk_checkpoint_linear(checkpoint, "lm_head", HIDDEN, VOCAB, false, &view, &err), &err);
  assert_int_equal(view.format, YK_WEIGHT_PLAIN);
  assert_true(view.k == HIDDEN && view.n == VOCAB && !view.plain);
  expect_ok("embedding", yk_checkpoint_matrix(checkpoint, "model.embed_tokens", VOCAB, HIDDEN, &view, &err), &err);
  assert_int_equal(view.format, YK_WEIGHT_PLAIN);
  expect_error("k", YK_E_FORMAT, "q_proj: 80 inputs|multiple of group_size 32",
               yk_checkpoint_linear(checkpoint, "model.layers.0.self_attn.q_proj", 80, 64, false, &view, &err), &err);
  yk_checkpoint_close(checkpoint);

  expect_error("to load", YK_E_FORMAT, "weight_map", read_model(dir.path, NULL, &err), &err);
  write_text(&dir, "pytorch_model.bin", "x");
  expect_error("another format", YK_E_UNSUPPORTED, "pytorch_model.bin",
               yk_checkpoint_open_for_sizes(dir.path, NULL, NULL, &checkpoint, &err), &err);
  write_text(&dir, "model.safetensors", "x");
  expect_error("broken", YK_E_FORMAT, "model.safetensors|cut short",
               yk_checkpoint_open_for_sizes(dir.path, NULL, NULL, &checkpoint, &err), &err);
  tiny_model model = tiny();
  write_tensors(&dir, "model.safetensors", &model, 0, model.n);
  expect_ok("there", yk_checkpoint_open_for_sizes(dir.path, NULL, NULL, &checkpoint, &err), &err);
  assert_true(yk_checkpoint_has_weights(checkpoint));
  yk_checkpoint_close(checkpoint);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(other_formats_name_the_conversion),
      cmocka_unit_test(the_cause_comes_first),
      cmocka_unit_test(a_file_is_no_directory),
      cmocka_unit_test(formats_are_assumed_where_nothing_is_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
