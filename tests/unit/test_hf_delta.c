/* Configurations of gated delta nets: sizes, layers, the text part of models that read images, and refusals. */
#include "unit/hf_config_fixture.h"

#include "loader/model/weight_modules.h"

static void defaults_of_the_class(void **state)
{
  (void)state;
  yk_model_config c = good("{'architectures': ['Qwen3_5ForCausalLM']}");
  assert_int_equal(c.family, YK_FAMILY_QWEN3_5);
  assert_int_equal(c.head_dim, 256);
  assert_int_equal(c.rotary_dim, 64);
  assert_int_equal(c.delta.n_key_heads, 16);
  assert_int_equal(c.delta.n_value_heads, 32);
  assert_int_equal(c.delta.key_dim, 128);
  assert_int_equal(c.delta.value_dim, 128);
  assert_true(c.qk_norm && c.attention_gates && !c.delta.is_fused && !c.tie_word_embeddings);
  assert_true(c.norm_offset == 1);
  for (int i = 0; i < 4; i++) assert_int_equal(c.delta.layers[i], i != 3);
}

static void layers_and_their_modules(void **state)
{
  (void)state;
  yk_model_config c = good("{'architectures': ['Qwen3NextForCausalLM'], 'num_experts': 4, 'num_experts_per_tok': 2,"
                           " 'moe_intermediate_size': 32, 'shared_expert_intermediate_size': 32,"
                           " 'linear_num_key_heads': 2, 'linear_num_value_heads': 6, 'linear_key_head_dim': 16,"
                           " 'linear_value_head_dim': 32, 'layer_types': ['linear_attention', 'full_attention',"
                           " 'full_attention', 'linear_attention']}");
  assert_true(c.delta.is_fused && c.experts.normalise && c.experts.has_shared_gate);
  assert_true(c.delta.layers[0] && !c.delta.layers[1] && !c.delta.layers[2] && c.delta.layers[3]);
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_DELTA_QKVZ, 0).n, 2 * 32 + 2 * 192);
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_DELTA_BA, 0).n, 12);
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_DELTA_OUT, 0).k, 192);
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_Q, 0).n, 2 * 4 * 256);
  assert_true(yk_weight_is_in_layer(&c, YK_ROLE_DELTA_QKVZ, 0) && !yk_weight_is_in_layer(&c, YK_ROLE_DELTA_QKV, 0));
  assert_true(!yk_weight_is_in_layer(&c, YK_ROLE_Q, 0) && yk_weight_is_in_layer(&c, YK_ROLE_Q, 1));
  assert_false(yk_weight_is_in_layer(&c, YK_ROLE_DELTA_OUT, 1));
}

static void text_part(void **state)
{
  (void)state;
  char name[YK_WEIGHT_NAME_BYTES];
  yk_model_config c =
      good("{'architectures': ['Qwen3_5MoeForConditionalGeneration'], 'tie_word_embeddings': true, 'hidden_size': '-',"
           " 'torch_dtype': '-', 'text_config': {'hidden_size': 48, 'num_hidden_layers': 2, 'num_attention_heads': 4,"
           " 'num_key_value_heads': 2, 'vocab_size': 90, 'max_position_embeddings': 64, 'num_experts': 4,"
           " 'num_experts_per_tok': 2, 'moe_intermediate_size': 32, 'shared_expert_intermediate_size': 32,"
           " 'dtype': 'bfloat16', 'rope_parameters': {'rope_type': 'default', 'rope_theta': 1e7,"
           " 'partial_rotary_factor': 0.5, 'mrope_section': [11, 11, 10]}}}");
  assert_int_equal(c.hidden_size, 48);
  assert_int_equal(c.vocab_size, 90);
  assert_int_equal(c.rotary_dim, 128);
  assert_int_equal(c.dtype, YK_BF16);
  assert_true(c.tie_word_embeddings && c.rope.theta == 1e7);
  yk_weight_name(&c, YK_ROLE_DELTA_A_LOG, 1, name);
  assert_string_equal(name, "model.language_model.layers.1.linear_attn.A_log");
}

static void refusals(void **state)
{
  (void)state;
#define OF(keys) "{'architectures': ['Qwen3_5ForCausalLM'], " keys "}"
  static const bad_case cases[] = {
      {OF("'linear_num_key_heads': 16, 'linear_num_value_heads': 40"), YK_E_FORMAT,
       "linear_num_value_heads: expected a multiple of linear_num_key_heads 16, found 40"},
      {OF("'linear_conv_kernel_dim': 3"), YK_E_UNSUPPORTED, "linear_conv_kernel_dim 3 is not supported; supported: 4"},
      {OF("'linear_key_head_dim': 24"), YK_E_UNSUPPORTED, "linear_key_head_dim 24 is not supported"},
      {OF("'linear_value_head_dim': 512"), YK_E_UNSUPPORTED, "linear_value_head_dim 512 is not supported"},
      {OF("'output_gate_type': 'sigmoid'"), YK_E_UNSUPPORTED, "output_gate_type \"sigmoid\" is not supported"},
      {OF("'hidden_act': 'gelu'"), YK_E_UNSUPPORTED, "hidden_act is not supported for this family"},
      {OF("'layer_types': ['linear_attention']"), YK_E_FORMAT, "num_hidden_layers = 4 strings, found array of 1"},
      {OF("'layer_types': ['linear_attention', 'full_attention', 'mamba', 'full_attention']"), YK_E_UNSUPPORTED,
       "layer_types[2] \"mamba\" is not supported; supported: full_attention, linear_attention"},
      {OF("'text_config': 3"), YK_E_FORMAT, "key \"text_config\": expected an object, found integer"},
  };
#undef OF
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    assert_int_equal(load(cases[i].changes, NULL, NULL, &config, &err), cases[i].status);
    expect_words(cases[i].changes, cases[i].words, err.message);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(defaults_of_the_class),
                                     cmocka_unit_test(layers_and_their_modules), cmocka_unit_test(text_part),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
