/* Configurations of latent attention: sizes, rotated elements, and refusals. */
#include "unit/loader_fixture.h"
#include "unit/single_quotes.h"

#include "each_case.h"
#include "loader/hf/hf_config.h"
#include "loader/model/weight_modules.h"

/* A small model of a class with the given keys of latent attention, written with ' for ". */
static yk_status parse_as(const char *class, const char *keys, yk_model_config *out, yk_err *err)
{
  char quoted[2048];
  snprintf(quoted, sizeof quoted,
           "{'architectures': ['%s'], 'hidden_size': 64, 'intermediate_size': 96,"
           " 'num_hidden_layers': 2, 'n_routed_experts': null, 'num_attention_heads': 6, 'num_key_value_heads': 6,"
           " 'vocab_size': 200, 'max_position_embeddings': 256, %s}",
           class, keys);
  char *text = double_quoted(quoted);
  const yk_config_texts texts = {.config = text, .config_bytes = strlen(text)};
  yk_status status = yk_model_config_parse(&texts, NULL, out, err);
  free(text);
  return status;
}

static yk_status parse(const char *keys, yk_model_config *out, yk_err *err)
{
  return parse_as("DeepseekV3ForCausalLM", keys, out, err);
}

static yk_model_config good(const char *keys)
{
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_ok(keys, parse(keys, &config, &err), &err);
  return config;
}

#define SIZES "'kv_lora_rank': 32, 'qk_nope_head_dim': 16, 'qk_rope_head_dim': 8, 'v_head_dim': 20"

static void sizes(void **state)
{
  (void)state;
  yk_model_config config = good(SIZES ", 'q_lora_rank': 48, 'attention_bias': true");
  assert_int_equal(config.family, YK_FAMILY_DEEPSEEK_V3);
  assert_int_equal(config.latent.q_rank, 48);
  assert_int_equal(config.latent.kv_rank, 32);
  assert_int_equal(config.latent.nope_dim, 16);
  assert_int_equal(config.latent.value_dim, 20);
  assert_int_equal(config.head_dim, 8);
  assert_int_equal(config.rotary_dim, 8);
  assert_int_equal(config.n_kv_heads, 1);
  assert_true(config.rotary_interleaved);
  assert_false(good(SIZES ", 'q_lora_rank': null, 'rope_interleave': false").rotary_interleaved);
}

typedef struct expected_role {
  yk_weight_role role;
  enum { ABSENT, NORM, LINEAR } kind;
  int64_t k, n;
  bool has_bias;
} expected_role;

static void expect_roles(const yk_model_config *config, const expected_role *roles, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(yk_weight_is_in_layer(config, roles[i].role, 0), roles[i].kind != ABSENT);
    if (roles[i].kind != ABSENT) assert_int_equal(yk_weight_is_linear(roles[i].role), roles[i].kind == LINEAR);
    if (roles[i].kind != LINEAR) continue;
    const yk_weight_module module = yk_weight_module_of(config, roles[i].role, 0);
    assert_int_equal(module.k, roles[i].k);
    assert_int_equal(module.n, roles[i].n);
    assert_int_equal(module.has_bias, roles[i].has_bias);
  }
}

static void roles(void **state)
{
  (void)state;
  yk_model_config two = good(SIZES ", 'q_lora_rank': 48, 'attention_bias': true");
  const expected_role of_two[] = {{YK_ROLE_Q, ABSENT, 0, 0, false},       {YK_ROLE_K, ABSENT, 0, 0, false},
                                  {YK_ROLE_Q_A, LINEAR, 64, 48, true},    {YK_ROLE_Q_A_NORM, NORM, 0, 0, false},
                                  {YK_ROLE_Q_B, LINEAR, 48, 144, false},  {YK_ROLE_KV_A, LINEAR, 64, 40, true},
                                  {YK_ROLE_KV_A_NORM, NORM, 0, 0, false}, {YK_ROLE_KV_B, LINEAR, 32, 216, false},
                                  {YK_ROLE_O, LINEAR, 120, 64, true}};
  expect_roles(&two, of_two, sizeof of_two / sizeof *of_two);
  yk_model_config one = good(SIZES ", 'q_lora_rank': null");
  const expected_role of_one[] = {{YK_ROLE_Q, LINEAR, 64, 144, false},
                                  {YK_ROLE_Q_A, ABSENT, 0, 0, false},
                                  {YK_ROLE_Q_A_NORM, ABSENT, 0, 0, false},
                                  {YK_ROLE_Q_B, ABSENT, 0, 0, false}};
  expect_roles(&one, of_one, sizeof of_one / sizeof *of_one);
}

static void refused(void **state)
{
  (void)state;
  static const struct {
    const char *keys, *words;
  } bad[] = {
      {SIZES, "q_lora_rank|missing"},
      {SIZES ", 'q_lora_rank': 0", "q_lora_rank|0"},
      {"'q_lora_rank': 8, 'qk_nope_head_dim': 16, 'qk_rope_head_dim': 8, 'v_head_dim': 20", "kv_lora_rank|missing"},
      {"'q_lora_rank': 8, 'kv_lora_rank': 4096, 'qk_nope_head_dim': 16, 'qk_rope_head_dim': 8, 'v_head_dim': 20",
       "kv_lora_rank|4096|1024"},
      {"'q_lora_rank': 8, 'kv_lora_rank': 32, 'qk_nope_head_dim': -1, 'qk_rope_head_dim': 8, 'v_head_dim': 20",
       "qk_nope_head_dim|-1"},
      {"'q_lora_rank': 8, 'kv_lora_rank': 32, 'qk_nope_head_dim': 16, 'qk_rope_head_dim': 7, 'v_head_dim': 20",
       "qk_rope_head_dim|even|7"},
      {"'q_lora_rank': 8, 'kv_lora_rank': 32, 'qk_nope_head_dim': 16, 'qk_rope_head_dim': 8", "v_head_dim|missing"},
      {SIZES ", 'q_lora_rank': 8, 'rope_interleave': 3", "rope_interleave"},
  };
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof *bad); i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_error(bad[i].keys, YK_E_FORMAT, bad[i].words, parse(bad[i].keys, &config, &err), &err);
  }
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  static const char keys[] = SIZES ", 'q_lora_rank': 8, 'mlp_bias': true";
  expect_error(keys, YK_E_UNSUPPORTED, "mlp_bias true|false", parse_as("DeepseekV2ForCausalLM", keys, &config, &err),
               &err);
}

/* Classes with V3's keys: which layers have experts, and the context of sparse attention. */
static void relatives(void **state)
{
  (void)state;
  static const char experts[] =
      SIZES ", 'q_lora_rank': 48, 'n_routed_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 32,"
            " 'n_shared_experts': 1, 'routed_scaling_factor': 1.5, 'n_group': 1";
  static const struct {
    const char *class, *keys;
    int32_t max_tokens;
    bool first, second;
  } cases[] = {{"Glm4MoeLiteForCausalLM", "", 256, false, true},
               {"Glm4MoeLiteForCausalLM", ", 'mlp_layer_types': ['sparse', 'dense']", 256, true, false},
               {"DeepseekV32ForCausalLM", ", 'first_k_dense_replace': 1, 'index_topk': 64", 64, false, true},
               {"GlmMoeDsaForCausalLM", ", 'first_k_dense_replace': 0, 'index_topk': 999", 256, true, true}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    char keys[1024];
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    snprintf(keys, sizeof keys, "%s%s", experts, cases[i].keys);
    expect_ok(cases[i].class, parse_as(cases[i].class, keys, &config, &err), &err);
    assert_int_equal(config.max_model_tokens, cases[i].max_tokens);
    assert_int_equal(config.experts.layers[0], cases[i].first);
    assert_int_equal(config.experts.layers[1], cases[i].second);
    assert_true(config.latent.kv_rank == 32 && config.rotary_interleaved && config.experts.scale == 1.5f);
  }
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_error("no scale", YK_E_FORMAT, "routed_scaling_factor",
               parse_as("DeepseekV32ForCausalLM",
                        SIZES ", 'q_lora_rank': 48, 'n_routed_experts': 4, 'num_experts_per_tok': 2,"
                              " 'moe_intermediate_size': 32, 'n_shared_experts': 1",
                        &config, &err),
               &err);
}

static void layer_types_that_do_not_fit(void **state)
{
  (void)state;
  static const struct {
    const char *types, *words;
    yk_status status;
  } cases[] = {{"['dense']", "mlp_layer_types|num_hidden_layers = 2", YK_E_FORMAT},
               {"['dense', 'moe']", "mlp_layer_types[1] \"moe\"|dense, sparse", YK_E_UNSUPPORTED},
               {"['dense', 1]", "mlp_layer_types[1]|not a string", YK_E_UNSUPPORTED}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    char keys[1024];
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    snprintf(keys, sizeof keys,
             SIZES ", 'q_lora_rank': 48, 'n_routed_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 32,"
                   " 'n_shared_experts': 1, 'routed_scaling_factor': 1.5, 'mlp_layer_types': %s",
             cases[i].types);
    expect_error(cases[i].types, cases[i].status, cases[i].words,
                 parse_as("Glm4MoeLiteForCausalLM", keys, &config, &err), &err);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(relatives), cmocka_unit_test(layer_types_that_do_not_fit),
                                     cmocka_unit_test(sizes), cmocka_unit_test(roles), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
