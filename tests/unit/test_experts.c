/* Mixtures of experts in the loader: configurations, refusals, names, experts fused in one tensor. */
#include "unit/config_fixture.h"

#include <math.h>

#include "each_case.h"
#include "loader/fused_experts.h"
#include "loader/model/weight_modules.h"

#define COMMON                                                                                                         \
  " 'vocab_size': 200, 'hidden_size': 64, 'intermediate_size': 96, 'num_hidden_layers': 4, 'num_attention_heads': 4,"  \
  " 'num_key_value_heads': 2, 'max_position_embeddings': 256"

static const char qwen3[] = "{'architectures': ['Qwen3MoeForCausalLM'], 'num_experts': 12, 'num_experts_per_tok': 5,"
                            " 'moe_intermediate_size': 40," COMMON "}";
static const char qwen2[] = "{'model_type': 'qwen2_moe', 'num_experts': 7, 'num_experts_per_tok': 2,"
                            " 'moe_intermediate_size': 40, 'shared_expert_intermediate_size': 56," COMMON "}";
static const char mixtral[] = "{'model_type': 'mixtral', 'num_local_experts': 8, 'num_experts_per_tok': 2," COMMON "}";
static const char glm4[] = "{'architectures': ['Glm4MoeForCausalLM'], 'n_routed_experts': 12,"
                           " 'num_experts_per_tok': 4, 'moe_intermediate_size': 24, 'n_shared_experts': 2,"
                           " 'first_k_dense_replace': 1, 'n_group': 3, 'topk_group': 2," COMMON "}";

static void expect_layers(const yk_model_config *c, const char *layers)
{
  for (int i = 0; i < c->n_layers; i++) assert_int_equal(c->experts.layers[i], layers[i] == 'x');
}

static void qwen_values_and_defaults(void **state)
{
  (void)state;
  yk_model_config c = config_good(qwen3, "{}");
  const yk_experts_config *x = &c.experts;
  assert_int_equal(c.family, YK_FAMILY_QWEN3_MOE);
  assert_string_equal(yk_model_family_name(c.family), "qwen3_moe");
  assert_true(c.qk_norm && !c.qkv_bias && !c.o_bias && c.ffn_size == 96 && c.n_eos_ids == 0);
  assert_true(x->n_experts == 12 && x->top_k == 5 && x->ffn_size == 40 && x->shared_ffn_size == 0);
  assert_true(x->scoring == YK_SCORE_SOFTMAX && x->n_groups == 1 && x->top_groups == 1 && x->scale == 1);
  assert_true(!x->normalise && !x->has_choice_bias && !x->has_shared_gate);
  expect_layers(&c, "xxxx");
  c = config_good(qwen3, "{'norm_topk_prob': true, 'decoder_sparse_step': 2, 'mlp_only_layers': [3, 9]}");
  assert_true(c.experts.normalise);
  expect_layers(&c, ".x..");
  c = config_good(qwen3, "{'num_experts': 0, 'use_sliding_window': true, 'sliding_window': 9}");
  expect_layers(&c, "....");
  assert_true(c.window_tokens[0] == 9 && c.window_tokens[3] == 9);
  c = config_good(qwen3, "{'num_experts': '-', 'num_local_experts': 9}");
  assert_int_equal(x->n_experts, 9);
  c = config_good(qwen2, "{}");
  assert_true(x->n_experts == 7 && x->shared_ffn_size == 56 && x->has_shared_gate && c.qkv_bias && !c.qk_norm);
  assert_false(config_good(qwen2, "{'qkv_bias': false}").qkv_bias);
}

static void mixtral_and_glm4_values_and_defaults(void **state)
{
  (void)state;
  yk_model_config c = config_good(mixtral, "{}");
  const yk_experts_config *x = &c.experts;
  assert_int_equal(c.family, YK_FAMILY_MIXTRAL);
  assert_true(c.rope.theta == 1e6 && c.rms_norm_eps == 1e-5f && c.window_tokens[0] == 0);
  assert_true(x->n_experts == 8 && x->top_k == 2 && x->ffn_size == 96 && x->normalise);
  assert_int_equal(config_good(mixtral, "{'sliding_window': 20}").window_tokens[2], 20);
  expect_layers(&c, "xxxx");
  c = config_good(glm4, "{}");
  assert_true(c.rotary_dim == 8 && !c.rotary_interleaved && !c.qk_norm && !c.qkv_bias && c.rms_norm_eps == 1e-5f);
  assert_true(x->n_experts == 12 && x->top_k == 4 && x->ffn_size == 24 && x->shared_ffn_size == 48);
  assert_true(x->scoring == YK_SCORE_SIGMOID && x->has_choice_bias && x->normalise && x->scale == 1);
  assert_true(x->n_groups == 3 && x->top_groups == 2 && x->group_score == YK_GROUP_SCORE_LARGEST_TWO);
  expect_layers(&c, ".xxx");
  c = config_good(glm4, "{'scoring_func': 'softmax', 'topk_method': 'group_limited_greedy', 'moe_layer_freq': 2,"
                        " 'routed_scaling_factor': 2.5, 'norm_topk_prob': false, 'attention_bias': true,"
                        " 'use_qk_norm': true, 'first_k_dense_replace': 0}");
  assert_true(x->scoring == YK_SCORE_SOFTMAX && !x->has_choice_bias && x->group_score == YK_GROUP_SCORE_MAXIMUM);
  assert_true(!x->normalise && x->scale == 2.5f && c.qkv_bias && !c.o_bias && c.qk_norm);
  expect_layers(&c, "x.x.");
  c = config_good(glm4, "{'topk_method': 'greedy', 'n_shared_experts': 0, 'first_k_dense_replace': 9}");
  assert_true(x->n_groups == 1 && x->shared_ffn_size == 0);
  expect_layers(&c, "....");
  c = config_good(glm4, "{'n_shared_experts': null}");
  assert_int_equal(x->shared_ffn_size, 0);
}

static const char gpt_oss[] = "{'architectures': ['GptOssForCausalLM'], 'num_local_experts': 5,"
                              " 'num_experts_per_tok': 2," COMMON "}";

static void gpt_oss_values_and_defaults(void **state)
{
  (void)state;
  yk_model_config c = config_good(gpt_oss, "{}");
  const yk_experts_config *x = &c.experts;
  assert_int_equal(c.family, YK_FAMILY_GPT_OSS);
  assert_true(c.head_dim == 64 && c.rope.theta == 1.5e5 && c.rms_norm_eps == 1e-5f && c.n_eos_ids == 0);
  assert_true(c.qkv_bias && c.o_bias && c.attention_sinks && !c.qk_norm);
  assert_true(x->n_experts == 5 && x->top_k == 2 && x->ffn_size == 96 && x->normalise && x->has_biases);
  assert_true(x->is_interleaved && x->scoring == YK_SCORE_SOFTMAX && x->shared_ffn_size == 0);
  assert_true(c.activation.kind == YK_ACTIVATION_CLAMPED_SWIGLU && c.activation.is_gated);
  assert_true(c.activation.alpha == 1.702f && c.activation.limit == 7);
  for (int i = 0; i < 4; i++) assert_int_equal(c.window_tokens[i], i % 2 ? 0 : 128);
  c = config_good(gpt_oss, "{'swiglu_limit': 5, 'swiglu_alpha': 2, 'attention_bias': false, 'sliding_window': 20,"
                           " 'layer_types': ['full_attention', 'full_attention', 'sliding_attention',"
                           " 'full_attention']}");
  assert_true(c.activation.alpha == 2 && c.activation.limit == 5 && !c.qkv_bias && !c.o_bias);
  assert_true(c.window_tokens[0] == 0 && c.window_tokens[2] == 20);
  yk_weight_module up = yk_weight_module_of(&c, YK_ROLE_EXPERT_UP, 0);
  assert_true(up.n == 192 && up.first_n == 96 && up.n_own == 96 && up.has_bias);
  assert_true(yk_weight_module_of(&c, YK_ROLE_ROUTER, 0).has_bias);
}

static const char ernie[] = "{'architectures': ['Ernie4_5_MoeForCausalLM'], 'moe_num_experts': 6, 'moe_k': 2,"
                            " 'moe_intermediate_size': 24," COMMON "}";

static void ernie_values_and_defaults(void **state)
{
  (void)state;
  yk_model_config c = config_good(ernie, "{}");
  const yk_experts_config *x = &c.experts;
  char name[YK_WEIGHT_NAME_BYTES];
  assert_int_equal(c.family, YK_FAMILY_ERNIE4_5_MOE);
  assert_true(c.rope.theta == 5e5 && c.rotary_interleaved && c.rms_norm_eps == 1e-5f && c.tie_word_embeddings);
  assert_true(c.head_dim == 16 && c.bos_id == 1 && c.eos_ids[0] == 2 && !c.qkv_bias);
  assert_true(x->n_experts == 6 && x->top_k == 2 && x->ffn_size == 24 && x->shared_ffn_size == 48);
  assert_true(x->normalise && x->has_choice_bias && x->scoring == YK_SCORE_SOFTMAX && x->n_groups == 1);
  expect_layers(&c, ".xxx");
  yk_weight_name(&c, YK_ROLE_CHOICE_BIAS, 2, name);
  assert_string_equal(name, "model.layers.2.mlp.moe_statics.e_score_correction_bias");
  c = config_good(ernie, "{'moe_layer_interval': 2, 'moe_layer_start_index': 2, 'moe_num_shared_experts': 0,"
                         " 'moe_num_experts': '-', 'num_experts': 5, 'moe_k': '-', 'num_experts_per_tok': 3}");
  assert_true(x->n_experts == 5 && x->top_k == 3 && x->shared_ffn_size == 0);
  expect_layers(&c, "...x");
  c = config_good(ernie, "{'moe_layer_start_index': 0, 'moe_layer_end_index': 2}");
  expect_layers(&c, "xxx.");
}

static const char granite[] = "{'architectures': ['GraniteMoeSharedForCausalLM'], 'num_local_experts': 5,"
                              " 'num_experts_per_tok': 2," COMMON "}";

static void granite_values_and_defaults(void **state)
{
  (void)state;
  yk_model_config c = config_good(granite, "{'shared_intermediate_size': 40, 'residual_multiplier': 0.5}");
  const yk_experts_config *x = &c.experts;
  assert_int_equal(c.family, YK_FAMILY_GRANITE_MOE);
  assert_true(c.residual_scale == 0.5f && c.attention_scale == 1 && c.logit_scale == 1 && !c.qkv_bias && !c.mlp_bias);
  assert_true(x->n_experts == 5 && x->top_k == 2 && x->ffn_size == 96 && x->normalise && x->shared_ffn_size == 40);
  assert_true(x->scoring == YK_SCORE_SOFTMAX && !x->has_choice_bias && !x->has_shared_gate);
  expect_layers(&c, "xxxx");
  yk_weight_module up = yk_weight_module_of(&c, YK_ROLE_SHARED_UP, 0);
  assert_true(up.k == 64 && up.n == 80 && up.first_n == 40 && up.n_own == 40);
  c = config_good(granite, "{'architectures': '-', 'model_type': 'granitemoe', 'attention_bias': true}");
  assert_true(c.family == YK_FAMILY_GRANITE_MOE && x->shared_ffn_size == 0 && c.qkv_bias && c.o_bias);
}

static const char granite_hybrid[] =
    "{'architectures': ['GraniteMoeHybridForCausalLM'], 'num_local_experts': 5, 'num_experts_per_tok': 2,"
    " 'shared_intermediate_size': 40, 'layer_types': ['mamba', 'mamba', 'attention', 'mamba'], 'mamba_n_heads': 8,"
    " 'mamba_d_head': 16, 'mamba_d_state': 32, 'mamba_n_groups': 1," COMMON "}";

static void granite_hybrid_values_and_defaults(void **state)
{
  (void)state;
  char name[YK_WEIGHT_NAME_BYTES];
  yk_model_config c = config_good(granite_hybrid, "{'mamba_conv_bias': false, 'mamba_proj_bias': true}");
  const yk_experts_config *x = &c.experts;
  assert_int_equal(c.family, YK_FAMILY_GRANITE_HYBRID);
  assert_true(c.mamba.n_heads == 8 && c.mamba.head_dim == 16 && c.mamba.state_size == 32 && c.mamba.n_groups == 1);
  assert_true(c.mamba.has_biases && !c.mamba.has_conv_bias && c.rotary_dim == 0 && c.attention_scale == 1);
  assert_true(x->n_experts == 5 && x->ffn_size == 96 && x->shared_ffn_size == 40);
  expect_layers(&c, "xxxx");
  assert_true(yk_layer_is_recurrent(&c, 1) && !yk_layer_is_recurrent(&c, 2) && c.parts[1] == YK_LAYER_WHOLE);
  yk_weight_name(&c, YK_ROLE_MAMBA_OUT, 1, name);
  assert_string_equal(name, "model.layers.1.mamba.out_proj");
  c = config_good(granite_hybrid, "{'num_local_experts': 0, 'position_embedding_type': 'rope', 'layer_types': '-',"
                                  " 'layers_block_type': ['linear_attention', 'full_attention', 'mamba', 'mamba']}");
  assert_true(x->n_experts == 0 && c.ffn_size == 40 && c.rotary_dim == 16 && c.mamba.has_conv_bias);
  assert_true(c.mamba.layers[0] && !c.mamba.layers[1] && c.mamba.layers[2]);
  yk_weight_name(&c, YK_ROLE_DOWN, 3, name);
  assert_string_equal(name, "model.layers.3.shared_mlp.output_linear");
}

static const char hunyuan[] = "{'architectures': ['HunYuanMoEV1ForCausalLM'], 'num_experts': 6,"
                              " 'moe_topk': [3, 3, 3, 3], 'num_shared_expert': [1, 1, 1, 1],"
                              " 'moe_intermediate_size': 96," COMMON "}";

static void hunyuan_values_and_defaults(void **state)
{
  (void)state;
  yk_model_config c = config_good(hunyuan, "{'rope_scaling': {'type': 'dynamic', 'alpha': 1000.0, 'factor': 1.0}}");
  const yk_experts_config *x = &c.experts;
  assert_int_equal(c.family, YK_FAMILY_HUNYUAN_MOE);
  assert_true(c.qk_norm && c.qk_norm_follows && c.rms_norm_eps == 1e-5f && !c.tie_word_embeddings);
  assert_true(c.rope.type == YK_ROPE_DEFAULT && fabs(c.rope.theta / (1e4 * pow(1000, 16.0 / 14)) - 1) < 1e-12);
  assert_int_equal(c.max_model_tokens, 256);
  assert_true(config_good(hunyuan, "{'rope_scaling': {'type': 'dynamic', 'factor': 2.0}}").rope.theta == 1e4);
  assert_true(x->n_experts == 6 && x->top_k == 3 && x->ffn_size == 96 && x->shared_ffn_size == 96 && x->normalise);
  expect_layers(&c, "xxxx");
  c = config_good(hunyuan, "{'moe_topk': 2, 'num_shared_expert': '-', 'moe_intermediate_size': '-'}");
  assert_true(x->top_k == 2 && c.rope.theta == 1e4);
  c = config_good(hunyuan, "{'architectures': ['HunYuanDenseV1ForCausalLM'], 'attention_bias': true}");
  assert_true(c.family == YK_FAMILY_HUNYUAN && c.qk_norm_follows && c.qkv_bias && c.o_bias && x->n_experts == 0);
}

static void bad_values_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *base, *changes, *words;
    yk_status status;
  } cases[] = {
      {qwen3, "{'num_experts_per_tok': 13}", "num_experts_per_tok|at most the 12 experts|13", YK_E_FORMAT},
      {qwen3, "{'num_experts_per_tok': 0}", "num_experts_per_tok|found 0", YK_E_FORMAT},
      {qwen3, "{'num_experts': 200, 'num_experts_per_tok': 33}", "num_experts_per_tok 33|1 to 32", YK_E_UNSUPPORTED},
      {qwen3, "{'num_experts': 1025}", "num_experts|0 to 1024|1025", YK_E_FORMAT},
      {qwen3, "{'num_experts': '-'}", "num_experts|missing", YK_E_FORMAT},
      {qwen3, "{'num_experts': '-', 'num_local_experts': -1}", "num_local_experts|found -1", YK_E_FORMAT},
      {qwen3, "{'moe_intermediate_size': '-'}", "moe_intermediate_size|missing", YK_E_FORMAT},
      {qwen3, "{'moe_intermediate_size': 0}", "moe_intermediate_size|found 0", YK_E_FORMAT},
      {qwen3, "{'decoder_sparse_step': 0}", "decoder_sparse_step|found 0", YK_E_FORMAT},
      {qwen3, "{'mlp_only_layers': 3}", "mlp_only_layers|array", YK_E_FORMAT},
      {qwen3, "{'mlp_only_layers': [1, -1]}", "mlp_only_layers[1]|from 0 on", YK_E_FORMAT},
      {qwen3, "{'mlp_only_layers': ['a']}", "mlp_only_layers[0]|string", YK_E_FORMAT},
      {qwen2, "{'shared_expert_intermediate_size': '-'}", "shared_expert_intermediate_size|missing", YK_E_FORMAT},
      {gpt_oss, "{'swiglu_limit': 0}", "swiglu_limit", YK_E_FORMAT},
      {gpt_oss, "{'sliding_window': 0}", "sliding_window|found 0", YK_E_FORMAT},
      {mixtral, "{'num_local_experts': 0}", "num_local_experts|found 0", YK_E_FORMAT},
      {mixtral, "{'num_experts_per_tok': '-'}", "num_experts_per_tok|missing", YK_E_FORMAT},
      {granite_hybrid, "{'mamba_n_groups': 5}", "mamba_n_groups|expected a divisor|found 5", YK_E_FORMAT},
      {granite_hybrid, "{'layer_types': ['mamba']}", "layer_types|num_hidden_layers = 4|of 1", YK_E_FORMAT},
      {granite_hybrid, "{'layer_types': ['mamba', 'conv', 'mamba', 'mamba']}", "layer_types[1] \"conv\"|attention",
       YK_E_UNSUPPORTED},
      {granite_hybrid, "{'num_local_experts': '-'}", "num_local_experts|missing", YK_E_FORMAT},
      {granite_hybrid, "{'num_local_experts': 0, 'shared_intermediate_size': '-'}", "shared_intermediate_size|missing",
       YK_E_FORMAT},
      {hunyuan, "{'moe_topk': [3, 3, 2, 3]}", "moe_topk[2] 2 beside 3|one number", YK_E_UNSUPPORTED},
      {hunyuan, "{'moe_topk': [3, -1]}", "moe_topk[1]|from 0 on|-1", YK_E_FORMAT},
      {hunyuan, "{'moe_topk': 7}", "moe_topk|at most the 6 experts|7", YK_E_FORMAT},
      {hunyuan, "{'moe_topk': '-'}", "num_experts_per_tok|at least 1|0", YK_E_FORMAT},
      {hunyuan, "{'num_experts': 0}", "num_experts|1 to 1024|0", YK_E_FORMAT},
      {hunyuan, "{'moe_intermediate_size': [40, 40, 40, 40]}", "moe_intermediate_size 40|96", YK_E_UNSUPPORTED},
      {hunyuan, "{'num_shared_expert': []}", "num_shared_expert|one for each layer|an empty array", YK_E_FORMAT},
      {hunyuan, "{'num_shared_expert': 2}", "num_shared_expert 2|supported: 1", YK_E_UNSUPPORTED},
      {hunyuan, "{'moe_layer_num_skipped': 1}", "moe_layer_num_skipped 1|supported: 0", YK_E_UNSUPPORTED},
      {hunyuan, "{'use_qk_norm': false}", "use_qk_norm false|true", YK_E_UNSUPPORTED},
      {hunyuan, "{'use_cla': true}", "use_cla", YK_E_UNSUPPORTED},
      {hunyuan, "{'rope_scaling': {'type': 'dynamic', 'alpha': 1e-4, 'factor': 2.0}}", "alpha 0.0001|from 0.001",
       YK_E_UNSUPPORTED},
      {ernie, "{'moe_k': '-'}", "num_experts_per_tok|missing", YK_E_FORMAT},
      {ernie, "{'moe_k': 7}", "moe_k|at most the 6 experts|7", YK_E_FORMAT},
      {ernie, "{'moe_norm_min': 0.1}", "moe_norm_min 0.1|0 to 1e-06", YK_E_UNSUPPORTED},
      {ernie, "{'use_bias': true}", "use_bias|true", YK_E_UNSUPPORTED},
      {ernie, "{'moe_num_shared_experts': 1000, 'moe_intermediate_size': 9999}", "moe_num_shared_experts", YK_E_FORMAT},
      {glm4, "{'n_group': 5}", "n_group|divisor of the 12 experts|5", YK_E_FORMAT},
      {glm4, "{'n_group': 12, 'topk_group': 6}", "n_group|at least 2|12 groups", YK_E_FORMAT},
      {glm4, "{'topk_group': 4}", "topk_group|1 to 3|4", YK_E_FORMAT},
      {glm4, "{'topk_group': null}", "topk_group|missing", YK_E_FORMAT},
      {glm4, "{'topk_group': 1, 'num_experts_per_tok': 5}", "num_experts_per_tok|4 experts|topk_group = 1|5",
       YK_E_FORMAT},
      {glm4, "{'scoring_func': 'relu'}", "scoring_func|relu|softmax, sigmoid", YK_E_UNSUPPORTED},
      {glm4, "{'topk_method': 'random'}", "topk_method|random|noaux_tc", YK_E_UNSUPPORTED},
      {glm4, "{'routed_scaling_factor': 0}", "routed_scaling_factor", YK_E_FORMAT},
      {glm4, "{'n_shared_experts': '-'}", "n_shared_experts|missing", YK_E_FORMAT},
      {glm4, "{'n_shared_experts': 1000, 'moe_intermediate_size': 9999}", "n_shared_experts", YK_E_FORMAT},
      {glm4, "{'moe_layer_freq': 0}", "moe_layer_freq|found 0", YK_E_FORMAT},
      {glm4, "{'n_routed_experts': 650, 'n_group': 65, 'num_experts_per_tok': 1}", "n_group 65|1 to 64",
       YK_E_UNSUPPORTED},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    yk_status status = config_load(cases[i].base, cases[i].changes, &config, &err);
    expect_error(cases[i].changes, cases[i].status, cases[i].words, status, &err);
  }
}

static void expect_found(const yk_model_config *c, const char *module, yk_weight_role role, int layer, int expert)
{
  yk_weight_place place;
  if (!yk_weight_find(c, module, &place)) fail_msg("%s: not found", module);
  assert_true(place.role == role && place.layer == layer && place.expert == expert);
}

static void names_find_modules(void **state)
{
  (void)state;
  static const char *const absent[] = {"model.norm",
                                       "lm_head",
                                       "model.layers.4.self_attn.q_proj",
                                       "model.layers.0.mlp.gate",
                                       "model.layers.1.mlp.gate_proj",
                                       "model.layers.1.mlp.experts.12.up_proj",
                                       "model.layers.1.mlp.experts.99999999999999999999.up_proj",
                                       "model.layers.1.mlp.experts.-1.up_proj",
                                       "model.layers.1.mlp.experts.3.up_proj.weight"};
  yk_model_config c = config_good(glm4, "{}");
  yk_weight_place place;
  expect_found(&c, "model.layers.0.mlp.gate_proj", YK_ROLE_GATE, 0, 0);
  expect_found(&c, "model.layers.3.input_layernorm", YK_ROLE_ATTENTION_NORM, 3, 0);
  expect_found(&c, "model.layers.1.mlp.gate", YK_ROLE_ROUTER, 1, 0);
  expect_found(&c, "model.layers.2.mlp.experts.11.down_proj", YK_ROLE_EXPERT_DOWN, 2, 11);
  expect_found(&c, "model.layers.2.mlp.shared_experts.up_proj", YK_ROLE_SHARED_UP, 2, 0);
  for (size_t i = 0; each_case(i, i < sizeof absent / sizeof *absent); i++)
    if (yk_weight_find(&c, absent[i], &place)) fail_msg("%s: found", absent[i]);
  c = config_good(mixtral, "{}");
  expect_found(&c, "model.layers.0.block_sparse_moe.experts.7.w3", YK_ROLE_EXPERT_UP, 0, 7);
}

static void names_and_modules(void **state)
{
  (void)state;
  yk_model_config c = config_good(mixtral, "{}");
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_name_of_expert(&c, YK_ROLE_EXPERT_UP, 3, 11, name);
  assert_string_equal(name, "model.layers.3.block_sparse_moe.experts.11.w3");
  yk_weight_name(&c, YK_ROLE_EXPERT_DOWN, 1023, name);
  assert_string_equal(name, "model.layers.1023.block_sparse_moe.experts.0.w2");
  yk_weight_name_of_expert(&c, YK_ROLE_Q, 3, 11, name);
  assert_string_equal(name, "model.layers.3.self_attn.q_proj");
  yk_weight_name(&c, YK_ROLE_ROUTER, 0, name);
  assert_string_equal(name, "model.layers.0.block_sparse_moe.gate");
  c = config_good(glm4, "{}");
  yk_weight_name_of_expert(&c, YK_ROLE_EXPERT_GATE, 2, 9, name);
  assert_string_equal(name, "model.layers.2.mlp.experts.9.gate_proj");
  yk_weight_name(&c, YK_ROLE_SHARED_UP, 2, name);
  assert_string_equal(name, "model.layers.2.mlp.shared_experts.up_proj");
  const yk_model_config qwen2_moe = {.family = YK_FAMILY_QWEN2_MOE};
  yk_weight_name(&qwen2_moe, YK_ROLE_SHARED_UP, 2, name);
  assert_string_equal(name, "model.layers.2.mlp.shared_expert.up_proj");
  yk_weight_module m = yk_weight_module_of(&c, YK_ROLE_EXPERT_DOWN, 0);
  assert_true(m.k == 24 && m.n == 64 && m.first_n == 0 && m.n_own == 64 && !m.has_bias);
  m = yk_weight_module_of(&c, YK_ROLE_SHARED_GATE, 0);
  assert_true(m.k == 64 && m.n == 48);
  assert_int_equal(yk_weight_count(&c, YK_ROLE_EXPERT_UP, 1), 12);
  assert_int_equal(yk_weight_count(&c, YK_ROLE_EXPERT_UP, 0), 0);
  assert_int_equal(yk_weight_count(&c, YK_ROLE_UP, 0), 1);
  assert_int_equal(yk_weight_count(&c, YK_ROLE_UP, 1), 0);
  assert_int_equal(yk_weight_count(&c, YK_ROLE_SHARED_SCORE, 1), 0);
  assert_int_equal(yk_weight_count(&c, YK_ROLE_ROUTER, 1), 1);
}

/* ---- Fused experts ----------------------------------------------------------------------------------------------- */

enum { MAX_TENSORS = 8 };

static yk_tensor tensor_of(const char *name, yk_tensor_dtype dtype, int64_t a, int64_t b, int64_t c, const void *data)
{
  yk_tensor tensor = {.name = name, .dtype = dtype, .n_dims = c ? 3 : b ? 2 : 1, .shape = {a, b, c}, .data = data};
  if (!yk_tensor_bytes(&tensor, &tensor.n_bytes)) fail_msg("%s has no size", name);
  return tensor;
}

static void expect_piece(const yk_shards *shards, const char *name, int64_t rows, int64_t columns, const void *data)
{
  const yk_tensor *piece = yk_shards_find(shards, name, NULL);
  if (!piece) {
    fail_msg("%s is missing", name);
    return;
  }
  assert_int_equal(piece->n_dims, 2);
  assert_int_equal(piece->shape[0], rows);
  assert_int_equal(piece->shape[1], columns);
  assert_ptr_equal(piece->data, data);
}

static void fused_tensors_become_views(void **state)
{
  (void)state;
  static const char data[12 * 2 * 40 * 64 * 2];
  const yk_model_config c = config_good(qwen3, "{}");
  const yk_tensor tensors[] = {
      tensor_of("model.layers.1.mlp.experts.gate_up_proj", YK_TENSOR_BF16, 12, 80, 64, data),
      tensor_of("model.layers.1.mlp.experts.down_proj", YK_TENSOR_BF16, 12, 64, 40, data),
      tensor_of("model.layers.2.mlp.experts.gate_up_proj_packed", YK_TENSOR_I32, 12, 80, 8, data),
      tensor_of("model.layers.2.mlp.experts.gate_up_proj_scale", YK_TENSOR_BF16, 12, 80, 2, data),
      tensor_of("model.layers.3.mlp.experts.gate_up_proj_scale_inv", YK_TENSOR_F32, 12, 1, 0, data),
      tensor_of("model.layers.4.mlp.experts.gate_up_proj", YK_TENSOR_BF16, 12, 80, 64, data), /* past the layers */
      tensor_of("model.norm.weight", YK_TENSOR_BF16, 64, 0, 0, data)};
  yk_shards *shards;
  yk_err err = YK_ERR_INIT;
  expect_ok("shards", yk_shards_of("test", tensors, sizeof tensors / sizeof *tensors, &shards, &err), &err);
  expect_ok("split", yk_fused_experts_split(&c, shards, &err), &err);
  assert_int_equal(yk_shards_count(shards), 24 + 12 + 2 * 24 + 24 + 24 + 2);
  assert_null(yk_shards_find(shards, tensors[0].name, NULL));
  assert_non_null(yk_shards_find(shards, tensors[5].name, NULL));
  expect_piece(shards, "model.layers.1.mlp.experts.0.gate_proj.weight", 40, 64, data);
  expect_piece(shards, "model.layers.1.mlp.experts.11.up_proj.weight", 40, 64, data + 23 * 40 * 64 * 2);
  expect_piece(shards, "model.layers.1.mlp.experts.7.down_proj.weight", 64, 40, data + 7 * 64 * 40 * 2);
  expect_piece(shards, "model.layers.2.mlp.experts.3.up_proj.weight_packed", 40, 8, data + 7 * 40 * 8 * 4);
  expect_piece(shards, "model.layers.2.mlp.experts.3.up_proj.weight_scale", 40, 2, data + 7 * 40 * 2 * 2);
  const yk_tensor *shape = yk_shards_find(shards, "model.layers.2.mlp.experts.3.up_proj.weight_shape", NULL);
  assert_non_null(shape);
  assert_true(((const int64_t *)shape->data)[0] == 40 && ((const int64_t *)shape->data)[1] == 64);
  for (int i = 0; i < 2; i++) { /* one scale of an expert is for both halves */
    const yk_tensor *one = yk_shards_find(shards,
                                          i ? "model.layers.3.mlp.experts.5.up_proj.weight_scale_inv"
                                            : "model.layers.3.mlp.experts.5.gate_proj.weight_scale_inv",
                                          NULL);
    assert_true(one && one->n_dims == 1 && one->shape[0] == 1 && one->data == data + 5 * 4);
  }
  yk_shards_close(shards);
}

/* Mixtral written by transformers 5 with save_original_format=False. */
static void fused_mixtral_gets_its_own_names(void **state)
{
  (void)state;
  static const char data[8 * 2 * 96 * 64 * 2];
  const yk_model_config c = config_good(mixtral, "{}");
  const yk_tensor tensors[] = {tensor_of("model.layers.1.mlp.experts.down_proj", YK_TENSOR_BF16, 8, 64, 96, data),
                               tensor_of("model.layers.1.mlp.experts.gate_up_proj", YK_TENSOR_BF16, 8, 192, 64, data),
                               tensor_of("model.layers.1.mlp.gate.weight", YK_TENSOR_BF16, 8, 64, 0, data)};
  yk_shards *shards;
  yk_err err = YK_ERR_INIT;
  expect_ok("shards", yk_shards_of("test", tensors, sizeof tensors / sizeof *tensors, &shards, &err), &err);
  expect_ok("split", yk_fused_experts_split(&c, shards, &err), &err);
  assert_int_equal(yk_shards_count(shards), 3 * 8 + 1);
  expect_piece(shards, "model.layers.1.block_sparse_moe.experts.3.w3.weight", 96, 64, data + 7 * 96 * 64 * 2);
  expect_piece(shards, "model.layers.1.block_sparse_moe.gate.weight", 8, 64, data);
  yk_shards_close(shards);
}

static void fused_granite_gets_names_of_experts(void **state)
{
  (void)state;
  static const char data[5 * 2 * 96 * 64 * 2];
  const yk_model_config c = config_good(granite, "{}");
  const yk_tensor tensors[] = {
      tensor_of("model.layers.1.block_sparse_moe.input_linear.weight", YK_TENSOR_BF16, 5, 192, 64, data),
      tensor_of("model.layers.1.block_sparse_moe.output_linear.weight", YK_TENSOR_BF16, 5, 64, 96, data),
      tensor_of("model.layers.1.block_sparse_moe.router.layer.weight", YK_TENSOR_BF16, 5, 64, 0, data)};
  yk_shards *shards;
  yk_err err = YK_ERR_INIT;
  expect_ok("shards", yk_shards_of("test", tensors, sizeof tensors / sizeof *tensors, &shards, &err), &err);
  expect_ok("split", yk_fused_experts_split(&c, shards, &err), &err);
  assert_int_equal(yk_shards_count(shards), 3 * 5 + 1);
  expect_piece(shards, "model.layers.1.block_sparse_moe.experts.3.w3.weight", 96, 64, data + 7 * 96 * 64 * 2);
  expect_piece(shards, "model.layers.1.block_sparse_moe.experts.4.w2.weight", 64, 96, data + 4 * 64 * 96 * 2);
  yk_shards_close(shards);
}

static void fused_gpt_oss_becomes_views(void **state)
{
  (void)state;
  static const char data[5 * 192 * 64];
  const yk_model_config c = config_good(gpt_oss, "{}");
  yk_tensor blocks = tensor_of("model.layers.1.mlp.experts.gate_up_proj_blocks", YK_TENSOR_U8, 5, 192, 2, data);
  blocks.n_dims = 4;
  blocks.shape[3] = 16;
  blocks.n_bytes *= 16;
  const yk_tensor tensors[] = {
      blocks, tensor_of("model.layers.1.mlp.experts.gate_up_proj_scales", YK_TENSOR_U8, 5, 192, 2, data),
      tensor_of("model.layers.1.mlp.experts.gate_up_proj_bias", YK_TENSOR_BF16, 5, 192, 0, data),
      tensor_of("model.layers.1.mlp.experts.down_proj_bias", YK_TENSOR_BF16, 5, 64, 0, data)};
  yk_shards *shards;
  yk_err err = YK_ERR_INIT;
  expect_ok("shards", yk_shards_of("test", tensors, sizeof tensors / sizeof *tensors, &shards, &err), &err);
  expect_ok("split", yk_fused_experts_split(&c, shards, &err), &err);
  assert_int_equal(yk_shards_count(shards), 4 * 5);
  expect_piece(shards, "model.layers.1.mlp.experts.3.gate_up_proj.weight_packed", 192, 32, data + 3 * 192 * 32);
  expect_piece(shards, "model.layers.1.mlp.experts.4.gate_up_proj.weight_scale", 192, 2, data + 4 * 192 * 2);
  const yk_tensor *bias = yk_shards_find(shards, "model.layers.1.mlp.experts.2.gate_up_proj.bias", NULL);
  assert_true(bias && bias->n_dims == 1 && bias->shape[0] == 192 && bias->data == data + 2 * 192 * 2);
  assert_non_null(yk_shards_find(shards, "model.layers.1.mlp.experts.0.down_proj.bias", NULL));
  yk_shards_close(shards);
}

static void bad_fused_tensors_are_refused(void **state)
{
  (void)state;
  static const char data[12 * 81 * 64 * 2];
  const yk_model_config blocks =
      config_good(qwen3, "{'quantization_config': {'quant_method': 'fp8', 'weight_block_size': [32, 32]}}");
  const yk_model_config plain = config_good(qwen3, "{}"), oss = config_good(gpt_oss, "{}");
  const struct {
    const yk_model_config *config;
    yk_tensor tensor;
    const char *words;
    yk_status status;
  } cases[] = {
      {&plain, tensor_of("model.layers.1.mlp.experts.down_proj", YK_TENSOR_BF16, 11, 64, 40, data),
       "test: tensor model.layers.1.mlp.experts.down_proj: |12 experts|11", YK_E_FORMAT},
      {&plain, tensor_of("model.layers.1.mlp.experts.gate_up_proj", YK_TENSOR_BF16, 12, 81, 64, data),
       "test: tensor|gate_up_proj|equal numbers|81 rows", YK_E_FORMAT},
      {&blocks, tensor_of("model.layers.1.mlp.experts.gate_up_proj_scale_inv", YK_TENSOR_F32, 12, 2, 2, data),
       "test: tensor|gate_up_proj_scale_inv|32 outputs|40|multiple", YK_E_UNSUPPORTED},
      {&oss, tensor_of("model.layers.1.mlp.experts.gate_up_proj", YK_TENSOR_U8, 5, 64, 192, data),
       "test: tensor|gate_up_proj: quantised experts in one transposed tensor", YK_E_UNSUPPORTED},
      {&oss, tensor_of("model.layers.1.mlp.experts.down_proj_scales", YK_TENSOR_U8, 4, 64, 3, data), "5 experts|4",
       YK_E_FORMAT},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_shards *shards;
    yk_err err = YK_ERR_INIT;
    expect_ok("shards", yk_shards_of("test", &cases[i].tensor, 1, &shards, &err), &err);
    yk_status status = yk_fused_experts_split(cases[i].config, shards, &err);
    expect_error(cases[i].tensor.name, cases[i].status, cases[i].words, status, &err);
    yk_shards_close(shards);
  }
  yk_model_config_free((yk_model_config *)&blocks);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(qwen_values_and_defaults),
      cmocka_unit_test(mixtral_and_glm4_values_and_defaults),
      cmocka_unit_test(gpt_oss_values_and_defaults),
      cmocka_unit_test(ernie_values_and_defaults),
      cmocka_unit_test(granite_values_and_defaults),
      cmocka_unit_test(granite_hybrid_values_and_defaults),
      cmocka_unit_test(hunyuan_values_and_defaults),
      cmocka_unit_test(fused_granite_gets_names_of_experts),
      cmocka_unit_test(bad_values_are_refused),
      cmocka_unit_test(names_find_modules),
      cmocka_unit_test(names_and_modules),
      cmocka_unit_test(fused_tensors_become_views),
      cmocka_unit_test(fused_mixtral_gets_its_own_names),
      cmocka_unit_test(fused_gpt_oss_becomes_views),
      cmocka_unit_test(bad_fused_tensors_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
