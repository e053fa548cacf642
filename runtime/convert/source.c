#include "convert/source.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "kernels/gated_delta.h"
#include "kernels/mamba.h"

enum { MIN_GROUP = 16, MAX_GROUP = 1024, PACKED = 8, OTHERS = 6 };

/* ---- Weights ----------------------------------------------------------------------------------------------------- */

static yk_convert_item *next(yk_convert_source *s, yk_convert_kind kind, const yk_weight_place *place)
{
  yk_convert_item *item = &s->items[s->n_items++];
  *item = (yk_convert_item){.kind = kind, .role = place->role, .layer = place->layer, .suffix = "weight"};
  yk_weight_name_of_expert(s->config, place->role, place->layer, place->expert, item->module);
  return item;
}

static int64_t size_of_norm(const yk_model_config *config, const yk_weight_place *place)
{
  switch (place->role) {
  case YK_ROLE_Q_NORM:
  case YK_ROLE_K_NORM: return yk_weight_head_norm_size(config, place->role, place->layer);
  case YK_ROLE_LAYER_SCALAR: return 1;
  case YK_ROLE_LAYER_INPUTS_NORM: return config->layer_input_size;
  case YK_ROLE_Q_A_NORM: return config->latent.q_rank;
  case YK_ROLE_KV_A_NORM: return config->latent.kv_rank;
  case YK_ROLE_DELTA_A_LOG:
  case YK_ROLE_DELTA_DT_BIAS: return config->delta.n_value_heads;
  case YK_ROLE_DELTA_NORM: return config->delta.value_dim;
  case YK_ROLE_MAMBA_A_LOG:
  case YK_ROLE_MAMBA_DT_BIAS:
  case YK_ROLE_MAMBA_SKIP: return config->mamba.n_heads;
  case YK_ROLE_MAMBA_NORM: return yk_mamba_config_width(&config->mamba);
  case YK_ROLE_MAMBA_CONV: return YK_MAMBA_TAPS * yk_mamba_config_channels(&config->mamba);
  case YK_ROLE_MAMBA_CONV_BIAS: return yk_mamba_config_channels(&config->mamba);
  case YK_ROLE_EXPERT_SCALES:
  case YK_ROLE_CHOICE_BIAS: return config->experts.n_experts;
  case YK_ROLE_DELTA_CONV: return YK_DELTA_TAPS * yk_delta_config_channels(&config->delta);
  default: return config->hidden_size;
  }
}

static yk_status add_norm(yk_convert_source *s, const yk_weight_place *place, yk_err *err)
{
  yk_convert_item *item = next(s, YK_CONVERT_VECTOR, place);
  if (yk_weight_is_bare(place->role)) item->suffix = NULL;
  return yk_checkpoint_vector(s->checkpoint, place->role, place->layer, size_of_norm(s->config, place), &item->vector,
                              err);
}

/* AWQ packs eight outputs into a word and supports only 4 bits in groups of neighbouring inputs, which stay floats. */
static yk_status check_linear(const yk_convert_item *item, yk_err *err)
{
  const yk_weight_view *weight = &item->weight;
  if (weight->format == YK_WEIGHT_PLAIN) return YK_OK;
  if (weight->format != YK_WEIGHT_AWQ)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: its weights are not exact in 4 bits; supported: 4-bit integers of any packing, and floats",
                      item->module);
  if (weight->act_order)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: its groups are not of neighbouring inputs (desc_act, actorder), which AWQ cannot express",
                      item->module);
  if (weight->inputs.kind != YK_INPUTS_FLOAT)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: its inputs are rounded to 8 bits, which AWQ cannot express",
                      item->module);
  if (weight->n % PACKED == 0) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %" PRId64 " outputs: expected a multiple of %d (AWQ packs 8 columns)",
                    item->module, weight->n, PACKED);
}

static yk_status add_linear(yk_convert_source *s, const yk_weight_place *place, yk_err *err)
{
  const yk_weight_module m = yk_weight_module_of(s->config, place->role, place->layer);
  yk_convert_item *item = next(s, YK_CONVERT_MATRIX, place);
  if (m.n != m.n_own)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: a module of several projections: such families are not converted; supported: those that "
                      "name modules as Llama does",
                      item->module);
  if (yk_weight_is_float(place->role))
    return yk_checkpoint_matrix(s->checkpoint, item->module, m.n, m.k, &item->weight, err);
  YK_TRY(yk_checkpoint_linear(s->checkpoint, item->module, m.k, m.n, m.has_bias, &item->weight, err));
  if (item->weight.plain_stride > 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: plain experts in one transposed tensor are not converted; supported: experts one by one",
                      item->module);
  YK_TRY(check_linear(item, err));
  s->n_quantised += yk_convert_is_quantised(item);
  return YK_OK;
}

/* Roles of a layer outside its experts, in the order of the file. */
static const yk_weight_role layer_roles[] = {YK_ROLE_ATTENTION_NORM,
                                             YK_ROLE_Q,
                                             YK_ROLE_Q_A,
                                             YK_ROLE_Q_A_NORM,
                                             YK_ROLE_Q_B,
                                             YK_ROLE_KV_A,
                                             YK_ROLE_KV_A_NORM,
                                             YK_ROLE_KV_B,
                                             YK_ROLE_K,
                                             YK_ROLE_V,
                                             YK_ROLE_Q_NORM,
                                             YK_ROLE_K_NORM,
                                             YK_ROLE_O,
                                             YK_ROLE_ATTENTION_RESULT_NORM,
                                             YK_ROLE_FFN_RESULT_NORM,
                                             YK_ROLE_INPUT_GATE,
                                             YK_ROLE_INPUT_DOWN,
                                             YK_ROLE_INPUT_RESULT_NORM,
                                             YK_ROLE_LAYER_SCALAR,
                                             YK_ROLE_DENSE_RESULT_NORM,
                                             YK_ROLE_EXPERTS_NORM,
                                             YK_ROLE_EXPERTS_RESULT_NORM,
                                             YK_ROLE_ROUTER_SCALE,
                                             YK_ROLE_EXPERT_SCALES,
                                             YK_ROLE_DELTA_QKV,
                                             YK_ROLE_DELTA_Z,
                                             YK_ROLE_DELTA_B,
                                             YK_ROLE_DELTA_A,
                                             YK_ROLE_DELTA_QKVZ,
                                             YK_ROLE_DELTA_BA,
                                             YK_ROLE_DELTA_CONV,
                                             YK_ROLE_DELTA_A_LOG,
                                             YK_ROLE_DELTA_DT_BIAS,
                                             YK_ROLE_DELTA_NORM,
                                             YK_ROLE_DELTA_OUT,
                                             YK_ROLE_MAMBA_IN,
                                             YK_ROLE_MAMBA_CONV,
                                             YK_ROLE_MAMBA_CONV_BIAS,
                                             YK_ROLE_MAMBA_A_LOG,
                                             YK_ROLE_MAMBA_DT_BIAS,
                                             YK_ROLE_MAMBA_SKIP,
                                             YK_ROLE_MAMBA_NORM,
                                             YK_ROLE_MAMBA_OUT,
                                             YK_ROLE_FFN_NORM,
                                             YK_ROLE_GATE,
                                             YK_ROLE_UP,
                                             YK_ROLE_DOWN,
                                             YK_ROLE_ROUTER,
                                             YK_ROLE_SHARED_SCORE,
                                             YK_ROLE_SHARED_GATE,
                                             YK_ROLE_SHARED_UP,
                                             YK_ROLE_SHARED_DOWN,
                                             YK_ROLE_EXPERTS_IN,
                                             YK_ROLE_EXPERTS_OUT};

/* Add the layer's roles: first all others, then those of experts, expert by expert. */
static yk_status add_layer(yk_convert_source *s, int32_t layer, yk_err *err)
{
  for (size_t i = 0; i < sizeof layer_roles / sizeof *layer_roles; i++) {
    const yk_weight_place place = {.role = layer_roles[i], .layer = layer};
    if (!yk_weight_is_in_layer(s->config, place.role, layer)) continue;
    YK_TRY(yk_weight_is_linear(place.role) ? add_linear(s, &place, err) : add_norm(s, &place, err));
  }
  for (int32_t expert = 0; expert < yk_weight_count(s->config, YK_ROLE_EXPERT_DOWN, layer); expert++)
    for (yk_weight_role role = YK_ROLE_EXPERT_GATE; role <= YK_ROLE_EXPERT_DOWN; role++) {
      const yk_weight_place place = {role, layer, expert};
      if (yk_weight_is_in_layer(s->config, role, layer)) YK_TRY(add_linear(s, &place, err));
    }
  const yk_weight_place correction = {.role = YK_ROLE_CHOICE_BIAS, .layer = layer};
  return yk_weight_is_in_layer(s->config, correction.role, layer) ? add_norm(s, &correction, err) : YK_OK;
}

/* The embeddings of each layer, and the projection to them. */
static yk_status add_layer_inputs(yk_convert_source *s, yk_err *err)
{
  static const yk_weight_place embed = {.role = YK_ROLE_LAYER_EMBEDDING}, norm = {.role = YK_ROLE_LAYER_INPUTS_NORM},
                               project = {.role = YK_ROLE_LAYER_INPUTS};
  yk_convert_item *item = next(s, YK_CONVERT_MATRIX, &embed);
  const int64_t width = (int64_t)s->config->n_layers * s->config->layer_input_size;
  YK_TRY(yk_checkpoint_matrix(s->checkpoint, item->module, s->config->vocab_size, width, &item->weight, err));
  YK_TRY(add_norm(s, &norm, err));
  return add_linear(s, &project, err);
}

static yk_status add_all(yk_convert_source *s, yk_err *err)
{
  static const yk_weight_place embed = {.role = YK_ROLE_EMBEDDING}, norm = {.role = YK_ROLE_FINAL_NORM},
                               head = {.role = YK_ROLE_LM_HEAD};
  const yk_model_config *c = s->config;
  size_t per_layer = YK_N_ROLES + 3 * (size_t)c->experts.n_experts;
  s->items = calloc((size_t)c->n_layers * per_layer + OTHERS, sizeof *s->items);
  if (!s->items) return yk_err_set(err, YK_E_NOMEM, "no memory for a table of the weights of %d layers", c->n_layers);
  yk_convert_item *embedding = next(s, YK_CONVERT_MATRIX, &embed);
  YK_TRY(
      yk_checkpoint_matrix(s->checkpoint, embedding->module, c->vocab_size, c->hidden_size, &embedding->weight, err));
  if (c->layer_input_size > 0) YK_TRY(add_layer_inputs(s, err));
  for (int32_t layer = 0; layer < c->n_layers; layer++) YK_TRY(add_layer(s, layer, err));
  YK_TRY(add_norm(s, &norm, err));
  return c->tie_word_embeddings ? YK_OK : add_linear(s, &head, err);
}

/* ---- The common group -------------------------------------------------------------------------------------------- */

static yk_status find_group(yk_convert_source *s, yk_err *err)
{
  int64_t group = 0;
  bool all_whole = true, same = true;
  const yk_convert_item *last = NULL;
  for (size_t i = 0; i < s->n_items; i++) {
    const yk_convert_item *item = &s->items[i];
    if (!yk_convert_is_quantised(item)) continue;
    all_whole = all_whole && item->weight.group == item->weight.k;
    same = same && (group == 0 || item->weight.group == group);
    group = yk_gcd_i64(item->weight.group, group);
    last = item;
  }
  bool is_legal = group >= MIN_GROUP && group <= MAX_GROUP && (group & (group - 1)) == 0;
  if (all_whole && (!same || !is_legal || s->config->quant.scheme.group_size == -1)) {
    s->group_size = -1;
    return YK_OK;
  }
  s->group_size = (int32_t)group;
  if (is_legal) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%s: groups of %" PRId64 " inputs: AWQ has one group size for all layers, and none from %d to %d "
                    "divides those of this layer and the others",
                    last->module, last->weight.group, MIN_GROUP, MAX_GROUP);
}

/* ---- The source -------------------------------------------------------------------------------------------------- */

yk_status yk_convert_source_open(const char *path, const yk_log *log, yk_convert_source *out, yk_err *err)
{
  *out = (yk_convert_source){0};
  YK_TRY(yk_checkpoint_open(path, log, &out->checkpoint, err));
  out->config = yk_checkpoint_config(out->checkpoint);
  YK_TRY(add_all(out, err));
  if (out->n_quantised == 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%.150s: none of its layers is quantised: there is nothing to convert",
                      path);
  return find_group(out, err);
}

void yk_convert_source_close(yk_convert_source *source)
{
  yk_checkpoint_close(source->checkpoint);
  free(source->items);
  *source = (yk_convert_source){0};
}

const yk_convert_item *yk_convert_source_find(const yk_convert_source *source, yk_weight_role role, int32_t layer)
{
  for (size_t i = 0; i < source->n_items; i++)
    if (source->items[i].role == role && source->items[i].layer == layer) return &source->items[i];
  return NULL;
}
