#include "study/shapes.h"

#include "base/checked.h"
#include "base/model_path.h"
#include "loader/checkpoint.h"

/* ---- The description --------------------------------------------------------------------------------------------- */

static void take_attention(const yk_model_config *config, yk_model_shapes *out)
{
  out->n_heads = config->n_heads;
  out->n_kv_heads = out->local_kv_heads = config->n_kv_heads;
  out->head_dim = out->local_head_dim = config->head_dim;
  out->has_attention_gates = config->attention_gates;
  out->values_are_keys = config->values_are_keys;
  if (config->local.head_dim > 0) {
    out->local_kv_heads = config->local.n_kv_heads;
    out->local_head_dim = config->local.head_dim;
  }
  for (int32_t i = 0; i < config->n_layers; i++) {
    const int64_t window = config->window_tokens[i];
    if (window == 0 || yk_layer_is_recurrent(config, i) || config->parts[i] == YK_LAYER_FFN_ALONE) continue;
    out->n_local_layers++;
    out->window_tokens = yk_max_i64(out->window_tokens, window);
  }
  if (config->latent.kv_rank == 0) return;
  out->kv_rank = config->latent.kv_rank;
  out->q_rank = config->latent.q_rank;
  out->nope_dim = config->latent.nope_dim;
  out->value_dim = config->latent.value_dim;
  out->rope_dim = config->head_dim;
  out->n_kv_heads = config->n_heads; /* the part of each rank is that of its heads */
}

static void take_states(const yk_model_config *config, yk_model_shapes *out)
{
  out->delta_key_heads = config->delta.n_key_heads;
  out->delta_value_heads = config->delta.n_value_heads;
  out->delta_key_dim = config->delta.key_dim;
  out->delta_value_dim = config->delta.value_dim;
  out->mamba_heads = config->mamba.n_heads;
  out->mamba_groups = config->mamba.n_groups;
  out->mamba_head_dim = config->mamba.head_dim;
  out->mamba_state_dim = config->mamba.state_size;
  for (int32_t i = 0; i < config->n_layers; i++) {
    out->n_delta_layers += config->delta.layers[i];
    out->n_mamba_layers += config->mamba.layers[i];
  }
}

static void take_ffns(const yk_model_config *config, yk_model_shapes *out)
{
  const yk_experts_config *experts = &config->experts;
  out->has_plain_ffns = !config->activation.is_gated;
  for (int32_t i = 0; i < config->n_layers; i++) {
    out->n_single_mixers += config->parts[i] == YK_LAYER_ATTENTION_ALONE;
    out->n_single_ffns += config->parts[i] == YK_LAYER_FFN_ALONE;
    out->n_expert_layers += experts->n_experts > 0 && experts->layers[i];
    out->n_branch_layers += experts->n_experts > 0 && experts->layers[i] && experts->has_branches;
  }
  if (yk_model_dense_layers(out) > 0) out->intermediate_size = config->ffn_size;
  if (experts->n_experts == 0) return;
  out->n_experts = experts->n_experts;
  out->top_k = experts->top_k;
  out->expert_size = experts->ffn_size;
  out->shared_size = experts->shared_ffn_size;
  out->expert_width = experts->latent_size;
}

/* ---- Formats of weights ------------------------------------------------------------------------------------------ */

typedef struct group_sum {
  double elements, bytes;
  bool is_quantised;
} group_sum;

/* Bytes of all of a view; floats count as 16 bits. */
static double view_bytes(const yk_weight_view *view)
{
  const double elements = (double)view->k * (double)view->n;
  if (!yk_weight_is_quantised(view->format)) return 2 * elements;
  double bits = yk_weight_traits_of(view->format)->bits, scale_bits = 8 * (double)yk_dtype_bytes(view->dtype);
  switch (view->packing) {
  case YK_PACKING_NVFP4:
  case YK_PACKING_NVFP4_FACTOR:
  case YK_PACKING_MXFP4:
  case YK_PACKING_MXFP8: scale_bits = 8; break;
  default: break;
  }
  if (view->format == YK_WEIGHT_AWQ || view->has_zeros) scale_bits += bits;
  const int64_t outputs = view->group_n > 0 ? yk_ceil_div_i64(view->n, view->group_n) : view->n;
  return (elements * bits + (double)(yk_ceil_div_i64(view->k, view->group) * outputs) * scale_bits) / 8;
}

/* Which group a linear role of a layer belongs to; -1: none that is counted. */
static int group_of(yk_weight_role role)
{
  switch (role) {
  case YK_ROLE_Q:
  case YK_ROLE_K:
  case YK_ROLE_V:
  case YK_ROLE_O:
  case YK_ROLE_Q_A:
  case YK_ROLE_Q_B:
  case YK_ROLE_KV_A: return YK_LINEAR_ATTENTION;
  case YK_ROLE_DELTA_QKV:
  case YK_ROLE_DELTA_Z:
  case YK_ROLE_DELTA_B:
  case YK_ROLE_DELTA_A:
  case YK_ROLE_DELTA_QKVZ:
  case YK_ROLE_DELTA_BA:
  case YK_ROLE_DELTA_OUT:
  case YK_ROLE_MAMBA_IN:
  case YK_ROLE_MAMBA_OUT: return YK_LINEAR_STATES;
  case YK_ROLE_GATE:
  case YK_ROLE_UP:
  case YK_ROLE_DOWN:
  case YK_ROLE_SHARED_GATE:
  case YK_ROLE_SHARED_UP:
  case YK_ROLE_SHARED_DOWN: return YK_LINEAR_FFN;
  case YK_ROLE_EXPERT_GATE:
  case YK_ROLE_EXPERT_UP:
  case YK_ROLE_EXPERT_DOWN: return YK_LINEAR_EXPERTS;
  default: return -1;
  }
}

/* Adds the weight of a role: of the first expert, for those of experts. */
static yk_status add_weight(const yk_checkpoint *checkpoint, const yk_weight_place *place, group_sum *sum,
                            yk_model_shapes *out, yk_err *err)
{
  yk_found_weight found;
  YK_TRY(yk_checkpoint_find(checkpoint, place, &found, err));
  const double share = (double)found.module.n_own / (double)found.module.n;
  sum->elements += share * (double)found.view.k * (double)found.view.n;
  sum->bytes += share * view_bytes(&found.view);
  if (!yk_weight_is_quantised(found.view.format)) return YK_OK;
  sum->is_quantised = true;
  if (place->role == YK_ROLE_DOWN || place->role == YK_ROLE_EXPERT_DOWN) out->group_size = found.view.group;
  return YK_OK;
}

static yk_status take_formats(const yk_checkpoint *checkpoint, yk_model_shapes *out, yk_err *err)
{
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  group_sum sums[YK_LINEAR_GROUPS] = {{0}};
  for (int32_t layer = 0; layer < config->n_layers; layer++)
    for (yk_weight_role role = 0; role < YK_N_ROLES; role++) {
      const yk_weight_place place = {.role = role, .layer = layer};
      const int group = group_of(role);
      if (group < 0 || !yk_weight_is_in_layer(config, role, layer)) continue;
      YK_TRY(add_weight(checkpoint, &place, &sums[group], out, err));
    }
  for (int i = 0; i < YK_LINEAR_GROUPS; i++)
    if (sums[i].is_quantised) out->element_bytes[i] = sums[i].bytes / sums[i].elements;
  return YK_OK;
}

yk_status yk_model_shapes_read(const char *model_dir, yk_model_shapes *out, yk_err *err)
{
  char dir[YK_MODEL_PATH_BYTES];
  yk_checkpoint *checkpoint;
  *out = (yk_model_shapes){0};
  YK_TRY(yk_model_path_dir(model_dir, dir, err));
  YK_TRY(yk_checkpoint_open_for_sizes(dir, NULL, NULL, &checkpoint, err));
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  out->n_layers = config->n_layers;
  out->hidden_size = config->hidden_size;
  out->vocab_size = config->vocab_size;
  out->max_model_tokens = config->max_position_embeddings;
  take_attention(config, out);
  take_states(config, out);
  take_ffns(config, out);
  const yk_status status = take_formats(checkpoint, out, err);
  yk_checkpoint_close(checkpoint);
  return status;
}

yk_model_shapes yk_model_shapes_of_stage(const yk_model_shapes *shapes, int n_stages)
{
  yk_model_shapes stage = *shapes;
  int64_t *const counts[] = {&stage.n_layers,       &stage.n_single_mixers, &stage.n_single_ffns,
                             &stage.n_local_layers, &stage.n_delta_layers,  &stage.n_branch_layers,
                             &stage.n_mamba_layers, &stage.n_expert_layers};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) *counts[i] = yk_ceil_div_i64(*counts[i], n_stages);
  stage.vocab_size = 0;
  return stage;
}

double yk_model_weights(const yk_model_shapes *s)
{
  const int64_t delta = 2 * s->delta_key_heads * s->delta_key_dim + 3 * s->delta_value_heads * s->delta_value_dim;
  const int64_t mamba = 3 * s->mamba_heads * s->mamba_head_dim + 2 * s->mamba_groups * s->mamba_state_dim;
  const int64_t attention = 2 * (s->n_heads + s->n_kv_heads) * s->head_dim;
  const int64_t experts = s->n_experts * s->expert_size + s->shared_size;
  const int64_t ffns = yk_model_dense_layers(s) * s->intermediate_size + s->n_expert_layers * experts;
  const int64_t mixers =
      yk_model_attention_layers(s) * attention + s->n_delta_layers * delta + s->n_mamba_layers * mamba;
  return (double)s->hidden_size * (double)(mixers + (s->has_plain_ffns ? 2 : 3) * ffns);
}
