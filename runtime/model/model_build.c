/* model_build.c - from the checkpoint to one rank's weights, tables and buffers. */
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "model/model_parts.h"
#include "model/rank_specs.h"
#include "model/rope.h"

/* ---- Sizes: one table serves planning and building -------------------------------------------------------------- */

typedef struct buffer_sizes {
  size_t words, residual, normed, qkv, attended, partial, ffn, wanted, logits, rope;
} buffer_sizes;

static int64_t shard_stride_of(const yk_model_config *config, int n_ranks)
{
  return yk_range_size(yk_rank_share_of(config, 0, n_ranks).vocab); /* rank 0's share is never the smaller one */
}

static buffer_sizes sizes_of(const yk_model_config *config, const yk_rank_share *share, const yk_model_limits *limits,
                             yk_dtype dtype)
{
  size_t act = yk_dtype_bytes(dtype), rows = (size_t)limits->max_tokens, seqs = (size_t)limits->max_seqs;
  size_t head_dim = (size_t)config->head_dim, hidden = (size_t)config->hidden_size;
  size_t q_width = (size_t)yk_range_size(share->heads.q) * head_dim;
  size_t kv_width = (size_t)yk_range_size(share->heads.kv) * head_dim;
  size_t logits = seqs * (size_t)shard_stride_of(config, share->n_ranks) * sizeof(float);
  size_t n_gathered = share->rank == 0 ? (size_t)share->n_ranks : 1;
  int32_t blocks_per_seq = (int32_t)yk_ceil_div_i64(limits->max_model_tokens, YK_KV_BLOCK_TOKENS);
  return (buffer_sizes){.words =
                            yk_step_words_max(limits->max_tokens, limits->max_seqs, blocks_per_seq) * sizeof(int32_t),
                        .residual = rows * hidden * act,
                        .normed = rows * hidden * act,
                        .qkv = rows * (q_width + 2 * kv_width) * act,
                        .attended = rows * q_width * act,
                        .partial = rows * hidden * act,
                        .ffn = rows * (size_t)yk_range_size(share->ffn) * act,
                        .wanted = seqs * hidden * act,
                        .logits = n_gathered * logits,
                        .rope = yk_rope_table_floats(limits->max_model_tokens, config->head_dim) * sizeof(float)};
}

static int64_t workspace_bytes(const buffer_sizes *s)
{
  return (int64_t)(s->words + s->residual + s->normed + s->qkv + s->attended + s->partial + s->ffn + s->wanted +
                   s->logits + s->rope);
}

static int64_t kv_block_bytes(const yk_model_config *config, const yk_rank_share *share, yk_dtype dtype)
{
  return yk_range_size(share->heads.kv) * YK_KV_BLOCK_TOKENS * config->head_dim * (int64_t)yk_dtype_bytes(dtype);
}

yk_status yk_model_measure(const yk_checkpoint *checkpoint, const yk_model_limits *limits, const yk_model_device *dev,
                           int rank, int n_ranks, yk_model_memory *out, yk_err *err)
{
  const yk_model_config *c = yk_checkpoint_config(checkpoint);
  yk_rank_share share = yk_rank_share_of(c, rank, n_ranks);
  buffer_sizes sizes = sizes_of(c, &share, limits, dev->dtype);
  int64_t act = (int64_t)yk_dtype_bytes(dev->dtype);
  int64_t norms =
      (2 * (int64_t)c->n_layers + 1) * c->hidden_size + (c->qk_norm ? 2 * (int64_t)c->n_layers * c->head_dim : 0);
  int64_t weights = (norms + yk_range_size(share.vocab) * c->hidden_size) * act;
  yk_linear_spec head;
  YK_TRY(yk_lm_head_spec_make(checkpoint, &share, limits, &head, err));
  weights += dev->linear_bytes(&head);
  for (int32_t i = 0; i < c->n_layers; i++) {
    yk_layer_specs layer;
    YK_TRY(yk_layer_specs_make(checkpoint, &share, limits, i, &layer, err));
    weights += dev->linear_bytes(&layer.qkv) + dev->linear_bytes(&layer.o) + dev->linear_bytes(&layer.gate_up) +
               dev->linear_bytes(&layer.down);
  }
  *out = (yk_model_memory){.weight_bytes = weights,
                           .workspace_bytes = workspace_bytes(&sizes),
                           .kv_bytes_per_block = 2 * (int64_t)c->n_layers * kv_block_bytes(c, &share, dev->dtype)};
  return YK_OK;
}

/* ---- Building ---------------------------------------------------------------------------------------------------- */

typedef struct builder {
  yk_model *m;
  const yk_checkpoint *checkpoint;
  const yk_model_config *config;
  const yk_model_limits *limits;
  yk_rank_share share;
  void (*on_bytes)(void *user, int64_t n_bytes);
  void *user;
} builder;

static void report(const builder *b, int64_t n_bytes)
{
  if (b->on_bytes) b->on_bytes(b->user, n_bytes);
}

static yk_status alloc(const builder *b, size_t n_bytes, void **out, yk_err *err)
{
  if (n_bytes == 0) return YK_OK;
  return b->m->dev->ops->alloc(b->m->dev, n_bytes, out, err);
}

/* Copy n elements to the device, converted to its activation type and multiplied by scale, through a small buffer. */
static yk_status upload_converted(const builder *b, void *dst, yk_dtype dtype, const void *src, int64_t n, float scale,
                                  yk_err *err)
{
  enum { CHUNK = 1 << 16 };
  yk_device *dev = b->m->dev;
  if (dtype == dev->dtype && scale == 1) return dev->ops->upload(dev, dst, src, (size_t)n * yk_dtype_bytes(dtype), err);
  char *chunk = malloc(CHUNK * sizeof(float));
  if (!chunk) return yk_err_set(err, YK_E_NOMEM, "no memory for a conversion buffer");
  yk_status status = YK_OK;
  size_t from_bytes = yk_dtype_bytes(dtype), to_bytes = yk_dtype_bytes(dev->dtype);
  for (int64_t done = 0; done < n && status == YK_OK; done += CHUNK) {
    size_t count = (size_t)yk_min_i64(CHUNK, n - done);
    const char *from = (const char *)src + (size_t)done * from_bytes;
    for (size_t i = 0; i < count; i++) {
      char element[sizeof(float)] = {0}; /* the source may be unaligned */
      memcpy(element, from + i * from_bytes, from_bytes);
      float value;
      if (dtype == YK_F32)
        memcpy(&value, element, sizeof value);
      else {
        uint16_t half;
        memcpy(&half, element, sizeof half);
        value = dtype == YK_F16 ? yk_f16_to_f32(half) : yk_bf16_to_f32(half);
      }
      yk_dtype_store(dev->dtype, chunk, i, value * scale);
    }
    status = dev->ops->upload(dev, (char *)dst + (size_t)done * to_bytes, chunk, count * to_bytes, err);
  }
  free(chunk);
  return status;
}

static yk_status load_vector(const builder *b, yk_weight_role role, int32_t layer, int64_t n, float scale, void **out,
                             yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  yk_vector_view view;
  size_t n_bytes = (size_t)n * yk_dtype_bytes(b->m->dev->dtype);
  yk_weight_name(b->config->family, role, layer, name);
  YK_TRY(yk_checkpoint_vector(b->checkpoint, name, n, &view, err));
  YK_TRY(alloc(b, n_bytes, out, err));
  YK_TRY(upload_converted(b, *out, view.dtype, view.data, n, scale, err));
  report(b, (int64_t)n_bytes);
  return YK_OK;
}

static yk_status load_embedding(const builder *b, yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_view view;
  int64_t hidden = b->config->hidden_size, n = yk_range_size(b->share.vocab) * hidden;
  size_t n_bytes = (size_t)n * yk_dtype_bytes(b->m->dev->dtype);
  if (n == 0) return YK_OK;
  yk_weight_name(b->config->family, YK_ROLE_EMBEDDING, 0, name);
  YK_TRY(yk_checkpoint_matrix(b->checkpoint, name, b->config->vocab_size, hidden, &view, err));
  const char *first = (const char *)view.plain + (size_t)(b->share.vocab.begin * hidden) * yk_dtype_bytes(view.dtype);
  YK_TRY(alloc(b, n_bytes, &b->m->embedding, err));
  YK_TRY(upload_converted(b, b->m->embedding, view.dtype, first, n, 1, err));
  report(b, (int64_t)n_bytes);
  return YK_OK;
}

static yk_status load_linear(const builder *b, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  for (int i = 0; i < spec->n_parts; i++) yk_checkpoint_prefetch(&spec->parts[i].weight);
  YK_TRY(b->m->dev->ops->linear_create(b->m->dev, spec, out, err));
  report(b, b->m->dev->ops->linear_bytes(spec));
  return YK_OK;
}

static yk_status load_layer(const builder *b, int32_t i, yk_err *err)
{
  yk_layer *layer = &b->m->layers[i];
  const yk_model_config *c = b->config;
  yk_layer_specs specs;
  YK_TRY(yk_layer_specs_make(b->checkpoint, &b->share, b->limits, i, &specs, err));
  YK_TRY(load_vector(b, YK_ROLE_ATTENTION_NORM, i, c->hidden_size, 1, &layer->input_norm_w, err));
  YK_TRY(load_vector(b, YK_ROLE_FFN_NORM, i, c->hidden_size, 1, &layer->post_norm_w, err));
  if (c->qk_norm) {
    YK_TRY(load_vector(b, YK_ROLE_Q_NORM, i, c->head_dim, 1, &layer->q_norm_w, err));
    YK_TRY(load_vector(b, YK_ROLE_K_NORM, i, c->head_dim, 1, &layer->k_norm_w, err));
  }
  YK_TRY(load_linear(b, &specs.qkv, &layer->qkv, err));
  YK_TRY(load_linear(b, &specs.o, &layer->o, err));
  YK_TRY(load_linear(b, &specs.gate_up, &layer->gate_up, err));
  YK_TRY(load_linear(b, &specs.down, &layer->down, err));
  layer->window_tokens = c->window_tokens[i];
  size_t kv_bytes = (size_t)kv_block_bytes(c, &b->share, b->m->dev->dtype) * (size_t)b->limits->n_kv_blocks;
  YK_TRY(alloc(b, kv_bytes, &layer->kv.k, err));
  return alloc(b, kv_bytes, &layer->kv.v, err);
}

static yk_status build_rope(const builder *b, size_t n_bytes, yk_err *err)
{
  float *table = malloc(n_bytes);
  if (!table) return yk_err_set(err, YK_E_NOMEM, "no memory for the rotary table of %zu bytes", n_bytes);
  yk_rope_table_fill(&b->config->rope, b->config->head_dim, b->limits->max_model_tokens, table);
  void *device_table = NULL;
  yk_status status = alloc(b, n_bytes, &device_table, err);
  b->m->rope = device_table;
  if (status == YK_OK) status = b->m->dev->ops->upload(b->m->dev, device_table, table, n_bytes, err);
  free(table);
  return status;
}

static yk_status build_activations(const builder *b, yk_err *err)
{
  buffer_sizes s = sizes_of(b->config, &b->share, b->limits, b->m->dev->dtype);
  yk_activations *a = &b->m->act;
  void *words = NULL, *logits = NULL;
  YK_TRY(build_rope(b, s.rope, err));
  YK_TRY(alloc(b, s.residual, &a->residual, err));
  YK_TRY(alloc(b, s.normed, &a->normed, err));
  YK_TRY(alloc(b, s.qkv, &a->qkv, err));
  YK_TRY(alloc(b, s.attended, &a->attended, err));
  YK_TRY(alloc(b, s.partial, &a->partial, err));
  YK_TRY(alloc(b, s.ffn, &a->ffn, err));
  YK_TRY(alloc(b, s.wanted, &a->wanted, err));
  YK_TRY(alloc(b, s.words, &words, err));
  a->words = words;
  YK_TRY(alloc(b, s.logits, &logits, err));
  a->logits = logits;
  return YK_OK;
}

static void set_numbers(const builder *b)
{
  yk_model *m = b->m;
  const yk_model_config *c = b->config;
  m->hidden = c->hidden_size;
  m->n_layers = c->n_layers;
  m->max_wanted = b->limits->max_seqs;
  m->ffn_local = (int32_t)yk_range_size(b->share.ffn);
  m->heads = (yk_head_layout){.n_q_heads = (int32_t)yk_range_size(b->share.heads.q),
                              .n_kv_heads = (int32_t)yk_range_size(b->share.heads.kv),
                              .head_dim = c->head_dim,
                              .q_per_kv = c->n_heads / c->n_kv_heads,
                              .q_head_first = (int32_t)b->share.heads.q.begin,
                              .kv_head_first = (int32_t)b->share.heads.kv.begin};
  m->eps = c->rms_norm_eps;
  m->embed_scale = c->embed_scale;
  m->residual_scale = c->residual_scale;
  m->attention_scale = 1.0f / sqrtf((float)c->head_dim);
  m->shard_stride = (int32_t)shard_stride_of(c, b->share.n_ranks);
  for (int rank = 0; rank < b->share.n_ranks; rank++)
    m->shard_first[rank] = (int32_t)yk_rank_share_of(c, rank, b->share.n_ranks).vocab.begin;
  m->shard_first[b->share.n_ranks] = c->vocab_size;
}

static yk_status build(const builder *b, yk_err *err)
{
  const yk_model_config *c = b->config;
  yk_linear_spec head;
  set_numbers(b);
  b->m->layers = calloc((size_t)c->n_layers, sizeof *b->m->layers);
  if (!b->m->layers) return yk_err_set(err, YK_E_NOMEM, "no memory for %d layers", c->n_layers);
  YK_TRY(load_embedding(b, err));
  /* The scale before lm_head is folded into the norm that feeds it: nothing is left to do per step. */
  YK_TRY(load_vector(b, YK_ROLE_FINAL_NORM, 0, c->hidden_size, c->logit_scale, &b->m->final_norm_w, err));
  YK_TRY(yk_lm_head_spec_make(b->checkpoint, &b->share, b->limits, &head, err));
  head.parts[0].resident = b->m->embedding;
  YK_TRY(load_linear(b, &head, &b->m->lm_head, err));
  for (int32_t i = 0; i < c->n_layers; i++) YK_TRY(load_layer(b, i, err));
  YK_TRY(build_activations(b, err));
  if (b->m->dev->ops->graph_begin)
    YK_TRY(yk_decode_graphs_create((int32_t)yk_min_i64(b->limits->max_seqs, b->limits->max_tokens),
                                   (int32_t)yk_ceil_div_i64(b->limits->max_model_tokens, YK_KV_BLOCK_TOKENS),
                                   &b->m->graphs, err));
  return b->m->dev->ops->sync(b->m->dev, err);
}

yk_status yk_model_create(const yk_checkpoint *checkpoint, const yk_model_limits *limits, yk_device *dev, yk_comm *comm,
                          void (*on_bytes)(void *user, int64_t n_bytes), void *user, yk_model **out, yk_err *err)
{
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  yk_model *m = calloc(1, sizeof *m);
  if (!m) return yk_err_set(err, YK_E_NOMEM, "no memory for a model");
  m->dev = dev;
  m->comm = comm;
  builder b = {m, checkpoint, config, limits, yk_rank_share_of(config, comm->rank, comm->n_ranks), on_bytes, user};
  yk_status status = build(&b, err);
  if (status != YK_OK) {
    yk_model_destroy(m);
    return status;
  }
  *out = m;
  return YK_OK;
}

static void destroy_layer(yk_device *dev, yk_layer *layer)
{
  dev->ops->free(dev, layer->input_norm_w);
  dev->ops->free(dev, layer->post_norm_w);
  dev->ops->free(dev, layer->q_norm_w);
  dev->ops->free(dev, layer->k_norm_w);
  dev->ops->linear_destroy(dev, layer->qkv);
  dev->ops->linear_destroy(dev, layer->o);
  dev->ops->linear_destroy(dev, layer->gate_up);
  dev->ops->linear_destroy(dev, layer->down);
  dev->ops->free(dev, layer->kv.k);
  dev->ops->free(dev, layer->kv.v);
}

void yk_model_destroy(yk_model *model)
{
  if (!model) return;
  yk_device *dev = model->dev;
  yk_activations *a = &model->act;
  yk_decode_graphs_destroy(model->graphs, dev);
  for (int32_t i = 0; model->layers && i < model->n_layers; i++) destroy_layer(dev, &model->layers[i]);
  free(model->layers);
  dev->ops->linear_destroy(dev, model->lm_head);
  void *const buffers[] = {model->embedding, model->final_norm_w, model->rope, a->words, a->residual, a->normed,
                           a->qkv,           a->attended,         a->partial,  a->ffn,   a->wanted,   a->logits};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) dev->ops->free(dev, buffers[i]);
  free(model);
}
