/* config.json and its companions: each family's settings, defaults as in transformers, and what is refused. */
#include <math.h>

#include "unit/config_fixture.h"

#include "loader/quant_rules.h"

/* A small valid model; tests change single keys. */
static const char base_config[] =
    "{'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_act': 'silu', 'hidden_size': 64,"
    " 'intermediate_size': 96, 'num_hidden_layers': 4, 'num_attention_heads': 4, 'num_key_value_heads': 2,"
    " 'vocab_size': 200, 'max_position_embeddings': 256, 'rms_norm_eps': 1e-5, 'torch_dtype': 'bfloat16'}";

/* The base configuration with the keys of changes put over it (a value of "-" deletes), and other files beside it. */
static yk_status load_logged(const char *changes, const char *generation, const char *quantize, const yk_log *log,
                             yk_model_config *out, yk_err *err)
{
  json_t *generation_json = generation ? config_parse(generation) : NULL;
  json_t *quantize_json = quantize ? config_parse(quantize) : NULL;
  char *config = config_text(base_config, changes);
  char *generation_text = generation ? json_dumps(generation_json, JSON_ENCODE_ANY) : NULL;
  char *quantize_text = quantize ? json_dumps(quantize_json, JSON_ENCODE_ANY) : NULL;
  yk_config_texts texts = {.config = config, .config_bytes = strlen(config)};
  texts.generation = generation_text;
  texts.generation_bytes = generation ? strlen(generation_text) : 0;
  texts.quantize = quantize_text;
  texts.quantize_bytes = quantize ? strlen(quantize_text) : 0;
  yk_status status = yk_model_config_parse(&texts, log, out, err);
  free(config);
  free(generation_text);
  free(quantize_text);
  json_decref(generation_json);
  json_decref(quantize_json);
  return status;
}

static yk_status load(const char *changes, const char *generation, const char *quantize, yk_model_config *out,
                      yk_err *err)
{
  return load_logged(changes, generation, quantize, NULL, out, err);
}

static yk_model_config load_good(const char *changes, const char *generation, const char *quantize)
{
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_ok(changes, load(changes, generation, quantize, &config, &err), &err);
  return config;
}

static yk_model_config good(const char *changes)
{
  return load_good(changes, NULL, NULL);
}

typedef struct bad_case {
  const char *changes;
  yk_status status;
  const char *words;
} bad_case;

static void expect_bad(const bad_case *cases, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].changes, cases[i].status, cases[i].words, load(cases[i].changes, NULL, NULL, &config, &err),
                 &err);
  }
}

#define EXPECT_BAD(cases) expect_bad(cases, sizeof(cases) / sizeof *(cases))

static void llama_values_and_defaults(void **state)
{
  (void)state;
  yk_model_config config = good("{}");
  assert_int_equal(config.family, YK_FAMILY_LLAMA);
  assert_string_equal(yk_model_family_name(config.family), "llama");
  assert_int_equal(config.vocab_size, 200);
  assert_int_equal(config.hidden_size, 64);
  assert_int_equal(config.ffn_size, 96);
  assert_int_equal(config.n_layers, 4);
  assert_int_equal(config.n_heads, 4);
  assert_int_equal(config.n_kv_heads, 2);
  assert_int_equal(config.head_dim, 16);
  assert_int_equal(config.max_position_embeddings, 256);
  assert_int_equal(config.max_model_tokens, 256);
  assert_true(config.rms_norm_eps == 1e-5f);
  assert_int_equal(config.dtype, YK_BF16);
  assert_false(config.tie_word_embeddings || config.qkv_bias || config.o_bias || config.mlp_bias || config.qk_norm);
  assert_int_equal(config.rope.type, YK_ROPE_DEFAULT);
  assert_true(config.rope.theta == 10000);
  for (int i = 0; i < 4; i++) assert_int_equal(config.window_tokens[i], 0);
  assert_true(config.embed_scale == 1 && config.residual_scale == 1 && config.logit_scale == 1);
  assert_int_equal(config.bos_id, 1);
  assert_int_equal(config.n_eos_ids, 1);
  assert_int_equal(config.eos_ids[0], 2);
  assert_int_equal(config.quant.method, YK_QUANT_NONE);
  assert_true(config.generation.temperature == 1 && config.generation.top_p == 1 && config.generation.min_p == 0);
  assert_true(config.generation.top_k == 0 && config.generation.repetition_penalty == 1);

  config = good("{'rms_norm_eps': '-', 'torch_dtype': '-', 'num_key_value_heads': '-', 'attention_bias': true,"
                " 'mlp_bias': true, 'tie_word_embeddings': true, 'head_dim': 24, 'num_attention_heads': 5}");
  assert_true(config.rms_norm_eps == 1e-6f);
  assert_int_equal(config.dtype, YK_F16);
  assert_int_equal(config.n_kv_heads, 5);
  assert_int_equal(config.head_dim, 24);
  assert_true(config.tie_word_embeddings && config.qkv_bias && config.o_bias && config.mlp_bias && !config.qk_norm);
}

static void families(void **state)
{
  (void)state;
  yk_model_config config = good("{'architectures': ['Qwen2ForCausalLM'], 'model_type': 'qwen2'}");
  assert_int_equal(config.family, YK_FAMILY_QWEN2);
  assert_true(config.qkv_bias && !config.o_bias && !config.qk_norm && !config.tie_word_embeddings);
  assert_int_equal(config.bos_id, -1);
  assert_int_equal(config.n_eos_ids, 0);

  config = good("{'architectures': ['Qwen3ForCausalLM'], 'model_type': 'qwen3', 'attention_bias': true}");
  assert_int_equal(config.family, YK_FAMILY_QWEN3);
  assert_int_equal(config.head_dim, 128); /* the class default, not hidden / heads */
  assert_true(config.qkv_bias && config.o_bias && config.qk_norm);

  config = good("{'architectures': ['MistralForCausalLM'], 'attention_bias': true, 'num_key_value_heads': null}");
  assert_int_equal(config.family, YK_FAMILY_MISTRAL);
  assert_int_equal(config.n_kv_heads, 4);
  assert_false(config.qkv_bias || config.o_bias);

  /* By model_type where there are no architectures; by the first known class otherwise. */
  assert_int_equal(good("{'architectures': null, 'model_type': 'qwen3'}").family, YK_FAMILY_QWEN3);
  assert_int_equal(good("{'architectures': ['Custom', 'Qwen2ForCausalLM']}").family, YK_FAMILY_QWEN2);
}

static void minicpm_scales(void **state)
{
  (void)state;
  yk_model_config config =
      good("{'architectures': ['MiniCPMForCausalLM'], 'model_type': '-', 'num_experts': 0, 'scale_emb': 12,"
           " 'scale_depth': 1.4, 'dim_model_base': 16}");
  assert_int_equal(config.family, YK_FAMILY_MINICPM);
  assert_true(config.tie_word_embeddings);
  assert_true(config.embed_scale == 12);
  assert_true(config.residual_scale == (float)(1.4 / 2));
  assert_true(config.logit_scale == 0.25f); /* hidden / (64 / 16) */

  config = good("{'architectures': ['FM9GForCausalLM'], 'model_type': 'fm9g', 'scale_emb': 4, 'scale_depth': 2,"
                " 'dim_model_base': 64, 'tie_word_embeddings': false}");
  assert_int_equal(config.family, YK_FAMILY_MINICPM);
  assert_false(config.tie_word_embeddings);
  assert_true(config.residual_scale == 1 && config.logit_scale == 1);

  config = good("{'architectures': ['FM9GForCausalLM'], 'model_type': 'fm9g7b'}");
  assert_true(config.embed_scale == 1 && config.residual_scale == 1 && config.logit_scale == 1);
}

static void dtypes(void **state)
{
  (void)state;
  assert_int_equal(good("{'torch_dtype': 'float16'}").dtype, YK_F16);
  assert_int_equal(good("{'torch_dtype': 'torch.float32'}").dtype, YK_F32);
  assert_int_equal(good("{'dtype': 'float32'}").dtype, YK_F32); /* the newer key goes first */
  assert_int_equal(good("{'dtype': null}").dtype, YK_BF16);
}

static void rope_settings(void **state)
{
  (void)state;
  yk_rope_config rope = good("{'rope_theta': 1000000}").rope;
  assert_true(rope.theta == 1e6 && rope.type == YK_ROPE_DEFAULT);

  yk_model_config config = good("{'rope_scaling': {'type': 'linear', 'factor': 4}}");
  assert_int_equal(config.rope.type, YK_ROPE_LINEAR);
  assert_true(config.rope.factor == 4);
  assert_int_equal(config.max_model_tokens, 1024);

  config =
      good("{'rope_theta': 500000.0, 'rope_scaling': {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.5,"
           " 'high_freq_factor': 4.5, 'original_max_position_embeddings': 64}}");
  assert_int_equal(config.rope.type, YK_ROPE_LLAMA3);
  assert_true(config.rope.low_freq_factor == 1.5 && config.rope.high_freq_factor == 4.5);
  assert_true(config.rope.original_max_positions == 64);
  assert_int_equal(config.max_model_tokens, 256);

  /* The nested form, whose theta goes before the one beside it. */
  config = good("{'rope_theta': 7000, 'rope_parameters': {'rope_type': 'yarn', 'rope_theta': 9000,"
                " 'factor': 16, 'original_max_position_embeddings': 128, 'beta_fast': 20, 'beta_slow': 2,"
                " 'attention_factor': 1.25, 'mscale': 0.7, 'mscale_all_dim': 1, 'truncate': false}}");
  rope = config.rope;
  assert_int_equal(rope.type, YK_ROPE_YARN);
  assert_true(rope.theta == 9000 && rope.factor == 16 && rope.original_max_positions == 128);
  assert_true(rope.beta_fast == 20 && rope.beta_slow == 2 && rope.attention_factor == 1.25);
  assert_true(rope.mscale == 0.7 && rope.mscale_all_dim == 1 && !rope.truncate);
  assert_int_equal(config.max_model_tokens, 2048);

  /* YaRN's defaults; a null factor is the ratio of the contexts. */
  rope = good("{'rope_scaling': {'type': 'yarn', 'factor': null, 'original_max_position_embeddings': 64}}").rope;
  assert_true(rope.factor == 4 && rope.beta_fast == 32 && rope.beta_slow == 1 && rope.attention_factor == 0);
  assert_true(rope.truncate);

  /* Absent context: max_position_embeddings. A context beside the settings goes first. Empty settings are none. */
  assert_true(good("{'rope_scaling': {'type': 'yarn', 'factor': 2}}").rope.original_max_positions == 256);
  assert_true(good("{'original_max_position_embeddings': 32, 'rope_scaling': {'type': 'yarn', 'factor': 2,"
                   " 'original_max_position_embeddings': 64}}")
                  .rope.original_max_positions == 32);
  assert_int_equal(good("{'rope_scaling': {}, 'rope_parameters': {'type': 'linear', 'factor': 2}}").rope.type,
                   YK_ROPE_LINEAR);
  assert_int_equal(good("{'rope_scaling': {'rope_type': 'default'}, 'partial_rotary_factor': 1.0}").rope.type,
                   YK_ROPE_DEFAULT);
}

static void bad_rope_settings(void **state)
{
  (void)state;
  static const bad_case cases[] = {
      {"{'rope_theta': 0}", YK_E_FORMAT, "config.json|\"rope_theta\"|found 0"},
      {"{'rope_theta': -1}", YK_E_FORMAT, "config.json|\"rope_theta\"|found -1"},
      {"{'rope_theta': 1e300}", YK_E_FORMAT, "config.json|\"rope_theta\"|found 1e+300"},
      {"{'rope_theta': '1e4'}", YK_E_FORMAT, "config.json|\"rope_theta\"|expected a number, found string"},
      {"{'rope_scaling': 4}", YK_E_FORMAT, "rope_scaling|expected an object, found integer"},
      {"{'rope_scaling': {'type': 'dynamic', 'factor': 2}}", YK_E_UNSUPPORTED,
       "rope_scaling|\"dynamic\"|supported: default, linear, llama3, yarn"},
      {"{'rope_parameters': {'rope_type': 'longrope'}}", YK_E_UNSUPPORTED, "rope_parameters|\"longrope\""},
      {"{'rope_scaling': {'type': 'linear'}}", YK_E_FORMAT, "rope_scaling|\"factor\" is missing"},
      {"{'rope_scaling': {'type': 'linear', 'factor': 0}}", YK_E_FORMAT, "rope_scaling|\"factor\"|found 0"},
      {"{'rope_scaling': {'type': 'linear', 'factor': -2}}", YK_E_FORMAT, "rope_scaling|\"factor\"|found -2"},
      {"{'rope_scaling': {'type': 'linear', 'factor': 1e9}}", YK_E_FORMAT, "rope_scaling|\"factor\"|found 1e+09"},
      {"{'rope_scaling': {'type': 'yarn'}}", YK_E_FORMAT, "rope_scaling|\"factor\" is missing"},
      {"{'rope_scaling': {'type': 'yarn', 'factor': 2, 'beta_fast': 1, 'beta_slow': 2}}", YK_E_FORMAT,
       "rope_scaling|\"beta_fast\"|found 1"},
      {"{'rope_scaling': {'type': 'yarn', 'factor': 2, 'original_max_position_embeddings': 0}}", YK_E_FORMAT,
       "rope_scaling|\"original_max_position_embeddings\"|found 0"},
      {"{'rope_scaling': {'type': 'llama3', 'factor': 8, 'high_freq_factor': 4}}", YK_E_FORMAT,
       "rope_scaling|\"low_freq_factor\" is missing"},
      {"{'rope_scaling': {'type': 'llama3', 'factor': 8, 'high_freq_factor': 1, 'low_freq_factor': 1}}", YK_E_FORMAT,
       "rope_scaling|\"high_freq_factor\"|found 1"},
      {"{'partial_rotary_factor': 0.5}", YK_E_UNSUPPORTED, "partial_rotary_factor 0.5|supported: 1"},
      {"{'rope_parameters': {'partial_rotary_factor': 0.25}}", YK_E_UNSUPPORTED, "partial_rotary_factor 0.25"},
      {"{'rope_parameters': {'full_attention': {'rope_type': 'default'}}}", YK_E_UNSUPPORTED, "per layer type"},
  };
  EXPECT_BAD(cases);
}

static void expect_windows(const char *changes, const int32_t expected[4])
{
  yk_model_config config = good(changes);
  for (int i = 0; i < 4; i++)
    if (config.window_tokens[i] != expected[i])
      fail_msg("%s: layer %d: expected %d, found %d", changes, i, expected[i], config.window_tokens[i]);
}

#define MISTRAL "'architectures': ['MistralForCausalLM']"
#define QWEN2   "'architectures': ['Qwen2ForCausalLM']"
#define QWEN3   "'architectures': ['Qwen3ForCausalLM']"

static void sliding_windows(void **state)
{
  (void)state;
  static const int32_t none[] = {0, 0, 0, 0}, all[] = {8, 8, 8, 8}, late[] = {0, 0, 8, 8}, listed[] = {0, 8, 0, 8};
  expect_windows("{" MISTRAL ", 'sliding_window': 8}", all);
  expect_windows("{" MISTRAL ", 'sliding_window': null}", none);
  expect_windows("{" MISTRAL "}", (const int32_t[]){4096, 4096, 4096, 4096});
  expect_windows("{" QWEN2 ", 'sliding_window': 8, 'max_window_layers': 2}", none);
  expect_windows("{" QWEN2 ", 'sliding_window': 8, 'max_window_layers': 2, 'use_sliding_window': true}", late);
  expect_windows("{" QWEN3 ", 'sliding_window': 8, 'max_window_layers': 0, 'use_sliding_window': true}", all);
  expect_windows("{" QWEN2 ", 'sliding_window': 8, 'use_sliding_window': true}", none); /* max_window_layers 28 */
  expect_windows("{" QWEN2 ", 'sliding_window': null, 'max_window_layers': 0, 'use_sliding_window': true}", none);
  expect_windows("{" QWEN2 ", 'sliding_window': 8, 'max_window_layers': 0, 'use_sliding_window': true, 'layer_types':"
                 " ['full_attention', 'sliding_attention', 'full_attention', 'sliding_attention']}",
                 listed);
  expect_windows("{'sliding_window': 8}", none); /* Llama has none */
  expect_windows("{'layer_types': ['full_attention', 'full_attention', 'full_attention', 'full_attention']}", none);
}

static void bad_windows(void **state)
{
  (void)state;
  static const bad_case cases[] = {
      {"{" MISTRAL ", 'sliding_window': 0}", YK_E_FORMAT, "\"sliding_window\"|found 0"},
      {"{" MISTRAL ", 'sliding_window': -4}", YK_E_FORMAT, "\"sliding_window\"|found -4"},
      {"{" MISTRAL ", 'sliding_window': 9999999999}", YK_E_FORMAT, "\"sliding_window\"|found 9999999999"},
      {"{" QWEN2 ", 'use_sliding_window': 1}", YK_E_FORMAT, "\"use_sliding_window\"|expected true or false"},
      {"{" QWEN2 ", 'layer_types': ['full_attention']}", YK_E_FORMAT, "\"layer_types\"|4 strings, found array of 1"},
      {"{" QWEN2 ", 'layer_types': 'full_attention'}", YK_E_FORMAT, "\"layer_types\"|found string"},
      {"{" QWEN2 ", 'layer_types': ['full_attention', 'sliding_attention', 'full_attention', 'full_attention']}",
       YK_E_FORMAT, "layer_types[1]|sliding_window is off"},
      {"{" QWEN2 ", 'layer_types': ['full_attention', 'chunked_attention', 'full_attention', 'full_attention']}",
       YK_E_UNSUPPORTED, "layer_types[1]|\"chunked_attention\"|supported: full_attention"},
      {"{" QWEN2 ", 'layer_types': [1, 2, 3, 4]}", YK_E_UNSUPPORTED, "layer_types[0]|not a string"},
  };
  EXPECT_BAD(cases);
}

/* Every size: missing, zero, negative, huge, not a number. */
static void bad_sizes(void **state)
{
  (void)state;
  static const char *const keys[] = {"vocab_size",          "hidden_size",
                                     "intermediate_size",   "num_hidden_layers",
                                     "num_attention_heads", "max_position_embeddings",
                                     "num_key_value_heads", "head_dim"};
  static const char *const values[] = {"0", "-1", "4611686018427387904", "'x'", "2.5", "[]"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    char changes[128];
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
      snprintf(changes, sizeof changes, "{'%s': %s}", keys[i], values[j]);
      char words[64];
      snprintf(words, sizeof words, "config.json|\"%s\"|expected", keys[i]);
      expect_error(changes, YK_E_FORMAT, words, load(changes, NULL, NULL, &config, &err), &err);
    }
    if (i >= 6) continue; /* the last two have defaults */
    char words[64];
    snprintf(changes, sizeof changes, "{'%s': '-'}", keys[i]);
    snprintf(words, sizeof words, "config.json|\"%s\" is missing", keys[i]);
    expect_error(changes, YK_E_FORMAT, words, load(changes, NULL, NULL, &config, &err), &err);
  }
}

static void contradictory_sizes(void **state)
{
  (void)state;
  static const bad_case cases[] = {
      {"{'num_key_value_heads': 3}", YK_E_FORMAT, "num_attention_heads 4|multiple of num_key_value_heads 3"},
      {"{'num_key_value_heads': 8}", YK_E_FORMAT, "\"num_key_value_heads\"|1 to 4, found 8"},
      {"{'hidden_size': 66}", YK_E_FORMAT, "hidden_size 66|multiple of num_attention_heads 4|head_dim"},
      {"{'hidden_size': 60}", YK_E_FORMAT, "head_dim|even number|found 15"},
      {"{'head_dim': 15}", YK_E_FORMAT, "head_dim|even number|found 15"},
      {"{'num_hidden_layers': 1025}", YK_E_FORMAT, "\"num_hidden_layers\"|1 to 1024, found 1025"},
      {"{" QWEN3 ", 'num_key_value_heads': '-'}", YK_E_FORMAT, "\"num_key_value_heads\" is missing"},
      {"{'rms_norm_eps': 0}", YK_E_FORMAT, "\"rms_norm_eps\"|found 0"},
      {"{'rms_norm_eps': -1e-6}", YK_E_FORMAT, "\"rms_norm_eps\"|found -1e-06"},
      {"{'rms_norm_eps': 7}", YK_E_FORMAT, "\"rms_norm_eps\"|found 7"},
  };
  EXPECT_BAD(cases);
}

static void smallest_and_largest(void **state)
{
  (void)state;
  yk_model_config config =
      good("{'vocab_size': 1, 'hidden_size': 1, 'intermediate_size': 1, 'num_hidden_layers': 1,"
           " 'num_attention_heads': 1, 'num_key_value_heads': 1, 'head_dim': 2, 'max_position_embeddings': 1,"
           " 'rms_norm_eps': 1}");
  assert_int_equal(config.head_dim, 2);
  assert_int_equal(config.bos_id, -1); /* Llama's defaults are not in this vocabulary */
  assert_int_equal(config.n_eos_ids, 0);
  config = good("{'vocab_size': 2}");
  assert_int_equal(config.bos_id, 1);
  assert_int_equal(config.n_eos_ids, 0);

  config = good("{'vocab_size': 8388608, 'hidden_size': 262144, 'intermediate_size': 1048576,"
                " 'num_hidden_layers': 1024, 'num_attention_heads': 4096, 'num_key_value_heads': 4096,"
                " 'head_dim': 1024, 'max_position_embeddings': 67108864,"
                " 'rope_scaling': {'type': 'linear', 'factor': 1e6}}");
  assert_int_equal(config.n_layers, YK_MAX_LAYERS);
  assert_int_equal(config.max_model_tokens, YK_MAX_POSITIONS);
  int64_t q = (int64_t)config.n_heads * config.head_dim; /* what the limits promise: any such size fits int64 */
  assert_true(q * config.hidden_size < INT64_MAX / 4 / YK_MAX_LAYERS);
}

static void unknown_models(void **state)
{
  (void)state;
  static const bad_case cases[] = {
      {"{'architectures': ['GPT2LMHeadModel']}", YK_E_UNSUPPORTED,
       "config.json|\"GPT2LMHeadModel\"|LlamaForCausalLM|MistralForCausalLM|Qwen2|Qwen3|MiniCPM|FM9G"},
      {"{'architectures': '-', 'model_type': 'mamba'}", YK_E_UNSUPPORTED, "\"mamba\"|supported: Llama"},
      {"{'architectures': '-', 'model_type': '-'}", YK_E_FORMAT, "\"architectures\" is missing"},
      {"{'architectures': 'LlamaForCausalLM'}", YK_E_FORMAT, "\"architectures\"|array of strings, found string"},
      {"{'architectures': [1]}", YK_E_FORMAT, "\"architectures\"|array of strings"},
      {"{'hidden_act': 'gelu'}", YK_E_UNSUPPORTED, "hidden_act \"gelu\"|supported: silu"},
      {"{'torch_dtype': 'float64'}", YK_E_UNSUPPORTED, "torch_dtype \"float64\"|float16, bfloat16, float32"},
      {"{'torch_dtype': 16}", YK_E_FORMAT, "\"torch_dtype\"|expected a string, found integer"},
      {"{'tie_word_embeddings': 'yes'}", YK_E_FORMAT, "\"tie_word_embeddings\"|expected true or false"},
      {"{'architectures': ['MiniCPMForCausalLM'], 'scale_depth': 1.4, 'dim_model_base': 16}", YK_E_FORMAT,
       "\"scale_emb\" is missing"},
      {"{'architectures': ['MiniCPMForCausalLM'], 'scale_emb': 1, 'scale_depth': 1.4, 'dim_model_base': 0}",
       YK_E_FORMAT, "\"dim_model_base\"|found 0"},
      {"{'architectures': ['MiniCPMForCausalLM'], 'num_experts': 1}", YK_E_UNSUPPORTED, "num_experts 1"},
  };
  EXPECT_BAD(cases);
}

#define AWQ "'quant_method': 'awq', 'bits': 4, 'group_size': 32"

/* What the configuration says of a module, or NULL. */
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

  /* A file of its own, in the older spelling; config.json goes first where both speak. */
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
  /* Before everything that such a file may lack or have in another form. */
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

#define GPTQ       "'quant_method': 'gptq', 'bits': 4, 'group_size': 64"
#define COMPRESSED "'quant_method': 'compressed-tensors', 'format': 'pack-quantized'"
#define INT4_32    "'num_bits': 4, 'type': 'int', 'symmetric': true, 'strategy': 'group', 'group_size': 32"
#define ROUND      "'quant_method': 'auto-round', 'bits': 4, 'group_size': 128"

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
                " 'model.layers.1.': {'group_size': -1}, '.*up_proj': {'group_size': 256}}}}");
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
  config = good("{'compression_config': {" COMPRESSED ", 'config_groups': {'w4a16_asym': ['re:model.*']}}}");
  assert_int_equal(group_of(&config, "model.x"), 128);
  assert_int_equal(group_of(&config, "lm_head"), 0);
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

/* One thing that cannot be honoured in each: its key and value are in the message. */
static void what_other_methods_refuse(void **state)
{
  (void)state;
  static const bad_case cases[] = {
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
      {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'W4A8': ['Linear']}}}", YK_E_UNSUPPORTED,
       "preset \"W4A8\"|W4A16, W4A16_ASYM"},
      {"{'quantization_config': {" COMPRESSED ", 'transform_config': {'a': 1}, 'config_groups': {}}}", YK_E_UNSUPPORTED,
       "transform_config {\"a\":1}"},
      {"{'quantization_config': {" COMPRESSED ", 'sparsity_config': {'format': 'sparse-24-bitmask'},"
       " 'config_groups': {}}}",
       YK_E_UNSUPPORTED, "format \"sparse-24-bitmask\"|dense"},
      {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'weights': {" INT4_32 "}}}}}", YK_E_FORMAT,
       "targets: expected an array"},
      {"{'quantization_config': {" COMPRESSED ", 'config_groups': {'a': {'targets': ['Linear'],"
       " 'weights': {" INT4_32 "}, 'input_activations': {'num_bits': 8}}}}}",
       YK_E_UNSUPPORTED, "input_activations {\"num_bits\":8}"},
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
  EXPECT_BAD(cases);
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

static void generation_defaults(void **state)
{
  (void)state;
  yk_model_config config =
      load_good("{'eos_token_id': 5, 'bos_token_id': 3}",
                "{'do_sample': true, 'temperature': 0.6, 'top_k': 20, 'top_p': 0.95, 'min_p': 0.05,"
                " 'repetition_penalty': 1.1, 'max_new_tokens': 1, 'eos_token_id': [7, 5, 9], 'bos_token_id': 4}",
                NULL);
  const yk_generation_defaults *generation = &config.generation;
  assert_true(generation->temperature == 0.6f && generation->top_k == 20 && generation->top_p == 0.95f);
  assert_true(generation->min_p == 0.05f && generation->repetition_penalty == 1.1f);
  assert_int_equal(generation->max_new_tokens, 1);
  assert_int_equal(config.bos_id, 3);
  assert_int_equal(config.n_eos_ids, 3);
  assert_int_equal(config.eos_ids[0], 5);
  assert_int_equal(config.eos_ids[1], 7);
  assert_int_equal(config.eos_ids[2], 9);

  config = load_good("{'eos_token_id': null, 'bos_token_id': null}", "{'do_sample': false, 'top_k': 5000}", NULL);
  assert_true(config.generation.temperature == 0);
  assert_int_equal(config.generation.top_k, 200); /* no more than the vocabulary */
  assert_int_equal(config.n_eos_ids, 0);
  assert_int_equal(config.bos_id, -1);
  assert_true(load_good("{}", "{'temperature': 0.5}", NULL).generation.temperature == 0.5f);
  assert_int_equal(load_good("{}", "{'eos_token_id': 11}", NULL).eos_ids[0], 11); /* and not Llama's 2 beside it */
}

static void keep_warning(void *user, yk_log_level level, const char *message)
{
  assert_int_equal(level, YK_LOG_WARN);
  assert_string_equal(user, ""); /* one a value */
  snprintf(user, YK_ERR_MESSAGE_BYTES, "%s", message);
}

/* Requests would be refused with such defaults, each of them: the nearest legal value is taken, and that is said. */
static void generation_values_are_clipped(void **state)
{
  (void)state;
  static const struct {
    const char *generation;
    yk_generation_defaults expected;
    const char *words;
  } cases[] = {
#define DEFAULTS .temperature = 1, .top_p = 1, .repetition_penalty = 1
      {"{'temperature': -0.5}", {.top_p = 1, .repetition_penalty = 1}, "temperature|0 to 100, found -0.5|0 is taken"},
      {"{'temperature': 200}", {.temperature = 100, .top_p = 1, .repetition_penalty = 1}, "found 200|100 is taken"},
      {"{'top_p': 0}", {.temperature = 1, .top_p = 1e-6f, .repetition_penalty = 1}, "top_p|found 0|1e-06 is taken"},
      {"{'top_p': 1.5}", {DEFAULTS}, "generation_config.json|top_p|1e-06 to 1, found 1.5|1 is taken"},
      {"{'min_p': -1}", {DEFAULTS}, "min_p|0 to 1, found -1|0 is taken"},
      {"{'min_p': 1.5}", {DEFAULTS, .min_p = 1}, "min_p|found 1.5|1 is taken"},
      {"{'top_k': -2}", {DEFAULTS}, "top_k|-1 to|found -2|0 (none) is taken"},
      {"{'top_k': 1e12}", {DEFAULTS, .top_k = 200}, "top_k|found 1000000000000|2147483647 is taken"},
      {"{'repetition_penalty': 0}",
       {.temperature = 1, .top_p = 1, .repetition_penalty = 1e-6f},
       "repetition_penalty|found 0|1e-06 is taken"},
      {"{'repetition_penalty': 12.5}",
       {.temperature = 1, .top_p = 1, .repetition_penalty = 10},
       "repetition_penalty|1e-06 to 10, found 12.5|10 is taken"},
      {"{'max_new_tokens': -3}", {DEFAULTS}, "max_new_tokens|1 to 2147483647, found -3|0 (none) is taken"},
      {"{'max_new_tokens': 1e10}", {DEFAULTS, .max_new_tokens = INT32_MAX}, "max_new_tokens|2147483647 is taken"},
      {"{'max_new_tokens': 0, 'top_k': -1, 'top_p': 1, 'min_p': 0, 'temperature': 100}",
       {.temperature = 100, .top_p = 1, .repetition_penalty = 1},
       ""},
      {"{'max_new_tokens': null, 'top_k': null, 'top_p': null}", {DEFAULTS}, ""},
#undef DEFAULTS
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char warning[YK_ERR_MESSAGE_BYTES] = "";
    yk_log log = {YK_LOG_WARN, keep_warning, warning};
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_ok(cases[i].generation, load_logged("{}", cases[i].generation, NULL, &log, &config, &err), &err);
    const yk_generation_defaults *g = &config.generation, *e = &cases[i].expected;
    if (g->temperature != e->temperature || g->top_p != e->top_p || g->min_p != e->min_p || g->top_k != e->top_k ||
        g->repetition_penalty != e->repetition_penalty || g->max_new_tokens != e->max_new_tokens)
      fail_msg("%s: temperature %g, top_p %g, min_p %g, top_k %d, repetition_penalty %g, max_new_tokens %d",
               cases[i].generation, (double)g->temperature, (double)g->top_p, (double)g->min_p, g->top_k,
               (double)g->repetition_penalty, g->max_new_tokens);
    expect_words(cases[i].generation, cases[i].words, warning);
  }
}

static void bad_generation_settings(void **state)
{
  (void)state;
  static const struct {
    const char *config, *generation, *words;
  } cases[] = {
      {"{}", "[]", "generation_config.json|expected an object, found array"},
      {"{}", "{'temperature': '1'}", "generation_config.json|\"temperature\"|found string"},
      {"{}", "{'top_k': 1.5}", "generation_config.json|\"top_k\"|expected an integer"},
      {"{}", "{'do_sample': 1}", "generation_config.json|\"do_sample\""},
      {"{}", "{'eos_token_id': 200}", "generation_config.json|\"eos_token_id\"|0 to 199|found 200"},
      {"{}", "{'eos_token_id': ['x']}", "generation_config.json|\"eos_token_id\"|found string"},
      {"{'eos_token_id': -1}", "{}", "config.json|\"eos_token_id\"|found -1"},
      {"{'bos_token_id': 4294967296}", "{}", "config.json|\"bos_token_id\"|found 4294967296"},
      {"{'eos_token_id': [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}", "{}", "\"eos_token_id\"|at most 16"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    yk_status status = load(cases[i].config, cases[i].generation, NULL, &config, &err);
    expect_error(cases[i].generation, YK_E_FORMAT, cases[i].words, status, &err);
  }
}

static void broken_json_names_its_line(void **state)
{
  (void)state;
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"", "config.json|line"},
      {"[]", "config.json|expected an object, found array"},
      {"{\"a\": 1,\n\"a\": 2}", "config.json|line 2|duplicate"},
      {"{\"vocab_size\": NaN}", "config.json|line 1"},
      {"{\"vocab_size\": 1e999}", "config.json|line 1"},
      {"{\"a\": \"\xff\"}", "config.json|line 1|byte 0xff"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_config_texts texts = {.config = cases[i].text, .config_bytes = strlen(cases[i].text)};
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].text, YK_E_FORMAT, cases[i].words, yk_model_config_parse(&texts, NULL, &config, &err), &err);
  }
}

static void files_of_a_directory(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_error("no config.json", YK_E_IO, "config.json|No such file",
               yk_model_config_load(dir.path, NULL, &config, &err), &err);
  json_t *root = config_parse(base_config);
  char *text = json_dumps(root, 0);
  write_text(&dir, "config.json", text);
  expect_ok("config.json alone", yk_model_config_load(dir.path, NULL, &config, &err), &err);
  assert_int_equal(config.vocab_size, 200);
  write_text(&dir, "generation_config.json", "{\"top_k\": 9}");
  write_text(&dir, "quant_config.json", "{\"w_bit\": 4, \"q_group_size\": 128, \"zero_point\": true}");
  expect_ok("with companions", yk_model_config_load(dir.path, NULL, &config, &err), &err);
  assert_int_equal(config.generation.top_k, 9);
  assert_int_equal(config.quant.scheme.group_size, 128);
  yk_model_config_free(&config);
  write_text(&dir, "generation_config.json", "{\"top_k\": }");
  expect_error("broken companion", YK_E_FORMAT, "generation_config.json|line 1",
               yk_model_config_load(dir.path, NULL, &config, &err), &err);
  free(text);
  json_decref(root);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(llama_values_and_defaults),
      cmocka_unit_test(families),
      cmocka_unit_test(minicpm_scales),
      cmocka_unit_test(dtypes),
      cmocka_unit_test(rope_settings),
      cmocka_unit_test(bad_rope_settings),
      cmocka_unit_test(sliding_windows),
      cmocka_unit_test(bad_windows),
      cmocka_unit_test(bad_sizes),
      cmocka_unit_test(contradictory_sizes),
      cmocka_unit_test(smallest_and_largest),
      cmocka_unit_test(unknown_models),
      cmocka_unit_test(quantisation),
      cmocka_unit_test(unsupported_quantisation),
      cmocka_unit_test(gptq),
      cmocka_unit_test(compressed_tensors),
      cmocka_unit_test(auto_round),
      cmocka_unit_test(eight_bits),
      cmocka_unit_test(awq_versions),
      cmocka_unit_test(what_other_methods_refuse),
      cmocka_unit_test(a_pattern_without_end),
      cmocka_unit_test(generation_defaults),
      cmocka_unit_test(generation_values_are_clipped),
      cmocka_unit_test(bad_generation_settings),
      cmocka_unit_test(broken_json_names_its_line),
      cmocka_unit_test(files_of_a_directory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
