/* Configurations of Nemotron-H and Nemotron-3: blocks in both forms, Mamba2, experts, and refusals. */
#include <math.h>

#include "unit/hf_config_fixture.h"

#include "loader/model/weight_modules.h"

#define MAMBA "'mamba_num_heads': 6, 'mamba_head_dim': 16, 'n_groups': 3, 'ssm_state_size': 32"
#define EXPERTS                                                                                                        \
  "'n_routed_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 32,"                                      \
  " 'moe_shared_expert_intermediate_size': 48, 'routed_scaling_factor': 2.5"
#define H "{'architectures': ['NemotronHForCausalLM'], "

static void blocks_in_both_forms(void **state)
{
  static const char *const forms[] = {
      H MAMBA ", " EXPERTS ", 'hybrid_override_pattern': 'ME*-'}",
      H MAMBA ", " EXPERTS ", 'num_hidden_layers': '-', 'layers_block_type': ['mamba', 'moe', 'attention', 'mlp']}",
      H MAMBA ", " EXPERTS ", 'layers_block_type': ['linear_attention', 'moe', 'full_attention', 'mlp']}"};
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    yk_model_config c = good(forms[i]);
    assert_int_equal(c.n_layers, 4);
    for (int layer = 0; layer < 4; layer++) {
      assert_int_equal(c.parts[layer], layer % 2 ? YK_LAYER_FFN_ALONE : YK_LAYER_ATTENTION_ALONE);
      assert_int_equal(c.mamba.layers[layer], layer == 0);
      assert_int_equal(c.experts.layers[layer], layer == 1);
    }
    assert_true(yk_model_has_states(&c) && yk_layer_is_recurrent(&c, 0) && !yk_layer_is_recurrent(&c, 2));
  }
}

static void arithmetic(void **state)
{
  (void)state;
  yk_model_config c = good(H MAMBA ", " EXPERTS ", 'hybrid_override_pattern': 'ME*', 'layer_norm_epsilon': 1e-4,"
                                   " 'time_step_limit': [0.5, {'__float__': 'Infinity'}],"
                                   " 'moe_latent_size': 16, 'intermediate_size': '-'}");
  assert_int_equal(c.family, YK_FAMILY_NEMOTRON_H);
  assert_int_equal(c.head_dim, 128);
  assert_int_equal(c.rotary_dim, 0);
  assert_int_equal(c.activation.kind, YK_ACTIVATION_RELU2);
  assert_true(!c.activation.is_gated && !c.qkv_bias && !c.qk_norm && c.rms_norm_eps == 1e-4f);
  assert_true(c.mamba.min_step == 0.5f && isinf(c.mamba.max_step) && c.mamba.has_conv_bias && !c.mamba.has_biases);
  assert_true(c.experts.scoring == YK_SCORE_SIGMOID && c.experts.has_choice_bias && c.experts.normalise);
  assert_true(c.experts.scale == 2.5f && c.experts.shared_ffn_size == 48 && c.experts.latent_size == 16);
  c = good(H MAMBA ", 'hybrid_override_pattern': 'M', 'time_step_limit': [0.0, 3.5], 'use_bias': true,"
                   " 'use_conv_bias': false}");
  assert_true(c.mamba.min_step == 0 && c.mamba.max_step == 3.5f && !c.mamba.has_conv_bias && c.mamba.has_biases);
  assert_int_equal(c.experts.n_experts, 0);
}

static void modules(void **state)
{
  (void)state;
  char name[YK_WEIGHT_NAME_BYTES];
  yk_model_config c = good(H MAMBA ", " EXPERTS ", 'hybrid_override_pattern': 'ME*-', 'moe_latent_size': 16}");
  const int64_t hidden = c.hidden_size;
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_MAMBA_IN, 0).n, 2 * 96 + 2 * 96 + 6);
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_MAMBA_OUT, 0).k, 96);
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_EXPERT_UP, 1).k, 16);
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_EXPERT_DOWN, 1).n, 16);
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_SHARED_UP, 1).k, hidden);
  assert_int_equal(yk_weight_module_of(&c, YK_ROLE_EXPERTS_OUT, 1).n, hidden);
  for (yk_weight_role role = YK_ROLE_ATTENTION_NORM; role < YK_N_ROLES; role++) {
    const bool is_of_mamba = role >= YK_ROLE_MAMBA_IN && role <= YK_ROLE_MAMBA_OUT;
    assert_int_equal(yk_weight_is_in_layer(&c, role, 0), is_of_mamba || role == YK_ROLE_ATTENTION_NORM);
  }
  assert_true(yk_weight_is_in_layer(&c, YK_ROLE_FFN_NORM, 1) && !yk_weight_is_in_layer(&c, YK_ROLE_EXPERT_GATE, 1));
  assert_true(yk_weight_is_in_layer(&c, YK_ROLE_EXPERTS_IN, 1) && !yk_weight_is_in_layer(&c, YK_ROLE_SHARED_GATE, 1));
  assert_true(yk_weight_is_in_layer(&c, YK_ROLE_O, 2) && !yk_weight_is_in_layer(&c, YK_ROLE_FFN_NORM, 2));
  assert_true(yk_weight_is_in_layer(&c, YK_ROLE_UP, 3) && !yk_weight_is_in_layer(&c, YK_ROLE_GATE, 3));
  yk_weight_name(&c, YK_ROLE_MAMBA_SKIP, 0, name);
  assert_string_equal(name, "backbone.layers.0.mixer.D");
  yk_weight_name_of_expert(&c, YK_ROLE_EXPERT_UP, 1, 3, name);
  assert_string_equal(name, "backbone.layers.1.mixer.experts.3.up_proj");
}

static void refusals(void **state)
{
  (void)state;
#define OF(keys)   H MAMBA ", " EXPERTS ", " keys "}"
#define M_OF(keys) OF("'hybrid_override_pattern': 'M', " keys)
#define E_OF(keys) OF("'hybrid_override_pattern': 'E', " keys)
  static const bad_case cases[] = {
      {OF("'hybrid_override_pattern': 'MO'"), YK_E_UNSUPPORTED, "block 1 is 'O'"},
      {OF("'hybrid_override_pattern': ''"), YK_E_FORMAT, "expected 1 to 1024 blocks, found 0"},
      {OF("'layers_block_type': 'M'"), YK_E_FORMAT, "expected an array of strings"},
      {OF("'layers_block_type': ['mamba', 'conv']"), YK_E_UNSUPPORTED, "layers_block_type[1] \"conv\""},
      {OF("'num_hidden_layers': 2"), YK_E_FORMAT, "\"hybrid_override_pattern\" is missing"},
      {M_OF("'n_groups': 4"), YK_E_FORMAT, "n_groups: expected a divisor of the 6 heads"},
      {M_OF("'ssm_state_size': 24"), YK_E_UNSUPPORTED, "ssm_state_size 24"},
      {M_OF("'mamba_head_dim': 8"), YK_E_UNSUPPORTED, "mamba_head_dim 8"},
      {M_OF("'mamba_num_heads': '-'"), YK_E_FORMAT, "mamba_num_heads"},
      {M_OF("'conv_kernel': 3"), YK_E_UNSUPPORTED, "conv_kernel 3 is not supported; supported: 4"},
      {M_OF("'time_step_limit': [1]"), YK_E_FORMAT, "time_step_limit: expected two numbers"},
      {M_OF("'time_step_limit': [2, 1]"), YK_E_FORMAT, "time_step_limit: expected two numbers"},
      {M_OF("'mamba_hidden_act': 'gelu'"), YK_E_UNSUPPORTED, "mamba_hidden_act \"gelu\""},
      {OF("'hybrid_override_pattern': 'M-', 'mlp_hidden_act': 'tanh'"), YK_E_UNSUPPORTED, "mlp_hidden_act \"tanh\""},
      {OF("'hybrid_override_pattern': 'M-', 'intermediate_size': '-'"), YK_E_FORMAT, "intermediate_size"},
      {E_OF("'n_shared_experts': 2"), YK_E_UNSUPPORTED, "n_shared_experts 2"},
      {E_OF("'mlp_bias': true"), YK_E_UNSUPPORTED, "mlp_bias true"},
      {E_OF("'n_group': 3"), YK_E_FORMAT, "n_group: expected a divisor of the 4 experts"},
  };
#undef E_OF
#undef M_OF
#undef OF
  EXPECT_BAD(cases);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_in_both_forms), cmocka_unit_test(arithmetic),
                                     cmocka_unit_test(modules), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
