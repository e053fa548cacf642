#include "model/layer.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"

typedef struct layer_kinds {
  const yk_sublayer_kind *attention, *ffn;
} layer_kinds;

/* The only place that chooses the kinds of a layer, from the configuration and the layer's index. */
static layer_kinds kinds_of(const yk_model_config *config, int32_t layer)
{
  layer_kinds kinds = {.attention = config->delta.layers[layer]   ? &yk_attention_delta
                                    : config->mamba.layers[layer] ? &yk_attention_mamba
                                    : config->latent.kv_rank > 0  ? &yk_attention_latent
                                                                  : &yk_attention_grouped,
                       .ffn = !config->experts.layers[layer] ? &yk_ffn_dense
                              : config->experts.has_branches ? &yk_ffn_branches
                                                             : &yk_ffn_experts};
  if (config->parts[layer] == YK_LAYER_FFN_ALONE) kinds.attention = NULL;
  if (config->parts[layer] == YK_LAYER_ATTENTION_ALONE) kinds.ffn = NULL;
  return kinds;
}

/* Adds the bytes of layer_input.c to *out. It runs after the FFN, and in the same scratch. */
static yk_status measure_input(const yk_rank_source *source, int32_t layer, yk_layer_bytes *out, yk_err *err)
{
  yk_sublayer_bytes input;
  YK_TRY(yk_layer_input.measure(source, layer, &input, err));
  out->norms += source->config->hidden_size * (int64_t)yk_dtype_bytes(source->dev.dtype);
  out->ffn.weights += input.weights;
  out->ffn.n_unkept += input.n_unkept;
  out->ffn.n_float_inputs += input.n_float_inputs;
  out->ffn.scratch = yk_max_i64(out->ffn.scratch, input.scratch);
  return YK_OK;
}

yk_status yk_layer_measure(const yk_rank_source *source, int32_t layer, yk_layer_bytes *out, yk_err *err)
{
  const yk_model_config *c = source->config;
  const layer_kinds kinds = kinds_of(c, layer);
  const int64_t n_norms = (c->result_norms ? 2 : 1) * (int64_t)(!!kinds.attention + !!kinds.ffn);
  *out = (yk_layer_bytes){.norms = n_norms * c->hidden_size * (int64_t)yk_dtype_bytes(source->dev.dtype)};
  if (kinds.attention) YK_TRY(kinds.attention->measure(source, layer, &out->attention, err));
  if (kinds.ffn) YK_TRY(kinds.ffn->measure(source, layer, &out->ffn, err));
  return c->layer_input_size > 0 ? measure_input(source, layer, out, err) : YK_OK;
}

static yk_status load_norm(const yk_rank_loader *loader, yk_weight_role role, int32_t layer, void **out, yk_err *err)
{
  return yk_rank_load_vector(loader, role, layer, loader->source.config->hidden_size, 1, out, err);
}

/* The norm before a sublayer, and the norm of the sublayer's result, *result_w, if the family has one. */
typedef struct sublayer_norms {
  yk_weight_role before, result;
  yk_layer_norm *norm;
  void **result_w;
} sublayer_norms;

static yk_status load_norms(const yk_rank_loader *loader, int32_t layer, const yk_sublayer_kind *kind,
                            const sublayer_norms *norms, yk_err *err)
{
  norms->norm->reader = kind->reader;
  YK_TRY(load_norm(loader, norms->before, layer, &norms->norm->w, err));
  return loader->source.config->result_norms ? load_norm(loader, norms->result, layer, norms->result_w, err) : YK_OK;
}

/* The first sublayer's norm is the layer's input norm. */
static yk_status load_all_norms(const yk_rank_loader *loader, int32_t layer, yk_layer *out, yk_err *err)
{
  const sublayer_norms attention = {YK_ROLE_ATTENTION_NORM, YK_ROLE_ATTENTION_RESULT_NORM, &out->input_norm,
                                    &out->attention_result_w};
  const sublayer_norms ffn = {YK_ROLE_FFN_NORM, YK_ROLE_FFN_RESULT_NORM,
                              out->attention_kind ? &out->post_norm : &out->input_norm, &out->ffn_result_w};
  if (out->attention_kind) YK_TRY(load_norms(loader, layer, out->attention_kind, &attention, err));
  return out->ffn_kind ? load_norms(loader, layer, out->ffn_kind, &ffn, err) : YK_OK;
}

static yk_status load_gain(const yk_rank_loader *loader, int32_t layer, yk_layer *out, yk_err *err)
{
  const yk_checkpoint *checkpoint = loader->source.checkpoint;
  uint32_t element = 0; /* the source may be unaligned */
  yk_vector_view view;
  char name[YK_WEIGHT_NAME_BYTES];
  if (!loader->source.config->layer_scalars) return YK_OK;
  YK_TRY(yk_checkpoint_vector(checkpoint, YK_ROLE_LAYER_SCALAR, layer, 1, &view, err));
  memcpy(&element, view.data, yk_dtype_bytes(view.dtype));
  out->gain = yk_dtype_load(view.dtype, &element, 0);
  if (isfinite(out->gain) && out->gain != 0) return YK_OK;
  yk_weight_name(loader->source.config, YK_ROLE_LAYER_SCALAR, layer, name);
  return yk_err_set(err, YK_E_FORMAT, "tensor %s: expected a finite number other than 0, found %g", name,
                    (double)out->gain);
}

yk_status yk_layer_load(const yk_rank_loader *loader, int32_t layer, yk_layer *out, yk_err *err)
{
  layer_kinds kinds = kinds_of(loader->source.config, layer);
  out->attention_kind = kinds.attention;
  out->ffn_kind = kinds.ffn;
  YK_TRY(load_all_norms(loader, layer, out, err));
  YK_TRY(load_gain(loader, layer, out, err));
  if (kinds.attention) YK_TRY(kinds.attention->load(loader, layer, &out->attention, err));
  if (kinds.ffn) YK_TRY(kinds.ffn->load(loader, layer, &out->ffn, err));
  if (loader->source.config->layer_input_size == 0) return YK_OK;
  YK_TRY(load_norm(loader, YK_ROLE_INPUT_RESULT_NORM, layer, &out->input_result_w, err));
  return yk_layer_input.load(loader, layer, &out->input, err);
}

void yk_layer_destroy(yk_device *dev, yk_layer *layer)
{
  dev->ops->free(dev, layer->input_norm.w);
  dev->ops->free(dev, layer->post_norm.w);
  dev->ops->free(dev, layer->attention_result_w);
  dev->ops->free(dev, layer->ffn_result_w);
  dev->ops->free(dev, layer->input_result_w);
  if (layer->attention) layer->attention_kind->destroy(dev, layer->attention);
  if (layer->ffn) layer->ffn_kind->destroy(dev, layer->ffn);
  if (layer->input) yk_layer_input.destroy(dev, layer->input);
}

static yk_status normalise_residual(yk_sublayer_step *s, yk_err *err)
{
  const yk_rms_norm_args norm = {.y = s->x.rows,
                                 .x = s->x.residual,
                                 .w = s->x.w,
                                 .x_stride = s->x.hidden,
                                 .n_rows = s->x.n_rows,
                                 .hidden = s->x.hidden,
                                 .eps = s->x.eps};
  if (s->x.w) YK_RUN(s->operations, OTHER, s->layer, "norm", s->dev->ops->rms_norm(s->dev, &norm, err));
  s->x.state = YK_NORMED_ROWS;
  return YK_OK;
}

yk_status yk_sublayer_normalise(yk_sublayer_step *s, yk_err *err)
{
  if (s->x.state == YK_NORMED_ROWS) return YK_OK;
  if (s->x.partial.state == YK_PARTIAL_ADDED) return normalise_residual(s, err);
  const yk_add_norm_args norm = yk_normed_add_norm(&s->x);
  YK_RUN(s->operations, OTHER, s->layer, "residual add and norm", s->dev->ops->add_norm(s->dev, &norm, err));
  s->x.state = YK_NORMED_ROWS;
  return YK_OK;
}

yk_status yk_sublayer_normalise_for(yk_sublayer_step *s, const yk_linear *linear, yk_linear_args *args, yk_err *err)
{
  const yk_device_ops *ops = s->dev->ops;
  yk_linear_args with_norm = *args;
  with_norm.x = s->x.residual;
  with_norm.norm_w = s->x.w;
  with_norm.norm_eps = s->x.eps;
  const bool is_added = s->x.state == YK_NORMED_PENDING && s->x.partial.state == YK_PARTIAL_ADDED;
  if (!is_added || !ops->linear_fuses || !ops->linear_fuses(s->dev, linear, &with_norm))
    return yk_sublayer_normalise(s, err);
  *args = with_norm;
  return YK_OK;
}
