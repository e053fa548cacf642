/* Files without optional keys: the values of the families' classes in transformers. */
#include "unit/config_fixture.h"

#include <math.h>

#include "each_case.h"
#include "golden/class_defaults.h"

/* The keys that some family requires, and no others. */
static const char required_keys[] =
    "{'hidden_size': 64, 'intermediate_size': 96, 'num_hidden_layers': 4, 'num_attention_heads': 4,"
    " 'num_key_value_heads': 2, 'vocab_size': 300000, 'max_position_embeddings': 131072, 'num_experts': 4,"
    " 'num_local_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 32, 'n_routed_experts': 4,"
    " 'n_shared_experts': 1, 'shared_expert_intermediate_size': 32, 'first_k_dense_replace': 1, 'n_group': 1,"
    " 'routed_scaling_factor': 1.5, 'q_lora_rank': null, 'kv_lora_rank': 32, 'qk_nope_head_dim': 16,"
    " 'qk_rope_head_dim': 8, 'v_head_dim': 20, 'intermediate_size_mlp': 96}";

static yk_model_config load_without(const char *class, const char *change)
{
  char changes[256];
  yk_model_config config = {0};
  yk_err err = YK_ERR_INIT;
  snprintf(changes, sizeof changes, "{'architectures': ['%s']%s}", class, change);
  expect_ok(class, config_load(required_keys, changes, &config, &err), &err);
  return config;
}

static void expect_rope(const class_defaults *expected, const yk_model_config *config)
{
  const yk_rope_config *rope = &config->rope;
  bool has_type = rope->type == expected->rope_type && rope->factor == expected->rope_factor &&
                  rope->truncate == expected->rope_truncate;
  if (!has_type || (expected->rope_original > 0 && rope->original_max_positions != expected->rope_original))
    fail_msg("%s: rotary type %d, factor %g, original context %g, truncate %d", expected->name, rope->type,
             rope->factor, rope->original_max_positions, rope->truncate);
  if (rope->theta != expected->rope_theta) fail_msg("%s: rope_theta %g", expected->name, rope->theta);
  if (config->has_local_rope != (expected->local_theta > 0) ||
      (config->has_local_rope && config->local_rope.theta != expected->local_theta))
    fail_msg("%s: local base %g", expected->name, config->local_rope.theta);
  /* With latent attention a key of its own has the size of the rotating part. */
  double share = config->latent.kv_rank > 0 ? 1 : expected->rotary_share;
  if (config->rotary_dim != (int32_t)(config->head_dim * share))
    fail_msg("%s: %d of %d elements rotate", expected->name, config->rotary_dim, config->head_dim);
}

static void values_of_classes(void **state)
{
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof golden_class_defaults / sizeof *golden_class_defaults); i++) {
    const class_defaults *expected = &golden_class_defaults[i];
    const yk_model_config config = load_without(expected->name, "");
    expect_rope(expected, &config);
    if (config.rms_norm_eps != (float)expected->rms_norm_eps)
      fail_msg("%s: rms_norm_eps %g", expected->name, (double)config.rms_norm_eps);
    if (config.tie_word_embeddings != expected->ties_embeddings) fail_msg("%s: tie_word_embeddings", expected->name);
    if (config.bos_id != expected->bos) fail_msg("%s: bos_token_id %d", expected->name, config.bos_id);
    int32_t n_eos = 0;
    for (; n_eos < 3 && expected->eos[n_eos] >= 0; n_eos++)
      if (n_eos >= config.n_eos_ids || config.eos_ids[n_eos] != expected->eos[n_eos])
        fail_msg("%s: eos_token_id %d is missing", expected->name, expected->eos[n_eos]);
    if (n_eos != config.n_eos_ids) fail_msg("%s: %d ids of eos_token_id", expected->name, config.n_eos_ids);
  }
}

/* null and an object without members are no rotary settings; a base alone changes the base alone. */
static void rotary_settings_of_gpt_oss(void **state)
{
  (void)state;
  static const char *const changes[] = {", 'rope_scaling': null", ", 'rope_scaling': {}", ", 'rope_theta': 777"};
  for (size_t i = 0; each_case(i, i < sizeof changes / sizeof *changes); i++) {
    const yk_model_config config = load_without("GptOssForCausalLM", changes[i]);
    assert_int_equal(config.rope.type, YK_ROPE_YARN);
    assert_true(config.rope.factor == 32 && config.rope.theta == (i == 2 ? 777 : 1.5e5));
  }
  const yk_model_config config = load_without("GptOssForCausalLM", ", 'rope_parameters': {'rope_theta': 5000}");
  assert_true(config.rope.type == YK_ROPE_DEFAULT && config.rope.theta == 5000);
}

/* Ids outside text_config count, like ids inside. */
static void ids_of_nested_files(void **state)
{
  (void)state;
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  static const char file[] =
      "{'architectures': ['Gemma3ForConditionalGeneration'], 'eos_token_id': [5, 6], 'bos_token_id': 8,"
      " 'text_config': {'hidden_size': 64, 'intermediate_size': 96, 'num_hidden_layers': 2, 'eos_token_id': 7}}";
  expect_ok(file, config_load(file, "{}", &config, &err), &err);
  assert_int_equal(config.n_eos_ids, 3);
  assert_true(config.eos_ids[0] == 7 && config.eos_ids[1] == 5 && config.eos_ids[2] == 6 && config.bos_id == 8);
}

/* Keys whose class default fits a single model are required. */
static void keys_of_one_model(void **state)
{
  (void)state;
  static const char *const rows[][2] = {{"DeepseekV3ForCausalLM", "n_group"},
                                        {"DeepseekV3ForCausalLM", "routed_scaling_factor"},
                                        {"DeepseekV32ForCausalLM", "n_group"},
                                        {"GlmMoeDsaForCausalLM", "routed_scaling_factor"}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    char changes[128], words[64];
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    snprintf(changes, sizeof changes, "{'architectures': ['%s'], '%s': '-'}", rows[i][0], rows[i][1]);
    snprintf(words, sizeof words, "\"%s\" is missing", rows[i][1]);
    expect_error(changes, YK_E_FORMAT, words, config_load(required_keys, changes, &config, &err), &err);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(values_of_classes), cmocka_unit_test(rotary_settings_of_gpt_oss),
                                     cmocka_unit_test(ids_of_nested_files), cmocka_unit_test(keys_of_one_model)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
