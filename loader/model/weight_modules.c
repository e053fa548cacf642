#include "loader/model/weight_modules.h"

#include <stdlib.h>
#include <string.h>

/* The number after ".experts.", or 0. */
static int32_t expert_in(const char *module)
{
  static const char before[] = ".experts.";
  const char *at = strstr(module, before);
  long expert = at ? strtol(at + strlen(before), NULL, 10) : 0;
  return expert >= 0 && expert < INT32_MAX ? (int32_t)expert : INT32_MAX;
}

bool yk_weight_find(const yk_model_config *config, const char *module, yk_weight_place *out)
{
  char name[YK_WEIGHT_NAME_BYTES];
  *out = (yk_weight_place){.layer = yk_weight_layer(config, module), .expert = expert_in(module)};
  if (out->layer < 0 || out->layer >= config->n_layers) return false;
  for (yk_weight_role role = YK_ROLE_ATTENTION_NORM; role < YK_N_ROLES; role++) {
    if (out->expert >= yk_weight_count(config, role, out->layer) && role >= YK_ROLE_EXPERT_GATE) continue;
    if (!yk_weight_is_in_layer(config, role, out->layer)) continue;
    yk_weight_name_of_expert(config, role, out->layer, out->expert, name);
    out->role = role;
    if (strcmp(name, module) == 0) return true;
  }
  return false;
}

bool yk_weight_is_linear(yk_weight_role role)
{
  switch (role) {
  case YK_ROLE_EMBEDDING:
  case YK_ROLE_FINAL_NORM:
  case YK_ROLE_ATTENTION_NORM:
  case YK_ROLE_FFN_NORM:
  case YK_ROLE_ATTENTION_RESULT_NORM:
  case YK_ROLE_FFN_RESULT_NORM:
  case YK_ROLE_LAYER_EMBEDDING:
  case YK_ROLE_LAYER_INPUTS_NORM:
  case YK_ROLE_LAYER_SCALAR:
  case YK_ROLE_INPUT_RESULT_NORM:
  case YK_ROLE_DENSE_RESULT_NORM:
  case YK_ROLE_EXPERTS_NORM:
  case YK_ROLE_EXPERTS_RESULT_NORM:
  case YK_ROLE_ROUTER_SCALE:
  case YK_ROLE_EXPERT_SCALES:
  case YK_ROLE_Q_NORM:
  case YK_ROLE_K_NORM:
  case YK_ROLE_SINKS:
  case YK_ROLE_CHOICE_BIAS:
  case YK_ROLE_Q_A_NORM:
  case YK_ROLE_KV_A_NORM:
  case YK_ROLE_DELTA_CONV:
  case YK_ROLE_DELTA_A_LOG:
  case YK_ROLE_DELTA_DT_BIAS:
  case YK_ROLE_DELTA_NORM:
  case YK_ROLE_MAMBA_CONV:
  case YK_ROLE_MAMBA_CONV_BIAS:
  case YK_ROLE_MAMBA_A_LOG:
  case YK_ROLE_MAMBA_DT_BIAS:
  case YK_ROLE_MAMBA_SKIP:
  case YK_ROLE_MAMBA_NORM: return false;
  default: return true;
  }
}

int64_t yk_weight_head_norm_size(const yk_model_config *config, yk_weight_role role, int layer)
{
  const yk_attention_widths widths = yk_model_config_widths(config, layer);
  const int64_t n_heads = role == YK_ROLE_Q_NORM ? config->n_heads : widths.n_kv_heads;
  return config->row_norms ? n_heads * widths.head_dim : widths.head_dim;
}

/* Whether a layer has a role: a role of attention or of the sublayer that replaces attention, or a role of the whole
 * layer. */
static bool is_in_attention(const yk_model_config *config, yk_weight_role role, int layer)
{
  const bool is_delta = config->delta.layers[layer], is_mamba = config->mamba.layers[layer];
  const bool is_attention = !is_delta && !is_mamba, is_latent = config->latent.kv_rank > 0;
  const bool has_norms = ((config->qk_norm && !config->qk_norm_is_plain) || config->row_norms) && is_attention;
  const bool has_keys = !is_latent && is_attention && yk_model_config_kv_layer(config, layer) == layer;
  switch (role) {
  case YK_ROLE_Q_NORM: return has_norms;
  case YK_ROLE_K_NORM: return has_norms && yk_model_config_kv_layer(config, layer) == layer;
  case YK_ROLE_LAYER_SCALAR: return config->layer_scalars;
  case YK_ROLE_INPUT_GATE:
  case YK_ROLE_INPUT_DOWN:
  case YK_ROLE_INPUT_RESULT_NORM: return config->layer_input_size > 0;
  case YK_ROLE_ATTENTION_RESULT_NORM: return config->result_norms;
  case YK_ROLE_SINKS: return config->attention_sinks;
  case YK_ROLE_Q: return config->latent.q_rank == 0 && is_attention;
  case YK_ROLE_K: return has_keys;
  case YK_ROLE_V: return has_keys && !(config->values_are_keys && config->window_tokens[layer] == 0);
  case YK_ROLE_O: return is_attention;
  case YK_ROLE_Q_A:
  case YK_ROLE_Q_A_NORM:
  case YK_ROLE_Q_B: return config->latent.q_rank > 0;
  case YK_ROLE_KV_A:
  case YK_ROLE_KV_A_NORM:
  case YK_ROLE_KV_B: return is_latent;
  case YK_ROLE_DELTA_QKV:
  case YK_ROLE_DELTA_Z:
  case YK_ROLE_DELTA_B:
  case YK_ROLE_DELTA_A: return is_delta && !config->delta.is_fused;
  case YK_ROLE_DELTA_QKVZ:
  case YK_ROLE_DELTA_BA: return is_delta && config->delta.is_fused;
  case YK_ROLE_DELTA_CONV:
  case YK_ROLE_DELTA_A_LOG:
  case YK_ROLE_DELTA_DT_BIAS:
  case YK_ROLE_DELTA_NORM:
  case YK_ROLE_DELTA_OUT: return is_delta;
  case YK_ROLE_MAMBA_CONV_BIAS: return is_mamba && config->mamba.has_conv_bias;
  case YK_ROLE_MAMBA_IN:
  case YK_ROLE_MAMBA_CONV:
  case YK_ROLE_MAMBA_A_LOG:
  case YK_ROLE_MAMBA_DT_BIAS:
  case YK_ROLE_MAMBA_SKIP:
  case YK_ROLE_MAMBA_NORM:
  case YK_ROLE_MAMBA_OUT: return is_mamba;
  default: return role == YK_ROLE_ATTENTION_NORM;
  }
}

/* Whether a layer has a role of a dense FFN or a mixture. */
static bool is_in_ffn(const yk_model_config *config, yk_weight_role role, int layer)
{
  const yk_experts_config *x = &config->experts;
  const bool has_experts = x->layers[layer], is_gated = config->activation.is_gated;
  switch (role) {
  case YK_ROLE_FFN_NORM: return true;
  case YK_ROLE_FFN_RESULT_NORM: return config->result_norms;
  case YK_ROLE_DENSE_RESULT_NORM:
  case YK_ROLE_EXPERTS_NORM:
  case YK_ROLE_EXPERTS_RESULT_NORM:
  case YK_ROLE_ROUTER_SCALE:
  case YK_ROLE_EXPERT_SCALES: return has_experts && x->has_branches;
  case YK_ROLE_GATE: return (!has_experts || x->has_branches) && is_gated;
  case YK_ROLE_UP:
  case YK_ROLE_DOWN: return !has_experts || x->has_branches;
  case YK_ROLE_EXPERT_GATE: return has_experts && is_gated;
  case YK_ROLE_ROUTER:
  case YK_ROLE_EXPERT_UP:
  case YK_ROLE_EXPERT_DOWN: return has_experts;
  case YK_ROLE_CHOICE_BIAS: return has_experts && x->has_choice_bias;
  case YK_ROLE_SHARED_GATE: return has_experts && x->shared_ffn_size > 0 && is_gated;
  case YK_ROLE_SHARED_UP:
  case YK_ROLE_SHARED_DOWN: return has_experts && x->shared_ffn_size > 0;
  case YK_ROLE_SHARED_SCORE: return has_experts && x->has_shared_gate;
  case YK_ROLE_EXPERTS_IN:
  case YK_ROLE_EXPERTS_OUT: return has_experts && x->latent_size > 0;
  default: return false;
  }
}

bool yk_weight_is_in_layer(const yk_model_config *config, yk_weight_role role, int layer)
{
  const uint8_t parts = config->parts[layer];
  return (parts != YK_LAYER_FFN_ALONE && is_in_attention(config, role, layer)) ||
         (parts != YK_LAYER_ATTENTION_ALONE && is_in_ffn(config, role, layer));
}

int32_t yk_weight_count(const yk_model_config *config, yk_weight_role role, int layer)
{
  if (!yk_weight_is_in_layer(config, role, layer)) return 0;
  return role >= YK_ROLE_EXPERT_GATE ? config->experts.n_experts : 1;
}

static yk_weight_module matrix(int64_t k, int64_t n, bool has_bias)
{
  return (yk_weight_module){.k = k, .n_own = n, .has_bias = has_bias};
}

/* A linear role of latent attention, without the roles that share its module. q_b and kv_b have no biases in any
 * checkpoint. */
static yk_weight_module latent_of(const yk_model_config *c, yk_weight_role role)
{
  const yk_latent_config *latent = &c->latent;
  int64_t q_width = (int64_t)c->n_heads * (latent->nope_dim + c->head_dim);
  int64_t v_width = (int64_t)c->n_heads * latent->value_dim,
          up_width = (int64_t)c->n_heads * latent->nope_dim + v_width;
  switch (role) {
  case YK_ROLE_Q: return matrix(c->hidden_size, q_width, false);
  case YK_ROLE_Q_A: return matrix(c->hidden_size, latent->q_rank, c->qkv_bias);
  case YK_ROLE_Q_B: return matrix(latent->q_rank, q_width, false);
  case YK_ROLE_KV_A: return matrix(c->hidden_size, latent->kv_rank + c->head_dim, c->qkv_bias);
  case YK_ROLE_KV_B: return matrix(latent->kv_rank, up_width, false);
  case YK_ROLE_O: return matrix(v_width, c->hidden_size, c->o_bias);
  default: return (yk_weight_module){0};
  }
}

/* A linear role of a gated delta net. */
static yk_weight_module delta_of(const yk_model_config *c, yk_weight_role role)
{
  int64_t q_width = (int64_t)c->delta.n_key_heads * c->delta.key_dim;
  int64_t v_width = (int64_t)c->delta.n_value_heads * c->delta.value_dim;
  switch (role) {
  case YK_ROLE_DELTA_QKV: return matrix(c->hidden_size, 2 * q_width + v_width, false);
  case YK_ROLE_DELTA_Z: return matrix(c->hidden_size, v_width, false);
  case YK_ROLE_DELTA_B:
  case YK_ROLE_DELTA_A: return matrix(c->hidden_size, c->delta.n_value_heads, false);
  case YK_ROLE_DELTA_QKVZ: return matrix(c->hidden_size, 2 * (q_width + v_width), false);
  case YK_ROLE_DELTA_BA: return matrix(c->hidden_size, 2 * (int64_t)c->delta.n_value_heads, false);
  default: return matrix(v_width, c->hidden_size, false);
  }
}

/* A linear role of Mamba2. */
static yk_weight_module mamba_of(const yk_model_config *c, yk_weight_role role)
{
  const yk_mamba_config *mamba = &c->mamba;
  const int64_t width = yk_mamba_config_width(mamba);
  if (role == YK_ROLE_MAMBA_OUT) return matrix(width, c->hidden_size, mamba->has_biases);
  return matrix(c->hidden_size, width + yk_mamba_config_channels(mamba) + mamba->n_heads, mamba->has_biases);
}

/* A linear role of a mixture, without the roles that share its module. */
static yk_weight_module mixture_of(const yk_model_config *c, yk_weight_role role)
{
  const yk_experts_config *x = &c->experts;
  const int64_t hidden = c->hidden_size, inner = x->latent_size > 0 ? x->latent_size : hidden;
  switch (role) {
  case YK_ROLE_ROUTER: return matrix(hidden, x->n_experts, x->has_biases);
  case YK_ROLE_SHARED_SCORE: return matrix(hidden, 1, false);
  case YK_ROLE_SHARED_GATE:
  case YK_ROLE_SHARED_UP: return matrix(hidden, x->shared_ffn_size, false);
  case YK_ROLE_SHARED_DOWN: return matrix(x->shared_ffn_size, hidden, false);
  case YK_ROLE_EXPERTS_IN: return matrix(hidden, x->latent_size, false);
  case YK_ROLE_EXPERTS_OUT: return matrix(x->latent_size, hidden, false);
  case YK_ROLE_EXPERT_DOWN: return matrix(x->ffn_size, inner, x->has_biases);
  default: return matrix(inner, x->ffn_size, x->has_biases);
  }
}

/* A linear role, without the roles that share its module. */
static yk_weight_module own_of(const yk_model_config *c, yk_weight_role role, int layer)
{
  bool is_attention = (role >= YK_ROLE_Q && role <= YK_ROLE_O) || (role >= YK_ROLE_Q_A && role <= YK_ROLE_KV_B);
  if (c->latent.kv_rank > 0 && is_attention) return latent_of(c, role);
  const yk_attention_widths widths = yk_model_config_widths(c, layer);
  const int64_t q_width = (int64_t)c->n_heads * widths.head_dim;
  const int64_t kv_width = (int64_t)widths.n_kv_heads * widths.head_dim,
                ffn = yk_model_config_has_reader_ffn(c, layer) ? c->reader_ffn_size : c->ffn_size;
  switch (role) {
  case YK_ROLE_LM_HEAD: return matrix(c->hidden_size, c->vocab_size, false);
  case YK_ROLE_LAYER_INPUTS: return matrix(c->hidden_size, (int64_t)c->n_layers * c->layer_input_size, false);
  case YK_ROLE_INPUT_GATE: return matrix(c->hidden_size, c->layer_input_size, false);
  case YK_ROLE_INPUT_DOWN: return matrix(c->layer_input_size, c->hidden_size, false);
  case YK_ROLE_Q: return matrix(c->hidden_size, q_width * (c->attention_gates ? 2 : 1), c->qkv_bias);
  case YK_ROLE_K:
  case YK_ROLE_V: return matrix(c->hidden_size, kv_width, c->qkv_bias);
  case YK_ROLE_O: return matrix(q_width, c->hidden_size, c->o_bias);
  case YK_ROLE_GATE:
  case YK_ROLE_UP: return matrix(c->hidden_size, ffn, c->mlp_bias);
  case YK_ROLE_DOWN: return matrix(ffn, c->hidden_size, c->mlp_bias);
  case YK_ROLE_ROUTER:
  case YK_ROLE_SHARED_SCORE:
  case YK_ROLE_SHARED_GATE:
  case YK_ROLE_SHARED_UP:
  case YK_ROLE_SHARED_DOWN:
  case YK_ROLE_EXPERTS_IN:
  case YK_ROLE_EXPERTS_OUT:
  case YK_ROLE_EXPERT_GATE:
  case YK_ROLE_EXPERT_UP:
  case YK_ROLE_EXPERT_DOWN: return mixture_of(c, role);
  case YK_ROLE_MAMBA_IN:
  case YK_ROLE_MAMBA_OUT: return mamba_of(c, role);
  case YK_ROLE_DELTA_QKV:
  case YK_ROLE_DELTA_Z:
  case YK_ROLE_DELTA_B:
  case YK_ROLE_DELTA_A:
  case YK_ROLE_DELTA_QKVZ:
  case YK_ROLE_DELTA_BA:
  case YK_ROLE_DELTA_OUT: return delta_of(c, role);
  default: return (yk_weight_module){0};
  }
}

yk_weight_module yk_weight_module_of(const yk_model_config *config, yk_weight_role role, int layer)
{
  yk_weight_module module = own_of(config, role, layer);
  for (yk_weight_role other = YK_ROLE_EMBEDDING; other < YK_N_ROLES; other++) {
    if (!yk_weight_share_module(config->family, other, role)) continue;
    if (other != role && !yk_weight_is_in_layer(config, other, layer))
      continue; /* gates of an FFN, of a shared expert */
    int64_t n = own_of(config, other, layer).n_own;
    module.n += n;
    if (other < role) module.first_n += n;
  }
  return module;
}
