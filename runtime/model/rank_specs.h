/* rank_specs.h - which slices of the checkpoint one rank loads: shard.h applied to a model's configuration. */
#ifndef YK_MODEL_RANK_SPECS_H
#define YK_MODEL_RANK_SPECS_H

#include "loader/checkpoint.h"
#include "model/model_limits.h"
#include "parallel/shard.h"

typedef struct yk_rank_share {
  int rank, n_ranks;
  yk_shard_heads heads;
  yk_range ffn;        /* columns of gate and up, rows of down's K */
  yk_range shared_ffn; /* the same of a shared expert */
  yk_range experts;    /* of each layer that has some; empty also where expert_ffn is */
  yk_range expert_ffn; /* columns and rows of each of these experts */
  yk_range vocab;      /* rows of lm_head and of the embedding */
} yk_rank_share;

/* yk_rank_share_of - expert_parallel: whole experts are dealt to ranks, else every rank has a share of each. */
yk_rank_share yk_rank_share_of(const yk_model_config *config, int rank, int n_ranks, bool expert_parallel);

/* yk_rank_vocab_of - the share's vocab. */
yk_range yk_rank_vocab_of(const yk_model_config *config, int rank, int n_ranks);

/* What a rank loads from, and how much it must hold: enough to plan, and with a device to load. */
typedef struct yk_rank_source {
  const yk_checkpoint *checkpoint;
  const yk_model_config *config; /* the checkpoint's */
  const yk_model_limits *limits;
  yk_rank_share share;
  yk_model_device dev;
} yk_rank_source;

/* A linear layer of the checkpoint. */
typedef struct yk_projection {
  int32_t layer;
  yk_weight_role role;
  int32_t expert; /* of roles that each expert has */
} yk_projection;

/* yk_rank_column_part - outputs n of a projection, all of K: column-parallel. Where the checkpoint has several roles in
 *   one module, they are that many outputs further on.
 * yk_rank_row_part - inputs k of a projection, all of N: row-parallel, a partial result of which only rank 0's has the
 *   bias. may_choose: the rank computes x itself and may do so for any inputs: where groups are not of neighbouring
 *   inputs and the device sorts them (k_is_sorted), k counts places among all inputs sorted by group.
 * Views point into the checkpoint. Errors: those of yk_checkpoint_linear; YK_E_NOMEM. */
yk_status yk_rank_column_part(const yk_rank_source *source, const yk_projection *projection, yk_range n,
                              yk_linear_part *part, yk_err *err);
yk_status yk_rank_row_part(const yk_rank_source *source, const yk_projection *projection, yk_range k, bool may_choose,
                           yk_linear_part *part, yk_err *err);

/* yk_rank_experts_part - one part of a layer whose matrices are the rank's experts, of which there is at least one:
 *   projection's role of each, range of its outputs (column-parallel) or of its inputs. views: [experts - 1], where
 *   more_weights go; NULL: for sizes alone. Inputs that experts do not keep quantised (below) become floats, but for
 *   sizes alone, where they say what the checkpoint means. With act order each expert's inputs are sorted by its own
 *   groups, down's as with may_choose; where groups are not even (group_order.h) they are not, and the weights are to
 *   be dequantised. Errors: as above; YK_E_UNSUPPORTED where something is folded into biases. */
yk_status yk_rank_experts_part(const yk_rank_source *source, const yk_projection *projection, yk_range range,
                               yk_weight_view *views, yk_linear_part *part, yk_err *err);

/* yk_rank_experts_quantise - whether experts quantise inputs as the checkpoint says: each token by itself, since only
 *   such inputs are alike in all experts. */
bool yk_rank_experts_quantise(const yk_inputs *inputs);

/* yk_lm_head_spec_make - the rank's share of the vocabulary, from lm_head or the tied embedding; float32 logits. A tied
 *   one is resident: whoever loads it says where the embedding is. */
yk_status yk_lm_head_spec_make(const yk_rank_source *source, yk_linear_spec *out, yk_err *err);

/* yk_range_scaled - a range of heads as a range of their columns. */
static inline yk_range yk_range_scaled(yk_range range, int64_t factor)
{
  return (yk_range){range.begin * factor, range.end * factor};
}

#endif
