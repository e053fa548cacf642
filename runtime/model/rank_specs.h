/* rank_specs.h - which slices of the checkpoint one rank loads: shard.h applied to a model's configuration. */
#ifndef YK_MODEL_RANK_SPECS_H
#define YK_MODEL_RANK_SPECS_H

#include "loader/checkpoint.h"
#include "model/model.h"
#include "parallel/shard.h"

typedef struct yk_rank_share {
  int rank, n_ranks;
  yk_shard_heads heads;
  yk_range ffn;   /* columns of gate and up, rows of down's K */
  yk_range vocab; /* rows of lm_head */
} yk_rank_share;

yk_rank_share yk_rank_share_of(const yk_model_config *config, int rank, int n_ranks);

/* The four products of a layer. */
typedef struct yk_layer_specs {
  yk_linear_spec qkv, o, gate_up, down;
} yk_layer_specs;

/* yk_layer_specs_make - slices of one layer. Views point into the checkpoint. Errors: those of yk_checkpoint_linear. */
yk_status yk_layer_specs_make(const yk_checkpoint *checkpoint, const yk_rank_share *share,
                              const yk_model_limits *limits, int32_t layer, yk_layer_specs *out, yk_err *err);

/* yk_lm_head_spec_make - the rank's share of the vocabulary, from lm_head or the tied embedding; float32 logits. A tied one
 *   is resident: whoever loads it says where the embedding is.                                                       */
yk_status yk_lm_head_spec_make(const yk_checkpoint *checkpoint, const yk_rank_share *share,
                               const yk_model_limits *limits, yk_linear_spec *out, yk_err *err);

#endif
