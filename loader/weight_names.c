#include "loader/weight_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* How a family names its modules: those that exist once wholly, the others after the prefix, the layer and a dot. NULL:
 * as Llama does. */
typedef struct name_table {
  const char *layer_prefix;
  const char *names[YK_ROLE_DOWN + 1];
} name_table;

static const name_table llama_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_EMBEDDING] = "model.embed_tokens",
              [YK_ROLE_FINAL_NORM] = "model.norm",
              [YK_ROLE_LM_HEAD] = "lm_head",
              [YK_ROLE_ATTENTION_NORM] = "input_layernorm",
              [YK_ROLE_FFN_NORM] = "post_attention_layernorm",
              [YK_ROLE_Q] = "self_attn.q_proj",
              [YK_ROLE_K] = "self_attn.k_proj",
              [YK_ROLE_V] = "self_attn.v_proj",
              [YK_ROLE_O] = "self_attn.o_proj",
              [YK_ROLE_Q_NORM] = "self_attn.q_norm",
              [YK_ROLE_K_NORM] = "self_attn.k_norm",
              [YK_ROLE_GATE] = "mlp.gate_proj",
              [YK_ROLE_UP] = "mlp.up_proj",
              [YK_ROLE_DOWN] = "mlp.down_proj"},
};

static const name_table glm_table = {
    .layer_prefix = "model.layers.",
    .names = {[YK_ROLE_GATE] = "mlp.gate_up_proj", [YK_ROLE_UP] = "mlp.gate_up_proj"},
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
  case YK_FAMILY_CHATGLM: return &chatglm_table;
  default: return &llama_table;
  }
}

static const char *name_of(yk_model_family family, yk_weight_role role)
{
  const char *name = table_of(family)->names[role];
  return name ? name : llama_table.names[role];
}

void yk_weight_name(yk_model_family family, yk_weight_role role, int layer, char out[YK_WEIGHT_NAME_BYTES])
{
  const char *name = name_of(family, role);
  if (role < YK_ROLE_ATTENTION_NORM)
    snprintf(out, YK_WEIGHT_NAME_BYTES, "%s", name);
  else
    snprintf(out, YK_WEIGHT_NAME_BYTES, "%s%d.%s", table_of(family)->layer_prefix, layer, name);
}

/* A linear role by itself. */
static yk_weight_module own_of(const yk_model_config *c, yk_weight_role role)
{
  int64_t q_width = (int64_t)c->n_heads * c->head_dim, kv_width = (int64_t)c->n_kv_heads * c->head_dim;
  switch (role) {
  case YK_ROLE_LM_HEAD: return (yk_weight_module){.k = c->hidden_size, .n_own = c->vocab_size};
  case YK_ROLE_Q: return (yk_weight_module){.k = c->hidden_size, .n_own = q_width, .has_bias = c->qkv_bias};
  case YK_ROLE_K:
  case YK_ROLE_V: return (yk_weight_module){.k = c->hidden_size, .n_own = kv_width, .has_bias = c->qkv_bias};
  case YK_ROLE_O: return (yk_weight_module){.k = q_width, .n_own = c->hidden_size, .has_bias = c->o_bias};
  case YK_ROLE_GATE:
  case YK_ROLE_UP: return (yk_weight_module){.k = c->hidden_size, .n_own = c->ffn_size, .has_bias = c->mlp_bias};
  case YK_ROLE_DOWN: return (yk_weight_module){.k = c->ffn_size, .n_own = c->hidden_size, .has_bias = c->mlp_bias};
  default: return (yk_weight_module){0};
  }
}

yk_weight_module yk_weight_module_of(const yk_model_config *config, yk_weight_role role)
{
  const char *name = name_of(config->family, role);
  yk_weight_module module = own_of(config, role);
  for (yk_weight_role other = YK_ROLE_EMBEDDING; other <= YK_ROLE_DOWN; other++) {
    if (strcmp(name_of(config->family, other), name) != 0) continue;
    int64_t n = own_of(config, other).n_own;
    module.n += n;
    if (other < role) module.first_n += n;
  }
  return module;
}

int32_t yk_weight_layer(yk_model_family family, const char *tensor)
{
  const char *prefix = table_of(family)->layer_prefix;
  size_t n = strlen(prefix);
  int64_t layer = 0;
  if (strncmp(tensor, prefix, n) != 0 || !isdigit((unsigned char)tensor[n])) return -1;
  for (const char *c = tensor + n; isdigit((unsigned char)*c); c++)
    if (layer < INT32_MAX) layer = layer * 10 + (*c - '0');
  return layer < INT32_MAX ? (int32_t)layer : INT32_MAX;
}
