#include "model/rank_specs.h"

#include <string.h>

#include "base/checked.h"
#include "loader/integers/group_order.h"
#include "loader/model/quant_rules.h"
#include "model/repack.h"

/* The group that an FFN of so many channels is cut at, by its role of down_proj: the largest of all layers'; where they
 * differ, the others' groups may be cut inside. Experts of a layer are alike: the first stands for them. A name that
 * takes too long to match counts as not quantised: yk_checkpoint_linear says so. */
static int64_t ffn_group(const yk_model_config *config, yk_weight_role down, int64_t n_channels)
{
  int64_t largest = 0;
  for (int32_t layer = 0; layer < config->n_layers; layer++) {
    char name[YK_WEIGHT_NAME_BYTES];
    const yk_quant_scheme *scheme;
    yk_err refusal = YK_ERR_INIT;
    if (!yk_weight_is_in_layer(config, down, layer)) continue;
    yk_weight_name(config->family, down, layer, name);
    if (yk_quant_scheme_of(&config->quant, name, &scheme, &refusal) != YK_OK || !scheme) continue;
    int64_t group = scheme->group_size > 0 ? scheme->group_size : n_channels;
    largest = yk_max_i64(largest, group);
  }
  return largest;
}

static yk_range ffn_share(const yk_model_config *config, yk_weight_role down, int64_t n_channels, int rank, int n_ranks)
{
  return yk_shard_ffn_of(n_channels, ffn_group(config, down, n_channels), rank, n_ranks);
}

static void share_experts(const yk_model_config *config, bool expert_parallel, yk_rank_share *share)
{
  const yk_experts_config *x = &config->experts;
  if (x->n_experts == 0) return;
  share->shared_ffn = ffn_share(config, YK_ROLE_SHARED_DOWN, x->shared_ffn_size, share->rank, share->n_ranks);
  share->experts = (yk_range){0, x->n_experts};
  share->expert_ffn = (yk_range){0, x->ffn_size};
  if (expert_parallel)
    share->experts = yk_shard_range(x->n_experts, 1, share->rank, share->n_ranks);
  else
    share->expert_ffn = ffn_share(config, YK_ROLE_EXPERT_DOWN, x->ffn_size, share->rank, share->n_ranks);
  if (yk_range_size(share->expert_ffn) == 0) share->experts = (yk_range){0, 0};
}

yk_range yk_rank_vocab_of(const yk_model_config *config, int rank, int n_ranks)
{
  enum { VOCAB_UNIT = 8 }; /* whole words of a quantised head, aligned rows of a plain one */
  return yk_shard_range(config->vocab_size, VOCAB_UNIT, rank, n_ranks);
}

yk_rank_share yk_rank_share_of(const yk_model_config *config, int rank, int n_ranks, bool expert_parallel)
{
  yk_rank_share share = {.rank = rank,
                         .n_ranks = n_ranks,
                         .heads = yk_shard_heads_of(config->n_heads, config->n_kv_heads, rank, n_ranks),
                         .ffn = ffn_share(config, YK_ROLE_DOWN, config->ffn_size, rank, n_ranks),
                         .vocab = yk_rank_vocab_of(config, rank, n_ranks)};
  share_experts(config, expert_parallel, &share);
  return share;
}

static yk_status find(const yk_rank_source *source, const yk_projection *p, yk_weight_module *module,
                      yk_linear_part *part, yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  *module = yk_weight_module_of(source->config, p->role);
  memset(part, 0, sizeof *part);
  part->as_16_bits = source->limits->as_16_bits;
  yk_weight_name_of_expert(source->config->family, p->role, p->layer, p->expert, name);
  if (yk_weight_is_float(p->role))
    YK_TRY(yk_checkpoint_matrix(source->checkpoint, name, module->n, module->k, &part->weight, err));
  else
    YK_TRY(yk_checkpoint_linear(source->checkpoint, name, module->k, module->n, module->has_bias, &part->weight, err));
  return yk_checkpoint_add_offset(source->checkpoint, p->role, p->layer, &part->weight, err);
}

/* Where the part's inputs are to be sorted by group: how. */
static yk_status sort_inputs(const yk_rank_source *source, bool may_choose, yk_linear_part *part, yk_err *err)
{
  if (!yk_repack_sorts(&source->dev, part)) return YK_OK;
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

/* Grouped layers have no biases of their own. */
static yk_status refuse_folds(const yk_rank_source *source, const yk_projection *p, const yk_weight_view *weight,
                              yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  if (!weight->folds_bias) return YK_OK;
  yk_weight_name_of_expert(source->config->family, p->role, p->layer, p->expert, name);
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%s: an offset before the layer, or static inputs with a bias, are not supported for experts",
                    name);
}

/* A rank's experts are matrices of one layer, laid out alike: p's weight as the first one's. */
static yk_status refuse_unlike(const yk_rank_source *source, const yk_projection *p, const yk_weight_view *weight,
                               const yk_weight_view *first, yk_err *err)
{
  static const char *const formats[] = {[YK_WEIGHT_PLAIN] = "floats",
                                        [YK_WEIGHT_AWQ] = "4-bit integers",
                                        [YK_WEIGHT_INT8] = "8-bit integers",
                                        [YK_WEIGHT_FP8] = "8-bit floats"};
  char name[YK_WEIGHT_NAME_BYTES];
  if (weight->format == first->format && weight->group == first->group && weight->dtype == first->dtype) return YK_OK;
  yk_weight_name_of_expert(source->config->family, p->role, p->layer, p->expert, name);
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%s: expected what expert %d of the layer has (%s, groups of %lld, %s), found %s, groups of %lld, "
                    "%s",
                    name, (int)source->share.experts.begin, formats[first->format], (long long)first->group,
                    yk_dtype_name(first->dtype), formats[weight->format], (long long)weight->group,
                    yk_dtype_name(weight->dtype));
}

bool yk_rank_experts_quantise(const yk_inputs *inputs)
{
  return inputs->kind == YK_INPUTS_PER_TOKEN;
}

/* Whether the configuration lets an expert's inputs be in another order than its groups: each has one of its own then,
 * and one of them may have none. */
static bool may_have_order(const yk_rank_source *source, const yk_projection *p)
{
  char name[YK_WEIGHT_NAME_BYTES];
  const yk_quant_scheme *scheme;
  yk_err refusal = YK_ERR_INIT;
  yk_weight_name_of_expert(source->config->family, p->role, p->layer, p->expert, name);
  return yk_quant_scheme_of(&source->config->quant, name, &scheme, &refusal) == YK_OK && scheme && scheme->act_order;
}

/* What the inputs of a layer's experts are like. */
typedef struct inputs_of_experts {
  bool have_order; /* of any expert; those without are then sorted as the others are */
  bool are_even;   /* the groups of each: all experts have the same places */
} inputs_of_experts;

static yk_status look_at_inputs(const yk_weight_view *weight, inputs_of_experts *inputs, yk_err *err)
{
  bool is_even = true;
  if (weight->act_order) YK_TRY(yk_group_order_is_even(weight, &is_even, err));
  inputs->have_order |= weight->act_order;
  inputs->are_even &= is_even;
  return YK_OK;
}

/* views: [experts - 1] or NULL. */
static yk_status sort_experts(const yk_rank_source *source, bool is_row_parallel, const inputs_of_experts *inputs,
                              yk_weight_view *views, yk_linear_part *part, yk_err *err)
{
  if (!inputs->have_order) return YK_OK;
  part->weight.act_order = true;
  for (int64_t i = 0; views && i < yk_range_size(source->share.experts) - 1; i++) views[i].act_order = true;
  return inputs->are_even ? sort_inputs(source, is_row_parallel, part, err) : YK_OK;
}

yk_status yk_rank_experts_part(const yk_rank_source *source, const yk_projection *projection, yk_range range,
                               yk_weight_view *views, yk_linear_part *part, yk_err *err)
{
  const yk_range *experts = &source->share.experts;
  bool is_row_parallel = projection->role == YK_ROLE_EXPERT_DOWN, looks_at_all = views;
  inputs_of_experts inputs = {.are_even = true};
  yk_projection of_expert = *projection;
  for (int64_t i = experts->begin; i < (looks_at_all ? experts->end : experts->begin + 1); i++) {
    yk_weight_module module;
    yk_linear_part found;
    of_expert.expert = (int32_t)i;
    YK_TRY(find(source, &of_expert, &module, &found, err));
    YK_TRY(refuse_folds(source, &of_expert, &found.weight, err));
    YK_TRY(look_at_inputs(&found.weight, &inputs, err));
    if (views && !yk_rank_experts_quantise(&found.weight.inputs))
      found.weight.inputs = (yk_inputs){.kind = YK_INPUTS_FLOAT};
    if (i > experts->begin) {
      YK_TRY(refuse_unlike(source, &of_expert, &found.weight, &part->weight, err));
      if (views) views[i - experts->begin - 1] = found.weight;
      continue;
    }
    *part = found;
    part->k = is_row_parallel ? range : (yk_range){0, module.k};
    part->n = is_row_parallel ? (yk_range){0, module.n} : range;
    if (part->weight.group > 0) part->group_local = yk_shard_group(part->k, part->weight.group);
    looks_at_all |= found.weight.act_order || may_have_order(source, &of_expert);
  }
  part->more_weights = views;
  return sort_experts(source, is_row_parallel, &inputs, views, part, err);
}

yk_status yk_lm_head_spec_make(const yk_rank_source *source, yk_linear_spec *out, yk_err *err)
{
  const yk_model_config *c = source->config;
  *out =
      (yk_linear_spec){.n_parts = 1, .n_matrices = 1, .f32_output = true, .max_tokens = source->limits->step.max_seqs};
  if (!c->tie_word_embeddings) {
    const yk_projection head = {0, YK_ROLE_LM_HEAD, 0};
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
