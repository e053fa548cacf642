/* weight_modules.h - which modules the layers of a model have, and the modules' shapes. */
#ifndef YK_LOADER_WEIGHT_MODULES_H
#define YK_LOADER_WEIGHT_MODULES_H

#include "loader/model/weight_names.h"

/* A module of a layer. */
typedef struct yk_weight_place {
  yk_weight_role role;
  int32_t layer;
  int32_t expert; /* 0 for roles other than those of experts */
} yk_weight_place;

/* yk_weight_find - the place in the model of a module with this name, the first role if several share it. False: no
 *   module within a layer has this name. */
bool yk_weight_find(const yk_model_config *config, const char *module, yk_weight_place *out);

/* yk_weight_is_linear - whether a role belongs to a linear layer. */
bool yk_weight_is_linear(yk_weight_role role);

/* yk_weight_is_float - whether a linear role is stored as floats in every format. */
static inline bool yk_weight_is_float(yk_weight_role role)
{
  return role == YK_ROLE_ROUTER || role == YK_ROLE_SHARED_SCORE;
}

/* yk_weight_is_in_layer - whether a layer of the model has a role that exists once per layer (or expert). */
bool yk_weight_is_in_layer(const yk_model_config *config, yk_weight_role role, int layer);

/* yk_weight_head_norm_size - elements of a layer's norm of q or k (YK_ROLE_Q_NORM, YK_ROLE_K_NORM): of one head, or
 *   of all heads with row_norms. Thread: any. */
int64_t yk_weight_head_norm_size(const yk_model_config *config, yk_weight_role role, int layer);

/* yk_weight_count - number of modules of a role in a layer: one, or one per expert; 0 if the layer lacks the role. */
int32_t yk_weight_count(const yk_model_config *config, yk_weight_role role, int layer);

/* A linear layer as stored in the checkpoint: the outputs of all roles that share its name, in the order of the
 * roles. */
typedef struct yk_weight_module {
  int64_t k, n;
  int64_t first_n, n_own; /* the role's range of outputs in the module */
  bool has_bias;
} yk_weight_module;

/* yk_weight_module_of - the module of a linear role; layer is ignored for roles that exist once.
 *   Thread: any. */
yk_weight_module yk_weight_module_of(const yk_model_config *config, yk_weight_role role, int layer);

#endif
