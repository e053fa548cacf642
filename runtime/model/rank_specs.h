/* rank_specs.h - the slices of the checkpoint that one rank loads: shard.h applied to a model's configuration. */
#ifndef YK_MODEL_RANK_SPECS_H
#define YK_MODEL_RANK_SPECS_H

#include "loader/checkpoint.h"
#include "model/model_limits.h"
#include "parallel/shard.h"
#include "parallel/world.h"

/* A rank's number among those that split the same layers, and the pipeline stage that these layers are. */
typedef struct yk_rank_place {
  int rank, n_ranks, stage, n_stages;
} yk_rank_place;

/* yk_rank_place_in - the place of a rank of a world. */
static inline yk_rank_place yk_rank_place_in(const yk_world *world, int rank)
{
  return (yk_rank_place){yk_world_group_rank(world, rank), yk_world_group_size(world), yk_world_stage_of(world, rank),
                         world->n_stages};
}

typedef struct yk_rank_share {
  int rank, n_ranks;
  yk_range layers;       /* of the rank's stage */
  bool is_first_stage;   /* embeds */
  bool is_last_stage;    /* has the final norm and lm_head */
  yk_range q_heads;      /* query heads of each layer; yk_rank_heads_of has the KV heads */
  yk_range delta_keys;   /* key heads of gated delta nets, with the value heads that read them */
  yk_range mamba_groups; /* groups of Mamba2, with their heads */
  yk_range ffn;          /* columns of gate and up, rows of down's K; yk_rank_ffn_of has those of a layer */
  yk_range reader_ffn;   /* likewise, for layers with reader_ffn_size channels */
  yk_range layer_input;  /* elements of each layer's separate embedding (layer_inputs.h) */
  yk_range shared_ffn;   /* columns and rows of a shared expert */
  yk_range experts;      /* experts of each layer with experts; empty if expert_ffn is empty */
  yk_range expert_ffn;   /* columns and rows of each of those experts */
  yk_range vocab;        /* rows of lm_head and of the embedding */
} yk_rank_share;

/* yk_rank_share_of - the share of all layers, of a single stage. expert_parallel: each rank gets whole experts;
 *   otherwise every rank gets a share of each expert. */
yk_rank_share yk_rank_share_of(const yk_model_config *config, int rank, int n_ranks, bool expert_parallel);

/* yk_rank_vocab_of - the vocabulary range of a rank's share. */
yk_range yk_rank_vocab_of(const yk_model_config *config, int rank, int n_ranks);

/* The checkpoint and a rank's share of it: enough to plan, and with a device enough to load. */
typedef struct yk_rank_source {
  const yk_checkpoint *checkpoint;
  const yk_model_config *config; /* the checkpoint's */
  const yk_model_limits *limits;
  yk_rank_share share;
  yk_model_device dev;
} yk_rank_source;

/* yk_rank_heads_of - the rank's query and KV heads in a layer with grouped attention. Thread: any. */
yk_shard_heads yk_rank_heads_of(const yk_rank_source *source, int32_t layer);

/* yk_rank_ffn_of - the rank's channels of a layer's dense FFN: columns of gate and up, rows of down's K.
 *   Thread: any. */
yk_range yk_rank_ffn_of(const yk_rank_source *source, int32_t layer);

/* A linear layer of the checkpoint. */
typedef struct yk_projection {
  int32_t layer;
  yk_weight_role role;
  int32_t expert; /* for roles that each expert has */
} yk_projection;

/* yk_rank_layer_spec - a layer of one matrix for a step's rows, with the limits' adapters; the caller sets its
 *   parts. */
static inline yk_linear_spec yk_rank_layer_spec(const yk_rank_source *source, int n_parts)
{
  return (yk_linear_spec){.n_parts = n_parts,
                          .n_matrices = 1,
                          .max_tokens = source->limits->step.max_tokens,
                          .n_adapters = source->limits->n_adapters,
                          .adapter_rank = source->limits->adapter_rank};
}

/* yk_rank_column_part - outputs n of a projection, all of K: column-parallel. If the checkpoint has several roles in
 *   one module, n is shifted by the outputs of the roles before.
 * yk_rank_row_part - inputs k of a projection, all of N: row-parallel; the bias is in rank 0's partial result only.
 *   may_choose: the rank computes x itself and can do so for any set of inputs. If the groups are not runs of
 *   neighbouring inputs and the device sorts them (k_is_sorted), k counts positions among all inputs sorted by group.
 * Views point into the checkpoint. Errors: those of yk_checkpoint_linear; YK_E_NOMEM. */
yk_status yk_rank_column_part(const yk_rank_source *source, const yk_projection *projection, yk_range n,
                              yk_linear_part *part, yk_err *err);
yk_status yk_rank_row_part(const yk_rank_source *source, const yk_projection *projection, yk_range k, bool may_choose,
                           yk_linear_part *part, yk_err *err);

/* yk_rank_experts_part - one part of a layer with one matrix per expert of the rank, at least one: projection's role of
 *   each expert, range of its outputs (column-parallel) or of its inputs. views: [experts - 1], memory for
 *   more_weights; NULL to compute sizes only. The bias of a row-parallel part belongs to the rank with the first input.
 *   Inputs that experts do not keep quantised (below) become floats, except
 *   when views is NULL: then they stay as the checkpoint defines them. With act order each expert's inputs are sorted
 *   by its own groups, down's as with may_choose. If groups are uneven (group_order.h), inputs are not sorted, and the
 *   weights must be dequantised. Errors: as above; YK_E_UNSUPPORTED if an input transformation is folded into
 *   biases. */
yk_status yk_rank_experts_part(const yk_rank_source *source, const yk_projection *projection, yk_range range,
                               yk_weight_view *views, yk_linear_part *part, yk_err *err);

/* yk_rank_experts_quantise - whether experts quantise inputs as the checkpoint defines. True only for per-token
 *   quantisation, because only such inputs are the same for all experts. */
bool yk_rank_experts_quantise(const yk_inputs *inputs);

/* yk_lm_head_spec_make - the rank's share of the vocabulary, from lm_head or the tied embedding; float32 logits. For a
 *   tied embedding the caller sets `resident` to the loaded embedding. */
yk_status yk_lm_head_spec_make(const yk_rank_source *source, yk_linear_spec *out, yk_err *err);

/* yk_range_scaled - a range of heads as a range of their columns. */
static inline yk_range yk_range_scaled(yk_range range, int64_t factor)
{
  return (yk_range){range.begin * factor, range.end * factor};
}

#endif
