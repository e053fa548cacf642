/* Checkpoint directories: every weight of a model as a view, and an error that names the fault of a bad one. */
#include "each_case.h"
#include "unit/checkpoint_fixture.h"

static void single_file(void **state)
{
  (void)state;
  tiny_model model = tiny();
  add(&model, "model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 1, 8, 0); /* present in older files: no remark */
  temp_dir dir = tiny_dir(&model);
  log_lines lines = {0};
  yk_err err = YK_ERR_INIT;
  expect_ok("tiny", read_model(dir.path, &lines, &err), &err);
  assert_string_equal(lines.text, "");

  yk_checkpoint *checkpoint;
  expect_ok("open", yk_checkpoint_open(dir.path, NULL, &checkpoint, &err), &err);
  yk_weight_view view;
  expect_ok("k", yk_checkpoint_linear(checkpoint, "model.layers.1.self_attn.k_proj", HIDDEN, KV, false, &view, &err),
            &err);
  assert_int_equal(view.format, YK_WEIGHT_AWQ);
  assert_int_equal(view.group, GROUP);
  assert_int_equal(view.dtype, YK_F16);
  assert_null(view.plain);
  assert_null(view.bias);
  int first = (int)(find_spec(&model, "model.layers.1.self_attn.k_proj.qweight") - model.tensors);
  assert_int_equal(*(const uint8_t *)view.qweight, first);
  assert_int_equal(*(const uint8_t *)view.qzeros, first + 1);
  assert_int_equal(*(const uint8_t *)view.scales, first + 2);
  expect_ok("embedding", yk_checkpoint_matrix(checkpoint, "model.embed_tokens", VOCAB, HIDDEN, &view, &err), &err);
  assert_int_equal(view.format, YK_WEIGHT_PLAIN);
  assert_int_equal(view.dtype, YK_BF16);
  assert_int_equal(view.k, HIDDEN);
  assert_int_equal(view.n, VOCAB);
  yk_vector_view vector;
  expect_ok("norm", yk_checkpoint_vector(checkpoint, YK_ROLE_FINAL_NORM, 0, HIDDEN, &vector, &err), &err);
  assert_int_equal(vector.dtype, YK_F32);
  assert_int_equal(vector.n, HIDDEN);
  assert_int_equal(*(const uint8_t *)vector.data, 1);
  yk_checkpoint_close(checkpoint);
  yk_checkpoint_close(NULL);
  temp_dir_remove(&dir);
}

typedef struct bad_tensor {
  const char *name;  /* tensor to change */
  const char *dtype; /* NULL: unchanged */
  int n_dims;        /* 0: unchanged; -1: drop the tensor */
  int64_t dims[2];
  const char *words;
} bad_tensor;

static void wrong_tensors_are_named(void **state)
{
  (void)state;
  static const bad_tensor cases[] = {
      {"model.embed_tokens.weight", NULL, 2, {VOCAB, 60}, "expected F16, BF16 or F32 [40, 64], found BF16 [40, 60]"},
      {"model.embed_tokens.weight", "I32", 0, {0}, "model.embed_tokens.weight|[40, 64], found I32 [40, 64]"},
      {"model.embed_tokens.weight",
       NULL,
       -1,
       {0},
       "tensor model.embed_tokens.weight is missing, expected F16|[40, 64]"},
      {"model.norm.weight", NULL, 1, {63}, "model.norm.weight|[64], found F32 [63]"},
      {"model.norm.weight", NULL, 2, {64, 1}, "model.norm.weight|[64], found F32 [64, 1]"},
      {"lm_head.weight", NULL, 2, {HIDDEN, VOCAB}, "lm_head.weight|[40, 64], found F16 [64, 40]"},
      {"lm_head.weight", NULL, -1, {0}, "model.safetensors|lm_head.weight (or a quantised one) is missing|[40, 64]"},
      {"model.layers.1.input_layernorm.weight", NULL, -1, {0}, "model.layers.1.input_layernorm.weight is missing"},
      {"model.layers.1.mlp.down_proj.qweight",
       NULL,
       -1,
       {0},
       "model.layers.1.mlp.down_proj.weight (or a quantised one)"},
      {"model.layers.1.mlp.down_proj.qzeros", NULL, -1, {0}, "model.layers.1.mlp.down_proj.qzeros is missing|[3, 8]"},
      {"model.layers.1.mlp.down_proj.scales", NULL, -1, {0}, "model.layers.1.mlp.down_proj.scales is missing|[3, 64]"},
      {"model.layers.1.mlp.down_proj.qweight", NULL, 2, {12, 64}, "qweight: expected I32 [96, 8], found I32 [12, 64]"},
      {"model.layers.1.mlp.down_proj.qweight", "F32", 0, {0}, "qweight: expected I32 [96, 8], found F32 [96, 8]"},
      {"model.layers.1.mlp.down_proj.qzeros", NULL, 2, {1, 8}, "qzeros: expected I32 [3, 8], found I32 [1, 8]"},
      {"model.layers.1.mlp.down_proj.scales", "U8", 0, {0}, "scales: expected F16, BF16 or F32 [3, 64], found U8"},
      {"model.layers.1.mlp.down_proj.scales",
       NULL,
       2,
       {3, 8},
       "scales: expected F16, BF16 or F32 [3, 64], found F16 [3, 8]"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    tiny_model model = tiny();
    tensor_spec *spec = find_spec(&model, cases[i].name);
    if (cases[i].dtype) spec->dtype = cases[i].dtype;
    if (cases[i].n_dims > 0) {
      spec->n_dims = cases[i].n_dims;
      memcpy(spec->dims, cases[i].dims, sizeof spec->dims);
    }
    if (cases[i].n_dims < 0) drop(&model, cases[i].name);
    temp_dir dir = tiny_dir(&model);
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].name, YK_E_FORMAT, cases[i].words, read_model(dir.path, NULL, &err), &err);
    temp_dir_remove(&dir);
  }
}

static void formats_must_be_clear(void **state)
{
  (void)state;
  tiny_model model = tiny();
  add(&model, "model.layers.0.self_attn.q_proj.weight", "F16", 2, HIDDEN, HIDDEN);
  temp_dir dir = tiny_dir(&model);
  yk_err err = YK_ERR_INIT;
  expect_error("both", YK_E_FORMAT, "model.layers.0.self_attn.q_proj|found both", read_model(dir.path, NULL, &err),
               &err);
  model = tiny();
  write_tensors(&dir, "model.safetensors", &model, 0, model.n);
  write_text(&dir, "config.json", TINY_SIZES "}");
  expect_error("no quantization_config", YK_E_UNSUPPORTED,
               "model.layers.0.self_attn.q_proj.qweight|config.json has no quantization_config",
               read_model(dir.path, NULL, &err), &err);
  temp_dir_remove(&dir);
}

static void groups_must_divide(void **state)
{
  (void)state;
  tiny_model model = tiny();
  temp_dir dir = tiny_dir(&model);
  yk_err err = YK_ERR_INIT;
  yk_checkpoint *checkpoint;
  yk_weight_view view;
  expect_ok("open", yk_checkpoint_open(dir.path, NULL, &checkpoint, &err), &err);
  expect_error("k", YK_E_FORMAT, "q_proj: 80 inputs|multiple of group_size 32",
               yk_checkpoint_linear(checkpoint, "model.layers.0.self_attn.q_proj", 80, 64, false, &view, &err), &err);
  expect_error("n", YK_E_FORMAT, "q_proj: 60 outputs|multiple of 8",
               yk_checkpoint_linear(checkpoint, "model.layers.0.self_attn.q_proj", 64, 60, false, &view, &err), &err);
  expect_error("bias", YK_E_FORMAT, "q_proj.bias is missing|[64]",
               yk_checkpoint_linear(checkpoint, "model.layers.0.self_attn.q_proj", 64, 64, true, &view, &err), &err);
  yk_checkpoint_close(checkpoint);
  temp_dir_remove(&dir);
}

/* Layers may differ in format; the configuration's statement about them is only compared. */
/* The preset W8A16 has a scale for each output, or groups of 128: the tensor decides. */
static void a_preset_of_two_meanings(void **state)
{
  (void)state;
  enum { K = 256, N = 96 };
  static const char config[] = TINY_SIZES ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
                                          "\"format\":\"pack-quantized\",\"config_groups\":{\"W8A16\":[\"Linear\"]}}}";
  static const char module[] = "model.layers.0.mlp.up_proj";
  for (int groups = 1; groups <= 3; groups++) {
    tiny_model model = {0};
    add(&model, "model.layers.0.mlp.up_proj.weight_packed", "I32", 2, N, K / 4);
    add(&model, "model.layers.0.mlp.up_proj.weight_scale", "BF16", 2, N, groups);
    add(&model, "model.layers.0.mlp.up_proj.weight_shape", "I64", 1, 2, 0);
    model.tensors[2].values[0] = N;
    model.tensors[2].values[1] = K;
    temp_dir dir = temp_dir_make();
    write_text(&dir, "config.json", config);
    write_tensors(&dir, "model.safetensors", &model, 0, model.n);
    yk_checkpoint *checkpoint;
    yk_weight_view view;
    yk_err err = YK_ERR_INIT;
    expect_ok("open", yk_checkpoint_open(dir.path, NULL, &checkpoint, &err), &err);
    yk_status status = yk_checkpoint_linear(checkpoint, module, K, N, false, &view, &err);
    if (groups < 3) {
      expect_ok("view", status, &err);
      assert_int_equal(view.format, YK_WEIGHT_INT8);
      assert_int_equal(view.group, K / groups);
      assert_false(view.has_zeros);
    } else {
      expect_error("view", YK_E_FORMAT, "weight_scale|expected|[96, 2]|found BF16 [96, 3]", status, &err);
    }
    yk_checkpoint_close(checkpoint);
    temp_dir_remove(&dir);
  }
}

static void contradictions_are_warned_of(void **state)
{
  (void)state;
  static const char module[] = "model.layers.1.mlp.up_proj";
  tiny_model model = tiny();
  drop(&model, "model.layers.1.mlp.up_proj.qweight");
  drop(&model, "model.layers.1.mlp.up_proj.qzeros");
  drop(&model, "model.layers.1.mlp.up_proj.scales");
  add(&model, "model.layers.1.mlp.up_proj.weight", "F32", 2, FFN, HIDDEN);
  temp_dir dir = tiny_dir(&model);
  yk_err err = YK_ERR_INIT;
  log_lines lines = {0};
  expect_ok("plain", read_model(dir.path, &lines, &err), &err);
  assert_int_equal(lines.n, 1);
  assert_non_null(strstr(lines.text, module));
  assert_non_null(strstr(lines.text, "is not quantised"));

  write_text(&dir, "config.json", TINY_SIZES TINY_AWQ "[\"layers.1.mlp.up_proj\"]}}");
  lines = (log_lines){0};
  expect_ok("named", read_model(dir.path, &lines, &err), &err);
  assert_string_equal(lines.text, "");

  write_text(&dir, "config.json", TINY_SIZES TINY_AWQ "[\"up_proj\"]}}");
  expect_ok("quantised, though named", read_model(dir.path, &lines, &err), &err);
  assert_int_equal(lines.n, 1);
  assert_non_null(strstr(lines.text, "model.layers.0.mlp.up_proj (1 linear layers in all) is quantised"));
  temp_dir_remove(&dir);
}

static void unused_bias_is_warned_of(void **state)
{
  (void)state;
  tiny_model model = tiny();
  add(&model, "model.layers.0.self_attn.q_proj.bias", "F16", 1, HIDDEN, 0);
  temp_dir dir = tiny_dir(&model);
  yk_err err = YK_ERR_INIT;
  log_lines lines = {0};
  expect_ok("bias", read_model(dir.path, &lines, &err), &err);
  assert_int_equal(lines.n, 1);
  assert_non_null(strstr(lines.text, "model.layers.0.self_attn.q_proj.bias"));
  /* Biases of zeros, which some tools write, need no remark: tensor number 0 is filled with zeros here. */
  tensor_spec bias = model.tensors[model.n - 1];
  model.tensors[model.n - 1] = model.tensors[0];
  model.tensors[0] = bias;
  write_tensors(&dir, "model.safetensors", &model, 0, model.n);
  lines = (log_lines){0};
  expect_ok("zero bias", read_model(dir.path, &lines, &err), &err);
  assert_string_equal(lines.text, "");
  temp_dir_remove(&dir);
}

/* Each kind is mentioned once, with its count and the first name; the tensors that are read do not change. */
static void tensors_without_use_are_mentioned(void **state)
{
  (void)state;
  static const struct {
    const char *names[3], *words;
  } cases[] = {
      {{"model.layers.2.mlp.down_proj.weight", "model.layers.10.mlp.up_proj.qweight", "model.layers.3.x.experts.0.w"},
       "ignored: 3 tensors of layers beyond num_hidden_layers; the first is model.layers.10.mlp.up_proj.qweight"},
      {{"model.layers.99999999999999999999.mlp.down_proj.weight"}, "1 tensor of layers beyond num_hidden_layers"},
      {{"model.layers.1.mlp.up_proj.g_idx", "model.layers.0.mlp.up_proj.g_idx"},
       "2 tensors of group indices (g_idx)|model.layers.0.mlp.up_proj.g_idx"},
      {{"model.layers.0.mlp.experts.3.up_proj.weight", "model.layers.0.mlp.shared_experts.up_proj.qweight"},
       "2 tensors of experts|model.layers.0.mlp.experts.3.up_proj.weight"},
      {{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "model.layers.1.self_attn.q_proj.lora_B"},
       "2 tensors of LoRA adapters, which are not applied|base_model.model.model.layers.0"},
      {{"model.layers.0.self_attn.q_norm.weight", "model.norm.scale", "model.layers.1.mlp.up_proj.weight_scale"},
       "3 tensors that the model has no use for|model.layers.0.self_attn.q_norm.weight"},
      {{"visual.blocks.0.attn.qkv.weight", "model.vision_tower.a.weight", "multi_modal_projector.linear_1.bias"},
       "3 tensors of a vision or audio tower|model.vision_tower.a.weight"},
      {{"mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight"}, "2 tensors of layers that predict further tokens"},
      {{"lm_head.bias", "model.norm.bias", "model.layers.0.mlp.up_proj.bias"},
       "3 tensors of biases that are not zero|lm_head.bias"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    tiny_model model = tiny();
    for (int j = 0; j < 3 && cases[i].names[j]; j++) add(&model, cases[i].names[j], "F16", 1, 8, 0);
    temp_dir dir = tiny_dir(&model);
    yk_err err = YK_ERR_INIT;
    log_lines lines = {0};
    expect_ok(cases[i].names[0], read_model(dir.path, &lines, &err), &err);
    expect_words(cases[i].names[0], cases[i].words, lines.text);
    assert_int_equal(lines.n, 1);
    temp_dir_remove(&dir);
  }
}

/* g_idx of zeros, which some tools leave if they choose no order. */
static void blank_group_indices(void **state)
{
  (void)state;
  static const char config[] =
      TINY_SIZES ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"desc_act\":%s}}";
  static const char module[] = "model.layers.0.mlp.up_proj";
  for (int desc_act = 0; desc_act < 2; desc_act++) {
    char text[1024];
    tiny_model model = {0};
    add(&model, "model.layers.0.mlp.up_proj.g_idx", "I32", 1, HIDDEN, 0); /* tensor number 0 is filled with zeros */
    add(&model, "model.layers.0.mlp.up_proj.qweight", "I32", 2, HIDDEN / 8, FFN);
    add(&model, "model.layers.0.mlp.up_proj.qzeros", "I32", 2, HIDDEN / GROUP, FFN / 8);
    add(&model, "model.layers.0.mlp.up_proj.scales", "F16", 2, HIDDEN / GROUP, FFN);
    temp_dir dir = temp_dir_make();
    snprintf(text, sizeof text, config, desc_act ? "true" : "false");
    write_text(&dir, "config.json", text);
    write_tensors(&dir, "model.safetensors", &model, 0, model.n);
    log_lines lines = {0};
    const yk_log log = {YK_LOG_WARN, keep_line, &lines};
    yk_checkpoint *checkpoint;
    yk_weight_view view;
    yk_err err = YK_ERR_INIT;
    expect_ok("open", yk_checkpoint_open(dir.path, &log, &checkpoint, &err), &err);
    expect_ok("view", yk_checkpoint_linear(checkpoint, module, HIDDEN, FFN, false, &view, &err), &err);
    assert_int_equal(view.act_order, desc_act);
    expect_words("said", desc_act ? "" : "model.layers.0.mlp.up_proj.g_idx (1 in all) is zeros, and desc_act is false",
                 lines.text);
    yk_checkpoint_close(checkpoint);
    temp_dir_remove(&dir);
  }
}

/* A tied model's file may also contain lm_head. */
static void tied_lm_head_is_no_stray(void **state)
{
  (void)state;
  tiny_model model = tiny();
  temp_dir dir = tiny_dir(&model);
  write_text(&dir, "config.json", TINY_SIZES ",\"tie_word_embeddings\":true" TINY_AWQ "null}}");
  yk_err err = YK_ERR_INIT;
  log_lines lines = {0};
  expect_ok("tied", read_model(dir.path, &lines, &err), &err);
  assert_string_equal(lines.text, "");
  temp_dir_remove(&dir);
}

static void expect_tied(const temp_dir *dir, const char *what, bool tied)
{
  yk_checkpoint *checkpoint;
  yk_err err = YK_ERR_INIT;
  char *text;
  expect_ok(what, yk_checkpoint_open(dir->path, NULL, &checkpoint, &err), &err);
  if (yk_checkpoint_config(checkpoint)->tie_word_embeddings != tied) fail_msg("%s", what);
  expect_ok(what, yk_checkpoint_config_text(checkpoint, dir->path, &text, &err), &err);
  expect_words(what, tied ? "\"tie_word_embeddings\":true" : "\"tie_word_embeddings\": false", text);
  free(text);
  yk_checkpoint_close(checkpoint);
}

/* A head in the file counts if it differs from the embedding, independent of the configuration. */
static void own_heads_of_tied_models(void **state)
{
  (void)state;
  static const char config[] = TINY_SIZES ",\"tie_word_embeddings\":true" TINY_AWQ "null}}";
  tiny_model model = tiny();
  temp_dir dir = tiny_dir(&model);
  write_text(&dir, "config.json", config);
  expect_tied(&dir, "other numbers", false);
  drop(&model, "lm_head.weight");
  write_tensors(&dir, "model.safetensors", &model, 0, model.n);
  expect_tied(&dir, "none", true);
  add(&model, "lm_head.qweight", "I32", 2, HIDDEN, 8);
  write_tensors(&dir, "model.safetensors", &model, 0, model.n);
  expect_tied(&dir, "quantised", false);
  temp_dir_remove(&dir);

  dir = temp_dir_make();
  write_text(&dir, "config.json", config);
  static const char header[] =
      "{\"lm_head.weight\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[0,8]},"
      "\"model.embed_tokens.weight\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[8,16]}}";
  yk_strbuf image = safetensors_image(header, "aaaaaaaaaaaaaaaa", 16);
  write_file(&dir, "model.safetensors", image.data, image.length);
  expect_tied(&dir, "the same", true);
  image.data[image.length - 1] = 'b';
  write_file(&dir, "model.safetensors", image.data, image.length);
  expect_tied(&dir, "the last byte differs", false);
  yk_strbuf_free(&image);
  temp_dir_remove(&dir);
}

/* The one remark that loading makes on a golden model, or NULL. */
static const char *remark_on(const char *golden)
{
  static const char *const remarks[][2] = {
      {"moe_glm4", "1 tensor of layers beyond num_hidden_layers"}, /* a layer that predicts a further token */
      {"hybrid_qwen3_5_gptq", "in_proj_b (10 linear layers in all) is not quantised, although"}, /* as in uploads */
  };
  for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
    if (strcmp(golden, remarks[i][0]) == 0) return remarks[i][1];
  return NULL;
}

/* Configurations and files written by transformers itself, of every family and many settings. */
static void golden_models_are_complete(void **state)
{
  (void)state;
  int n = 0;
  DIR *families = opendir(YOKE_TESTS_DIR "/golden/families");
  assert_non_null(families);
  for (struct dirent *entry; (entry = readdir(families));) {
    if (entry->d_name[0] == '.') continue;
    char path[512];
    snprintf(path, sizeof path, YOKE_TESTS_DIR "/golden/families/%s", entry->d_name);
    log_lines lines = {0};
    yk_err err = YK_ERR_INIT;
    expect_ok(entry->d_name, read_model(path, &lines, &err), &err);
    const char *remark = remark_on(entry->d_name);
    if (lines.n != (remark != NULL)) fail_msg("%s: %s", entry->d_name, lines.text);
    if (remark) expect_words(entry->d_name, remark, lines.text);
    n++;
  }
  closedir(families);
  assert_true(n >= 10);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(single_file),
      cmocka_unit_test(wrong_tensors_are_named),
      cmocka_unit_test(formats_must_be_clear),
      cmocka_unit_test(groups_must_divide),
      cmocka_unit_test(a_preset_of_two_meanings),
      cmocka_unit_test(contradictions_are_warned_of),
      cmocka_unit_test(unused_bias_is_warned_of),
      cmocka_unit_test(tensors_without_use_are_mentioned),
      cmocka_unit_test(tied_lm_head_is_no_stray),
      cmocka_unit_test(blank_group_indices),
      cmocka_unit_test(own_heads_of_tied_models),
      cmocka_unit_test(golden_models_are_complete),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
