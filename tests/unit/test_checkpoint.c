/* Checkpoint directories: every weight of a model as a view, and an error that names what is wrong with a bad one. */
#include "unit/loader_fixture.h"

#include "base/json.h"
#include "base/log.h"
#include "loader/checkpoint.h"

/* ---- A tiny model: hidden 64, 4 heads of 16, 2 KV heads, FFN 96, two layers, vocabulary 40, AWQ with groups of 32  */

enum { HIDDEN = 64, KV = 32, FFN = 96, VOCAB = 40, LAYERS = 2, GROUP = 32, MAX_TENSORS = 96 };

typedef struct tensor_spec {
  char name[96];
  const char *dtype;
  int64_t dims[2];
  int n_dims;
  int64_t values[2]; /* of an I64 tensor */
} tensor_spec;

typedef struct tiny_model {
  tensor_spec tensors[MAX_TENSORS];
  int n;
} tiny_model;

static void add(tiny_model *model, const char *name, const char *dtype, int n_dims, int64_t dim0, int64_t dim1)
{
  assert_true(model->n < MAX_TENSORS);
  tensor_spec *spec = &model->tensors[model->n++];
  *spec = (tensor_spec){.dtype = dtype, .dims = {dim0, dim1}, .n_dims = n_dims};
  snprintf(spec->name, sizeof spec->name, "%s", name);
}

static void add_awq(tiny_model *model, int layer, const char *module, int64_t k, int64_t n)
{
  char name[96];
  snprintf(name, sizeof name, "model.layers.%d.%s.qweight", layer, module);
  add(model, name, "I32", 2, k, n / 8);
  snprintf(name, sizeof name, "model.layers.%d.%s.qzeros", layer, module);
  add(model, name, "I32", 2, k / GROUP, n / 8);
  snprintf(name, sizeof name, "model.layers.%d.%s.scales", layer, module);
  add(model, name, "F16", 2, k / GROUP, n);
}

static tiny_model tiny(void)
{
  tiny_model model = {0};
  add(&model, "model.embed_tokens.weight", "BF16", 2, VOCAB, HIDDEN);
  add(&model, "model.norm.weight", "F32", 1, HIDDEN, 0);
  add(&model, "lm_head.weight", "F16", 2, VOCAB, HIDDEN);
  for (int layer = 0; layer < LAYERS; layer++) {
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.input_layernorm.weight", layer);
    add(&model, name, "F16", 1, HIDDEN, 0);
    add_awq(&model, layer, "self_attn.q_proj", HIDDEN, HIDDEN);
    add_awq(&model, layer, "self_attn.k_proj", HIDDEN, KV);
    add_awq(&model, layer, "self_attn.v_proj", HIDDEN, KV);
    add_awq(&model, layer, "self_attn.o_proj", HIDDEN, HIDDEN);
    add_awq(&model, layer, "mlp.gate_proj", HIDDEN, FFN);
    add_awq(&model, layer, "mlp.up_proj", HIDDEN, FFN);
    add_awq(&model, layer, "mlp.down_proj", FFN, HIDDEN);
  }
  return model;
}

static tensor_spec *find_spec(tiny_model *model, const char *name)
{
  for (int i = 0; i < model->n; i++)
    if (strcmp(model->tensors[i].name, name) == 0) return &model->tensors[i];
  fail_msg("no tensor %s", name);
  return NULL;
}

static void drop(tiny_model *model, const char *name)
{
  tensor_spec *spec = find_spec(model, name);
  *spec = model->tensors[--model->n];
}

static int64_t spec_bytes(const tensor_spec *spec)
{
  int64_t size = strstr(spec->dtype, "64") ? 8 : strstr(spec->dtype, "16") ? 2 : strcmp(spec->dtype, "U8") == 0 ? 1 : 4;
  for (int i = 0; i < spec->n_dims; i++) size *= spec->dims[i];
  return size;
}

/* Tensors [begin, end) as one file; the data is the index of each tensor, byte after byte, but for I64. */
static void write_tensors(const temp_dir *dir, const char *file, const tiny_model *model, int begin, int end)
{
  yk_strbuf header = YK_STRBUF_INIT, data = YK_STRBUF_INIT;
  yk_strbuf_append_str(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
  for (int i = begin; i < end; i++) {
    const tensor_spec *spec = &model->tensors[i];
    size_t first = data.length;
    for (int64_t j = 0; j < spec_bytes(spec); j++) {
      const uint8_t *values = (const uint8_t *)spec->values, index = (uint8_t)i;
      yk_strbuf_append(&data, strcmp(spec->dtype, "I64") == 0 ? values + j : &index, 1);
    }
    yk_strbuf_append_fmt(&header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", spec->name, spec->dtype,
                         (long long)spec->dims[0]);
    if (spec->n_dims == 2) yk_strbuf_append_fmt(&header, ",%lld", (long long)spec->dims[1]);
    yk_strbuf_append_fmt(&header, "],\"data_offsets\":[%zu,%zu]}", first, data.length);
  }
  yk_strbuf_append_str(&header, "}");
  yk_strbuf image = safetensors_image(header.data, data.data, data.length);
  write_file(dir, file, image.data, image.length);
  yk_strbuf_free(&image);
  yk_strbuf_free(&header);
  yk_strbuf_free(&data);
}

#define TINY_SIZES                                                                                                     \
  "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,"     \
  "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":40,\"max_position_embeddings\":128"
#define TINY_AWQ                                                                                                       \
  ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemm\","              \
  "\"modules_to_not_convert\":"

static const char tiny_config[] = TINY_SIZES TINY_AWQ "null}}";

static temp_dir tiny_dir(const tiny_model *model)
{
  temp_dir dir = temp_dir_make();
  write_text(&dir, "config.json", tiny_config);
  write_tensors(&dir, "model.safetensors", model, 0, model->n);
  return dir;
}

/* ---- Walking a whole model --------------------------------------------------------------------------------------- */

typedef struct log_lines {
  char text[1024];
  int n;
} log_lines;

static void keep_line(void *user, yk_log_level level, const char *message)
{
  log_lines *lines = user;
  assert_int_equal(level, YK_LOG_WARN);
  size_t used = strlen(lines->text);
  snprintf(lines->text + used, sizeof lines->text - used, "%s\n", message);
  lines->n++;
}

static yk_status read_layer(const yk_checkpoint *checkpoint, int layer, yk_err *err)
{
  const yk_model_config *c = yk_checkpoint_config(checkpoint);
  const int n_experts = c->experts.n_experts > 0 ? c->experts.n_experts : 1;
  char name[YK_WEIGHT_NAME_BYTES];
  yk_vector_view vector;
  if (c->experts.layers[layer] && c->experts.has_choice_bias)
    YK_TRY(yk_checkpoint_choice_bias(checkpoint, layer, n_experts, &vector, err));
  YK_TRY(yk_checkpoint_norm(checkpoint, YK_ROLE_ATTENTION_NORM, layer, c->hidden_size, &vector, err));
  for (int i = 0; i < YK_N_ROLES * n_experts; i++) {
    yk_weight_view view;
    const yk_weight_role role = (yk_weight_role)(i / n_experts);
    if (!yk_weight_is_linear(role) || i % n_experts >= yk_weight_count(c, role, layer)) continue;
    const yk_weight_module m = yk_weight_module_of(c, role);
    yk_weight_name_of_expert(c->family, role, layer, i % n_experts, name);
    YK_TRY(yk_checkpoint_linear(checkpoint, name, m.k, m.n, m.has_bias, &view, err));
    assert_int_equal(view.k, m.k);
    assert_int_equal(view.n, m.n);
    assert_int_equal(view.bias != NULL, m.has_bias && !view.product_bias); /* which holds it */
    yk_checkpoint_prefetch(&view);
  }
  for (yk_weight_role role = YK_ROLE_Q_NORM; c->qk_norm && role <= YK_ROLE_K_NORM; role++) {
    YK_TRY(yk_checkpoint_norm(checkpoint, role, layer, c->head_dim, &vector, err));
  }
  return YK_OK;
}

/* Opens dir and takes every weight that its configuration calls for. */
static yk_status read_model(const char *dir, log_lines *lines, yk_err *err)
{
  yk_log log = {YK_LOG_WARN, keep_line, lines};
  yk_checkpoint *checkpoint = NULL;
  YK_TRY(yk_checkpoint_open(dir, lines ? &log : NULL, &checkpoint, err));
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  yk_weight_view view;
  yk_vector_view vector;
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(config->family, YK_ROLE_EMBEDDING, 0, name);
  yk_status status = yk_checkpoint_matrix(checkpoint, name, config->vocab_size, config->hidden_size, &view, err);
  if (status == YK_OK)
    status = yk_checkpoint_norm(checkpoint, YK_ROLE_FINAL_NORM, 0, config->hidden_size, &vector, err);
  yk_weight_name(config->family, YK_ROLE_LM_HEAD, 0, name);
  if (status == YK_OK && !config->tie_word_embeddings)
    status = yk_checkpoint_linear(checkpoint, name, config->hidden_size, config->vocab_size, false, &view, err);
  for (int layer = 0; status == YK_OK && layer < config->n_layers; layer++) status = read_layer(checkpoint, layer, err);
  yk_checkpoint_close(checkpoint);
  return status;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void single_file(void **state)
{
  (void)state;
  tiny_model model = tiny();
  add(&model, "model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 1, 8, 0); /* older files have it: no remark */
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
  expect_ok("norm", yk_checkpoint_norm(checkpoint, YK_ROLE_FINAL_NORM, 0, HIDDEN, &vector, &err), &err);
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
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
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

/* Layers may differ in format; what the configuration says about them is only compared. */
/* The preset W8A16 is a scale for each output, or groups of 128: the tensor says which. */
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
  assert_non_null(strstr(lines.text, "model.layers.0.mlp.up_proj (1 layers in all) is quantised"));
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
  /* Zeros, as some tools write them, are nothing to speak of: tensor number 0 is filled with zeros here. */
  tensor_spec bias = model.tensors[model.n - 1];
  model.tensors[model.n - 1] = model.tensors[0];
  model.tensors[0] = bias;
  write_tensors(&dir, "model.safetensors", &model, 0, model.n);
  lines = (log_lines){0};
  expect_ok("zero bias", read_model(dir.path, &lines, &err), &err);
  assert_string_equal(lines.text, "");
  temp_dir_remove(&dir);
}

/* Each kind is mentioned once, with its number and the first by name; none of them changes what is read. */
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
      {{"model.layers.0.self_attn.q_norm.weight", "visual.blocks.0.attn.qkv.weight", "model.norm.bias"},
       "3 tensors that the model has no use for|model.layers.0.self_attn.q_norm.weight"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
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

/* A tied model's file may hold lm_head all the same. */
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

/* ---- Shards ------------------------------------------------------------------------------------------------------ */

static const char shard1[] = "model-00001-of-00002.safetensors", shard2[] = "model-00002-of-00002.safetensors";

/* The index of a model whose first `cut` tensors are in the first shard. */
static json_t *sharded_index(const tiny_model *model, int cut)
{
  json_t *map = json_object();
  for (int i = 0; i < model->n; i++)
    json_object_set_new(map, model->tensors[i].name, json_string(i < cut ? shard1 : shard2));
  return json_pack("{s:{s:i},s:o}", "metadata", "total_size", 1, "weight_map", map);
}

static void write_index(const temp_dir *dir, const json_t *index)
{
  char *text = json_dumps(index, 0);
  write_text(dir, "model.safetensors.index.json", text);
  free(text);
}

static temp_dir sharded_dir(const tiny_model *model, json_t **index)
{
  temp_dir dir = temp_dir_make();
  write_text(&dir, "config.json", tiny_config);
  write_tensors(&dir, shard1, model, 0, 20);
  write_tensors(&dir, shard2, model, 20, model->n);
  *index = sharded_index(model, 20);
  write_index(&dir, *index);
  return dir;
}

static void sharded_files(void **state)
{
  (void)state;
  tiny_model model = tiny();
  json_t *index;
  temp_dir dir = sharded_dir(&model, &index);
  yk_err err = YK_ERR_INIT;
  log_lines lines = {0};
  expect_ok("two shards", read_model(dir.path, &lines, &err), &err);
  assert_string_equal(lines.text, "");

  /* In a file but not in the index: used, and said. */
  json_t *map = json_object_get(index, "weight_map");
  json_object_del(map, "model.norm.weight");
  write_index(&dir, index);
  expect_ok("unlisted tensor", read_model(dir.path, &lines, &err), &err);
  assert_int_equal(lines.n, 1);
  assert_non_null(strstr(lines.text, "model.norm.weight"));

  /* In the index but in no file. */
  json_object_set_new(map, "model.norm.weight", json_string(shard1));
  json_object_set_new(map, "model.extra.weight", json_string(shard2));
  write_index(&dir, index);
  expect_error("absent tensor", YK_E_FORMAT, "model.extra.weight|model-00002-of-00002.safetensors|not found",
               read_model(dir.path, NULL, &err), &err);

  /* The index points at the wrong one of two existing files. */
  json_object_del(map, "model.extra.weight");
  json_object_set_new(map, "model.norm.weight", json_string(shard2));
  write_index(&dir, index);
  expect_error("wrong shard", YK_E_FORMAT, "model.norm.weight|model-00002-of-00002.safetensors|not found",
               read_model(dir.path, NULL, &err), &err);

  /* Twice in files: the index decides, without it that is an error. */
  json_object_set_new(map, "model.norm.weight", json_string(shard1));
  tiny_model second = model;
  second.tensors[second.n++] = *find_spec(&model, "lm_head.weight");
  write_tensors(&dir, shard2, &second, 20, second.n);
  write_index(&dir, index);
  expect_ok("listed duplicate", read_model(dir.path, NULL, &err), &err);
  json_object_del(map, "lm_head.weight");
  write_index(&dir, index);
  expect_error("duplicate", YK_E_FORMAT,
               "lm_head.weight is both in|model-00001-of-00002.safetensors|model-00002-of-00002.safetensors",
               read_model(dir.path, NULL, &err), &err);

  write_tensors(&dir, shard2, &model, 20, model.n);
  write_index(&dir, index);
  remove_file(&dir, shard2);
  expect_error("missing shard", YK_E_IO, "model.safetensors.index.json|model-00002-of-00002.safetensors is missing",
               read_model(dir.path, NULL, &err), &err);
  write_text(&dir, shard2, "short");
  expect_error("truncated shard", YK_E_FORMAT, "model-00002-of-00002.safetensors|at least 8 bytes",
               read_model(dir.path, NULL, &err), &err);
  json_decref(index);
  temp_dir_remove(&dir);
}

static void bad_indexes(void **state)
{
  (void)state;
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"{", "model.safetensors.index.json|line 1"},
      {"[]", "model.safetensors.index.json|weight_map|found nothing"},
      {"{\"weight_map\": []}", "weight_map|expected an object, found array"},
      {"{\"weight_map\": {\"a\": 1}}", "weight_map of tensor a|found integer"},
      {"{\"weight_map\": {\"a\": \"\"}}", "weight_map of tensor a"},
      {"{\"weight_map\": {\"a\": \"../x.safetensors\"}}", "weight_map of tensor a|../x.safetensors"},
      {"{\"weight_map\": {\"a\": \"..\"}}", "weight_map of tensor a"},
      {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "weight_map of tensor a|/etc/passwd"},
      {"{\"weight_map\": {\"a\": \"sub/x.safetensors\"}}", "weight_map of tensor a"},
      {"{\"weight_map\": {\"a\": \"x\\u0000.safetensors\"}}", "weight_map of tensor a|NUL"},
      {"{\"weight_map\": {\"a\": \"x\", \"a\": \"y\"}}", "duplicate"},
  };
  temp_dir dir = temp_dir_make();
  write_text(&dir, "config.json", tiny_config);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_text(&dir, "model.safetensors.index.json", cases[i].text);
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].text, YK_E_FORMAT, cases[i].words, read_model(dir.path, NULL, &err), &err);
  }
  temp_dir_remove(&dir);
}

/* ---- Directories that hold something else ------------------------------------------------------------------------ */

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
      {"consolidated.00.pth", YK_E_UNSUPPORTED, "consolidated.00.pth|convert_"},
      {"weights.safetensors", YK_E_FORMAT, "expected model.safetensors or model.safetensors.index.json|weights"},
      {"notes.txt", YK_E_IO, "expected model.safetensors or model.safetensors.index.json, found neither"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
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

/* What the configuration says is not supported is the cause, whatever the weights are. */
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
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
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

/* For sizes the configuration is enough, but not where there are weights, of any kind. */
static void formats_are_assumed_where_nothing_is_there(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  yk_checkpoint *checkpoint;
  yk_weight_view view;
  write_text(&dir, "config.json", TINY_SIZES ",\"torch_dtype\":\"bfloat16\"" TINY_AWQ "[\"up_proj\"]}}");
  write_text(&dir, "model.safetensors.index.json", "{}"); /* comes along where only JSON files were fetched */
  expect_ok("open", yk_checkpoint_open_for_sizes(dir.path, NULL, &checkpoint, &err), &err);
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
               yk_checkpoint_open_for_sizes(dir.path, NULL, &checkpoint, &err), &err);
  write_text(&dir, "model.safetensors", "x");
  expect_error("broken", YK_E_FORMAT, "model.safetensors|at least 8 bytes",
               yk_checkpoint_open_for_sizes(dir.path, NULL, &checkpoint, &err), &err);
  tiny_model model = tiny();
  write_tensors(&dir, "model.safetensors", &model, 0, model.n);
  expect_ok("there", yk_checkpoint_open_for_sizes(dir.path, NULL, &checkpoint, &err), &err);
  assert_true(yk_checkpoint_has_weights(checkpoint));
  yk_checkpoint_close(checkpoint);
  temp_dir_remove(&dir);
}

/* Configurations and files that transformers itself wrote, of every family and many settings. */
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
    bool has_more_layers = strcmp(entry->d_name, "moe_glm4") == 0; /* one that predicts a token further on */
    if (lines.n != has_more_layers) fail_msg("%s: %s", entry->d_name, lines.text);
    if (has_more_layers) expect_words(entry->d_name, "1 tensor of layers beyond num_hidden_layers", lines.text);
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
      cmocka_unit_test(sharded_files),
      cmocka_unit_test(bad_indexes),
      cmocka_unit_test(other_formats_name_the_conversion),
      cmocka_unit_test(the_cause_comes_first),
      cmocka_unit_test(a_file_is_no_directory),
      cmocka_unit_test(formats_are_assumed_where_nothing_is_there),
      cmocka_unit_test(golden_models_are_complete),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
