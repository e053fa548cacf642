/* attention_latent.c - multi-head latent attention: one latent vector per token in a paged cache (kernels/latent.h).
 *
 *   x -> q (or q_a -> norm -> q_b), kv_a -> norm, rotation, cache -> attention -> o
 *
 * A rank owns whole heads: q (q_b) and kv_b are column-parallel, o row-parallel. Every rank with heads holds the parts
 * that all heads share (q_a, kv_a, the cache) in full, so one all-reduce is enough. */
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "model/layer.h"
#include "model/rope.h"
#include "model/row_parallel.h"

/* Epsilon of the norms within latent attention. Independent of norm_eps in the configuration. */
static const float inner_norm_eps = 1e-6f;

/* Bytes from the start of the scratch. */
typedef struct offsets {
  int64_t first;                              /* rows of the first projection of x: q or q_a, then kv_a */
  int64_t normed, q, attended, inner, o, end; /* inner: the operation's own scratch */
} offsets;

struct yk_sublayer {
  yk_latent_layout layout;
  int32_t q_rank;             /* 0: first holds q itself */
  void *q_norm_w, *kv_norm_w; /* act [q_rank] or NULL, act [kv_rank] */
  yk_linear *first, *q_b;
  yk_row_parallel o;
  void *kv_up, *cache;
  float scale;
  yk_score_growth growth;
  offsets at;
};

typedef struct projections {
  yk_linear_spec first, q_b, o;
  yk_linear_part kv_b;
} projections;

static yk_latent_layout layout_of(const yk_rank_source *source)
{
  const yk_model_config *c = source->config;
  return (yk_latent_layout){.n_heads = (int32_t)yk_range_size(source->share.q_heads),
                            .nope_dim = c->latent.nope_dim,
                            .rope_dim = c->head_dim,
                            .kv_rank = c->latent.kv_rank,
                            .value_dim = c->latent.value_dim};
}

/* Columns of `first` that hold q or q_a. */
static int64_t first_q_width(const yk_rank_source *source, const yk_latent_layout *layout)
{
  if (layout->n_heads == 0) return 0;
  return source->config->latent.q_rank > 0 ? source->config->latent.q_rank : yk_latent_q_width(layout);
}

static yk_status specify(const yk_rank_source *source, int32_t layer, projections *out, yk_err *err)
{
  const yk_model_config *c = source->config;
  const yk_latent_layout layout = layout_of(source);
  const yk_range heads = source->share.q_heads;
  const yk_range q = yk_range_scaled(heads, layout.nope_dim + layout.rope_dim);
  const yk_range latent = {0, layout.n_heads > 0 ? yk_latent_width(&layout) : 0};
  const yk_linear_spec blank = yk_rank_layer_spec(source, 1);
  const yk_projection kv_a = {layer, YK_ROLE_KV_A, 0}, kv_b = {layer, YK_ROLE_KV_B, 0}, o = {layer, YK_ROLE_O, 0};
  *out = (projections){.first = blank, .q_b = blank, .o = blank};
  out->first.n_parts = 2;
  if (c->latent.q_rank > 0) {
    const yk_projection q_a = {layer, YK_ROLE_Q_A, 0}, q_b = {layer, YK_ROLE_Q_B, 0};
    YK_TRY(yk_rank_column_part(source, &q_a, (yk_range){0, first_q_width(source, &layout)}, &out->first.parts[0], err));
    YK_TRY(yk_rank_column_part(source, &q_b, q, &out->q_b.parts[0], err));
  } else {
    const yk_projection whole_q = {layer, YK_ROLE_Q, 0};
    YK_TRY(yk_rank_column_part(source, &whole_q, q, &out->first.parts[0], err));
  }
  YK_TRY(yk_rank_column_part(source, &kv_a, latent, &out->first.parts[1], err));
  YK_TRY(
      yk_rank_column_part(source, &kv_b, yk_range_scaled(heads, layout.nope_dim + layout.value_dim), &out->kv_b, err));
  return yk_rank_row_part(source, &o, yk_range_scaled(heads, layout.value_dim), false, &out->o.parts[0], err);
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

static int64_t rows_bytes(const yk_rank_source *source, int64_t row_elements)
{
  int64_t row_bytes = row_elements * (int64_t)yk_dtype_bytes(source->dev.dtype);
  return yk_round_up_i64(source->limits->step.max_tokens * row_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

static int64_t inner_bytes(const yk_rank_source *source, const yk_latent_layout *layout)
{
  if (!source->dev.latent_scratch_bytes || layout->n_heads == 0) return 0;
  int64_t n_bytes = source->dev.latent_scratch_bytes(layout, source->limits->step.max_tokens);
  return yk_round_up_i64(n_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

static offsets offsets_of(const yk_rank_source *source, const yk_linear_spec *o)
{
  const yk_latent_layout layout = layout_of(source);
  bool has_q_a = source->config->latent.q_rank > 0 && layout.n_heads > 0;
  int64_t width = layout.n_heads > 0 ? first_q_width(source, &layout) + yk_latent_width(&layout) : 0;
  offsets at = {0};
  at.normed = at.first + rows_bytes(source, width);
  at.q = at.normed + rows_bytes(source, has_q_a ? source->config->latent.q_rank : 0);
  at.attended = at.q + rows_bytes(source, has_q_a ? yk_latent_q_width(&layout) : 0);
  at.inner = at.attended + rows_bytes(source, (int64_t)layout.n_heads * layout.value_dim);
  at.o = at.inner + inner_bytes(source, &layout);
  at.end = at.o + yk_row_parallel_scratch(source, o);
  return at;
}

/* Bytes of a cache block. 0 on a rank without heads. */
static int64_t block_bytes(const yk_latent_layout *layout, yk_dtype dtype)
{
  int64_t token_bytes = yk_latent_width(layout) * (int64_t)yk_dtype_bytes(dtype);
  return layout->n_heads > 0 ? YK_KV_BLOCK_TOKENS * token_bytes : 0;
}

static void add(const yk_model_device *dev, const yk_linear_spec *spec, yk_sublayer_bytes *out)
{
  out->weights += yk_repack_bytes(dev, spec);
  out->n_unkept += yk_repack_n_unkept(dev, spec);
  out->n_float_inputs += yk_repack_n_float_inputs(dev, spec);
}

static yk_status measure(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err)
{
  const yk_model_device *dev = &source->dev;
  const yk_latent_config *latent = &source->config->latent;
  const yk_latent_layout layout = layout_of(source);
  int64_t element = (int64_t)yk_dtype_bytes(dev->dtype);
  projections p;
  YK_TRY(specify(source, layer, &p, err));
  *out = (yk_sublayer_bytes){.weights = (latent->q_rank + latent->kv_rank + yk_range_size(p.kv_b.n) * latent->kv_rank) *
                                        element,
                             .kv_per_block = block_bytes(&layout, dev->dtype),
                             .scratch = offsets_of(source, &p.o).end};
  add(dev, &p.first, out);
  if (latent->q_rank > 0) add(dev, &p.q_b, out);
  add(dev, &p.o, out);
  return YK_OK;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Order of the part's outputs, one unit (a head of q, or all of kv_a) at a time: the last rope_dim of a unit take the
 * order in which devices rotate. */
static int32_t *order_unit(const yk_model_config *c, const yk_linear_part *part, int32_t unit, int32_t *to)
{
  int32_t first = unit - c->head_dim;
  for (int32_t begin = (int32_t)part->n.begin; begin < part->n.end; begin += unit)
    for (int32_t place = 0; place < unit; place++)
      *to++ =
          begin + (place < first ? place : first + yk_rotary_element(c->head_dim, c->head_dim, true, place - first));
  return to;
}

/* The parts of q and kv_a get n_orders if the checkpoint rotates neighbours (rotary_interleaved). The caller frees
 * *order, which holds the orders. */
static yk_status order_rotation(const yk_model_config *c, projections *p, int32_t **order, yk_err *err)
{
  yk_linear_part *q = c->latent.q_rank > 0 ? &p->q_b.parts[0] : &p->first.parts[0], *kv_a = &p->first.parts[1];
  int64_t n = yk_range_size(q->n) + yk_range_size(kv_a->n);
  *order = NULL;
  if (!c->rotary_interleaved) return YK_OK;
  *order = malloc((size_t)(n + 1) * sizeof **order);
  if (!*order) return yk_err_set(err, YK_E_NOMEM, "no memory for the order of %lld outputs", (long long)n);
  q->n_order = *order;
  kv_a->n_order = order_unit(c, q, c->latent.nope_dim + c->head_dim, *order);
  order_unit(c, kv_a, c->latent.kv_rank + c->head_dim, *order + yk_range_size(q->n));
  return YK_OK;
}

static yk_status load_one(const yk_rank_loader *loader, const yk_adapted_place *place, const yk_linear_spec *spec,
                          yk_linear **out, yk_err *err)
{
  YK_TRY(yk_rank_load_linear(loader, spec, out, err));
  return yk_adapted_add(loader->adapted, place, spec, *out, err);
}

static yk_status load_projections(const yk_rank_loader *loader, int32_t layer, projections *p, yk_sublayer *a,
                                  yk_err *err)
{
  const yk_weight_role of_first[] = {a->q_rank > 0 ? YK_ROLE_Q_A : YK_ROLE_Q, YK_ROLE_KV_A}, of_q_b = YK_ROLE_Q_B;
  const yk_adapted_place first = {.layer = layer, .roles = of_first}, q_b = {.layer = layer, .roles = &of_q_b};
  int32_t *order;
  yk_status status = order_rotation(loader->source.config, p, &order, err);
  if (status == YK_OK) status = load_one(loader, &first, &p->first, &a->first, err);
  if (status == YK_OK && a->q_rank > 0) status = load_one(loader, &q_b, &p->q_b, &a->q_b, err);
  free(order);
  return status;
}

static yk_status load_norms(const yk_rank_loader *loader, int32_t layer, yk_sublayer *a, yk_err *err)
{
  if (a->q_rank > 0) YK_TRY(yk_rank_load_vector(loader, YK_ROLE_Q_A_NORM, layer, a->q_rank, 1, &a->q_norm_w, err));
  return yk_rank_load_vector(loader, YK_ROLE_KV_A_NORM, layer, a->layout.kv_rank, 1, &a->kv_norm_w, err);
}

static yk_status load(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  const yk_model_config *c = source->config;
  const yk_device_ops *ops = loader->dev->ops;
  const yk_weight_role o = YK_ROLE_O;
  const yk_adapted_place of_o = {.layer = layer, .roles = &o};
  projections p;
  if (!ops->latent_attention)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s device: latent attention is not supported", ops->name);
  YK_TRY(specify(source, layer, &p, err));
  yk_sublayer *a = *out = calloc(1, sizeof *a);
  if (!a) return yk_err_set(err, YK_E_NOMEM, "no memory for the attention of a layer");
  a->layout = layout_of(source);
  a->q_rank = c->latent.q_rank;
  a->scale = yk_rope_score_factor(&c->rope) / sqrtf((float)(c->latent.nope_dim + c->head_dim));
  a->growth = c->score_growth;
  a->at = offsets_of(source, &p.o);
  YK_TRY(load_norms(loader, layer, a, err));
  YK_TRY(load_projections(loader, layer, &p, a, err));
  YK_TRY(yk_rank_load_matrix(loader, &p.kv_b, &a->kv_up, err));
  YK_TRY(yk_row_parallel_load(loader, &p.o, &a->o, err));
  YK_TRY(yk_adapted_add(loader->adapted, &of_o, &p.o, a->o.linear, err));
  size_t n_blocks = (size_t)source->limits->n_kv_blocks;
  return yk_rank_alloc(loader, n_blocks * (size_t)block_bytes(&a->layout, source->dev.dtype), &a->cache, err);
}

/* ---- A step ------------------------------------------------------------------------------------------------------ */

/* Rows of q, and of kv_a, which follows q or q_a. */
typedef struct rows {
  void *q, *latent;
  int64_t q_stride, latent_stride;
} rows;

static yk_status project(const yk_sublayer *a, const yk_sublayer_step *s, rows *out, yk_err *err)
{
  char *scratch = s->scratch;
  int64_t first_q = a->q_rank > 0 ? a->q_rank : yk_latent_q_width(&a->layout);
  int64_t width = first_q + yk_latent_width(&a->layout);
  int32_t n = s->batch->n_tokens;
  yk_linear_args to_first = {
      .x = s->x.rows, .y = scratch + a->at.first, .n_tokens = n, .y_stride = width, .adapters = s->batch->adapters};
  *out = (rows){.q = scratch + a->at.first,
                .latent = scratch + a->at.first + first_q * (int64_t)yk_dtype_bytes(s->dev->dtype),
                .q_stride = width,
                .latent_stride = width};
  YK_RUN(s->operations, GEMM_QKV, s->layer, "q_proj and kv_a_proj",
         s->dev->ops->linear_forward(s->dev, a->first, &to_first, err));
  if (a->q_rank == 0) return YK_OK;
  yk_rms_norm_args norm = {.y = scratch + a->at.normed,
                           .x = scratch + a->at.first,
                           .w = a->q_norm_w,
                           .x_stride = width,
                           .n_rows = n,
                           .hidden = a->q_rank,
                           .eps = inner_norm_eps};
  yk_linear_args to_q = {.x = norm.y,
                         .y = scratch + a->at.q,
                         .n_tokens = n,
                         .y_stride = yk_latent_q_width(&a->layout),
                         .adapters = s->batch->adapters};
  YK_RUN(s->operations, OTHER, s->layer, "q_a_layernorm", s->dev->ops->rms_norm(s->dev, &norm, err));
  YK_RUN(s->operations, GEMM_QKV, s->layer, "q_b_proj", s->dev->ops->linear_forward(s->dev, a->q_b, &to_q, err));
  out->q = to_q.y;
  out->q_stride = to_q.y_stride;
  return YK_OK;
}

static yk_status attend(const yk_sublayer *a, const yk_sublayer_step *s, void *attended, yk_err *err)
{
  rows r;
  YK_TRY(project(a, s, &r, err));
  const yk_latent_attention_args args = {.y = attended,
                                         .q = r.q,
                                         .latent = r.latent,
                                         .q_stride = r.q_stride,
                                         .latent_stride = r.latent_stride,
                                         .layout = a->layout,
                                         .norm_w = a->kv_norm_w,
                                         .norm_eps = inner_norm_eps,
                                         .scale = a->scale,
                                         .growth = a->growth,
                                         .rope = s->rope,
                                         .kv_up = a->kv_up,
                                         .cache = a->cache,
                                         .scratch = (char *)s->scratch + a->at.inner,
                                         .batch = s->batch};
  YK_RUN(s->operations, ATTENTION, s->layer, "latent attention", s->dev->ops->latent_attention(s->dev, &args, err));
  return YK_OK;
}

static yk_status forward(const yk_sublayer *a, yk_sublayer_step *s, yk_err *err)
{
  YK_TRY(yk_sublayer_normalise(s, err));
  void *attended = (char *)s->scratch + a->at.attended;
  yk_row_parallel_args to_y = {.x = attended, .y = s->y.rows, .scratch = (char *)s->scratch + a->at.o};
  if (a->layout.n_heads > 0) YK_TRY(attend(a, s, attended, err));
  return yk_row_parallel_run(&a->o, s, &to_y, YK_OPERATION_GEMM_O, "o_proj", err);
}

static yk_status copy(const yk_sublayer *a, yk_device *dev, const yk_step_copy *c, yk_err *err)
{
  const int64_t n = block_bytes(&a->layout, dev->dtype);
  char *cache = a->cache;
  if (c->from_block < 0 || n == 0) return YK_OK;
  return dev->ops->copy(dev, cache + c->to_block * n, cache + c->from_block * n, (size_t)n, err);
}

static void destroy(yk_device *dev, yk_sublayer *a)
{
  dev->ops->free(dev, a->q_norm_w);
  dev->ops->free(dev, a->kv_norm_w);
  dev->ops->linear_destroy(dev, a->first);
  dev->ops->linear_destroy(dev, a->q_b);
  dev->ops->linear_destroy(dev, a->o.linear);
  dev->ops->free(dev, a->kv_up);
  dev->ops->free(dev, a->cache);
  free(a);
}

const yk_sublayer_kind yk_attention_latent = {
    .name = "latent attention", .measure = measure, .load = load, .forward = forward, .copy = copy, .destroy = destroy};
