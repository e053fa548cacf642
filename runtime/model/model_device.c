#include "model/model_device.h"

#include "base/strbuf.h"

/* A part that a model may need and a device may lack. */
typedef struct part {
  bool is_needed, is_supported;
  const char *name;
} part;

static const char *separator(const yk_strbuf *list)
{
  return list->length > 0 ? ", " : "";
}

static bool has_unrotated_layers(const yk_model_config *c)
{
  for (int32_t i = 0; i < c->n_layers; i++)
    if (c->is_unrotated[i]) return true;
  return false;
}

static void list_parts(const yk_model_config *c, const yk_device_abilities *device, yk_strbuf *list)
{
  const part parts[] = {
      {c->attention_gates, device->attention_gates, "gates of attention"},
      {c->attention_sinks, device->attention_sinks, "attention sinks"},
      {c->result_norms, device->result_norms, "norms behind attention and FFN"},
      {c->row_norms, device->row_norms, "norms of whole rows of q and k"},
      {c->experts.has_biases, device->expert_biases, "biases of experts"},
      {c->mamba.n_heads > 0, device->mamba, "Mamba2"},
      {c->experts.n_experts > 0 && !c->activation.is_gated, device->plain_experts, "experts without a gate"},
      {c->experts.latent_size > 0, device->latent_experts, "latent experts"},
      {c->qk_norm_follows, device->rotation_before_norms, "norms of rotated queries and keys"},
      {c->value_norms, device->value_norms, "norms of values"},
      {c->values_are_keys, device->kv_columns, "keys as values"},
      {c->n_kv_shared_layers > 0, device->kv_columns, "keys and values shared between layers"},
      {c->layer_scalars, device->residual_gain, "factors of layers"},
      {c->experts.has_branches, device->expert_branches, "experts beside a dense FFN"},
      {c->layer_input_size > 0, device->layer_inputs, "embeddings of each layer"},
      {c->logit_cap > 0, device->logit_caps, "a cap of logits"},
      {has_unrotated_layers(c), device->unrotated_layers, "layers without rotation"},
      {c->window_is_chunk, device->attention_chunks, "attention in chunks"},
      {c->experts.weighs_inputs, device->weighted_inputs, "weights of experts' inputs"},
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i].is_needed && !parts[i].is_supported)
      yk_strbuf_append_fmt(list, "%s%s", separator(list), parts[i].name);
}

static void check_head_dim(int32_t head_dim, const yk_device_abilities *device, yk_strbuf *list)
{
  if (head_dim > device->max_head_dim || head_dim % device->head_dim_unit != 0)
    yk_strbuf_append_fmt(list, "%sheads of %d elements (supported: multiples of %d up to %d)", separator(list),
                         head_dim, device->head_dim_unit, device->max_head_dim);
}

static void list_sizes(const yk_model_config *c, const yk_device_abilities *device, yk_strbuf *list)
{
  if (c->latent.kv_rank == 0) {
    check_head_dim(c->head_dim, device, list);
    if (c->local.head_dim > 0 && c->local.head_dim != c->head_dim) check_head_dim(c->local.head_dim, device, list);
  }
  if (c->hidden_size > device->max_hidden)
    yk_strbuf_append_fmt(list, "%shidden_size %d (supported: up to %d)", separator(list), c->hidden_size,
                         device->max_hidden);
  if (c->vocab_size > device->max_vocab)
    yk_strbuf_append_fmt(list, "%svocab_size %d (supported: up to %d)", separator(list), c->vocab_size,
                         device->max_vocab);
}

yk_status yk_model_check_device(const yk_model_config *config, const yk_device_abilities *device, yk_err *err)
{
  yk_strbuf list = YK_STRBUF_INIT;
  yk_status status = YK_OK;
  list_parts(config, device, &list);
  list_sizes(config, device, &list);
  if (list.failed)
    status = yk_err_set(err, YK_E_NOMEM, "%s device: no memory to check the model", device->name);
  else if (list.length > 0)
    status = yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s device: parts of the model are not supported: %s; CPU ranks (--device cpu) run it",
                        device->name, list.data);
  yk_strbuf_free(&list);
  return status;
}

int32_t yk_model_longest_context(const yk_model_config *config, const yk_device_abilities *device)
{
  const yk_score_growth *growth = &config->score_growth;
  const int32_t n_constant = growth->period - growth->shift;
  if (growth->beta == 0 || device->score_growth || n_constant >= config->max_model_tokens)
    return config->max_model_tokens;
  const bool is_refused = config->growth_is_unrotated && !device->unrotated_layers; /* by yk_model_check_device */
  return is_refused ? config->max_model_tokens : n_constant;
}
