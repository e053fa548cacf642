/* weight_names.h - what the modules of each model family are called in a checkpoint, and what they hold. */
#ifndef YK_LOADER_WEIGHT_NAMES_H
#define YK_LOADER_WEIGHT_NAMES_H

#include "loader/hf_config.h"

enum { YK_WEIGHT_NAME_BYTES = 64 };

typedef enum yk_weight_role {
  YK_ROLE_EMBEDDING,      /* matrix [vocab, hidden] */
  YK_ROLE_FINAL_NORM,     /* vector [hidden] */
  YK_ROLE_LM_HEAD,        /* linear hidden -> vocab; absent where tied */
  YK_ROLE_ATTENTION_NORM, /* vector [hidden]; from here on one per layer */
  YK_ROLE_FFN_NORM,       /* vector [hidden] */
  YK_ROLE_Q,              /* linear hidden -> heads * head_dim */
  YK_ROLE_K,              /* linear hidden -> kv_heads * head_dim */
  YK_ROLE_V,              /* linear hidden -> kv_heads * head_dim */
  YK_ROLE_O,              /* linear heads * head_dim -> hidden */
  YK_ROLE_Q_NORM,         /* vector [head_dim]; families with qk_norm */
  YK_ROLE_K_NORM,         /* vector [head_dim] */
  YK_ROLE_GATE,           /* linear hidden -> ffn */
  YK_ROLE_UP,             /* linear hidden -> ffn */
  YK_ROLE_DOWN            /* linear ffn -> hidden */
} yk_weight_role;

/* yk_weight_name - the module's name, without ".weight" or ".qweight": "model.layers.3.self_attn.q_proj".
 *   layer is ignored for the roles that exist once. Roles whose outputs are one tensor (q, k, v; gate, up) share a
 *   name. */
void yk_weight_name(yk_model_family family, yk_weight_role role, int layer, char out[YK_WEIGHT_NAME_BYTES]);

/* A linear layer as the checkpoint has it: the outputs of all roles that share its name, in the order of the roles. */
typedef struct yk_weight_module {
  int64_t k, n;           /* of the module */
  int64_t first_n, n_own; /* the role's outputs within those */
  bool has_bias;
} yk_weight_module;

/* yk_weight_module_of - of a linear role. */
yk_weight_module yk_weight_module_of(const yk_model_config *config, yk_weight_role role);

/* yk_weight_layer - the layer that a tensor of this name belongs to (INT32_MAX for any number above it); -1: none. */
int32_t yk_weight_layer(yk_model_family family, const char *tensor);

#endif
