#include "model/rank_specs.h"

#include "base/checked.h"
#include "loader/integers/group_order.h"
#include "loader/model/ffn_group.h"
#include "model/repack.h"

static yk_range ffn_share(const yk_model_config *config, yk_weight_role down, int64_t n_channels, int rank, int n_ranks)
{
  return yk_shard_ffn_of(n_channels, yk_ffn_group(config, down, n_channels), rank, n_ranks);
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
  enum { VOCAB_UNIT = 8 }; /* whole packed words of a quantised lm_head, aligned rows of a plain lm_head */
  return yk_shard_range(config->vocab_size, VOCAB_UNIT, rank, n_ranks);
}

yk_rank_share yk_rank_share_of(const yk_model_config *config, int rank, int n_ranks, bool expert_parallel)
{
  yk_rank_share share = {.rank = rank,
                         .n_ranks = n_ranks,
                         .layers = {0, config->n_layers},
                         .is_first_stage = true,
                         .is_last_stage = true,
                         .q_heads = yk_shard_range(config->n_heads, 1, rank, n_ranks),
                         .mamba_groups = yk_shard_range(config->mamba.n_groups, 1, rank, n_ranks),
                         .ffn = ffn_share(config, YK_ROLE_DOWN, config->ffn_size, rank, n_ranks),
                         .layer_input = ffn_share(config, YK_ROLE_INPUT_DOWN, config->layer_input_size, rank, n_ranks),
                         .reader_ffn = ffn_share(config, YK_ROLE_DOWN, config->reader_ffn_size, rank, n_ranks),
                         .delta_keys = yk_shard_range(config->delta.n_key_heads, 1, rank, n_ranks),
                         .vocab = yk_rank_vocab_of(config, rank, n_ranks)};
  share_experts(config, expert_parallel, &share);
  return share;
}

yk_shard_heads yk_rank_heads_of(const yk_rank_source *source, int32_t layer)
{
  const yk_model_config *config = source->config;
  const yk_attention_widths widths = yk_model_config_widths(config, layer);
  return yk_shard_heads_of(config->n_heads, widths.n_kv_heads, source->share.rank, source->share.n_ranks);
}

yk_range yk_rank_ffn_of(const yk_rank_source *source, int32_t layer)
{
  return yk_model_config_has_reader_ffn(source->config, layer) ? source->share.reader_ffn : source->share.ffn;
}

/* A mixture's kernels multiply the shared expert together with the routed experts, whose inputs stay in 16 bits. */
static bool is_shared_expert(yk_weight_role role)
{
  return role == YK_ROLE_SHARED_GATE || role == YK_ROLE_SHARED_UP || role == YK_ROLE_SHARED_DOWN;
}

static yk_inputs_kind rounding_of(const yk_rank_source *source, yk_weight_role role, const yk_weight_view *weight)
{
  const bool is_request = weight->inputs.kind == YK_INPUTS_FP8 || weight->inputs.kind == YK_INPUTS_INT8;
  if (is_shared_expert(role)) return YK_INPUTS_FLOAT;
  switch (source->limits->rounding) {
  case YK_ROUNDING_NONE: return YK_INPUTS_FLOAT;
  case YK_ROUNDING_OF_CHECKPOINT: return is_request ? weight->inputs.kind : YK_INPUTS_FLOAT;
  case YK_ROUNDING_FP8: return YK_INPUTS_FP8;
  case YK_ROUNDING_INT8: return YK_INPUTS_INT8;
  }
  return YK_INPUTS_FLOAT;
}

static yk_status find(const yk_rank_source *source, const yk_projection *p, yk_found_weight *found,
                      yk_linear_part *part, yk_err *err)
{
  const yk_weight_place place = {p->role, p->layer, p->expert};
  YK_TRY(yk_checkpoint_find(source->checkpoint, &place, found, err));
  *part = (yk_linear_part){.weight = found->view,
                           .rounding = rounding_of(source, p->role, &found->view),
                           .as_16_bits = source->limits->as_16_bits};
  return YK_OK;
}

/* Set the order of the part's inputs if the device sorts them by group. */
static yk_status sort_inputs(const yk_rank_source *source, bool may_choose, yk_linear_part *part, yk_err *err)
{
  if (!yk_repack_sorts(&source->dev, part)) return YK_OK;
  part->k_is_sorted = may_choose;
  const yk_group_share share = {part->k.begin, part->k.end, part->k_is_sorted};
  yk_group_places places;
  YK_TRY(yk_group_order_measure(&part->weight, &share, &places, err));
  part->k_places = places.n;
  part->group_local = places.group;
  return YK_OK;
}

yk_status yk_rank_column_part(const yk_rank_source *source, const yk_projection *projection, yk_range n,
                              yk_linear_part *part, yk_err *err)
{
  yk_found_weight found;
  YK_TRY(find(source, projection, &found, part, err));
  const yk_weight_module module = found.module;
  part->k = (yk_range){0, module.k};
  part->n = (yk_range){module.first_n + n.begin, module.first_n + n.end};
  part->group_local = part->weight.group;
  part->use_bias = module.has_bias || (part->weight.folds_bias && yk_range_size(n) > 0);
  return sort_inputs(source, false, part, err);
}

yk_status yk_rank_row_part(const yk_rank_source *source, const yk_projection *projection, yk_range k, bool may_choose,
                           yk_linear_part *part, yk_err *err)
{
  yk_found_weight found;
  YK_TRY(find(source, projection, &found, part, err));
  const yk_weight_module module = found.module;
  part->k = k;
  part->n = (yk_range){module.first_n, module.first_n + module.n_own};
  if (part->weight.group > 0) part->group_local = yk_shard_group(k, part->weight.group);
  part->use_bias = (module.has_bias || part->weight.folds_bias) && source->share.rank == 0;
  return sort_inputs(source, may_choose, part, err);
}

/* An offset is folded into a bias; repacking does that for single layers only. */
static yk_status refuse_folds(const yk_found_weight *found, yk_err *err)
{
  if (!found->view.folds_bias) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%s: an offset before the layer, or static inputs with a bias, are not supported for experts",
                    found->name);
}

/* A rank's experts are matrices of one layer and must share one layout, that of the first expert. */
static yk_status refuse_unlike(const yk_rank_source *source, const yk_found_weight *found, const yk_weight_view *first,
                               yk_err *err)
{
  const yk_weight_view *weight = &found->view;
  if (weight->format == first->format && weight->group == first->group && weight->dtype == first->dtype) return YK_OK;
  return yk_err_set(
      err, YK_E_UNSUPPORTED,
      "%s: expected the format of expert %d of the layer (%s, groups of %lld, %s), found %s, groups of %lld, "
      "%s",
      found->name, (int)source->share.experts.begin, yk_weight_traits_of(first->format)->name, (long long)first->group,
      yk_dtype_name(first->dtype), yk_weight_traits_of(weight->format)->name, (long long)weight->group,
      yk_dtype_name(weight->dtype));
}

bool yk_rank_experts_quantise(const yk_inputs *inputs)
{
  return inputs->kind == YK_INPUTS_PER_TOKEN;
}

typedef struct inputs_of_experts {
  bool have_order; /* at least one expert has act order; the others are then sorted too */
  bool are_even;   /* the groups of every expert are even, so all experts have the same positions */
} inputs_of_experts;

static yk_status look_at_inputs(const yk_weight_view *weight, inputs_of_experts *inputs, yk_err *err)
{
  const yk_group_share all = {.end = weight->k};
  yk_group_places places;
  if (!weight->act_order) return YK_OK;
  YK_TRY(yk_group_order_measure(weight, &all, &places, err));
  inputs->have_order = true;
  inputs->are_even &= places.is_even;
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
    yk_found_weight found;
    yk_linear_part of_matrix;
    of_expert.expert = (int32_t)i;
    YK_TRY(find(source, &of_expert, &found, &of_matrix, err));
    YK_TRY(refuse_folds(&found, err));
    YK_TRY(look_at_inputs(&found.view, &inputs, err));
    if (views && !yk_rank_experts_quantise(&found.view.inputs))
      of_matrix.weight.inputs = (yk_inputs){.kind = YK_INPUTS_FLOAT};
    if (i > experts->begin) {
      YK_TRY(refuse_unlike(source, &found, &part->weight, err));
      if (views) views[i - experts->begin - 1] = of_matrix.weight;
      continue;
    }
    *part = of_matrix;
    part->k = is_row_parallel ? range : (yk_range){0, found.module.k};
    part->n = is_row_parallel ? (yk_range){0, found.module.n} : range;
    part->use_bias = found.module.has_bias && (!is_row_parallel || range.begin == 0);
    if (part->weight.group > 0) part->group_local = yk_shard_group(part->k, part->weight.group);
    looks_at_all |= found.view.act_order || found.may_have_order;
  }
  part->more_weights = views;
  return sort_experts(source, is_row_parallel, &inputs, views, part, err);
}

/* lm_head, or the tied embedding, as the checkpoint has the weight. */
static yk_status find_head(const yk_rank_source *source, yk_linear_part *part, yk_err *err)
{
  const yk_model_config *c = source->config;
  if (!c->tie_word_embeddings) {
    const yk_projection head = {0, YK_ROLE_LM_HEAD, 0};
    return yk_rank_column_part(source, &head, source->share.vocab, part, err);
  }
  const yk_weight_place embedding = {.role = YK_ROLE_EMBEDDING};
  yk_found_weight found;
  YK_TRY(yk_checkpoint_find(source->checkpoint, &embedding, &found, err));
  *part = (yk_linear_part){.weight = found.view, .k = {0, c->hidden_size}, .n = source->share.vocab};
  part->is_resident = !source->limits->lm_head_as_int8;
  return YK_OK;
}

static yk_status check_int8_head(const yk_rank_source *source, const yk_linear_spec *head, yk_err *err)
{
  const yk_linear_part *part = &head->parts[0];
  const char *tensor = part->weight.tensor ? part->weight.tensor : "its weight";
  if (yk_weight_is_quantised(part->weight.format))
    return yk_err_set(err, YK_E_UNSUPPORTED, "lm_head int8: %s: expected floats, found %s; supported: auto", tensor,
                      yk_weight_traits_of(part->weight.format)->name);
  if (yk_repack_keeps_int8(&source->dev, head, 0)) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "lm_head int8: %s: GPUs multiply 8-bit integers of a multiple of 32 inputs and of 8 outputs, found "
                    "%lld inputs and %lld outputs on rank %d; supported: auto",
                    tensor, (long long)yk_range_size(part->k), (long long)yk_range_size(part->n), source->share.rank);
}

yk_status yk_lm_head_spec_make(const yk_rank_source *source, yk_linear_spec *out, yk_err *err)
{
  *out =
      (yk_linear_spec){.n_parts = 1, .n_matrices = 1, .f32_output = true, .max_tokens = source->limits->step.max_seqs};
  YK_TRY(find_head(source, &out->parts[0], err));
  if (!source->limits->lm_head_as_int8) return YK_OK;
  out->parts[0].as_int8 = true;
  out->parts[0].as_16_bits = false;
  return check_int8_head(source, out, err);
}
