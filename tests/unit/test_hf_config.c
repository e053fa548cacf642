/* config.json: each family's settings, defaults as in transformers, and refusals. */
#include <math.h>

#include "each_case.h"
#include "loader/hf/hf_parts.h"
#include "unit/hf_config_fixture.h"
#include "unit/single_quotes.h"

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

  /* By model_type if there are no architectures; else by the first known class. */
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

static void relatives(void **state)
{
  (void)state;
  yk_model_config config = good("{'architectures': ['SeedOssForCausalLM']}");
  assert_int_equal(config.family, YK_FAMILY_SEED_OSS);
  assert_int_equal(config.head_dim, 128);
  assert_true(config.qkv_bias && !config.o_bias && !config.mlp_bias);
  config = good("{'architectures': ['SeedOssForCausalLM'], 'attention_bias': false, 'attention_out_bias': true,"
                " 'mlp_bias': true}");
  assert_true(!config.qkv_bias && config.o_bias && config.mlp_bias);

  config = good("{'architectures': ['Ernie4_5ForCausalLM'], 'use_bias': true, 'tie_word_embeddings': '-',"
                " 'rope_theta': '-'}");
  assert_true(config.qkv_bias && config.o_bias && config.mlp_bias && config.rotary_interleaved);
  assert_true(config.tie_word_embeddings && config.rope.theta == 5e5);

  config = good("{'architectures': ['GraniteForCausalLM'], 'embedding_multiplier': 12, 'attention_multiplier': 0.125,"
                " 'residual_multiplier': 0.5, 'logits_scaling': 8}");
  assert_true(config.embed_scale == 12 && config.attention_scale == 0.125f);
  assert_true(config.residual_scale == 0.5f && config.logit_scale == 0.125f);
  assert_true(good("{'architectures': ['GraniteForCausalLM']}").attention_scale == 1); /* the class default */

  config = good("{'architectures': ['Phi3ForCausalLM'], 'partial_rotary_factor': 0.75, 'sliding_window': 24}");
  assert_int_equal(config.rotary_dim, config.head_dim * 3 / 4);
  assert_int_equal(config.window_tokens[0], 24);
  config = good("{'architectures': ['Phi3ForCausalLM'], 'sliding_window': '-'}");
  assert_true(config.rotary_dim == config.head_dim && config.window_tokens[0] == 0);
  assert_int_equal(config.default_model_tokens, 0);
  config = good("{'architectures': ['Phi3ForCausalLM'], 'head_dim': 8, 'partial_rotary_factor': 0.5,"
                " 'original_max_position_embeddings': 16, 'max_position_embeddings': 256, 'rope_scaling': {"
                "'type': 'su', 'short_factor': [1, 2], 'long_factor': [3, 4]}}");
  assert_int_equal(config.rope.type, YK_ROPE_LONGROPE);
  assert_true(config.rope.short_divisors[1] == 2 && config.rope.long_divisors[0] == 3 && config.rope.factor == 16);
  assert_true(fabs(config.rope.attention_factor - sqrt(2)) < 1e-12); /* sqrt(1 + ln 16 / ln 16) */
  assert_true(config.max_model_tokens == 256 && config.default_model_tokens == 16);
}

static void mistral_relatives(void **state)
{
  (void)state;
  yk_model_config config = good("{'architectures': ['Ministral3ForCausalLM'], 'rope_theta': '-', 'head_dim': '-'}");
  assert_int_equal(config.family, YK_FAMILY_MINISTRAL3);
  assert_true(config.head_dim == 128 && config.window_tokens[0] == 0 && config.rope.type == YK_ROPE_YARN);
  assert_true(config.rope.theta == 1e6 && config.rope.factor == 16 && config.rope.mscale == 1);
  assert_true(config.score_growth.beta == 0.1f && config.score_growth.period == 16384);
  config = good("{'architectures': ['Mistral3ForConditionalGeneration'], 'text_config': {'model_type': 'ministral3',"
                " 'hidden_size': 64, 'intermediate_size': 96, 'num_hidden_layers': 2, 'num_attention_heads': 4,"
                " 'num_key_value_heads': 2, 'vocab_size': 200, 'max_position_embeddings': 256, 'rope_parameters': {"
                "'rope_type': 'yarn', 'factor': 4, 'original_max_position_embeddings': 64,"
                " 'llama_4_scaling_beta': 0.25}}}");
  assert_int_equal(config.family, YK_FAMILY_MINISTRAL3_VL);
  assert_true(config.score_growth.beta == 0.25f && config.score_growth.period == 64);
  config = good("{'architectures': ['Mistral3ForConditionalGeneration']}");
  assert_true(config.family == YK_FAMILY_MISTRAL3_VL && config.score_growth.beta == 0);
  assert_int_equal(config.window_tokens[0], 4096); /* the class default of Mistral */
}

static void minimax_m2(void **state)
{
  (void)state;
  yk_model_config config = good("{'architectures': ['MiniMaxM2ForCausalLM'], 'head_dim': 32, 'rotary_dim': 8,"
                                " 'rope_theta': '-', 'num_local_experts': 6, 'num_experts_per_tok': 2,"
                                " 'attn_type_list': [1, 1]}");
  assert_int_equal(config.family, YK_FAMILY_MINIMAX_M2);
  assert_true(config.row_norms && !config.qk_norm && config.rotary_dim == 8 && config.rope.theta == 5e6);
  config = good("{'architectures': ['MiniMaxM2ForCausalLM'], 'head_dim': 44, 'rotary_dim': 30, 'num_local_experts': 4,"
                " 'num_experts_per_tok': 2}");
  assert_int_equal(config.rotary_dim, 30); /* although 30 / 44.0 * 44 is less */
  assert_true(config.experts.scoring == YK_SCORE_SIGMOID && config.experts.has_choice_bias);
  assert_true(config.experts.normalise && config.experts.ffn_size == config.ffn_size && config.experts.scale == 1);
}

static void gemma3(void **state)
{
  (void)state;
  yk_model_config config =
      good("{'architectures': ['Gemma3ForCausalLM'], 'tie_word_embeddings': '-', 'rope_theta': '-'}");
  assert_int_equal(config.family, YK_FAMILY_GEMMA3);
  assert_true(config.head_dim == 256 && config.tie_word_embeddings && config.qk_norm && config.result_norms);
  assert_true(config.norm_offset == 1 && config.embed_scale == 8 && config.rounds_embed_scale);
  assert_true(config.attention_scale == 1.0f / 16 && config.activation.kind == YK_ACTIVATION_GELU_TANH);
  assert_true(config.rope.theta == 1e6 && config.has_local_rope && config.local_rope.theta == 1e4);
  assert_true(config.window_tokens[0] == 4096 && config.window_tokens[3] == 4096);
  config = good("{'architectures': ['Gemma3ForCausalLM'], 'sliding_window': 20, 'sliding_window_pattern': 2,"
                " 'query_pre_attn_scalar': 4, 'rope_scaling': {'rope_type': 'linear', 'factor': 8},"
                " 'rope_local_base_freq': 99, 'hidden_activation': 'gelu'}");
  assert_true(config.window_tokens[0] == 20 && config.window_tokens[1] == 0 && config.window_tokens[2] == 20);
  assert_true(config.attention_scale == 0.5f && config.rope.factor == 8 && config.local_rope.theta == 99);
  assert_true(config.activation.kind == YK_ACTIVATION_GELU_ERF && config.max_model_tokens == 256);
  config = good("{'architectures': ['Gemma3ForCausalLM'], 'rope_parameters': {'full_attention': {'rope_type': 'linear',"
                " 'factor': 4, 'rope_theta': 77}, 'sliding_attention': {'rope_type': 'default', 'rope_theta': 55}}}");
  assert_true(config.rope.factor == 4 && config.rope.theta == 77 && config.local_rope.theta == 55);
  assert_true(good("{'architectures': ['Gemma3ForCausalLM'], 'final_logit_softcapping': 30}").logit_cap == 30);
  /* Files of models that read images lack keys with the class's default. */
  config = good("{'architectures': ['Gemma3ForConditionalGeneration'], 'text_config': {'hidden_size': 64,"
                " 'intermediate_size': 96, 'num_hidden_layers': 12, 'sliding_window': 1024}}");
  assert_int_equal(config.family, YK_FAMILY_GEMMA3_VL);
  assert_true(config.vocab_size == 262208 && config.n_heads == 8 && config.n_kv_heads == 4 && config.head_dim == 256);
  assert_true(config.window_tokens[4] == 1024 && config.window_tokens[5] == 0 && config.window_tokens[11] == 0);
  assert_int_equal(config.max_model_tokens, 131072);
}

static void dtypes(void **state)
{
  (void)state;
  assert_int_equal(good("{'torch_dtype': 'float16'}").dtype, YK_F16);
  assert_int_equal(good("{'torch_dtype': 'half'}").dtype, YK_F16);
  assert_int_equal(good("{'dtype': 'auto', 'torch_dtype': 'bfloat16'}").dtype, YK_BF16);
  assert_int_equal(good("{'torch_dtype': 'auto'}").dtype, YK_F16);
  assert_int_equal(good("{'torch_dtype': 'torch.float32'}").dtype, YK_F32);
  assert_int_equal(good("{'dtype': 'float32'}").dtype, YK_F32); /* the newer key takes precedence */
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

  /* The base grows beyond max_position_embeddings, which stays the longest context. */
  config = good("{'rope_theta': 7000, 'rope_scaling': {'type': 'dynamic', 'factor': 8}}");
  assert_true(config.rope.type == YK_ROPE_DEFAULT && config.rope.theta == 7000 && config.rope.factor == 1);
  assert_int_equal(config.max_model_tokens, 256);

  /* The nested form, whose theta takes precedence over the one next to it. */
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

  /* Absent context: max_position_embeddings. A context next to the settings takes precedence. Empty settings are
   * none. */
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
      {"{'rope_theta': 1e300}", YK_E_FORMAT, "config.json|\"rope_theta\"|found 1.0000000000000001e300"},
      {"{'rope_theta': '1e4'}", YK_E_FORMAT, "config.json|\"rope_theta\"|expected a number, found string"},
      {"{'rope_scaling': 4}", YK_E_FORMAT, "rope_scaling|expected an object, found integer"},
      {"{'rope_scaling': {'type': 'ntk', 'factor': 2}}", YK_E_UNSUPPORTED,
       "rope_scaling|\"ntk\"|supported: default, dynamic, linear, llama3, yarn"},
      {"{'rope_scaling': {'type': 'dynamic'}}", YK_E_FORMAT, "rope_scaling|\"factor\" is missing"},
      {"{'rope_parameters': {'rope_type': 'longrope'}}", YK_E_FORMAT, "rope_parameters|\"short_factor\" is missing"},
      {"{'head_dim': 4, 'rope_scaling': {'type': 'longrope', 'short_factor': [1, 2], 'long_factor': [1]}}", YK_E_FORMAT,
       "rope_scaling|\"long_factor\": expected an array of 2 numbers|found array of 1"},
      {"{'head_dim': 4, 'rope_scaling': {'type': 'longrope', 'short_factor': [1, 0], 'long_factor': [1, 2]}}",
       YK_E_FORMAT, "rope_scaling|short_factor[1]: expected a number from 0.001"},
      {"{'head_dim': 4, 'rope_scaling': {'type': 'longrope', 'factor': 2, 'original_max_position_embeddings': 1,"
       " 'short_factor': [1, 2], 'long_factor': [1, 2]}}",
       YK_E_FORMAT, "rope_scaling|\"original_max_position_embeddings\"|at least 2|found 1"},
      {"{'rope_scaling': {'type': 'linear'}}", YK_E_FORMAT, "rope_scaling|\"factor\" is missing"},
      {"{'rope_scaling': {'factor': 4}}", YK_E_FORMAT, "rope_scaling|\"rope_type\" is missing beside \"factor\""},
      {"{'rope_parameters': {'rope_theta': 5, 'beta_fast': 4}}", YK_E_FORMAT, "rope_parameters|beside \"beta_fast\""},
      {"{'rope_parameters': {'full_attention': {}}}", YK_E_UNSUPPORTED, "rope_parameters|per layer type"},
      {"{'rope_scaling': {'type': 'linear', 'factor': 0}}", YK_E_FORMAT, "rope_scaling|\"factor\"|found 0"},
      {"{'rope_scaling': {'type': 'linear', 'factor': -2}}", YK_E_FORMAT, "rope_scaling|\"factor\"|found -2"},
      {"{'rope_scaling': {'type': 'linear', 'factor': 1e9}}", YK_E_FORMAT,
       "rope_scaling|\"factor\"|found 1000000000.0"},
      {"{'rope_scaling': {'type': 'yarn'}}", YK_E_FORMAT, "rope_scaling|\"factor\" is missing"},
      {"{'rope_scaling': {'type': 'yarn', 'factor': 2, 'beta_fast': 1, 'beta_slow': 2}}", YK_E_FORMAT,
       "rope_scaling|\"beta_fast\"|found 1"},
      {"{'rope_scaling': {'type': 'yarn', 'factor': 2, 'original_max_position_embeddings': 0}}", YK_E_FORMAT,
       "rope_scaling|\"original_max_position_embeddings\"|found 0"},
      {"{'rope_scaling': {'type': 'llama3', 'factor': 8, 'high_freq_factor': 4}}", YK_E_FORMAT,
       "rope_scaling|\"low_freq_factor\" is missing"},
      {"{'rope_scaling': {'type': 'llama3', 'factor': 8, 'high_freq_factor': 1, 'low_freq_factor': 2}}", YK_E_FORMAT,
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
  for (size_t i = 0; each_case(i, i < sizeof keys / sizeof *keys); i++) {
    char changes[128];
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    for (size_t j = 0; each_case(j, j < sizeof values / sizeof *values); j++) {
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
      {"{'rms_norm_eps': -1e-6}", YK_E_FORMAT, "\"rms_norm_eps\"|found -9.9999999999999995e-7"},
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
  int64_t q = (int64_t)config.n_heads * config.head_dim; /* guaranteed by the limits: any such size fits int64 */
  assert_true(q * config.hidden_size < INT64_MAX / 4 / YK_MAX_LAYERS);
}

static void activations(void **state)
{
  (void)state;
  static const struct {
    const char *changes;
    yk_activation_kind kind;
  } cases[] = {{"{}", YK_ACTIVATION_SILU},
               {"{'hidden_act': '-'}", YK_ACTIVATION_SILU},
               {"{'hidden_act': 'swish'}", YK_ACTIVATION_SILU},
               {"{'hidden_act': 'gelu'}", YK_ACTIVATION_GELU_ERF},
               {"{'hidden_act': 'gelu_pytorch_tanh'}", YK_ACTIVATION_GELU_TANH},
               {"{'hidden_act': 'relu2'}", YK_ACTIVATION_RELU2}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_model_config config = load_good(cases[i].changes, NULL, NULL);
    assert_int_equal(config.activation.kind, cases[i].kind);
    assert_true(config.activation.is_gated);
  }
}

static void unknown_models(void **state)
{
  (void)state;
  static const bad_case cases[] = {
      {"{'architectures': ['GPT2LMHeadModel']}", YK_E_UNSUPPORTED,
       "config.json|\"GPT2LMHeadModel\"|Llama|Mistral|Qwen2 to 3.8|MiniCPM|FM9G|gpt-oss|Phi-3"},
      {"{'architectures': ['Qwen4ExpForCausalLM']}", YK_E_UNSUPPORTED, "Qwen4Exp|Qwen2 to 3.8"},
      {"{'architectures': ['AModelWithALongNameForConditionalGeneration']}", YK_E_UNSUPPORTED,
       "\"AModelWithALongNameForCon...\"|Llama|Phi-3"},
      {"{'architectures': '-', 'model_type': 'qwen4_exp'}", YK_E_UNSUPPORTED, "qwen4_exp|supported"},
      {"{'architectures': ['Gemma3ForCausalLM'], 'attn_logit_softcapping': 50.0}", YK_E_UNSUPPORTED,
       "attn_logit_softcapping"},
      {"{'architectures': ['Gemma3ForCausalLM'], 'use_bidirectional_attention': true}", YK_E_UNSUPPORTED,
       "use_bidirectional_attention"},
      {"{'architectures': ['Gemma3ForCausalLM'], 'rope_parameters': {'full_attention': 5}}", YK_E_FORMAT,
       "rope_parameters|\"full_attention\"|expected an object, found integer"},
      {"{'architectures': ['Gemma3ForCausalLM'], 'rope_parameters': {'sliding_attention': [1]}}", YK_E_FORMAT,
       "rope_parameters|\"sliding_attention\"|expected an object, found array"},
      {"{'architectures': ['Gemma3ForCausalLM'], 'rope_parameters': {'full_attention': {}, 'factor': 2}}", YK_E_FORMAT,
       "rope_parameters|\"factor\"|expected only full_attention and sliding_attention"},
      {"{'architectures': ['Gemma3ForCausalLM'], 'rope_parameters': {'sliding_attention': {'factor': 2}}}", YK_E_FORMAT,
       "sliding_attention|\"rope_type\" is missing beside \"factor\""},
      {"{'architectures': ['Gemma3ForCausalLM'], 'rope_parameters': {'sliding_attention': {'rope_type': 'yarn'}}}",
       YK_E_UNSUPPORTED, "rope_parameters: sliding_attention: rotary type \"yarn\""},
      {"{'architectures': ['Mistral3ForConditionalGeneration'], 'text_config': {'model_type': 'mistral5'}}",
       YK_E_UNSUPPORTED, "text_config: model_type \"mistral5\"|supported: mistral, ministral3, mistral4"},
      {"{'architectures': ['MiniMaxM2ForCausalLM'], 'num_local_experts': 6, 'num_experts_per_tok': 2, "
       "'attn_type_list': [1, 0]}",
       YK_E_UNSUPPORTED, "attn_type_list[1]|softmax attention"},
      {"{'architectures': ['MiniMaxM2ForCausalLM'], 'num_local_experts': 6, 'num_experts_per_tok': 2, "
       "'attn_type_list': 0}",
       YK_E_FORMAT, "attn_type_list: expected an array of integers, found integer"},
      {"{'architectures': ['MiniMaxM2ForCausalLM'], 'num_local_experts': 6, 'num_experts_per_tok': 2, 'scoring_func': "
       "'softmax'}",
       YK_E_UNSUPPORTED, "scoring_func sigmoid|found softmax"},
      {"{'architectures': ['MiniMaxM2ForCausalLM'], 'num_local_experts': 6, 'num_experts_per_tok': 2, 'use_qk_norm': "
       "false}",
       YK_E_UNSUPPORTED, "use_qk_norm false|supported: true"},
      {"{'architectures': ['Gemma2ForCausalLM']}", YK_E_UNSUPPORTED, "Gemma2ForCausalLM|Gemma 3"},
      {"{'architectures': ['KimiLinearForCausalLM']}", YK_E_UNSUPPORTED, "KimiLinear|Kimi-K2"},
      {"{'architectures': '-', 'model_type': 'kimi_linear'}", YK_E_UNSUPPORTED, "kimi_linear|supported"},
      {"{'architectures': ['DeepseekV4ForCausalLM']}", YK_E_UNSUPPORTED, "DeepseekV4|DeepSeek-V2 to V3.2"},
      {"{'architectures': ['MiniMaxM1ForCausalLM']}", YK_E_UNSUPPORTED, "MiniMaxM1ForCausalLM\"; |MiniMax-M2,|Phi-3"},
      {"{'architectures': ['MuseGlimmerForCausalLM']}", YK_E_UNSUPPORTED, "MuseGlimmer|supported: Llama|Phi-3"},
      {"{'architectures': ['Step3p5ForCausalLM']}", YK_E_UNSUPPORTED, "Step3p5|supported"},
      {"{'architectures': ['LagunaForCausalLM']}", YK_E_UNSUPPORTED, "Laguna|supported"},
      {"{'architectures': ['Phi3ForCausalLM'], 'rope_scaling': {'type': 'linear', 'factor': 4}}", YK_E_UNSUPPORTED,
       "rope_scaling|\"linear\"|for this family|supported: default, longrope"},
      {"{'architectures': '-', 'model_type': 'mamba'}", YK_E_UNSUPPORTED, "\"mamba\"|supported: Llama"},
      {"{'architectures': '-', 'model_type': '-'}", YK_E_FORMAT, "\"architectures\" is missing"},
      {"{'architectures': 'LlamaForCausalLM'}", YK_E_FORMAT, "\"architectures\"|array of strings, found string"},
      {"{'architectures': [1]}", YK_E_FORMAT, "\"architectures\"|array of strings"},
      {"{'hidden_act': 'quick_gelu'}", YK_E_UNSUPPORTED,
       "hidden_act \"quick_gelu\"|supported: silu (swish), gelu, gelu_pytorch_tanh, relu2"},
      {"{'hidden_act': 1}", YK_E_FORMAT, "\"hidden_act\"|expected a string"},
      {"{'torch_dtype': 'float64'}", YK_E_UNSUPPORTED,
       "torch_dtype \"float64\"|float16 (half), bfloat16, float32, auto"},
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

static void broken_json_names_its_line(void **state)
{
  (void)state;
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"", "config.json|line"},
      {"[]", "config.json|expected an object, found array"},
      {"{\"a\": 1,}", "config.json|line 1|a key in double quotes"},
      {"{\"a\": \"\xff\"}", "config.json|line 1|byte 0xff"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_config_texts texts = {.config = cases[i].text, .config_bytes = strlen(cases[i].text)};
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].text, YK_E_FORMAT, cases[i].words, yk_model_config_parse(&texts, NULL, &config, &err), &err);
  }
}

/* JSON in the reading of Python's json module: an unused number may have any value, and the last of equal keys
 * counts. */
static void json_as_python_writes_it(void **state)
{
  (void)state;
  static const char text[] =
      "\xef\xbb\xbf{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 1, \"vocab_size\": 200, "
      "\"hidden_size\": 8, "
      "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"odd\": [NaN, -Infinity, "
      "1e400], "
      "\"max_position_embeddings\": 64, \"wide\": {\"a\": 1000000000000000019884624838656, \"a\": {}}, "
      "\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 32, \"damp\": NaN}, "
      "\"eos_token_id\": [-1, 3, 200, 1000000000000000019884624838656], \"bos_token_id\": 18446744073709551616}";
  static const char generation[] = "{\"odd\": Infinity, \"top_k\": -1000000000000000019884624838656, "
                                   "\"max_new_tokens\": 1000000000000000019884624838656}";
  yk_config_texts texts = {.config = text,
                           .config_bytes = sizeof text - 1,
                           .generation = generation,
                           .generation_bytes = sizeof generation - 1};
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_ok("config", yk_model_config_parse(&texts, NULL, &config, &err), &err);
  assert_int_equal(config.vocab_size, 200);
  assert_int_equal(config.n_eos_ids, 1);
  assert_int_equal(config.eos_ids[0], 3);
  assert_int_equal(config.bos_id, -1);
  assert_int_equal(config.generation.top_k, 0);
  assert_int_equal(config.generation.max_new_tokens, INT32_MAX);
  yk_model_config_free(&config);
}

/* A number that is needed and cannot be represented is refused by its key. */
static void needed_numbers_are_named(void **state)
{
  (void)state;
  static const char *const values[] = {"NaN", "Infinity", "-Infinity", "1e400", "1000000000000000019884624838656"};
  static const char *const keys[] = {"vocab_size", "max_position_embeddings", "rope_theta", "rms_norm_eps"};
  for (size_t i = 0; each_case(i, i < sizeof values / sizeof *values); i++)
    for (size_t j = 0; each_case(j, j < sizeof keys / sizeof *keys); j++) {
      char text[512], words[128];
      snprintf(text, sizeof text,
               "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 9, \"hidden_size\": 8, "
               "\"intermediate_size\": 8, "
               "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"max_position_embeddings\": 64, \"%s\": %s}",
               keys[j], values[i]);
      snprintf(words, sizeof words, "config.json|\"%s\"", keys[j]);
      yk_config_texts texts = {.config = text, .config_bytes = strlen(text)};
      yk_model_config config;
      yk_err err = YK_ERR_INIT;
      expect_error(text, YK_E_FORMAT, words, yk_model_config_parse(&texts, NULL, &config, &err), &err);
    }
}

static void files_of_a_directory(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_error("no config.json", YK_E_IO, "config.json|No such file",
               yk_model_config_load(dir.path, NULL, NULL, &config, &err), &err);
  json_t *root = config_parse(base_config);
  char *text = json_dumps(root, 0);
  write_text(&dir, "config.json", text);
  expect_ok("config.json alone", yk_model_config_load(dir.path, NULL, NULL, &config, &err), &err);
  assert_int_equal(config.vocab_size, 200);
  write_text(&dir, "generation_config.json", "{\"top_k\": 9}");
  write_text(&dir, "quant_config.json", "{\"w_bit\": 4, \"q_group_size\": 128, \"zero_point\": true}");
  expect_ok("with companions", yk_model_config_load(dir.path, NULL, NULL, &config, &err), &err);
  assert_int_equal(config.generation.top_k, 9);
  assert_int_equal(config.quant.scheme.group_size, 128);
  yk_model_config_free(&config);
  temp_dir other = temp_dir_make(); /* another directory's generation_config.json, which must exist */
  const yk_config_changes changes = {.generation_dir = other.path};
  expect_error("no other companion", YK_E_IO, "generation_config.json|No such file",
               yk_model_config_load(dir.path, &changes, NULL, &config, &err), &err);
  write_text(&other, "generation_config.json", "{\"top_k\": 3}");
  expect_ok("another's companion", yk_model_config_load(dir.path, &changes, NULL, &config, &err), &err);
  assert_int_equal(config.generation.top_k, 3);
  yk_model_config_free(&config);
  temp_dir_remove(&other);
  remove_file(&dir, "quant_config.json");
  write_text(&dir, "hf_quant_config.json", "{\"quantization\": {\"quant_algo\": \"W4A8_AWQ\"}}");
  expect_error("another quantize file", YK_E_UNSUPPORTED, "hf_quant_config.json: quant_algo \"W4A8_AWQ\"",
               yk_model_config_load(dir.path, NULL, NULL, &config, &err), &err);
  write_text(&dir, "generation_config.json", "{\"top_k\": }");
  expect_error("broken companion", YK_E_FORMAT, "generation_config.json|line 1",
               yk_model_config_load(dir.path, NULL, NULL, &config, &err), &err);
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
      cmocka_unit_test(activations),
      cmocka_unit_test(unknown_models),
      cmocka_unit_test(relatives),
      cmocka_unit_test(mistral_relatives),
      cmocka_unit_test(minimax_m2),
      cmocka_unit_test(gemma3),
      cmocka_unit_test(broken_json_names_its_line),
      cmocka_unit_test(json_as_python_writes_it),
      cmocka_unit_test(needed_numbers_are_named),
      cmocka_unit_test(files_of_a_directory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
