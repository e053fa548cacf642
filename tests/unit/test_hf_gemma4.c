/* Configurations of Gemma 4: two kinds of attention layers, layers that read the cache of others, and refusals. */
#include "unit/hf_config_fixture.h"

#include "each_case.h"
#include "loader/model/weight_modules.h"

#define GEMMA4 "{'architectures': ['Gemma4ForCausalLM'], 'hidden_size_per_layer_input': 0"

/* Two kinds of layers, with the widths and rotations of each; the last layer never has a window. */
static void two_kinds_of_layers(void **state)
{
  (void)state;
  yk_model_config config =
      good("{'architectures': ['Gemma4ForCausalLM'], 'tie_word_embeddings': '-', 'rope_theta': '-', 'head_dim': '-',"
           " 'num_attention_heads': 8, 'num_key_value_heads': 4, 'num_global_key_value_heads': 2,"
           " 'attention_k_eq_v': true, 'hidden_size_per_layer_input': 0, 'final_logit_softcapping': 30.0}");
  assert_int_equal(config.family, YK_FAMILY_GEMMA4);
  assert_true(config.tie_word_embeddings && config.qk_norm && config.value_norms && config.result_norms);
  assert_true(config.layer_scalars && config.norm_offset == 0 && config.attention_scale == 1);
  assert_true(config.embed_scale == 8 && config.rounds_embed_scale && config.logit_cap == 30);
  assert_int_equal(config.activation.kind, YK_ACTIVATION_GELU_TANH);
  assert_true(config.rope.type == YK_ROPE_PROPORTIONAL && config.rope.share == 0.25 && config.rope.theta == 1e6);
  assert_true(config.has_local_rope && config.local_rope.theta == 1e4);
  const yk_attention_widths local = yk_model_config_widths(&config, 0), global = yk_model_config_widths(&config, 3);
  assert_true(config.window_tokens[0] == 512 && config.window_tokens[2] == 512 && config.window_tokens[3] == 0);
  assert_true(local.n_kv_heads == 4 && local.head_dim == 256 && local.rotary_dim == 256);
  assert_true(global.n_kv_heads == 2 && global.head_dim == 512 && global.rotary_dim == 512);
  assert_int_equal(yk_weight_module_of(&config, YK_ROLE_K, 0).n, 4 * 256);
  assert_int_equal(yk_weight_module_of(&config, YK_ROLE_O, 3).k, 8 * 512);
  assert_true(yk_weight_is_in_layer(&config, YK_ROLE_V, 2) && !yk_weight_is_in_layer(&config, YK_ROLE_V, 3));
}

/* The last layers read the cache of the last layer of their type before them. */
static void shared_layers(void **state)
{
  (void)state;
  const yk_model_config config =
      good("{'architectures': ['Gemma4ForConditionalGeneration'], 'text_config': {'hidden_size': 64,"
           " 'intermediate_size': 96, 'num_hidden_layers': 6, 'hidden_size_per_layer_input': 0,"
           " 'num_kv_shared_layers': 3, 'use_double_wide_mlp': true, 'layer_types': ['full_attention',"
           " 'sliding_attention', 'sliding_attention', 'sliding_attention', 'full_attention', 'sliding_attention'],"
           " 'per_layer_config': {'00': {'head_dim': 32}, '04': {'head_dim': 32}, '05': {'head_dim': 32}}}}");
  static const int32_t layers[] = {0, 1, 2, 2, 0, 0};
  assert_int_equal(config.family, YK_FAMILY_GEMMA4_VL);
  assert_true(config.head_dim == 32 && config.n_kv_heads == 4 && config.local.head_dim == 256 && config.n_heads == 8);
  for (int32_t i = 0; i < 6; i++) {
    assert_int_equal(yk_model_config_kv_layer(&config, i), layers[i]);
    assert_int_equal(yk_weight_is_in_layer(&config, YK_ROLE_K, i), i < 3);
    assert_int_equal(yk_weight_module_of(&config, YK_ROLE_DOWN, i).k, i < 3 ? 96 : 192);
  }
}

static void refusals(void **state)
{
  (void)state;
  static const struct {
    const char *changes;
    yk_status status;
    const char *words;
  } cases[] = {
      {GEMMA4 ", 'num_kv_shared_layers': 2, 'layer_types': ['sliding_attention', 'sliding_attention', "
              "'sliding_attention', 'full_attention']}",
       YK_E_FORMAT, "num_kv_shared_layers 2: layer 3|before layer 2"},
      {GEMMA4 ", 'per_layer_config': {'1': {'head_dim': 32}}}", YK_E_UNSUPPORTED, "per_layer_config|the 1 layers"},
      {GEMMA4 ", 'per_layer_config': {'3': {'head_dim': 32}, '03': {'head_dim': 32}}}", YK_E_UNSUPPORTED,
       "per_layer_config|the 1 layers"},
      {GEMMA4 ", 'per_layer_config': {'3': {'head_dim': 32}, 'x': {'head_dim': 32}}}", YK_E_UNSUPPORTED,
       "per_layer_config|the 1 layers"},
      {GEMMA4 ", 'per_layer_config': {'3': {'head_dim': 33}}}", YK_E_FORMAT, "head_dim: expected an even number"},
      {GEMMA4 ", 'num_global_key_value_heads': 3, 'attention_k_eq_v': true}", YK_E_FORMAT,
       "num_global_key_value_heads: expected a divisor"},
      {GEMMA4 ", 'use_bidirectional_attention': 'all'}", YK_E_UNSUPPORTED, "use_bidirectional_attention"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].changes, cases[i].status, cases[i].words, load(cases[i].changes, NULL, NULL, &config, &err),
                 &err);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(two_kinds_of_layers), cmocka_unit_test(shared_layers),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
