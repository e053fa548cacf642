#include "model/decode_layers.h"

#include <stdlib.h>

#include "model/model_parts.h"

/* The members that do not depend on a layer. */
static yk_decode_layers_spec shared_of(const yk_model *m)
{
  return (yk_decode_layers_spec){.n_layers = m->n_layers,
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

yk_status yk_decode_layers_load(yk_model *m, int32_t n_adapters, yk_err *err)
{
  const yk_device_ops *ops = m->dev->ops;
  yk_decode_layers_spec spec;
  if (!ops->decode_layers_create || m->comm->n_ranks > 1 || n_adapters > 0) return YK_OK;
  yk_decode_layer *layers = calloc((size_t)m->n_layers, sizeof *layers);
  if (!layers) return yk_err_set(err, YK_E_NOMEM, "no memory for the description of %d layers", m->n_layers);
  yk_status status = describe_all(m, layers, &spec) ? ops->decode_layers_create(m->dev, &spec, &m->decode, err) : YK_OK;
  free(layers);
  return status;
}

void yk_decode_layers_unload(yk_model *m)
{
  if (m->decode) m->dev->ops->decode_layers_destroy(m->dev, m->decode);
}
