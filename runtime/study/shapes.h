/* shapes.h - the sizes of a model that determine the bytes and operations of a step, from the loader's description. */
#ifndef YK_STUDY_SHAPES_H
#define YK_STUDY_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Groups of linear layers that a checkpoint quantises in the same format. */
typedef enum yk_linear_group {
  YK_LINEAR_ATTENTION,
  YK_LINEAR_STATES,  /* of gated delta nets and Mamba2 */
  YK_LINEAR_FFN,     /* dense, and of shared experts */
  YK_LINEAR_EXPERTS, /* routed */
  YK_LINEAR_GROUPS
} yk_linear_group;

typedef struct yk_model_shapes {
  int64_t n_layers, hidden_size, intermediate_size, n_heads, n_kv_heads, head_dim, vocab_size;
  int64_t group_size;                     /* of the FFN's quantised weights along K; 0: not quantised */
  int64_t max_model_tokens;               /* 0: not in the configuration */
  int64_t n_single_mixers, n_single_ffns; /* layers without an FFN; without attention or what replaces it */
  bool has_plain_ffns;                    /* FFNs of two matrices, without a gate */
  /* Attention with a window, in n_local_layers of the layers, with separate KV heads. 0: none. */
  int64_t n_local_layers, window_tokens, local_kv_heads, local_head_dim;
  bool values_are_keys; /* layers without a window project no values */
  /* A mixture of experts, in n_expert_layers of the layers; the others, and n_branch_layers of these, have
   * intermediate_size. 0: none. */
  int64_t n_expert_layers, n_branch_layers, n_experts, top_k;
  int64_t expert_size, shared_size; /* FFN size of one expert, and of the shared expert */
  int64_t expert_width;             /* inputs of an expert; 0: hidden_size */
  /* Latent attention: n_heads queries of nope_dim + rope_dim over latent vectors of kv_rank + rope_dim; n_kv_heads and
   * head_dim are then unused. kv_rank 0: no latent attention; q_rank 0: q is one projection. */
  int64_t kv_rank, q_rank, nope_dim, rope_dim, value_dim;
  /* Gated delta nets instead of attention, in n_delta_layers of the layers: heads of q and k and of v, and their
   * elements. 0: none. */
  int64_t n_delta_layers, delta_key_heads, delta_value_heads, delta_key_dim, delta_value_dim;
  /* Mamba2 instead of attention, in n_mamba_layers: heads, groups of heads, elements of a head and of a state. */
  int64_t n_mamba_layers, mamba_heads, mamba_groups, mamba_head_dim, mamba_state_dim;
  bool has_attention_gates; /* attention projects a gate as wide as q */
  /* of a weight of the group, including its share of scales and zeros: the mean of its layers; 0: none is quantised */
  double element_bytes[YK_LINEAR_GROUPS];
} yk_model_shapes;

/* yk_model_shapes_read - read the description and the formats of the weights of model_dir, which needs config.json
 *   alone: without weights, formats are assumed as yk_plan_make does.
 *   Errors: those of opening a checkpoint and of finding its weights. Thread: any. */
yk_status yk_model_shapes_read(const char *model_dir, yk_model_shapes *out, yk_err *err);

/* yk_model_shapes_of_stage - the shapes of the largest of n_stages pipeline stages, without lm_head. */
yk_model_shapes yk_model_shapes_of_stage(const yk_model_shapes *shapes, int n_stages);

/* yk_model_weights - number of weights in the linear layers of all layers. */
double yk_model_weights(const yk_model_shapes *shapes);

/* yk_model_attention_layers - layers with attention. */
static inline int64_t yk_model_attention_layers(const yk_model_shapes *shapes)
{
  const int64_t n = shapes->n_layers - shapes->n_delta_layers - shapes->n_mamba_layers - shapes->n_single_ffns;
  return n > 0 ? n : 0;
}

/* yk_model_dense_layers - layers with a dense FFN. */
static inline int64_t yk_model_dense_layers(const yk_model_shapes *shapes)
{
  const int64_t n = shapes->n_layers - shapes->n_single_mixers - shapes->n_expert_layers + shapes->n_branch_layers;
  return n > 0 ? n : 0;
}

/* yk_model_sublayers - sublayers, each of which ends with an all-reduce. */
static inline int64_t yk_model_sublayers(const yk_model_shapes *shapes)
{
  return 2 * shapes->n_layers - shapes->n_single_mixers - shapes->n_single_ffns;
}

#endif
