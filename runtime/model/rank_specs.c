#include "model/rank_specs.h"

#include <string.h>

yk_rank_share yk_rank_share_of(const yk_model_config *config, int rank, int n_ranks)
{
  enum { VOCAB_UNIT = 8 }; /* whole words of a quantised head, aligned rows of a plain one */
  int64_t group = 0;
  if (config->quant.method == YK_QUANT_AWQ)
    group = config->quant.group_size > 0 ? config->quant.group_size : config->ffn_size;
  return (yk_rank_share){.rank = rank,
                         .n_ranks = n_ranks,
                         .heads = yk_shard_heads_of(config->n_heads, config->n_kv_heads, rank, n_ranks),
                         .ffn = yk_shard_ffn_of(config->ffn_size, group, rank, n_ranks),
                         .vocab = yk_shard_range(config->vocab_size, VOCAB_UNIT, rank, n_ranks)};
}

/* Where a projection's weight is, and whether it has a bias. */
typedef struct source {
  const yk_checkpoint *checkpoint;
  int32_t layer;
  yk_weight_role role;
  int64_t k, n;
  bool has_bias;
} source;

static yk_status find(const source *from, yk_linear_part *part, yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  memset(part, 0, sizeof *part);
  yk_weight_name(yk_checkpoint_config(from->checkpoint)->family, from->role, from->layer, name);
  return yk_checkpoint_linear(from->checkpoint, name, from->k, from->n, from->has_bias, &part->weight, err);
}

static yk_status column_part(const source *from, yk_range n, yk_linear_part *part, yk_err *err)
{
  YK_TRY(find(from, part, err));
  part->k = (yk_range){0, from->k};
  part->n = n;
  part->group_local = part->weight.group;
  part->use_bias = from->has_bias;
  return YK_OK;
}

static yk_status row_part(const source *from, yk_range k, int rank, yk_linear_part *part, yk_err *err)
{
  YK_TRY(find(from, part, err));
  part->k = k;
  part->n = (yk_range){0, from->n};
  if (part->weight.format == YK_WEIGHT_AWQ) part->group_local = yk_shard_group(k, part->weight.group);
  part->use_bias = from->has_bias && rank == 0;
  return YK_OK;
}

static yk_range scaled(yk_range range, int64_t factor)
{
  return (yk_range){range.begin * factor, range.end * factor};
}

yk_status yk_layer_specs_make(const yk_checkpoint *checkpoint, const yk_rank_share *share,
                              const yk_model_limits *limits, int32_t layer, yk_layer_specs *out, yk_err *err)
{
  const yk_model_config *c = yk_checkpoint_config(checkpoint);
  int64_t q_width = (int64_t)c->n_heads * c->head_dim, kv_width = (int64_t)c->n_kv_heads * c->head_dim;
  yk_range q = scaled(share->heads.q, c->head_dim), kv = scaled(share->heads.kv, c->head_dim);
  source q_proj = {checkpoint, layer, YK_ROLE_Q, c->hidden_size, q_width, c->qkv_bias};
  source k_proj = {checkpoint, layer, YK_ROLE_K, c->hidden_size, kv_width, c->qkv_bias};
  source v_proj = {checkpoint, layer, YK_ROLE_V, c->hidden_size, kv_width, c->qkv_bias};
  source o_proj = {checkpoint, layer, YK_ROLE_O, q_width, c->hidden_size, c->o_bias};
  source gate = {checkpoint, layer, YK_ROLE_GATE, c->hidden_size, c->ffn_size, c->mlp_bias};
  source up = {checkpoint, layer, YK_ROLE_UP, c->hidden_size, c->ffn_size, c->mlp_bias};
  source down = {checkpoint, layer, YK_ROLE_DOWN, c->ffn_size, c->hidden_size, c->mlp_bias};

  *out = (yk_layer_specs){.qkv = {.n_parts = 3, .max_tokens = limits->max_tokens},
                          .o = {.n_parts = 1, .max_tokens = limits->max_tokens},
                          .gate_up = {.n_parts = 2, .epilogue = YK_EPILOGUE_SILU_MUL, .max_tokens = limits->max_tokens},
                          .down = {.n_parts = 1, .max_tokens = limits->max_tokens}};
  YK_TRY(column_part(&q_proj, q, &out->qkv.parts[0], err));
  YK_TRY(column_part(&k_proj, kv, &out->qkv.parts[1], err));
  YK_TRY(column_part(&v_proj, kv, &out->qkv.parts[2], err));
  YK_TRY(row_part(&o_proj, q, share->rank, &out->o.parts[0], err));
  YK_TRY(column_part(&gate, share->ffn, &out->gate_up.parts[0], err));
  YK_TRY(column_part(&up, share->ffn, &out->gate_up.parts[1], err));
  return row_part(&down, share->ffn, share->rank, &out->down.parts[0], err);
}

yk_status yk_lm_head_spec_make(const yk_checkpoint *checkpoint, const yk_rank_share *share,
                               const yk_model_limits *limits, yk_linear_spec *out, yk_err *err)
{
  const yk_model_config *c = yk_checkpoint_config(checkpoint);
  *out = (yk_linear_spec){.n_parts = 1, .f32_output = true, .max_tokens = limits->max_seqs};
  if (!c->tie_word_embeddings) {
    source head = {checkpoint, 0, YK_ROLE_LM_HEAD, c->hidden_size, c->vocab_size, false};
    return column_part(&head, share->vocab, &out->parts[0], err);
  }
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(c->family, YK_ROLE_EMBEDDING, 0, name);
  YK_TRY(yk_checkpoint_matrix(checkpoint, name, c->vocab_size, c->hidden_size, &out->parts[0].weight, err));
  out->parts[0].k = (yk_range){0, c->hidden_size};
  out->parts[0].n = share->vocab;
  out->parts[0].is_resident = true;
  return YK_OK;
}
