/* attention_grouped.c - multi-head, multi-query and grouped-query attention: K and V of every KV head in a paged cache.
 *
 * A rank owns whole query heads and every KV head that these query heads read; q, k and v are column-parallel, o
 * row-parallel. With gates, q_proj has for each head its query, then its gate; a rank's row has all its queries, k, v,
 * then all gates. */
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "model/invariance.h"
#include "model/layer.h"
#include "model/rope.h"
#include "model/row_norms.h"
#include "model/row_parallel.h"

struct yk_sublayer {
  yk_head_layout heads;
  void *q_norm_w, *k_norm_w; /* act [head_dim] or NULL */
  yk_row_norms row_norms;
  float *sinks; /* [n_q_heads] or NULL */
  yk_linear *qkv;
  yk_row_parallel o;
  yk_kv_layer kv;        /* k_staging and v_staging are not set: see cache_of */
  bool reads_other;      /* another layer writes kv and owns its memory */
  int64_t staging_bytes; /* number of staging pages of K, and of V; 0: the device needs none */
  bool norms_follow;     /* the rotation */
  bool norms_values;
  bool is_unrotated; /* q and k do not rotate */
  float scale;
  yk_score_growth growth;
  int32_t window_tokens; /* 0: full attention */
  bool window_is_chunk;
  bool is_invariant; /* see yk_attention_args */
  /* Offsets within the scratch, which begins with the rows of q, k and v: the attended rows, and the scratch of o. */
  int64_t attended_offset_bytes, o_offset_bytes;
};

typedef struct projections {
  yk_linear_spec qkv, o;
} projections;

enum { PART_Q, PART_K, PART_V, PART_GATES };

static yk_kv_columns columns_of(const yk_model_config *c, int32_t layer)
{
  if (yk_model_config_kv_layer(c, layer) != layer) return YK_KV_COLUMNS_NONE;
  return yk_weight_is_in_layer(c, YK_ROLE_V, layer) ? YK_KV_COLUMNS_BOTH : YK_KV_COLUMNS_KEYS;
}

static int n_parts_of(const yk_model_config *c, int32_t layer)
{
  switch (columns_of(c, layer)) {
  case YK_KV_COLUMNS_NONE: return PART_K;
  case YK_KV_COLUMNS_KEYS: return PART_V;
  default: return c->attention_gates ? PART_GATES + 1 : PART_GATES;
  }
}

static yk_status specify(const yk_rank_source *source, int32_t layer, projections *out, yk_err *err)
{
  const yk_model_config *c = source->config;
  const yk_shard_heads heads = yk_rank_heads_of(source, layer);
  const int32_t head_dim = yk_model_config_widths(c, layer).head_dim;
  const yk_range q = yk_range_scaled(heads.q, head_dim), kv = yk_range_scaled(heads.kv, head_dim);
  /* With gates the outputs of q and of the gates are given by order_heads, so only the size of the range counts. */
  const int n_parts = n_parts_of(c, layer);
  const yk_projection q_proj = {layer, YK_ROLE_Q, 0}, k_proj = {layer, YK_ROLE_K, 0};
  const yk_projection v_proj = {layer, YK_ROLE_V, 0}, o_proj = {layer, YK_ROLE_O, 0};
  *out = (projections){.qkv = yk_rank_layer_spec(source, n_parts), .o = yk_rank_layer_spec(source, 1)};
  YK_TRY(yk_rank_column_part(source, &q_proj, q, &out->qkv.parts[PART_Q], err));
  if (n_parts > PART_K) YK_TRY(yk_rank_column_part(source, &k_proj, kv, &out->qkv.parts[PART_K], err));
  if (n_parts > PART_V) YK_TRY(yk_rank_column_part(source, &v_proj, kv, &out->qkv.parts[PART_V], err));
  if (n_parts > PART_GATES) out->qkv.parts[PART_GATES] = out->qkv.parts[PART_Q];
  YK_TRY(yk_invariance_column(source, &out->qkv, err));
  YK_TRY(yk_rank_row_part(source, &o_proj, q, false, &out->o.parts[0], err));
  return yk_invariance_row(source, &out->o, err);
}

static yk_head_layout heads_of(const yk_rank_source *source, int32_t layer)
{
  const yk_model_config *c = source->config;
  const yk_shard_heads heads = yk_rank_heads_of(source, layer);
  const yk_attention_widths widths = yk_model_config_widths(c, layer);
  return (yk_head_layout){.n_q_heads = (int32_t)yk_range_size(heads.q),
                          .n_kv_heads = (int32_t)yk_range_size(heads.kv),
                          .head_dim = widths.head_dim,
                          .q_per_kv = c->n_heads / widths.n_kv_heads,
                          .q_head_first = (int32_t)heads.q.begin,
                          .kv_head_first = (int32_t)heads.kv.begin,
                          .has_gates = c->attention_gates,
                          .kv_columns = columns_of(c, layer)};
}

static int64_t q_width(const yk_head_layout *heads)
{
  return (int64_t)heads->n_q_heads * heads->head_dim;
}

/* Bytes of K, or of V, of one block in the KV cache that the layer reads. */
static int64_t half_kv_bytes(const yk_head_layout *heads, yk_kv_format format, yk_dtype dtype)
{
  return heads->n_kv_heads * yk_kv_page_bytes(format, dtype, heads->head_dim);
}

/* Staging page for K or V of a block, in the activation type. Only for 8-bit caches on devices with
 * needs_kv_staging. */
static int64_t half_staging_bytes(const yk_rank_source *source, const yk_head_layout *heads)
{
  bool is_needed = source->limits->kv_format != YK_KV_ACT && source->dev.needs_kv_staging;
  return is_needed ? half_kv_bytes(heads, YK_KV_ACT, source->dev.dtype) : 0;
}

static bool has_channels(const yk_rank_source *source)
{
  return source->limits->kv_format != YK_KV_ACT && source->limits->kv_is_static;
}

/* Static scales and offsets, for K or for V. */
static size_t n_channels(const yk_head_layout *heads)
{
  return (size_t)2 * (size_t)heads->n_kv_heads * (size_t)heads->head_dim;
}

static int64_t attended_offset_bytes(const yk_rank_source *source, const yk_head_layout *heads)
{
  int64_t row_bytes = yk_head_layout_width(heads) * (int64_t)yk_dtype_bytes(source->dev.dtype);
  return yk_round_up_i64(source->limits->step.max_tokens * row_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

static int64_t o_offset_bytes(const yk_rank_source *source, const yk_head_layout *heads)
{
  int64_t row_bytes = q_width(heads) * (int64_t)yk_dtype_bytes(source->dev.dtype);
  return attended_offset_bytes(source, heads) +
         yk_round_up_i64(source->limits->step.max_tokens * row_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

/* The norms of rows run earlier and share the scratch of o. */
static int64_t o_scratch_bytes(const yk_rank_source *source, const yk_linear_spec *o)
{
  return yk_max_i64(yk_row_parallel_scratch(source, o), yk_row_norms_scratch(source));
}

static yk_status measure(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err)
{
  const yk_model_device *dev = &source->dev;
  yk_head_layout heads = heads_of(source, layer);
  int64_t element = (int64_t)yk_dtype_bytes(dev->dtype);
  const bool reads_other = heads.kv_columns == YK_KV_COLUMNS_NONE;
  const bool has_norms = yk_model_config_norms_heads(source->config, layer);
  int64_t norms = has_norms ? (reads_other ? 1 : 2) * heads.head_dim * element : 0;
  int64_t sinks = source->config->attention_sinks ? heads.n_q_heads * (int64_t)sizeof(float) : 0;
  int64_t channels = has_channels(source) && !reads_other ? 2 * (int64_t)(n_channels(&heads) * sizeof(float)) : 0;
  projections p;
  YK_TRY(specify(source, layer, &p, err));
  *out = (yk_sublayer_bytes){
      .weights = norms + yk_row_norms_weight_bytes(source, layer) + sinks + channels + yk_repack_bytes(dev, &p.qkv) +
                 yk_repack_bytes(dev, &p.o),
      .n_unkept = yk_repack_n_unkept(dev, &p.qkv) + yk_repack_n_unkept(dev, &p.o),
      .n_float_inputs = yk_repack_n_float_inputs(dev, &p.qkv) + yk_repack_n_float_inputs(dev, &p.o),
      .kv_per_block = reads_other ? 0 : 2 * half_kv_bytes(&heads, source->limits->kv_format, dev->dtype),
      .kv_staging_per_block = 2 * half_staging_bytes(source, &heads),
      .shared = yk_max_i64(yk_repack_shared_bytes(dev, &p.qkv), yk_repack_shared_bytes(dev, &p.o)),
      .scratch = o_offset_bytes(source, &heads) + o_scratch_bytes(source, &p.o)};
  return YK_OK;
}

/* The layout of rotating pairs in a layer's heads. */
typedef struct rotation {
  yk_attention_widths widths;
  bool is_interleaved;
} rotation;

static rotation rotation_of(const yk_model_config *c, int32_t layer)
{
  return (rotation){yk_model_config_widths(c, layer), c->rotary_interleaved};
}

/* Sets the part's n_order: of each head of the part, the elements in the device's order, or as they are. step: outputs
 * of the module from one head to the next; skip: outputs of a head before its elements. Returns the order's end. */
static int32_t *order_part(const rotation *r, yk_linear_part *part, int32_t step, int32_t skip, bool rotates,
                           int32_t *at)
{
  const int32_t head_dim = r->widths.head_dim;
  part->n_order = at;
  for (int64_t n = part->n.begin; n < part->n.end; n += head_dim) {
    int32_t first = (int32_t)(n / head_dim) * step + skip;
    for (int32_t place = 0; place < head_dim; place++)
      *at++ = first + (rotates ? yk_rotary_element(head_dim, r->widths.rotary_dim, r->is_interleaved, place) : place);
  }
  return at;
}

/* The parts of q and k get n_orders if the checkpoint's order of a head's elements differs from the device's, and q and
 * gates if they share a module. The caller frees *out, which holds the orders. */
static yk_status order_heads(const rotation *r, yk_linear_spec *qkv, int32_t **out, yk_err *err)
{
  const int32_t head_dim = r->widths.head_dim;
  const bool has_keys = qkv->n_parts > PART_K, has_gates = qkv->n_parts > PART_GATES;
  int64_t n_outputs = 2 * yk_range_size(qkv->parts[PART_Q].n) + (has_keys ? yk_range_size(qkv->parts[PART_K].n) : 0);
  bool rotates = r->is_interleaved || r->widths.rotary_dim != head_dim;
  *out = NULL;
  if (!rotates && !has_gates) return YK_OK;
  int32_t *at = malloc((size_t)(n_outputs + 1) * sizeof *at);
  if (!at) return yk_err_set(err, YK_E_NOMEM, "no memory for the order of %lld outputs", (long long)n_outputs);
  *out = at;
  at = order_part(r, &qkv->parts[PART_Q], has_gates ? 2 * head_dim : head_dim, 0, rotates, at);
  if (has_keys) at = order_part(r, &qkv->parts[PART_K], head_dim, 0, rotates, at);
  if (has_gates) order_part(r, &qkv->parts[PART_GATES], 2 * head_dim, head_dim, false, at);
  return YK_OK;
}

static yk_status load_qkv(const yk_rank_loader *loader, int32_t layer, yk_linear_spec *qkv, yk_linear **out,
                          yk_err *err)
{
  static const yk_weight_role roles[] = {
      [PART_Q] = YK_ROLE_Q, [PART_K] = YK_ROLE_K, [PART_V] = YK_ROLE_V, [PART_GATES] = YK_ROLE_Q};
  const yk_adapted_place place = {.layer = layer, .roles = roles};
  const rotation r = rotation_of(loader->source.config, layer);
  int32_t *order;
  YK_TRY(order_heads(&r, qkv, &order, err));
  yk_status status = yk_rank_load_linear(loader, qkv, out, err);
  if (status == YK_OK) status = yk_adapted_add(loader->adapted, &place, qkv, *out, err);
  free(order);
  return status;
}

static yk_status load_o(const yk_rank_loader *loader, int32_t layer, const yk_linear_spec *o, yk_row_parallel *out,
                        yk_err *err)
{
  const yk_weight_role role = YK_ROLE_O;
  const yk_adapted_place place = {.layer = layer, .roles = &role};
  YK_TRY(yk_row_parallel_load(loader, o, out, err));
  return yk_adapted_add(loader->adapted, &place, o, out->linear, err);
}

/* The checkpoint's scales and offsets of K's or V's cache, in the order in which a head's elements are cached. If q and
 * k are reordered (order_heads), the scales of K are too. *out: f32 device [2, n_kv_heads, head_dim]. */
static yk_status load_channels(const yk_rank_loader *loader, const yk_head_layout *heads, yk_weight_role role,
                               int32_t layer, const float **out, yk_err *err)
{
  const rotation r = rotation_of(loader->source.config, layer);
  const int32_t head_dim = heads->head_dim;
  const int64_t n = (int64_t)heads->n_kv_heads * head_dim;
  void *device_channels = NULL;
  if (n == 0) return YK_OK;
  YK_TRY(yk_rank_alloc(loader, n_channels(heads) * sizeof(float), &device_channels, err));
  *out = device_channels;
  float *read = malloc(2 * n_channels(heads) * sizeof *read);
  if (!read) return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of %d KV heads", heads->n_kv_heads);
  float *placed = read + 2 * n;
  yk_status status = yk_checkpoint_kv_channels(loader->source.checkpoint, role, layer,
                                               (int64_t)heads->kv_head_first * head_dim, n, read, read + n, err);
  for (int64_t i = 0; status == YK_OK && i < 2 * n; i++) {
    int32_t place = (int32_t)(i % head_dim);
    int32_t element =
        role == YK_ROLE_K ? yk_rotary_element(head_dim, r.widths.rotary_dim, r.is_interleaved, place) : place;
    placed[i] = read[i - place + element];
  }
  if (status == YK_OK)
    status = loader->dev->ops->upload(loader->dev, device_channels, placed, n_channels(heads) * sizeof *placed, err);
  free(read);
  return status;
}

/* The owner of the cache is an earlier layer of the same stage (divide_layers in model_build.c), so it is loaded. */
static void share_cache(const yk_rank_loader *loader, int32_t layer, yk_sublayer *a)
{
  const int32_t owner = yk_model_config_kv_layer(loader->source.config, layer);
  const yk_sublayer *other = loader->layers[owner - loader->source.share.layers.begin].attention;
  a->reads_other = true;
  a->kv = other->kv;
  a->staging_bytes = other->staging_bytes;
}

static yk_status load_cache(const yk_rank_loader *loader, int32_t layer, yk_sublayer *a, yk_err *err)
{
  const yk_model_limits *limits = loader->source.limits;
  const yk_dtype dtype = loader->source.dev.dtype;
  if (a->heads.kv_columns == YK_KV_COLUMNS_NONE) {
    share_cache(loader, layer, a);
    return YK_OK;
  }
  size_t n_bytes = (size_t)limits->n_kv_blocks * (size_t)half_kv_bytes(&a->heads, limits->kv_format, dtype);
  a->kv.format = limits->kv_format;
  a->staging_bytes = limits->n_kv_blocks * half_staging_bytes(&loader->source, &a->heads);
  if (has_channels(&loader->source)) {
    YK_TRY(load_channels(loader, &a->heads, YK_ROLE_K, layer, &a->kv.k_channels, err));
    YK_TRY(load_channels(loader, &a->heads, YK_ROLE_V, layer, &a->kv.v_channels, err));
  }
  YK_TRY(yk_rank_alloc(loader, n_bytes, &a->kv.k, err));
  return yk_rank_alloc(loader, n_bytes, &a->kv.v, err);
}

static yk_status load_sinks(const yk_rank_loader *loader, int32_t layer, yk_sublayer *a, yk_err *err)
{
  const yk_model_config *c = loader->source.config;
  yk_vector_view sinks;
  if (!c->attention_sinks || a->heads.n_q_heads == 0) return YK_OK;
  YK_TRY(yk_checkpoint_vector(loader->source.checkpoint, YK_ROLE_SINKS, layer, c->n_heads, &sinks, err));
  sinks.data = (const char *)sinks.data + (size_t)a->heads.q_head_first * yk_dtype_bytes(sinks.dtype);
  sinks.n = a->heads.n_q_heads;
  return yk_rank_load_floats(loader, &sinks, &a->sinks, err);
}

static yk_status load(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  const yk_model_config *c = source->config;
  projections p;
  YK_TRY(specify(source, layer, &p, err));
  yk_sublayer *a = *out = calloc(1, sizeof *a);
  if (!a) return yk_err_set(err, YK_E_NOMEM, "no memory for the attention of a layer");
  a->heads = heads_of(source, layer);
  a->scale = c->attention_scale > 0 ? c->attention_scale : 1.0f / sqrtf((float)a->heads.head_dim);
  if (!c->growth_is_unrotated || c->is_unrotated[layer]) a->growth = c->score_growth;
  a->is_unrotated = c->is_unrotated[layer];
  a->window_tokens = c->window_tokens[layer];
  a->window_is_chunk = c->window_is_chunk && a->window_tokens > 0;
  a->is_invariant = source->limits->batch_invariant;
  a->norms_follow = c->qk_norm_follows;
  a->norms_values = c->value_norms;
  a->attended_offset_bytes = attended_offset_bytes(source, &a->heads);
  a->o_offset_bytes = o_offset_bytes(source, &a->heads);
  const bool has_norms = yk_model_config_norms_heads(c, layer);
  if (has_norms) YK_TRY(yk_rank_load_head_norm(loader, YK_ROLE_Q_NORM, layer, &a->q_norm_w, err));
  if (has_norms && a->heads.kv_columns != YK_KV_COLUMNS_NONE)
    YK_TRY(yk_rank_load_head_norm(loader, YK_ROLE_K_NORM, layer, &a->k_norm_w, err));
  YK_TRY(yk_row_norms_load(loader, layer, &a->row_norms, err));
  YK_TRY(load_sinks(loader, layer, a, err));
  YK_TRY(load_qkv(loader, layer, &p.qkv, &a->qkv, err));
  YK_TRY(load_o(loader, layer, &p.o, &a->o, err));
  return load_cache(loader, layer, a, err);
}

/* The layer's cache with the layer's share of the step's staging pages. */
static yk_kv_layer cache_of(const yk_sublayer *a, const yk_sublayer_step *s)
{
  yk_kv_layer kv = a->kv;
  if (a->staging_bytes == 0) return kv;
  kv.k_staging = s->kv_staging;
  kv.v_staging = (char *)s->kv_staging + a->staging_bytes;
  return kv;
}

/* The layer's table of cosines and sines; NULL: q and k do not rotate. */
static const float *rope_of(const yk_sublayer *a, const yk_sublayer_step *s)
{
  if (a->is_unrotated) return NULL;
  return a->window_tokens > 0 && s->local_rope ? s->local_rope : s->rope;
}

static yk_status rotate_and_cache(const yk_sublayer *a, const yk_sublayer_step *s, void *qkv, yk_err *err)
{
  if (a->heads.n_q_heads == 0) return YK_OK;
  yk_qk_rope_kv_args args = {.qkv = qkv,
                             .heads = a->heads,
                             .q_norm_w = a->q_norm_w,
                             .k_norm_w = a->k_norm_w,
                             .norms_follow = a->norms_follow,
                             .norms_values = a->norms_values,
                             .norm_eps = s->norm_eps,
                             .rope = rope_of(a, s),
                             .kv = cache_of(a, s),
                             .batch = s->batch};
  return s->dev->ops->qk_rope_kv(s->dev, &args, err);
}

static yk_status attend(const yk_sublayer *a, const yk_sublayer_step *s, const void *qkv, void *attended, yk_err *err)
{
  if (a->heads.n_q_heads == 0) return YK_OK;
  yk_attention_args args = {.y = attended,
                            .qkv = qkv,
                            .heads = a->heads,
                            .kv = cache_of(a, s),
                            .scale = a->scale,
                            .growth = a->growth,
                            .window_tokens = a->window_tokens,
                            .window_is_chunk = a->window_is_chunk,
                            .sinks = a->sinks,
                            .is_invariant = a->is_invariant,
                            .batch = s->batch};
  return s->dev->ops->attention(s->dev, &args, err);
}

static yk_status forward(const yk_sublayer *a, yk_sublayer_step *s, yk_err *err)
{
  int32_t n = s->batch->n_tokens;
  void *qkv = s->scratch, *attended = (char *)s->scratch + a->attended_offset_bytes;
  yk_linear_args to_qkv = {.x = s->x.rows,
                           .y = qkv,
                           .n_tokens = n,
                           .y_stride = yk_head_layout_width(&a->heads),
                           .adapters = s->batch->adapters};
  yk_row_parallel_args to_y = {.x = attended, .y = s->y.rows, .scratch = (char *)s->scratch + a->o_offset_bytes};
  YK_TRY(yk_sublayer_normalise_for(s, a->qkv, &to_qkv, err));
  YK_RUN(s->operations, GEMM_QKV, s->layer, "qkv_proj", s->dev->ops->linear_forward(s->dev, a->qkv, &to_qkv, err));
  YK_TRY(yk_row_norms_run(&a->row_norms, s, &a->heads, qkv, to_y.scratch, err));
  YK_RUN(s->operations, OTHER, s->layer, "rotary embedding", rotate_and_cache(a, s, qkv, err));
  YK_RUN(s->operations, ATTENTION, s->layer, "attention", attend(a, s, qkv, attended, err));
  return yk_row_parallel_run(&a->o, s, &to_y, YK_OPERATION_GEMM_O, "o_proj", err);
}

static yk_status copy(const yk_sublayer *a, yk_device *dev, const yk_step_copy *c, yk_err *err)
{
  const int64_t n = half_kv_bytes(&a->heads, a->kv.format, dev->dtype);
  char *k = a->kv.k, *v = a->kv.v;
  if (c->from_block < 0 || n == 0 || a->reads_other) return YK_OK;
  YK_TRY(dev->ops->copy(dev, k + c->to_block * n, k + c->from_block * n, (size_t)n, err));
  return dev->ops->copy(dev, v + c->to_block * n, v + c->from_block * n, (size_t)n, err);
}

/* Whether query head h of the rank reads KV head h / (n_q_heads / n_kv_heads) of the rank. */
static bool has_equal_groups(const yk_head_layout *heads)
{
  if (heads->n_kv_heads < 1 || heads->n_q_heads < 1) return false;
  if (heads->n_kv_heads == 1) return true;
  return heads->n_q_heads == heads->n_kv_heads * heads->q_per_kv &&
         heads->q_head_first == heads->kv_head_first * heads->q_per_kv;
}

static bool describe(const yk_sublayer *a, yk_decode_layer *layer, yk_decode_layers_spec *spec)
{
  const yk_head_layout *heads = &a->heads;
  if (heads->has_gates || heads->kv_columns != YK_KV_COLUMNS_BOTH || a->kv.format != YK_KV_ACT) return false;
  if (a->row_norms.is_used || a->norms_follow || a->norms_values || a->is_unrotated) return false;
  if (a->sinks || a->growth.beta != 0 || a->window_tokens > 0) return false;
  if (a->is_invariant || a->o.in_steps || a->o.in_tree || !has_equal_groups(heads)) return false;
  layer->qkv = a->qkv;
  layer->o = a->o.linear;
  layer->q_norm_w = a->q_norm_w;
  layer->k_norm_w = a->k_norm_w;
  layer->kv = a->kv;
  spec->n_q_heads = heads->n_q_heads;
  spec->n_kv_heads = heads->n_kv_heads;
  spec->head_dim = heads->head_dim;
  spec->attention_scale = a->scale;
  return true;
}

static void destroy(yk_device *dev, yk_sublayer *a)
{
  dev->ops->free(dev, a->q_norm_w);
  dev->ops->free(dev, a->k_norm_w);
  dev->ops->free(dev, a->row_norms.q_w);
  dev->ops->free(dev, a->row_norms.k_w);
  dev->ops->free(dev, a->sinks);
  dev->ops->linear_destroy(dev, a->qkv);
  dev->ops->linear_destroy(dev, a->o.linear);
  if (a->reads_other) a->kv = (yk_kv_layer){0};
  dev->ops->free(dev, (void *)(uintptr_t)a->kv.k_channels);
  dev->ops->free(dev, (void *)(uintptr_t)a->kv.v_channels);
  dev->ops->free(dev, a->kv.k);
  dev->ops->free(dev, a->kv.v);
  free(a);
}

const yk_sublayer_kind yk_attention_grouped = {.name = "grouped-query attention",
                                               .measure = measure,
                                               .load = load,
                                               .forward = forward,
                                               .copy = copy,
                                               .describe = describe,
                                               .destroy = destroy};
