#include "model/decode_layers.h"

#include <stdlib.h>
#include <string.h>

#include "model/model_parts.h"

/* The members that do not depend on a layer. */
static yk_decode_layers_spec shared_of(const yk_model *m)
{
  return (yk_decode_layers_spec){.rank = m->comm->rank,
                                 .n_ranks = m->comm->n_ranks,
                                 .n_layers = m->n_layers,
                                 .hidden = m->hidden,
                                 .norm_eps = m->eps,
                                 .alpha = m->residual_scale,
                                 .rope = m->rope,
                                 .final_norm_w = m->final_norm.w};
}

static bool is_same_attention(const yk_decode_layers_spec *a, const yk_decode_layers_spec *b)
{
  return a->n_q_heads == b->n_q_heads && a->n_kv_heads == b->n_kv_heads && a->head_dim == b->head_dim &&
         a->attention_scale == b->attention_scale;
}

/* Whether the operation can express the layer. */
static bool describe(const yk_layer *layer, yk_decode_layer *out, yk_decode_layers_spec *spec)
{
  const yk_sublayer_kind *attention = layer->attention_kind, *ffn = layer->ffn_kind;
  if (!attention || !attention->describe || !ffn || !ffn->describe) return false;
  if (layer->attention_result_w || layer->ffn_result_w || layer->input || layer->gain != 0) return false;
  out->input_norm_w = layer->input_norm.w;
  out->post_norm_w = layer->post_norm.w;
  return attention->describe(layer->attention, out, spec) && ffn->describe(layer->ffn, out, spec);
}

/* Fills layers [n_layers] and the spec of all layers. */
static bool describe_all(const yk_model *m, yk_decode_layer *layers, yk_decode_layers_spec *spec)
{
  *spec = shared_of(m);
  for (int32_t i = 0; i < m->n_layers; i++) {
    yk_decode_layers_spec own = *spec;
    if (!describe(&m->layers[i], &layers[i], &own)) return false;
    if (i > 0 && !is_same_attention(&own, spec)) return false;
    *spec = own;
  }
  spec->layers = layers;
  return true;
}

/* Whether the communicator supports kernels of all ranks that wait for each other. */
static bool can_connect(const yk_model *m)
{
  const yk_comm_ops *ops = m->comm->ops;
  yk_peer_wait wait;
  return m->comm->n_ranks == 1 || (ops->peer_wait && ops->peer_wait(m->comm, &wait));
}

yk_status yk_decode_layers_load(yk_model *m, int32_t n_adapters, yk_err *err)
{
  const yk_device_ops *ops = m->dev->ops;
  yk_decode_layers_spec spec;
  if (!ops->decode_layers_create || n_adapters > 0 || !can_connect(m)) return YK_OK;
  yk_decode_layer *layers = calloc((size_t)m->n_layers, sizeof *layers);
  if (!layers) return yk_err_set(err, YK_E_NOMEM, "no memory for the description of %d layers", m->n_layers);
  yk_status status = describe_all(m, layers, &spec) ? ops->decode_layers_create(m->dev, &spec, &m->decode, err) : YK_OK;
  free(layers);
  return status;
}

/* Whether all ranks have a form with the same traits: the maximum and the minimum over ranks are then equal. */
static yk_status compare_forms(yk_model *m, const int32_t *traits, bool *are_equal, yk_err *err)
{
  enum { N = YK_DECODE_N_TRAITS + 1 };
  int32_t values[2 * N];
  for (int i = 0; i < N; i++) {
    values[2 * i] = i < YK_DECODE_N_TRAITS ? traits[i] : m->decode != NULL;
    values[2 * i + 1] = -values[2 * i];
  }
  YK_TRY(m->dev->ops->upload(m->dev, m->act.partial, values, sizeof values, err));
  YK_TRY(m->comm->ops->all_reduce_i32(m->comm, m->act.partial, 2 * N, YK_REDUCE_MAX, err));
  YK_TRY(m->dev->ops->download(m->dev, values, m->act.partial, sizeof values, err));
  *are_equal = m->decode != NULL;
  for (int i = 0; i < N; i++) *are_equal = *are_equal && values[2 * i] == -values[2 * i + 1];
  return YK_OK;
}

/* *is_whole, equal on all ranks: whether all ranks' kernels can run together, with *peers. Memories are opened only if
 * the forms allow that: a rank without the kernel frees its memory at once. */
static yk_status find_peers(yk_model *m, yk_decode_peers *peers, bool *is_whole, yk_err *err)
{
  const yk_comm *comm = m->comm;
  int32_t traits[YK_DECODE_N_TRAITS] = {0};
  void *opened[YK_MAX_RANKS] = {0}, *own = NULL;
  *peers = (yk_decode_peers){0};
  if (m->decode) own = m->dev->ops->decode_layers_exchange(m->dev, m->decode, traits);
  YK_TRY(compare_forms(m, traits, is_whole, err));
  if (!*is_whole) return YK_OK;
  YK_TRY(comm->ops->open_memories(m->comm, own, opened, err));
  for (int rank = 0; rank < comm->n_ranks; rank++) *is_whole = *is_whole && opened[rank];
  memcpy(peers->exchange, opened, sizeof peers->exchange);
  comm->ops->peer_wait(comm, &peers->wait);
  return YK_OK;
}

yk_status yk_decode_layers_connect(yk_model *m, yk_err *err)
{
  yk_decode_peers peers;
  bool is_whole;
  if (!m->dev->ops->decode_layers_create || m->comm->n_ranks == 1 || !can_connect(m)) return YK_OK;
  YK_RUN(&m->operations, UNTIMED, YK_OUTSIDE_LAYERS, "connection of decode layers",
         find_peers(m, &peers, &is_whole, err));
  if (is_whole) {
    m->dev->ops->decode_layers_connect(m->dev, m->decode, &peers);
    return YK_OK;
  }
  yk_decode_layers_unload(m);
  m->decode = NULL;
  return YK_OK;
}

void yk_decode_layers_unload(yk_model *m)
{
  if (m->decode) m->dev->ops->decode_layers_destroy(m->dev, m->decode);
}
