/* weight_names.h - what the modules of each model family are called in a checkpoint, and what they hold. */
#ifndef YK_LOADER_WEIGHT_NAMES_H
#define YK_LOADER_WEIGHT_NAMES_H

#include "loader/model/model_config.h"

enum { YK_WEIGHT_NAME_BYTES = 64 };

/* What a router's correction of the choice is called behind the router's name. */
#define YK_CHOICE_BIAS_SUFFIX "e_score_correction_bias"

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
  YK_ROLE_DOWN,           /* linear ffn -> hidden */
  YK_ROLE_Q_A,          /* linear hidden -> q_rank; of latent attention, as the next five; Q stands where q_rank is 0 */
  YK_ROLE_Q_A_NORM,     /* vector [q_rank] */
  YK_ROLE_Q_B,          /* linear q_rank -> heads * (nope_dim + head_dim) */
  YK_ROLE_KV_A,         /* linear hidden -> kv_rank + head_dim */
  YK_ROLE_KV_A_NORM,    /* vector [kv_rank] */
  YK_ROLE_KV_B,         /* linear kv_rank -> heads * (nope_dim + value_dim) */
  YK_ROLE_ROUTER,       /* linear hidden -> experts; floats in every format */
  YK_ROLE_SHARED_GATE,  /* linear hidden -> shared ffn */
  YK_ROLE_SHARED_UP,    /* linear hidden -> shared ffn */
  YK_ROLE_SHARED_DOWN,  /* linear shared ffn -> hidden */
  YK_ROLE_SHARED_SCORE, /* linear hidden -> 1, a factor of the shared expert; floats in every format */
  YK_ROLE_EXPERT_GATE,  /* linear hidden -> expert ffn; from here on one for each expert of the layer */
  YK_ROLE_EXPERT_UP,    /* linear hidden -> expert ffn */
  YK_ROLE_EXPERT_DOWN,  /* linear expert ffn -> hidden */
  YK_N_ROLES
} yk_weight_role;

/* yk_weight_name - the module's name, without ".weight" or ".qweight": "model.layers.3.self_attn.q_proj".
 *   layer is ignored for the roles that exist once; of roles that each expert has it is expert 0's. Roles whose outputs
 *   are one tensor (q, k, v; gate, up) share a name. */
void yk_weight_name(yk_model_family family, yk_weight_role role, int layer, char out[YK_WEIGHT_NAME_BYTES]);

/* yk_weight_name_of_expert - the same for an expert, which roles that no expert has ignore. */
void yk_weight_name_of_expert(yk_model_family family, yk_weight_role role, int layer, int expert,
                              char out[YK_WEIGHT_NAME_BYTES]);

/* A module of a layer. */
typedef struct yk_weight_place {
  yk_weight_role role;
  int32_t layer;
  int32_t expert; /* 0 for roles that no expert has */
} yk_weight_place;

/* yk_weight_find - which module of the model has a name, the first role of several that share it. False: none within a
 *   layer. */
bool yk_weight_find(const yk_model_config *config, const char *module, yk_weight_place *out);

/* yk_weight_is_linear - whether a role is a linear layer's. */
bool yk_weight_is_linear(yk_weight_role role);

/* yk_weight_is_float - whether a linear role is floats in every format. */
static inline bool yk_weight_is_float(yk_weight_role role)
{
  return role == YK_ROLE_ROUTER || role == YK_ROLE_SHARED_SCORE;
}

/* yk_weight_is_in_layer - whether a layer of the model has a role that is one per layer (or expert). */
bool yk_weight_is_in_layer(const yk_model_config *config, yk_weight_role role, int layer);

/* yk_weight_count - how many modules of a role a layer has: one, or one for each expert; 0 where it lacks the role. */
int32_t yk_weight_count(const yk_model_config *config, yk_weight_role role, int layer);

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
