#include "model/rank_specs.h"

#include <string.h>

#include "base/checked.h"
#include "loader/group_order.h"
#include "loader/quant_rules.h"
#include "model/bringing.h"

/* The group that the FFN is cut at: the largest of all layers' down_proj; where they differ, the others' groups may be
 * cut inside. A name that takes too long to match counts as not quantised: yk_checkpoint_linear says so. */
static int64_t ffn_group(const yk_model_config *config)
{
  int64_t largest = 0;
  for (int32_t layer = 0; layer < config->n_layers; layer++) {
    char name[YK_WEIGHT_NAME_BYTES];
    const yk_quant_scheme *scheme;
    yk_err refusal = YK_ERR_INIT;
    yk_weight_name(config->family, YK_ROLE_DOWN, layer, name);
    if (yk_quant_scheme_of(&config->quant, name, &scheme, &refusal) != YK_OK || !scheme) continue;
    int64_t group = scheme->group_size > 0 ? scheme->group_size : config->ffn_size;
    largest = yk_max_i64(largest, group);
  }
  return largest;
}

yk_rank_share yk_rank_share_of(const yk_model_config *config, int rank, int n_ranks)
{
  enum { VOCAB_UNIT = 8 }; /* whole words of a quantised head, aligned rows of a plain one */
  return (yk_rank_share){.rank = rank,
                         .n_ranks = n_ranks,
                         .heads = yk_shard_heads_of(config->n_heads, config->n_kv_heads, rank, n_ranks),
                         .ffn = yk_shard_ffn_of(config->ffn_size, ffn_group(config), rank, n_ranks),
                         .vocab = yk_shard_range(config->vocab_size, VOCAB_UNIT, rank, n_ranks)};
}

static yk_status find(const yk_rank_source *source, const yk_projection *p, yk_weight_module *module,
                      yk_linear_part *part, yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  *module = yk_weight_module_of(source->config, p->role);
  memset(part, 0, sizeof *part);
  part->as_16_bits = source->limits->as_16_bits;
  yk_weight_name(source->config->family, p->role, p->layer, name);
  YK_TRY(yk_checkpoint_linear(source->checkpoint, name, module->k, module->n, module->has_bias, &part->weight, err));
  return yk_checkpoint_add_offset(source->checkpoint, p->role, p->layer, &part->weight, err);
}

/* Where the part's inputs are to be sorted by group: how. */
static yk_status sort_inputs(const yk_rank_source *source, bool may_choose, yk_linear_part *part, yk_err *err)
{
  if (!yk_bring_sorts(&source->dev, part)) return YK_OK;
  part->k_is_sorted = may_choose;
  const yk_group_share share = {part->k.begin, part->k.end, part->k_is_sorted};
  yk_group_places places;
  int element_bits = part->weight.format == YK_WEIGHT_AWQ ? 4 : 8;
  YK_TRY(yk_group_order_measure(&part->weight, &share, element_bits, &places, err));
  part->k_places = places.n;
  part->group_local = places.group;
  return YK_OK;
}

yk_status yk_rank_column_part(const yk_rank_source *source, const yk_projection *projection, yk_range n,
                              yk_linear_part *part, yk_err *err)
{
  yk_weight_module module;
  YK_TRY(find(source, projection, &module, part, err));
  part->k = (yk_range){0, module.k};
  part->n = (yk_range){module.first_n + n.begin, module.first_n + n.end};
  part->group_local = part->weight.group;
  part->use_bias = module.has_bias || (part->weight.folds_bias && yk_range_size(n) > 0);
  return sort_inputs(source, false, part, err);
}

yk_status yk_rank_row_part(const yk_rank_source *source, const yk_projection *projection, yk_range k, bool may_choose,
                           yk_linear_part *part, yk_err *err)
{
  yk_weight_module module;
  YK_TRY(find(source, projection, &module, part, err));
  part->k = k;
  part->n = (yk_range){module.first_n, module.first_n + module.n_own};
  if (part->weight.group > 0) part->group_local = yk_shard_group(k, part->weight.group);
  part->use_bias = (module.has_bias || part->weight.folds_bias) && source->share.rank == 0;
  return sort_inputs(source, may_choose, part, err);
}

yk_status yk_lm_head_spec_make(const yk_rank_source *source, yk_linear_spec *out, yk_err *err)
{
  const yk_model_config *c = source->config;
  *out =
      (yk_linear_spec){.n_parts = 1, .n_matrices = 1, .f32_output = true, .max_tokens = source->limits->step.max_seqs};
  if (!c->tie_word_embeddings) {
    const yk_projection head = {0, YK_ROLE_LM_HEAD};
    return yk_rank_column_part(source, &head, source->share.vocab, &out->parts[0], err);
  }
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(c->family, YK_ROLE_EMBEDDING, 0, name);
  YK_TRY(yk_checkpoint_matrix(source->checkpoint, name, c->vocab_size, c->hidden_size, &out->parts[0].weight, err));
  out->parts[0].k = (yk_range){0, c->hidden_size};
  out->parts[0].n = source->share.vocab;
  out->parts[0].is_resident = true;
  return YK_OK;
}
