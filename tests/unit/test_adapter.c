/* test_adapter.c - PEFT directories: which adapters are read, with which ranks and scales, and which are refused. */
#include <math.h>

#include "each_case.h"
#include "loader/adapter/adapter.h"
#include "unit/loader_fixture.h"
#include "unit/single_quotes.h"

/* Hidden 8, 4 heads of 4 with 2 KV heads, FFN 12, two layers of which the second has experts. */
static yk_model_config model(void)
{
  static yk_model_config config;
  config = (yk_model_config){.family = YK_FAMILY_QWEN3_MOE,
                             .vocab_size = 32,
                             .hidden_size = 8,
                             .ffn_size = 12,
                             .n_layers = 2,
                             .n_heads = 4,
                             .n_kv_heads = 2,
                             .head_dim = 4};
  config.experts = (yk_experts_config){.n_experts = 2, .ffn_size = 4};
  config.experts.layers[1] = true;
  return config;
}

/* Writes an adapter's weights: tensors as "NAME DTYPE ROWS COLUMNS;", with element number i of the file i / 8. */
static void write_tensors(const temp_dir *dir, const char *tensors)
{
  yk_strbuf header = YK_STRBUF_INIT;
  float data[1024];
  size_t n_bytes = 0;
  for (size_t i = 0; i < 1024; i++) data[i] = (float)i / 8;
  yk_strbuf_append_str(&header, "{");
  for (const char *entry = tensors; *entry; entry = strchr(entry, ';') + 1) {
    char name[128], dtype[16];
    size_t rows, columns;
    assert_int_equal(sscanf(entry, " %127s %15s %zu %zu", name, dtype, &rows, &columns), 4);
    size_t size = rows * columns * (strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0 ? 4 : 2);
    yk_strbuf_append_fmt(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%zu,%zu],\"data_offsets\":[%zu,%zu]}",
                         n_bytes ? "," : "", name, dtype, rows, columns, n_bytes, n_bytes + size);
    n_bytes += size;
  }
  yk_strbuf_append_str(&header, "}");
  assert_true(n_bytes <= sizeof data);
  yk_strbuf image = safetensors_image(header.data, data, n_bytes);
  write_file(dir, "adapter_model.safetensors", image.data, image.length);
  yk_strbuf_free(&image);
  yk_strbuf_free(&header);
}

static void write_config(const temp_dir *dir, const char *members)
{
  char text[2048];
  snprintf(text, sizeof text, "{'peft_type': 'LORA'%s%s}", members[0] ? ", " : "", members);
  char *json = double_quoted(text);
  write_text(dir, "adapter_config.json", json);
  free(json);
}

#define Q_A(rank) "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight F32 " #rank " 8;"
#define Q_B(rank) "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight F32 16 " #rank ";"
#define DOWN      "base_model.model.model.layers.0.mlp.down_proj."

static yk_adapter *open_good(const temp_dir *dir, const char *members, const char *tensors)
{
  yk_err err = YK_ERR_INIT;
  yk_adapter *adapter;
  const yk_model_config config = model();
  write_config(dir, members);
  write_tensors(dir, tensors);
  expect_ok(members, yk_adapter_open(dir->path, &config, 16, &adapter, &err), &err);
  return adapter;
}

static void test_reads_modules(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_adapter *adapter = open_good(&dir,
                                  "'r': 2, 'lora_alpha': 6, 'target_modules': ['q_proj', 'down_proj'], 'bias': 'none', "
                                  "'use_dora': false, 'modules_to_save': null, 'base_model_name_or_path': 'x'",
                                  Q_A(2) Q_B(2) DOWN "lora_A.weight F32 2 12;" DOWN "lora_B.weight F32 8 2;");
  const yk_adapter_module *q = yk_adapter_find(adapter, YK_FAMILY_QWEN3_MOE, YK_ROLE_Q, 0);
  assert_non_null(q);
  assert_int_equal(q->rank, 2);
  assert_true(q->scale == 3);
  assert_true(yk_adapter_element(&q->a, 1, 3) == 11.0f / 8);
  assert_true(yk_adapter_element(&q->b, 3, 1) == (16 + 7) / 8.0f);
  assert_non_null(yk_adapter_find(adapter, YK_FAMILY_QWEN3_MOE, YK_ROLE_DOWN, 0));
  assert_null(yk_adapter_find(adapter, YK_FAMILY_QWEN3_MOE, YK_ROLE_K, 0));
  assert_null(yk_adapter_find(adapter, YK_FAMILY_QWEN3_MOE, YK_ROLE_Q, 1));
  yk_adapter_close(adapter);
  temp_dir_remove(&dir);
}

/* Libraries need an exponential time to compile repetitions of empty texts. */
#define NULLABLE "(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*"

/* Rank and scale of q_proj of layer 0. */
static void test_scales(void **state)
{
  (void)state;
  static const struct {
    const char *members, *tensors;
    int32_t rank;
    float scale;
  } cases[] = {
      {"", Q_A(8) Q_B(8), 8, 1},
      {"'r': 4, 'lora_alpha': 8, 'use_rslora': true", Q_A(4) Q_B(4), 4, 4},
      {"'r': 4, 'lora_alpha': 8, 'target_modules': 'all-linear'", Q_A(4) Q_B(4), 4, 2},
      {"'r': 4, 'lora_alpha': 8, 'target_modules': '.*(?!x)q_proj', 'layers_to_transform': [0]", Q_A(4) Q_B(4), 4, 2},
      {"'r': 4, 'lora_alpha': 8, 'layers_to_transform': 0", Q_A(4) Q_B(4), 4, 2},
      {"'r': 4, 'lora_alpha': 8, 'rank_pattern': {'q_proj': 2}", Q_A(2) Q_B(2), 2, 4},
      {"'r': 4, 'lora_alpha': 8, 'rank_pattern': {'proj': 2}", Q_A(4) Q_B(4), 4, 2},
      {"'r': 4, 'lora_alpha': 8, 'rank_pattern': {'model.layers.0.self_attn.q_proj': 2}", Q_A(2) Q_B(2), 2, 4},
      {"'r': 4, 'lora_alpha': 8, 'alpha_pattern': {'^model.layers.1': 3, '^model.layers.0': 12}", Q_A(4) Q_B(4), 4, 3},
      {"'r': 4, 'lora_alpha': 8, 'alpha_pattern': {'layers.\\\\d+.*(?:k|q)_proj': 16}", Q_A(4) Q_B(4), 4, 4},
      {"'r': 4, 'lora_alpha': 8, 'alpha_pattern': {'(?!q)q_proj': 3, '\\\\bq_proj': 16}", Q_A(4) Q_B(4), 4, 4},
      {"'r': 4, 'lora_alpha': 8, 'alpha_pattern': {'" NULLABLE NULLABLE NULLABLE "': 16}", Q_A(4) Q_B(4), 4, 4},
      {"'r': 4, 'lora_alpha': 8, 'alpha_pattern': {'layers\\\\.[\\\\d].*?q_proj': 16}", Q_A(4) Q_B(4), 4, 4},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    temp_dir dir = temp_dir_make();
    yk_adapter *adapter = open_good(&dir, cases[i].members, cases[i].tensors);
    const yk_adapter_module *q = yk_adapter_find(adapter, YK_FAMILY_QWEN3_MOE, YK_ROLE_Q, 0);
    assert_non_null(q);
    assert_int_equal(q->rank, cases[i].rank);
    assert_true(q->scale == cases[i].scale);
    yk_adapter_close(adapter);
    temp_dir_remove(&dir);
  }
}

#define GOOD "'r': 2"

typedef struct refused {
  const char *members, *tensors;
  yk_status status;
  const char *words;
} refused;

static const refused refused_configs[] = {
    {"'peft_type': 'IA3'", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "adapter_config.json|peft_type|IA3"},
    {"'peft_type': 5", Q_A(2) Q_B(2), YK_E_FORMAT, "peft_type|LORA"},
    {GOOD ", 'use_dora': true", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "use_dora|DoRA"},
    {GOOD ", 'use_qalora': true", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "use_qalora"},
    {GOOD ", 'bias': 'lora_only'", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "bias|lora_only"},
    {GOOD ", 'lora_bias': true", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "lora_bias"},
    {GOOD ", 'modules_to_save': ['lm_head']", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "modules_to_save"},
    {GOOD ", 'fan_in_fan_out': true", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "fan_in_fan_out"},
    {GOOD ", 'layer_replication': [[0, 2]]", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "layer_replication"},
    {GOOD ", 'trainable_token_indices': [1]", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "trainable_token_indices"},
    {GOOD ", 'alora_invocation_tokens': [1]", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "alora_invocation_tokens"},
    {GOOD ", 'init_lora_weights': 'pissa_niter_4'", Q_A(2) Q_B(2), YK_E_UNSUPPORTED, "init_lora_weights|pissa"},
    {"'r': 0", Q_A(2) Q_B(2), YK_E_FORMAT, "r: expected|1 to 1024|found 0"},
    {"'r': 'x'", Q_A(2) Q_B(2), YK_E_FORMAT, "r: expected"},
    {GOOD ", 'lora_alpha': NaN", Q_A(2) Q_B(2), YK_E_FORMAT, "lora_alpha"},
    {GOOD ", 'use_rslora': 1", Q_A(2) Q_B(2), YK_E_FORMAT, "use_rslora"},
    {GOOD ", 'target_modules': 5", Q_A(2) Q_B(2), YK_E_FORMAT, "target_modules"},
    {GOOD ", 'layers_to_transform': ['a']", Q_A(2) Q_B(2), YK_E_FORMAT, "layers_to_transform"},
    {GOOD ", 'rank_pattern': []", Q_A(2) Q_B(2), YK_E_FORMAT, "rank_pattern"},
    {GOOD ", 'rank_pattern': {'q_proj': 0}", Q_A(2) Q_B(2), YK_E_FORMAT, "rank_pattern|q_proj"},
    {GOOD ", 'alpha_pattern': {'q_proj': 'x'}", Q_A(2) Q_B(2), YK_E_FORMAT, "alpha_pattern|q_proj"},
    {GOOD ", 'rank_pattern': {'q_proj': 2.5}", Q_A(2) Q_B(2), YK_E_FORMAT, "rank_pattern|integers|q_proj"},
    {GOOD ", 'lora_alpha': 1e300", Q_A(2) Q_B(2), YK_E_FORMAT, "lora_alpha|float32|q_proj"},
    {GOOD ", 'alpha_pattern': {'q_proj': -1e39}", Q_A(2) Q_B(2), YK_E_FORMAT, "alpha_pattern|float32|q_proj"},
    {GOOD ", 'alpha_pattern': {'(.*.*)*[!?]': 1}", Q_A(2) Q_B(2), YK_E_FORMAT, "alpha_pattern|steps|q_proj"},
    {GOOD ", 'rank_pattern': {'(.*.*)*[!?]': 1}", Q_A(2) Q_B(2), YK_E_FORMAT, "rank_pattern|steps|q_proj"},
    {GOOD ", 'alpha_pattern': {'((.{1,255}){1,255}){1,255}': 1}", Q_A(2) Q_B(2), YK_E_FORMAT,
     "alpha_pattern|too large"},
    {GOOD ", 'alpha_pattern': {'(a': 1}", Q_A(2) Q_B(2), YK_E_FORMAT, "alpha_pattern|(a"},
};

static const refused refused_tensors[] = {
    {"'r': 17", Q_A(17) Q_B(17), YK_E_UNSUPPORTED, "q_proj|max_lora_rank|16|17"},
    {"'r': 4", Q_A(2) Q_B(2), YK_E_FORMAT, "lora_A|[4, 8]|2, 8"},
    {GOOD, Q_A(2), YK_E_FORMAT, "lora_A.weight|lora_B.weight|none"},
    {GOOD, Q_B(2), YK_E_FORMAT, "lora_B.weight|lora_A.weight|none"},
    {GOOD, Q_A(2) "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight F32 12 2;", YK_E_FORMAT,
     "lora_B|[16, 2]|12, 2|another base"},
    {GOOD, "x.lora_A.weight I32 2 8; x.lora_B.weight I32 16 2;", YK_E_FORMAT,
     "tensor x.lora_A|no such module|embeddings or lm_head"},
    {GOOD,
     "model.layers.0.self_attn.q_proj.lora_A.weight I32 2 8; model.layers.0.self_attn.q_proj.lora_B.weight F32 "
     "16 2;",
     YK_E_UNSUPPORTED, "q_proj|BF16|I32"},
    {GOOD,
     "model.layers.2.self_attn.q_proj.lora_A.weight F32 2 8; model.layers.2.self_attn.q_proj.lora_B.weight F32 "
     "16 2;",
     YK_E_FORMAT, "tensor model.layers.2.self_attn.q_proj|no such module"},
    {GOOD, "base_model.model.lm_head.lora_A.weight F32 2 8; base_model.model.lm_head.lora_B.weight F32 32 2;",
     YK_E_FORMAT, "lm_head"},
    {GOOD,
     "model.layers.1.mlp.experts.0.up_proj.lora_A.weight F32 2 8; "
     "model.layers.1.mlp.experts.0.up_proj.lora_B.weight F32 4 2;",
     YK_E_UNSUPPORTED, "experts.0.up_proj|mixture"},
    {GOOD, "model.layers.1.mlp.gate.lora_A.weight F32 2 8; model.layers.1.mlp.gate.lora_B.weight F32 2 2;",
     YK_E_UNSUPPORTED, "mlp.gate|mixture"},
    {GOOD, Q_A(2) Q_B(2) "model.layers.0.self_attn.q_proj.lora_magnitude_vector F32 16 1;", YK_E_UNSUPPORTED, "DoRA"},
    {GOOD, Q_A(2) Q_B(2) "model.embed_tokens.lora_embedding_A F32 2 32;", YK_E_UNSUPPORTED, "embeddings"},
    {GOOD, Q_A(2) Q_B(2) "score.weight F32 2 8;", YK_E_UNSUPPORTED, "score.weight"},
    {GOOD,
     Q_A(2) Q_B(2) "model.layers.0.self_attn.q_proj.lora_A.weight F32 2 8; "
                   "model.layers.0.self_attn.q_proj.lora_B.weight F32 16 2;",
     YK_E_FORMAT, "one adapter of each module"},
    {GOOD, "", YK_E_FORMAT, "none"},
};

static void check_refused(const refused *the_case)
{
  const yk_model_config config = model();
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  yk_adapter *adapter;
  write_config(&dir, the_case->members);
  write_tensors(&dir, the_case->tensors);
  yk_status status = yk_adapter_open(dir.path, &config, 16, &adapter, &err);
  expect_error(the_case->words, the_case->status, the_case->words, status, &err);
  assert_null(adapter);
  temp_dir_remove(&dir);
}

static void test_refuses(void **state)
{
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof refused_configs / sizeof *refused_configs); i++)
    check_refused(&refused_configs[i]);
  for (size_t i = 0; each_case(i, i < sizeof refused_tensors / sizeof *refused_tensors); i++)
    check_refused(&refused_tensors[i]);
}

static void test_missing_files(void **state)
{
  (void)state;
  const yk_model_config config = model();
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  yk_adapter *adapter;
  yk_status status = yk_adapter_open(dir.path, &config, 16, &adapter, &err);
  expect_error("no file", YK_E_IO, "adapter_config.json", status, &err);
  write_config(&dir, GOOD);
  status = yk_adapter_open(dir.path, &config, 16, &adapter, &err);
  expect_error("no weights", YK_E_IO, "adapter_model.safetensors", status, &err);
  write_text(&dir, "adapter_model.bin", "x");
  status = yk_adapter_open(dir.path, &config, 16, &adapter, &err);
  expect_error("a pickle", YK_E_UNSUPPORTED, "adapter_model.bin|adapter_model.safetensors", status, &err);
  write_text(&dir, "adapter_config.json", "[");
  status = yk_adapter_open(dir.path, &config, 16, &adapter, &err);
  expect_error("no JSON", YK_E_FORMAT, "adapter_config.json", status, &err);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_modules), cmocka_unit_test(test_scales),
                                     cmocka_unit_test(test_refuses), cmocka_unit_test(test_missing_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
