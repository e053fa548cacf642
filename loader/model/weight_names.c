#include "loader/model/weight_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Names of a family's modules: full names of modules that exist once; the others follow the prefix, the layer and a
 * dot. # stands for the expert. NULL: as in Llama's table. */
typedef struct name_table {
  const char *layer_prefix;
  const char *names[YK_N_ROLES];
} name_table;

static const name_table llama_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_EMBEDDING] = "model.embed_tokens",
              [YK_ROLE_FINAL_NORM] = "model.norm",
              [YK_ROLE_LM_HEAD] = "lm_head",
              [YK_ROLE_LAYER_EMBEDDING] = "model.embed_tokens_per_layer",
              [YK_ROLE_LAYER_INPUTS] = "model.per_layer_model_projection",
              [YK_ROLE_LAYER_INPUTS_NORM] = "model.per_layer_projection_norm",
              [YK_ROLE_ATTENTION_NORM] = "input_layernorm",
              [YK_ROLE_FFN_NORM] = "post_attention_layernorm",
              [YK_ROLE_ATTENTION_RESULT_NORM] = "post_attention_layernorm",
              [YK_ROLE_FFN_RESULT_NORM] = "post_feedforward_layernorm",
              [YK_ROLE_LAYER_SCALAR] = "layer_scalar",
              [YK_ROLE_INPUT_GATE] = "per_layer_input_gate",
              [YK_ROLE_INPUT_DOWN] = "per_layer_projection",
              [YK_ROLE_INPUT_RESULT_NORM] = "post_per_layer_input_norm",
              [YK_ROLE_DENSE_RESULT_NORM] = "post_feedforward_layernorm_1",
              [YK_ROLE_EXPERTS_NORM] = "pre_feedforward_layernorm_2",
              [YK_ROLE_EXPERTS_RESULT_NORM] = "post_feedforward_layernorm_2",
              [YK_ROLE_ROUTER_SCALE] = "router.scale",
              [YK_ROLE_EXPERT_SCALES] = "router.per_expert_scale",
              [YK_ROLE_Q] = "self_attn.q_proj",
              [YK_ROLE_K] = "self_attn.k_proj",
              [YK_ROLE_V] = "self_attn.v_proj",
              [YK_ROLE_O] = "self_attn.o_proj",
              [YK_ROLE_Q_NORM] = "self_attn.q_norm",
              [YK_ROLE_K_NORM] = "self_attn.k_norm",
              [YK_ROLE_SINKS] = "self_attn.sinks",
              [YK_ROLE_GATE] = "mlp.gate_proj",
              [YK_ROLE_UP] = "mlp.up_proj",
              [YK_ROLE_DOWN] = "mlp.down_proj",
              [YK_ROLE_Q_A] = "self_attn.q_a_proj",
              [YK_ROLE_Q_A_NORM] = "self_attn.q_a_layernorm",
              [YK_ROLE_Q_B] = "self_attn.q_b_proj",
              [YK_ROLE_KV_A] = "self_attn.kv_a_proj_with_mqa",
              [YK_ROLE_KV_A_NORM] = "self_attn.kv_a_layernorm",
              [YK_ROLE_KV_B] = "self_attn.kv_b_proj",
              [YK_ROLE_ROUTER] = "mlp.gate",
              [YK_ROLE_CHOICE_BIAS] = "mlp.gate.e_score_correction_bias",
              [YK_ROLE_SHARED_GATE] = "mlp.shared_experts.gate_proj",
              [YK_ROLE_SHARED_UP] = "mlp.shared_experts.up_proj",
              [YK_ROLE_SHARED_DOWN] = "mlp.shared_experts.down_proj",
              [YK_ROLE_SHARED_SCORE] = "mlp.shared_expert_gate",
              [YK_ROLE_DELTA_QKV] = "linear_attn.in_proj_qkv",
              [YK_ROLE_DELTA_Z] = "linear_attn.in_proj_z",
              [YK_ROLE_DELTA_B] = "linear_attn.in_proj_b",
              [YK_ROLE_DELTA_A] = "linear_attn.in_proj_a",
              [YK_ROLE_DELTA_QKVZ] = "linear_attn.in_proj_qkvz",
              [YK_ROLE_DELTA_BA] = "linear_attn.in_proj_ba",
              [YK_ROLE_DELTA_CONV] = "linear_attn.conv1d",
              [YK_ROLE_DELTA_A_LOG] = "linear_attn.A_log",
              [YK_ROLE_DELTA_DT_BIAS] = "linear_attn.dt_bias",
              [YK_ROLE_DELTA_NORM] = "linear_attn.norm",
              [YK_ROLE_DELTA_OUT] = "linear_attn.out_proj",
              [YK_ROLE_MAMBA_IN] = "mixer.in_proj",
              [YK_ROLE_MAMBA_CONV] = "mixer.conv1d",
              [YK_ROLE_MAMBA_CONV_BIAS] = "mixer.conv1d.bias",
              [YK_ROLE_MAMBA_A_LOG] = "mixer.A_log",
              [YK_ROLE_MAMBA_DT_BIAS] = "mixer.dt_bias",
              [YK_ROLE_MAMBA_SKIP] = "mixer.D",
              [YK_ROLE_MAMBA_NORM] = "mixer.norm",
              [YK_ROLE_MAMBA_OUT] = "mixer.out_proj",
              [YK_ROLE_EXPERTS_IN] = "mixer.fc1_latent_proj",
              [YK_ROLE_EXPERTS_OUT] = "mixer.fc2_latent_proj",
              [YK_ROLE_EXPERT_GATE] = "mlp.experts.#.gate_proj",
              [YK_ROLE_EXPERT_UP] = "mlp.experts.#.up_proj",
              [YK_ROLE_EXPERT_DOWN] = "mlp.experts.#.down_proj"},
};

static const name_table qwen2_moe_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_SHARED_GATE] = "mlp.shared_expert.gate_proj",
              [YK_ROLE_SHARED_UP] = "mlp.shared_expert.up_proj",
              [YK_ROLE_SHARED_DOWN] = "mlp.shared_expert.down_proj"},
};

static const name_table mixtral_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_ROUTER] = "block_sparse_moe.gate",
              [YK_ROLE_EXPERT_GATE] = "block_sparse_moe.experts.#.w1",
              [YK_ROLE_EXPERT_UP] = "block_sparse_moe.experts.#.w3",
              [YK_ROLE_EXPERT_DOWN] = "block_sparse_moe.experts.#.w2"},
};

static const name_table minimax_m2_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_ROUTER] = "block_sparse_moe.gate",
              [YK_ROLE_CHOICE_BIAS] = "block_sparse_moe.e_score_correction_bias",
              [YK_ROLE_EXPERT_GATE] = "block_sparse_moe.experts.#.w1",
              [YK_ROLE_EXPERT_UP] = "block_sparse_moe.experts.#.w3",
              [YK_ROLE_EXPERT_DOWN] = "block_sparse_moe.experts.#.w2"},
};

static const name_table nemotron_h_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_EMBEDDING] = "model.embeddings",
              [YK_ROLE_FINAL_NORM] = "model.norm_f",
              [YK_ROLE_ATTENTION_NORM] = "norm",
              [YK_ROLE_FFN_NORM] = "norm",
              [YK_ROLE_Q] = "mixer.q_proj",
              [YK_ROLE_K] = "mixer.k_proj",
              [YK_ROLE_V] = "mixer.v_proj",
              [YK_ROLE_O] = "mixer.o_proj",
              [YK_ROLE_UP] = "mixer.up_proj",
              [YK_ROLE_DOWN] = "mixer.down_proj",
              [YK_ROLE_ROUTER] = "mixer.gate",
              [YK_ROLE_CHOICE_BIAS] = "mixer.gate.e_score_correction_bias",
              [YK_ROLE_SHARED_UP] = "mixer.shared_experts.up_proj",
              [YK_ROLE_SHARED_DOWN] = "mixer.shared_experts.down_proj",
              [YK_ROLE_EXPERT_UP] = "mixer.experts.#.up_proj",
              [YK_ROLE_EXPERT_DOWN] = "mixer.experts.#.down_proj"},
};

static const name_table glm_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_GATE] = "mlp.gate_up_proj", [YK_ROLE_UP] = "mlp.gate_up_proj"},
};

static const name_table glm4_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_ATTENTION_RESULT_NORM] = "post_self_attn_layernorm",
              [YK_ROLE_FFN_RESULT_NORM] = "post_mlp_layernorm",
              [YK_ROLE_GATE] = "mlp.gate_up_proj",
              [YK_ROLE_UP] = "mlp.gate_up_proj"},
};

static const name_table phi3_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_Q] = "self_attn.qkv_proj",
              [YK_ROLE_K] = "self_attn.qkv_proj",
              [YK_ROLE_V] = "self_attn.qkv_proj",
              [YK_ROLE_GATE] = "mlp.gate_up_proj",
              [YK_ROLE_UP] = "mlp.gate_up_proj"},
};

static const name_table ernie4_5_moe_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_CHOICE_BIAS] = "mlp.moe_statics.e_score_correction_bias"},
};

/* The experts of a file are one tensor (loader/fused_experts.h), unless they are quantised. */
static const name_table granite_moe_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_ROUTER] = "block_sparse_moe.router.layer",
              [YK_ROLE_SHARED_GATE] = "shared_mlp.input_linear",
              [YK_ROLE_SHARED_UP] = "shared_mlp.input_linear",
              [YK_ROLE_SHARED_DOWN] = "shared_mlp.output_linear",
              [YK_ROLE_EXPERT_GATE] = "block_sparse_moe.experts.#.w1",
              [YK_ROLE_EXPERT_UP] = "block_sparse_moe.experts.#.w3",
              [YK_ROLE_EXPERT_DOWN] = "block_sparse_moe.experts.#.w2"},
};

static const name_table granite_hybrid_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_GATE] = "shared_mlp.input_linear", /* without experts */
              [YK_ROLE_UP] = "shared_mlp.input_linear",
              [YK_ROLE_DOWN] = "shared_mlp.output_linear",
              [YK_ROLE_ROUTER] = "block_sparse_moe.router.layer",
              [YK_ROLE_SHARED_GATE] = "shared_mlp.input_linear",
              [YK_ROLE_SHARED_UP] = "shared_mlp.input_linear",
              [YK_ROLE_SHARED_DOWN] = "shared_mlp.output_linear",
              [YK_ROLE_EXPERT_GATE] = "block_sparse_moe.experts.#.w1",
              [YK_ROLE_EXPERT_UP] = "block_sparse_moe.experts.#.w3",
              [YK_ROLE_EXPERT_DOWN] = "block_sparse_moe.experts.#.w2",
              [YK_ROLE_MAMBA_IN] = "mamba.in_proj",
              [YK_ROLE_MAMBA_CONV] = "mamba.conv1d",
              [YK_ROLE_MAMBA_CONV_BIAS] = "mamba.conv1d.bias",
              [YK_ROLE_MAMBA_A_LOG] = "mamba.A_log",
              [YK_ROLE_MAMBA_DT_BIAS] = "mamba.dt_bias",
              [YK_ROLE_MAMBA_SKIP] = "mamba.D",
              [YK_ROLE_MAMBA_NORM] = "mamba.norm",
              [YK_ROLE_MAMBA_OUT] = "mamba.out_proj"},
};

static const name_table hunyuan_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_Q_NORM] = "self_attn.query_layernorm",
              [YK_ROLE_K_NORM] = "self_attn.key_layernorm",
              [YK_ROLE_ROUTER] = "mlp.gate.wg",
              [YK_ROLE_SHARED_GATE] = "mlp.shared_mlp.gate_proj",
              [YK_ROLE_SHARED_UP] = "mlp.shared_mlp.up_proj",
              [YK_ROLE_SHARED_DOWN] = "mlp.shared_mlp.down_proj"},
};

static const name_table gemma_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_FFN_NORM] = "pre_feedforward_layernorm"},
};

/* The experts of a file are one tensor (loader/fused_experts.h), unless they are quantised. */
static const name_table llama4_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_GATE] = "feed_forward.gate_proj",
              [YK_ROLE_UP] = "feed_forward.up_proj",
              [YK_ROLE_DOWN] = "feed_forward.down_proj",
              [YK_ROLE_ROUTER] = "feed_forward.router",
              [YK_ROLE_SHARED_GATE] = "feed_forward.shared_expert.gate_proj",
              [YK_ROLE_SHARED_UP] = "feed_forward.shared_expert.up_proj",
              [YK_ROLE_SHARED_DOWN] = "feed_forward.shared_expert.down_proj",
              [YK_ROLE_EXPERT_GATE] = "feed_forward.experts.#.gate_proj",
              [YK_ROLE_EXPERT_UP] = "feed_forward.experts.#.up_proj",
              [YK_ROLE_EXPERT_DOWN] = "feed_forward.experts.#.down_proj"},
};

static const name_table gemma4_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_FFN_NORM] = "pre_feedforward_layernorm",
              [YK_ROLE_ROUTER] = "router.proj",
              [YK_ROLE_EXPERT_GATE] = "experts.#.gate_proj",
              [YK_ROLE_EXPERT_UP] = "experts.#.up_proj",
              [YK_ROLE_EXPERT_DOWN] = "experts.#.down_proj"},
};

static const name_table gpt_oss_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_ROUTER] = "mlp.router",
              [YK_ROLE_EXPERT_GATE] = "mlp.experts.#.gate_up_proj",
              [YK_ROLE_EXPERT_UP] = "mlp.experts.#.gate_up_proj"},
};

static const name_table chatglm_table = {
    .layer_prefix = "transformer.encoder.layers.",
    .names = {[YK_ROLE_EMBEDDING] = "transformer.embedding.word_embeddings",
              [YK_ROLE_FINAL_NORM] = "transformer.encoder.final_layernorm",
              [YK_ROLE_LM_HEAD] = "transformer.output_layer",
              [YK_ROLE_ATTENTION_NORM] = "input_layernorm",
              [YK_ROLE_FFN_NORM] = "post_attention_layernorm",
              [YK_ROLE_Q] = "self_attention.query_key_value",
              [YK_ROLE_K] = "self_attention.query_key_value",
              [YK_ROLE_V] = "self_attention.query_key_value",
              [YK_ROLE_O] = "self_attention.dense",
              [YK_ROLE_GATE] = "mlp.dense_h_to_4h",
              [YK_ROLE_UP] = "mlp.dense_h_to_4h",
              [YK_ROLE_DOWN] = "mlp.dense_4h_to_h"},
};

static const name_table *table_of(yk_model_family family)
{
  switch (family) {
  case YK_FAMILY_GLM: return &glm_table;
  case YK_FAMILY_GLM4: return &glm4_table;
  case YK_FAMILY_CHATGLM: return &chatglm_table;
  case YK_FAMILY_PHI3: return &phi3_table;
  case YK_FAMILY_GRANITE_MOE: return &granite_moe_table;
  case YK_FAMILY_GRANITE_HYBRID: return &granite_hybrid_table;
  case YK_FAMILY_HUNYUAN:
  case YK_FAMILY_HUNYUAN_MOE: return &hunyuan_table;
  case YK_FAMILY_ERNIE4_5_MOE: return &ernie4_5_moe_table;
  case YK_FAMILY_GEMMA3:
  case YK_FAMILY_GEMMA3_VL: return &gemma_table;
  case YK_FAMILY_GEMMA4:
  case YK_FAMILY_GEMMA4_VL: return &gemma4_table;
  case YK_FAMILY_GPT_OSS: return &gpt_oss_table;
  case YK_FAMILY_LLAMA4:
  case YK_FAMILY_LLAMA4_VL: return &llama4_table;
  case YK_FAMILY_MINIMAX_M2: return &minimax_m2_table;
  case YK_FAMILY_NEMOTRON_H: return &nemotron_h_table;
  case YK_FAMILY_MIXTRAL: return &mixtral_table;
  case YK_FAMILY_QWEN2_MOE:
  case YK_FAMILY_QWEN3_NEXT:
  case YK_FAMILY_QWEN3_5:
  case YK_FAMILY_QWEN3_5_MOE:
  case YK_FAMILY_QWEN3_5_VL:
  case YK_FAMILY_QWEN3_5_MOE_VL: return &qwen2_moe_table;
  default: return &llama_table;
  }
}

static const char *name_of(yk_model_family family, yk_weight_role role)
{
  const char *name = table_of(family)->names[role];
  return name ? name : llama_table.names[role];
}

/* ---- Where files have the text model ----------------------------------------------------------------------------- */

static const char text_model[] = "model.";

/* For each text_place: the text that replaces "model." in a name of the tables above, and the text before the head's
 * name, which has no "model.". */
static const struct {
  const char *model, *head;
} text_places[YK_N_TEXT_PLACES] = {[YK_TEXT_ALONE] = {"model.", ""},
                                   [YK_TEXT_IN_MODEL] = {"model.language_model.", ""},
                                   [YK_TEXT_IN_BACKBONE] = {"backbone.", ""},
                                   [YK_TEXT_OUTSIDE_MODEL] = {"language_model.model.", "language_model."}};

/* Writes a name of the tables above with the prefix of config->text_place. Returns the number of bytes, as snprintf
 * does. */
static int put_name(const yk_model_config *config, const char *name, char out[YK_WEIGHT_NAME_BYTES])
{
  const size_t n = strlen(text_model);
  const bool is_inside = strncmp(name, text_model, n) == 0;
  const char *before = is_inside ? text_places[config->text_place].model : text_places[config->text_place].head;
  return snprintf(out, YK_WEIGHT_NAME_BYTES, "%s%s", before, is_inside ? name + n : name);
}

const char *yk_weight_within_text(const char *name)
{
  for (yk_text_place place = YK_N_TEXT_PLACES; place-- > 0;) {
    const size_t n = strlen(text_places[place].model);
    if (strncmp(name, text_places[place].model, n) == 0) return name + n;
  }
  return NULL;
}

const char *yk_weight_within_layer(const char *name)
{
  static const char layers[] = "layers.";
  name = yk_weight_within_text(name);
  if (!name || strncmp(name, layers, strlen(layers)) != 0) return NULL;
  const char *number = name + strlen(layers), *end = number;
  while (isdigit((unsigned char)*end)) end++;
  return end > number && *end == '.' ? end + 1 : NULL;
}

void yk_weight_layer_prefix(const yk_model_config *config, char out[YK_WEIGHT_NAME_BYTES])
{
  put_name(config, table_of(config->family)->layer_prefix, out);
}

void yk_weight_name_of_expert(const yk_model_config *config, yk_weight_role role, int layer, int expert,
                              char out[YK_WEIGHT_NAME_BYTES])
{
  const char *name = name_of(config->family, role), *number = strchr(name, '#');
  if (role < YK_ROLE_ATTENTION_NORM) {
    put_name(config, name, out);
    return;
  }
  int n = put_name(config, table_of(config->family)->layer_prefix, out);
  size_t n_left = n < YK_WEIGHT_NAME_BYTES ? (size_t)(YK_WEIGHT_NAME_BYTES - n) : 0;
  if (number)
    snprintf(out + n, n_left, "%d.%.*s%d%s", layer, (int)(number - name), name, expert, number + 1);
  else
    snprintf(out + n, n_left, "%d.%s", layer, name);
}

void yk_weight_name(const yk_model_config *config, yk_weight_role role, int layer, char out[YK_WEIGHT_NAME_BYTES])
{
  yk_weight_name_of_expert(config, role, layer, 0, out);
}

bool yk_weight_share_module(yk_model_family family, yk_weight_role a, yk_weight_role b)
{
  return strcmp(name_of(family, a), name_of(family, b)) == 0;
}

int32_t yk_weight_layer(const yk_model_config *config, const char *tensor)
{
  char prefix[YK_WEIGHT_NAME_BYTES];
  int64_t layer = 0;
  yk_weight_layer_prefix(config, prefix);
  const size_t n = strlen(prefix);
  if (strncmp(tensor, prefix, n) != 0 || !isdigit((unsigned char)tensor[n])) return -1;
  for (const char *c = tensor + n; isdigit((unsigned char)*c); c++)
    if (layer < INT32_MAX) layer = layer * 10 + (*c - '0');
  return layer < INT32_MAX ? (int32_t)layer : INT32_MAX;
}
