/* weight_names.h - the names of each model family's modules in a checkpoint. */
#ifndef YK_LOADER_WEIGHT_NAMES_H
#define YK_LOADER_WEIGHT_NAMES_H

#include "loader/model/model_config.h"

enum { YK_WEIGHT_NAME_BYTES = 80 }; /* of the longest name, in the last of YK_MAX_LAYERS layers */

typedef enum yk_weight_role {
  YK_ROLE_EMBEDDING,             /* matrix [vocab, hidden] */
  YK_ROLE_FINAL_NORM,            /* vector [hidden] */
  YK_ROLE_LM_HEAD,               /* linear hidden -> vocab; missing if tied */
  YK_ROLE_LAYER_EMBEDDING,       /* matrix [vocab, layers * layer_input_size]; families with layer_input_size */
  YK_ROLE_LAYER_INPUTS,          /* linear hidden -> layers * layer_input_size; likewise */
  YK_ROLE_LAYER_INPUTS_NORM,     /* vector [layer_input_size]; likewise */
  YK_ROLE_ATTENTION_NORM,        /* vector [hidden]; this and the following roles: one per layer */
  YK_ROLE_FFN_NORM,              /* vector [hidden] */
  YK_ROLE_ATTENTION_RESULT_NORM, /* vector [hidden]; families with result_norms */
  YK_ROLE_FFN_RESULT_NORM,       /* vector [hidden] */
  YK_ROLE_LAYER_SCALAR,          /* vector [1], a tensor without a suffix; families with layer_scalars */
  YK_ROLE_INPUT_GATE,            /* linear hidden -> layer_input_size; this and the next two: with layer_input_size */
  YK_ROLE_INPUT_DOWN,            /* linear layer_input_size -> hidden */
  YK_ROLE_INPUT_RESULT_NORM,     /* vector [hidden] */
  YK_ROLE_DENSE_RESULT_NORM,     /* vector [hidden]; this and the following four: mixtures with has_branches */
  YK_ROLE_EXPERTS_NORM,          /* vector [hidden] */
  YK_ROLE_EXPERTS_RESULT_NORM,   /* vector [hidden] */
  YK_ROLE_ROUTER_SCALE,          /* vector [hidden], a tensor without a suffix */
  YK_ROLE_EXPERT_SCALES,         /* vector [experts], a tensor without a suffix */
  YK_ROLE_Q,                     /* linear hidden -> heads * head_dim */
  YK_ROLE_K,                     /* linear hidden -> kv_heads * head_dim */
  YK_ROLE_V,                     /* linear hidden -> kv_heads * head_dim */
  YK_ROLE_O,                     /* linear heads * head_dim -> hidden */
  YK_ROLE_Q_NORM,                /* vector [yk_weight_head_norm_size]; families with qk_norm or row_norms */
  YK_ROLE_K_NORM,                /* likewise */
  YK_ROLE_SINKS,                 /* vector [heads], a tensor without a suffix; families with attention_sinks */
  YK_ROLE_GATE,                  /* linear hidden -> ffn */
  YK_ROLE_UP,                    /* linear hidden -> ffn */
  YK_ROLE_DOWN,                  /* linear ffn -> hidden */
  YK_ROLE_Q_A,                   /* linear hidden -> q_rank; Q_A to KV_B: latent attention; Q is used if q_rank is 0 */
  YK_ROLE_Q_A_NORM,              /* vector [q_rank] */
  YK_ROLE_Q_B,                   /* linear q_rank -> heads * (nope_dim + head_dim) */
  YK_ROLE_KV_A,                  /* linear hidden -> kv_rank + head_dim */
  YK_ROLE_KV_A_NORM,             /* vector [kv_rank] */
  YK_ROLE_KV_B,                  /* linear kv_rank -> heads * (nope_dim + value_dim) */
  YK_ROLE_ROUTER,                /* linear hidden -> experts; floats in every format */
  YK_ROLE_CHOICE_BIAS,           /* vector [experts], a tensor without a suffix; families with has_choice_bias */
  YK_ROLE_SHARED_GATE,           /* linear hidden -> shared ffn */
  YK_ROLE_SHARED_UP,             /* linear hidden -> shared ffn */
  YK_ROLE_SHARED_DOWN,           /* linear shared ffn -> hidden */
  YK_ROLE_SHARED_SCORE,          /* linear hidden -> 1, factor of the shared expert; floats in every format */
  YK_ROLE_DELTA_QKV,             /* linear hidden -> q, k, v of all heads; DELTA_QKV to DELTA_OUT: gated delta nets */
  YK_ROLE_DELTA_Z,               /* linear hidden -> value heads * value_dim */
  YK_ROLE_DELTA_B,               /* linear hidden -> value heads */
  YK_ROLE_DELTA_A,               /* linear hidden -> value heads */
  YK_ROLE_DELTA_QKVZ,            /* in place of QKV and Z: per key head its q, k, v and z */
  YK_ROLE_DELTA_BA,              /* in place of B and A: per key head its b and a */
  YK_ROLE_DELTA_CONV,            /* tensor [channels, 1, YK_DELTA_TAPS] */
  YK_ROLE_DELTA_A_LOG,           /* vector [value heads], a tensor without a suffix */
  YK_ROLE_DELTA_DT_BIAS,         /* vector [value heads], a tensor without a suffix */
  YK_ROLE_DELTA_NORM,            /* vector [value_dim] */
  YK_ROLE_DELTA_OUT,             /* linear value heads * value_dim -> hidden */
  YK_ROLE_MAMBA_IN,              /* linear hidden -> z, x, b, c, dt of all heads; MAMBA_IN to MAMBA_OUT: Mamba2 */
  YK_ROLE_MAMBA_CONV,            /* tensor [channels, 1, YK_MAMBA_TAPS] */
  YK_ROLE_MAMBA_CONV_BIAS,       /* vector [channels], a tensor without a suffix, as the next three */
  YK_ROLE_MAMBA_A_LOG,           /* vector [heads] */
  YK_ROLE_MAMBA_DT_BIAS,         /* vector [heads] */
  YK_ROLE_MAMBA_SKIP,            /* vector [heads] */
  YK_ROLE_MAMBA_NORM,            /* vector [heads * head_dim] */
  YK_ROLE_MAMBA_OUT,             /* linear heads * head_dim -> hidden */
  YK_ROLE_EXPERTS_IN,            /* linear hidden -> latent_size; this and the next one: mixtures with latent_size */
  YK_ROLE_EXPERTS_OUT,           /* linear latent_size -> hidden */
  YK_ROLE_EXPERT_GATE,           /* linear hidden, or latent_size, -> expert ffn; from here on: one per expert */
  YK_ROLE_EXPERT_UP,             /* likewise */
  YK_ROLE_EXPERT_DOWN,           /* linear expert ffn -> hidden, or latent_size */
  YK_N_ROLES
} yk_weight_role;

/* yk_weight_name - the module's name, without ".weight" or ".qweight": "model.layers.3.self_attn.q_proj".
 *   Reads only family and text_place of config. layer is ignored for roles that exist once; for expert roles the name
 *   is that of expert 0. Roles whose outputs are one tensor (q, k, v; gate, up) share a name. Thread: any. */
void yk_weight_name(const yk_model_config *config, yk_weight_role role, int layer, char out[YK_WEIGHT_NAME_BYTES]);

/* yk_weight_name_of_expert - the same for an expert; expert is ignored for other roles. */
void yk_weight_name_of_expert(const yk_model_config *config, yk_weight_role role, int layer, int expert,
                              char out[YK_WEIGHT_NAME_BYTES]);

/* yk_weight_layer_prefix - the beginning of the names of layers' tensors, before the layer's number: "model.layers.".
 *   Reads only family and text_place of config. Thread: any. */
void yk_weight_layer_prefix(const yk_model_config *config, char out[YK_WEIGHT_NAME_BYTES]);

/* yk_weight_within_text - a module's or tensor's name after the prefix of the text model ("layers.3.mlp.up_proj"), for
 *   every yk_text_place; a pointer into name. NULL: name has none of these prefixes, as in ChatGLM. Thread: any. */
const char *yk_weight_within_text(const char *name);

/* yk_weight_within_layer - likewise the name after the layer's number ("mlp.up_proj"); NULL: the name has no layer.
 *   Thread: any. */
const char *yk_weight_within_layer(const char *name);

/* yk_weight_share_module - whether two roles are outputs of the same module, and so have the same name. Thread: any. */
bool yk_weight_share_module(yk_model_family family, yk_weight_role a, yk_weight_role b);

/* yk_weight_is_bare - whether a role's name is a tensor's name without a suffix such as ".weight". */
static inline bool yk_weight_is_bare(yk_weight_role role)
{
  switch (role) {
  case YK_ROLE_DELTA_A_LOG:
  case YK_ROLE_DELTA_DT_BIAS:
  case YK_ROLE_MAMBA_CONV_BIAS:
  case YK_ROLE_MAMBA_A_LOG:
  case YK_ROLE_MAMBA_DT_BIAS:
  case YK_ROLE_MAMBA_SKIP:
  case YK_ROLE_SINKS:
  case YK_ROLE_LAYER_SCALAR:
  case YK_ROLE_ROUTER_SCALE:
  case YK_ROLE_EXPERT_SCALES:
  case YK_ROLE_CHOICE_BIAS: return true;
  default: return false;
  }
}

/* yk_weight_layer - the number of the layer of a tensor with this name (INT32_MAX for larger numbers); -1: none. Reads
 *   only family and text_place of config. Thread: any. */
int32_t yk_weight_layer(const yk_model_config *config, const char *tensor);

#endif
