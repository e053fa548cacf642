/* attention_delta.c - gated delta nets: see kernels/gated_delta.h.
 *
 * A rank owns whole key heads and every value head that reads them; the projections are column-parallel, out_proj is
 * row-parallel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "model/layer.h"
#include "model/recurrent_states.h"
#include "model/row_parallel.h"

struct yk_sublayer {
  yk_delta_layout layout;
  yk_linear *in;
  yk_row_parallel out;
  float *conv_w, *rate, *dt_bias, *norm_w;
  yk_recurrent_states states;
  /* Offsets within the scratch, which begins with the projected rows: the heads' results, and the scratch of the heads
   * and of out. */
  int64_t results_offset_bytes, heads_offset_bytes, out_offset_bytes;
};

typedef struct projections {
  yk_linear_spec in, out;
} projections;

/* Key heads, and the value heads that read them. */
typedef struct heads {
  yk_range keys, values;
} heads;

static heads heads_of(const yk_rank_source *source)
{
  const yk_delta_config *delta = &source->config->delta;
  yk_range keys = source->share.delta_keys;
  return (heads){keys, yk_range_scaled(keys, delta->n_value_heads / delta->n_key_heads)};
}

/* Adds a part of in with outputs n of a role. Devices cut 4-bit weights at whole words only: other ranges of b and a,
 * which have one output per value head, become floats. */
static yk_status add_part(const yk_rank_source *source, int32_t layer, yk_weight_role role, yk_range n,
                          yk_linear_spec *in, yk_err *err)
{
  enum { WORD_OUTPUTS = 8 };
  const yk_projection projection = {layer, role, 0};
  yk_linear_part *part = &in->parts[in->n_parts++];
  YK_TRY(yk_rank_column_part(source, &projection, n, part, err));
  if (part->weight.format == YK_WEIGHT_AWQ && (n.begin % WORD_OUTPUTS != 0 || n.end % WORD_OUTPUTS != 0))
    part->as_16_bits = true;
  return YK_OK;
}

static yk_range shifted(yk_range range, int64_t by)
{
  return (yk_range){range.begin + by, range.end + by};
}

static yk_status specify_split(const yk_rank_source *source, int32_t layer, yk_linear_spec *in, yk_err *err)
{
  const yk_delta_config *delta = &source->config->delta;
  const heads h = heads_of(source);
  const yk_range q = yk_range_scaled(h.keys, delta->key_dim), v = yk_range_scaled(h.values, delta->value_dim);
  const int64_t q_width = (int64_t)delta->n_key_heads * delta->key_dim;
  YK_TRY(add_part(source, layer, YK_ROLE_DELTA_QKV, q, in, err));
  YK_TRY(add_part(source, layer, YK_ROLE_DELTA_QKV, shifted(q, q_width), in, err));
  YK_TRY(add_part(source, layer, YK_ROLE_DELTA_QKV, shifted(v, 2 * q_width), in, err));
  YK_TRY(add_part(source, layer, YK_ROLE_DELTA_Z, v, in, err));
  YK_TRY(add_part(source, layer, YK_ROLE_DELTA_B, h.values, in, err));
  return add_part(source, layer, YK_ROLE_DELTA_A, h.values, in, err);
}

/* Outputs of a key head in the module of q, k, v and z. */
static int64_t fused_step(const yk_delta_config *delta)
{
  return 2 * (delta->key_dim + (int64_t)(delta->n_value_heads / delta->n_key_heads) * delta->value_dim);
}

static yk_status specify(const yk_rank_source *source, int32_t layer, projections *out, yk_err *err)
{
  const yk_delta_config *delta = &source->config->delta;
  const heads h = heads_of(source);
  const yk_projection out_proj = {layer, YK_ROLE_DELTA_OUT, 0};
  *out = (projections){.in = yk_rank_layer_spec(source, 0), .out = yk_rank_layer_spec(source, 1)};
  if (delta->is_fused) {
    YK_TRY(add_part(source, layer, YK_ROLE_DELTA_QKVZ, yk_range_scaled(h.keys, fused_step(delta)), &out->in, err));
    YK_TRY(add_part(source, layer, YK_ROLE_DELTA_BA, yk_range_scaled(h.values, 2), &out->in, err));
  } else {
    YK_TRY(specify_split(source, layer, &out->in, err));
  }
  yk_range k = yk_range_scaled(h.values, delta->value_dim);
  return yk_rank_row_part(source, &out_proj, k, false, &out->out.parts[0], err);
}

/* Columns as specify orders the parts. */
static yk_delta_layout layout_of(const yk_rank_source *source)
{
  const yk_delta_config *delta = &source->config->delta;
  const int32_t n_keys = (int32_t)yk_range_size(source->share.delta_keys);
  const int32_t per_key = delta->n_value_heads / delta->n_key_heads;
  const int64_t qk = delta->key_dim, v = (int64_t)per_key * delta->value_dim;
  yk_delta_layout layout = {.n_key_heads = n_keys,
                            .values_per_key = per_key,
                            .key_dim = delta->key_dim,
                            .value_dim = delta->value_dim,
                            .x_stride = n_keys * (2 * qk + 2 * v + 2 * per_key)};
  if (delta->is_fused) {
    layout.qk_step = layout.v_step = layout.z_step = fused_step(delta);
    layout.ba_step = 2 * per_key;
    layout.k = qk;
    layout.v = 2 * qk;
    layout.z = 2 * qk + v;
    layout.b = n_keys * layout.qk_step;
    layout.a = layout.b + per_key;
  } else {
    layout.qk_step = qk;
    layout.v_step = layout.z_step = v;
    layout.ba_step = per_key;
    layout.k = n_keys * qk;
    layout.v = 2 * layout.k;
    layout.z = layout.v + n_keys * v;
    layout.b = layout.z + n_keys * v;
    layout.a = layout.b + n_keys * per_key;
  }
  return layout;
}

static int64_t rows_bytes(const yk_rank_source *source, int64_t width, yk_dtype dtype)
{
  int64_t n_bytes = source->limits->step.max_tokens * width * (int64_t)yk_dtype_bytes(dtype);
  return yk_round_up_i64(n_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

static void set_offsets(const yk_rank_source *source, yk_sublayer *a)
{
  const yk_dtype dtype = source->dev.dtype;
  const int64_t width = (int64_t)yk_delta_n_value_heads(&a->layout) * a->layout.value_dim;
  a->results_offset_bytes = rows_bytes(source, a->layout.x_stride, dtype);
  a->heads_offset_bytes = a->results_offset_bytes + rows_bytes(source, width, dtype);
  a->out_offset_bytes = a->heads_offset_bytes + rows_bytes(source, yk_delta_scratch_floats(&a->layout), YK_F32);
}

static int64_t state_bytes(const yk_delta_layout *layout)
{
  return yk_delta_state_floats(layout) * (int64_t)sizeof(float);
}

static yk_status measure(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err)
{
  const yk_model_device *dev = &source->dev;
  yk_sublayer sizes = {.layout = layout_of(source)};
  const yk_delta_layout *layout = &sizes.layout;
  int64_t n_floats = YK_DELTA_TAPS * yk_delta_channels(layout) + 2 * yk_delta_n_value_heads(layout) + layout->value_dim;
  projections p;
  set_offsets(source, &sizes);
  YK_TRY(specify(source, layer, &p, err));
  *out = (yk_sublayer_bytes){
      .weights = n_floats * (int64_t)sizeof(float) + yk_repack_bytes(dev, &p.in) + yk_repack_bytes(dev, &p.out),
      .n_unkept = yk_repack_n_unkept(dev, &p.in) + yk_repack_n_unkept(dev, &p.out),
      .n_float_inputs = yk_repack_n_float_inputs(dev, &p.in) + yk_repack_n_float_inputs(dev, &p.out),
      .state_per_seq = state_bytes(layout),
      .scratch = sizes.out_offset_bytes + yk_row_parallel_scratch(source, &p.out)};
  return YK_OK;
}

/* Element i of a view, which may be unaligned. */
static float element(const yk_vector_view *view, int64_t i)
{
  uint32_t bits = 0;
  size_t n_bytes = yk_dtype_bytes(view->dtype);
  memcpy(&bits, (const char *)view->data + (size_t)i * n_bytes, n_bytes);
  return yk_dtype_load(view->dtype, &bits, 0);
}

/* The convolution's weights of the rank's channels, [YK_DELTA_TAPS, channels]: q, k and v, each a range of all q, k or
 * v. */
static yk_status load_convolution(const yk_rank_loader *loader, int32_t layer, yk_sublayer *a, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  const yk_delta_config *delta = &source->config->delta;
  const heads h = heads_of(source);
  const int64_t q_width = (int64_t)delta->n_key_heads * delta->key_dim;
  const int64_t v_width = (int64_t)delta->n_value_heads * delta->value_dim, n = yk_delta_channels(&a->layout);
  const yk_range q = yk_range_scaled(h.keys, delta->key_dim), v = yk_range_scaled(h.values, delta->value_dim);
  const yk_range ranges[] = {q, shifted(q, q_width), shifted(v, 2 * q_width)};
  yk_vector_view view;
  YK_TRY(yk_checkpoint_vector(source->checkpoint, YK_ROLE_DELTA_CONV, layer, YK_DELTA_TAPS * (2 * q_width + v_width),
                              &view, err));
  float *taps = calloc((size_t)(YK_DELTA_TAPS * n + 1), sizeof *taps), *to = taps;
  if (!taps) return yk_err_set(err, YK_E_NOMEM, "no memory for a convolution of %lld channels", (long long)n);
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    for (int64_t channel = ranges[i].begin; channel < ranges[i].end; channel++, to++)
      for (int t = 0; t < YK_DELTA_TAPS; t++) to[t * n] = element(&view, channel * YK_DELTA_TAPS + t);
  yk_status status = yk_rank_upload_floats(loader, taps, YK_DELTA_TAPS * n, &a->conv_w, err);
  free(taps);
  return status;
}

/* exp(A_log) and dt_bias of the rank's value heads. */
static yk_status load_decay(const yk_rank_loader *loader, int32_t layer, yk_sublayer *a, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  const int32_t n_all = source->config->delta.n_value_heads;
  const yk_range values = heads_of(source).values;
  const int64_t n = yk_range_size(values);
  yk_vector_view a_log, dt_bias;
  YK_TRY(yk_checkpoint_vector(source->checkpoint, YK_ROLE_DELTA_A_LOG, layer, n_all, &a_log, err));
  YK_TRY(yk_checkpoint_vector(source->checkpoint, YK_ROLE_DELTA_DT_BIAS, layer, n_all, &dt_bias, err));
  float *floats = calloc((size_t)(2 * n + 1), sizeof *floats);
  if (!floats) return yk_err_set(err, YK_E_NOMEM, "no memory for the decays of %lld heads", (long long)n);
  for (int64_t i = 0; i < n; i++) {
    floats[i] = expf(element(&a_log, values.begin + i));
    floats[n + i] = element(&dt_bias, values.begin + i);
  }
  yk_status status = yk_rank_upload_floats(loader, floats, n, &a->rate, err);
  if (status == YK_OK) status = yk_rank_upload_floats(loader, floats + n, n, &a->dt_bias, err);
  free(floats);
  return status;
}

static yk_status load_norm(const yk_rank_loader *loader, int32_t layer, yk_sublayer *a, yk_err *err)
{
  yk_vector_view norm;
  YK_TRY(yk_checkpoint_vector(loader->source.checkpoint, YK_ROLE_DELTA_NORM, layer, a->layout.value_dim, &norm, err));
  return yk_rank_load_floats(loader, &norm, &a->norm_w, err);
}

/* The roles of the parts as specify orders them. */
static yk_status load_projections(const yk_rank_loader *loader, int32_t layer, const projections *p, yk_sublayer *a,
                                  yk_err *err)
{
  static const yk_weight_role fused[] = {YK_ROLE_DELTA_QKVZ, YK_ROLE_DELTA_BA}, of_out = YK_ROLE_DELTA_OUT;
  static const yk_weight_role split[] = {YK_ROLE_DELTA_QKV, YK_ROLE_DELTA_QKV, YK_ROLE_DELTA_QKV,
                                         YK_ROLE_DELTA_Z,   YK_ROLE_DELTA_B,   YK_ROLE_DELTA_A};
  const yk_adapted_place in = {.layer = layer, .roles = loader->source.config->delta.is_fused ? fused : split};
  const yk_adapted_place out = {.layer = layer, .roles = &of_out};
  YK_TRY(yk_rank_load_linear(loader, &p->in, &a->in, err));
  YK_TRY(yk_adapted_add(loader->adapted, &in, &p->in, a->in, err));
  YK_TRY(yk_row_parallel_load(loader, &p->out, &a->out, err));
  return yk_adapted_add(loader->adapted, &out, &p->out, a->out.linear, err);
}

static yk_status load(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  projections p;
  if (!loader->dev->ops->gated_delta)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s device: layer %d is a gated delta net (linear_attention), which this device does not have; "
                      "CPU ranks (--device cpu) run such models",
                      loader->dev->ops->name, layer);
  YK_TRY(specify(source, layer, &p, err));
  yk_sublayer *a = *out = calloc(1, sizeof *a);
  if (!a) return yk_err_set(err, YK_E_NOMEM, "no memory for a gated delta net");
  a->layout = layout_of(source);
  set_offsets(source, a);
  YK_TRY(load_convolution(loader, layer, a, err));
  YK_TRY(load_decay(loader, layer, a, err));
  YK_TRY(load_norm(loader, layer, a, err));
  YK_TRY(load_projections(loader, layer, &p, a, err));
  return yk_recurrent_states_load(loader, state_bytes(&a->layout), &a->states, err);
}

static yk_status run_heads(const yk_sublayer *a, const yk_sublayer_step *s, yk_err *err)
{
  char *scratch = s->scratch;
  const yk_gated_delta_args args = {.y = scratch + a->results_offset_bytes,
                                    .x = scratch,
                                    .scratch = (float *)(void *)(scratch + a->heads_offset_bytes),
                                    .layout = a->layout,
                                    .conv_w = a->conv_w,
                                    .rate = a->rate,
                                    .dt_bias = a->dt_bias,
                                    .norm_w = a->norm_w,
                                    .norm_eps = s->norm_eps,
                                    .states = a->states.states,
                                    .snapshots = a->states.snapshots,
                                    .batch = s->batch};
  return a->layout.n_key_heads == 0 ? YK_OK : s->dev->ops->gated_delta(s->dev, &args, err);
}

static yk_status forward(const yk_sublayer *a, yk_sublayer_step *s, yk_err *err)
{
  YK_TRY(yk_sublayer_normalise(s, err));
  char *scratch = s->scratch;
  yk_linear_args to_x = {.x = s->x.rows,
                         .y = scratch,
                         .n_tokens = s->batch->n_tokens,
                         .y_stride = a->layout.x_stride,
                         .adapters = s->batch->adapters};
  yk_row_parallel_args to_y = {
      .x = scratch + a->results_offset_bytes, .y = s->y.rows, .scratch = scratch + a->out_offset_bytes};
  YK_RUN(s->operations, GEMM_QKV, s->layer, "in_proj", s->dev->ops->linear_forward(s->dev, a->in, &to_x, err));
  YK_RUN(s->operations, STATES, s->layer, "gated delta net", run_heads(a, s, err));
  return yk_row_parallel_run(&a->out, s, &to_y, YK_OPERATION_GEMM_O, "out_proj", err);
}

static yk_status copy(const yk_sublayer *a, yk_device *dev, const yk_step_copy *c, yk_err *err)
{
  return yk_recurrent_states_copy(&a->states, dev, c, err);
}

static void destroy(yk_device *dev, yk_sublayer *a)
{
  dev->ops->linear_destroy(dev, a->in);
  dev->ops->linear_destroy(dev, a->out.linear);
  void *const memory[] = {a->conv_w, a->rate, a->dt_bias, a->norm_w};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) dev->ops->free(dev, memory[i]);
  yk_recurrent_states_free(&a->states, dev);
  free(a);
}

const yk_sublayer_kind yk_attention_delta = {
    .name = "gated delta net", .measure = measure, .load = load, .forward = forward, .copy = copy, .destroy = destroy};
