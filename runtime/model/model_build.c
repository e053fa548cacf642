/* model_build.c - build one rank's weights, tables and buffers from the checkpoint. */
#include <stdlib.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_simd.h"
#include "model/decode_layers.h"
#include "model/invariance.h"
#include "model/model.h"
#include "model/model_device.h"
#include "model/model_parts.h"
#include "model/rank_loader.h"
#include "model/rope.h"
#include "model/stages.h"

/* ---- Sizes: one table serves planning and building -------------------------------------------------------------- */

typedef struct buffer_sizes {
  size_t step, residual, normed, partial, attention_scratch, ffn_scratch, layer_inputs, wanted, logits, rope,
      local_rope, timestamps;
} buffer_sizes;

typedef struct sizes {
  buffer_sizes buffers;
  int64_t weights, experts, kv_per_block, kv_staging_per_block, state_per_seq;
  int64_t shared; /* memory of the device's linear layers that all layers share */
  int32_t n_unkept, n_float_inputs;
} sizes;

static int64_t shard_stride_of(const yk_model_config *config, int n_ranks)
{
  return yk_range_size(yk_rank_vocab_of(config, 0, n_ranks)); /* rank 0 has the largest share */
}

/* The widths of attention in layers that rotate by local_rope. */
static yk_attention_widths local_widths(const yk_model_config *c)
{
  return c->local.head_dim > 0 ? c->local : (yk_attention_widths){c->n_kv_heads, c->head_dim, c->rotary_dim};
}

/* Buffers whose sizes do not depend on the kinds of the layers. */
static buffer_sizes common_buffers(const yk_rank_source *source)
{
  const yk_model_config *c = source->config;
  const yk_model_limits *limits = source->limits;
  const yk_rank_share *share = &source->share;
  size_t row_bytes = (size_t)c->hidden_size * yk_dtype_bytes(source->dev.dtype), seqs = (size_t)limits->step.max_seqs;
  size_t rows_bytes = (size_t)limits->step.max_tokens * row_bytes;
  size_t logits =
      share->is_last_stage && !c->lacks_head ? seqs * (size_t)shard_stride_of(c, share->n_ranks) * sizeof(float) : 0;
  size_t n_gathered = share->rank == 0 ? (size_t)share->n_ranks : 1; /* a plain step's logits stay on their rank */
  const yk_step_counts most = yk_step_counts_max(&limits->step);
  return (buffer_sizes){
      .step = yk_step_layout_of(&most).rank_bytes,
      .residual = rows_bytes,
      .normed = rows_bytes,
      .partial = rows_bytes,
      .wanted = share->is_last_stage ? seqs * row_bytes : 0,
      .logits = n_gathered * logits,
      .rope = yk_rope_table_floats(limits->step.max_model_tokens, c->head_dim) * sizeof(float),
      .local_rope = c->has_local_rope
                        ? yk_rope_table_floats(limits->step.max_model_tokens, local_widths(c).head_dim) * sizeof(float)
                        : 0,
      .timestamps =
          (size_t)yk_step_profile_capacity((int32_t)yk_range_size(share->layers), &limits->step) * sizeof(int64_t)};
}

static size_t larger(size_t a, int64_t b)
{
  return (size_t)yk_max_i64((int64_t)a, b);
}

static int64_t hidden_bytes(const yk_rank_source *source)
{
  return source->config->hidden_size * (int64_t)yk_dtype_bytes(source->dev.dtype);
}

static int64_t embedding_bytes(const yk_rank_source *source)
{
  return yk_range_size(source->share.vocab) * hidden_bytes(source);
}

/* A tied lm_head reads the embedding, unless lm_head has a copy in 8 bits. Embeddings of layers read the tokens'
 * embeddings in every stage. */
static bool needs_embedding(const yk_rank_source *source)
{
  const bool shares = source->config->tie_word_embeddings && !source->limits->lm_head_as_int8;
  return source->share.is_first_stage || (source->share.is_last_stage && shares) ||
         source->config->layer_input_size > 0;
}

/* Final norm and lm_head, if the model has one. */
static yk_status measure_head(const yk_rank_source *source, sizes *out, yk_err *err)
{
  yk_linear_spec head;
  out->weights += hidden_bytes(source);
  if (source->config->lacks_head) return YK_OK;
  YK_TRY(yk_lm_head_spec_make(source, &head, err));
  YK_TRY(yk_invariance_head(source, &head, err));
  out->weights += yk_repack_bytes(&source->dev, &head);
  out->n_unkept += yk_repack_n_unkept(&source->dev, &head);
  out->n_float_inputs += yk_repack_n_float_inputs(&source->dev, &head);
  return YK_OK;
}

static yk_status measure(const yk_rank_source *source, sizes *out, yk_err *err)
{
  *out = (sizes){.buffers = common_buffers(source), .weights = needs_embedding(source) ? embedding_bytes(source) : 0};
  if (source->share.is_last_stage) YK_TRY(measure_head(source, out, err));
  yk_sublayer_bytes inputs;
  YK_TRY(yk_layer_inputs_measure(source, &inputs, err));
  out->weights += inputs.weights;
  out->n_unkept += inputs.n_unkept;
  out->n_float_inputs += inputs.n_float_inputs;
  out->buffers.layer_inputs = (size_t)inputs.scratch;
  for (int32_t i = (int32_t)source->share.layers.begin; i < source->share.layers.end; i++) {
    yk_layer_bytes layer;
    YK_TRY(yk_layer_measure(source, i, &layer, err));
    out->weights += layer.norms + layer.attention.weights + layer.ffn.weights;
    out->experts += layer.ffn.experts;
    out->n_unkept += layer.attention.n_unkept + layer.ffn.n_unkept;
    out->n_float_inputs += layer.attention.n_float_inputs + layer.ffn.n_float_inputs;
    out->kv_per_block += layer.attention.kv_per_block + layer.ffn.kv_per_block;
    out->state_per_seq += layer.attention.state_per_seq + layer.ffn.state_per_seq;
    out->shared = yk_max_i64(out->shared, yk_max_i64(layer.attention.shared, layer.ffn.shared));
    out->kv_staging_per_block = yk_max_i64(out->kv_staging_per_block, layer.attention.kv_staging_per_block);
    out->buffers.attention_scratch = larger(out->buffers.attention_scratch, layer.attention.scratch);
    out->buffers.ffn_scratch = larger(out->buffers.ffn_scratch, layer.ffn.scratch);
  }
  return YK_OK;
}

/* The source of a rank of a single stage. */
static yk_rank_source source_of(const yk_checkpoint *checkpoint, const yk_model_limits *limits,
                                const yk_model_device *dev, int rank, int n_ranks)
{
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  return (yk_rank_source){.checkpoint = checkpoint,
                          .config = config,
                          .limits = limits,
                          .share = yk_rank_share_of(config, rank, n_ranks, limits->expert_parallel),
                          .dev = *dev};
}

/* The largest index that the first layer of the last stage may have: a layer that reads another layer's KV cache must
 * be in the same stage as that layer. */
static int32_t last_border(const yk_model_config *config)
{
  int32_t first = config->n_layers - 1;
  for (int32_t i = config->n_layers - config->n_kv_shared_layers; i < config->n_layers; i++)
    first = (int32_t)yk_min_i64(first, yk_model_config_kv_layer(config, i));
  return first;
}

/* The stages are divided by the weights of a group's first rank, so that every rank finds the same division. The
 * layers from last_border on must be in one stage, and are divided as if they were one layer. An embedding that every
 * stage has does not count. */
static yk_status divide_layers(const yk_rank_source *first_rank, int n_stages, int64_t *layers, int32_t *first,
                               yk_err *err)
{
  const yk_model_config *c = first_rank->config;
  const int64_t embedding = c->layer_input_size > 0 ? 0 : embedding_bytes(first_rank);
  sizes head = {.weights = 0};
  yk_sublayer_bytes inputs;
  yk_stage_weights weights = {.layers = layers,
                              .n_layers = last_border(c) + 1,
                              .before = embedding,
                              .after = c->tie_word_embeddings ? embedding : 0};
  YK_TRY(measure_head(first_rank, &head, err));
  YK_TRY(yk_layer_inputs_measure(first_rank, &inputs, err));
  weights.after += head.weights;
  for (int32_t i = 0; i < c->n_layers; i++) {
    yk_layer_bytes layer;
    YK_TRY(yk_layer_measure(first_rank, i, &layer, err));
    layers[yk_min_i64(i, weights.n_layers - 1)] +=
        layer.norms + layer.attention.weights + layer.ffn.weights + inputs.weights / c->n_layers;
  }
  YK_TRY(yk_stages_divide(&weights, n_stages, first, err));
  first[n_stages] = c->n_layers;
  return YK_OK;
}

static yk_status make_source(const yk_checkpoint *checkpoint, const yk_model_limits *limits, const yk_model_device *dev,
                             const yk_rank_place *place, yk_rank_source *out, yk_err *err)
{
  int32_t first[YK_MAX_RANKS + 1];
  *out = source_of(checkpoint, limits, dev, place->rank, place->n_ranks);
  YK_TRY(yk_model_check_device(out->config, dev->abilities, err));
  YK_TRY(yk_invariance_check(out->config, limits, place->n_ranks, err));
  if (place->n_stages == 1) return YK_OK;
  const yk_rank_source first_rank = source_of(checkpoint, limits, dev, 0, place->n_ranks);
  int64_t *layers = calloc((size_t)out->config->n_layers, sizeof *layers);
  if (!layers) return yk_err_set(err, YK_E_NOMEM, "no memory to divide %d layers", out->config->n_layers);
  yk_status status = divide_layers(&first_rank, place->n_stages, layers, first, err);
  free(layers);
  if (status != YK_OK) return status;
  out->share.layers = (yk_range){first[place->stage], first[place->stage + 1]};
  out->share.is_first_stage = place->stage == 0;
  out->share.is_last_stage = place->stage == place->n_stages - 1;
  return YK_OK;
}

yk_status yk_model_measure(const yk_checkpoint *checkpoint, const yk_model_limits *limits, const yk_model_device *dev,
                           const yk_rank_place *place, yk_model_memory *out, yk_err *err)
{
  yk_rank_source source;
  sizes s;
  YK_TRY(make_source(checkpoint, limits, dev, place, &source, err));
  YK_TRY(measure(&source, &s, err));
  const buffer_sizes *b = &s.buffers;
  *out = (yk_model_memory){.weight_bytes = s.weights,
                           .expert_bytes = s.experts,
                           .n_experts = (int32_t)yk_range_size(source.share.experts),
                           .n_unkept = s.n_unkept,
                           .n_float_inputs = s.n_float_inputs,
                           .workspace_bytes = (int64_t)(b->step + b->residual + b->normed + b->partial +
                                                        b->attention_scratch + b->ffn_scratch + b->wanted + b->logits +
                                                        b->rope + b->local_rope + b->layer_inputs + b->timestamps) +
                                              s.shared,
                           .kv_bytes_per_block = s.kv_per_block + s.kv_staging_per_block,
                           .state_bytes_per_seq = s.state_per_seq};
  return YK_OK;
}

/* ---- Building ---------------------------------------------------------------------------------------------------- */

static yk_status build_rope(const yk_rank_loader *loader, const yk_rope_config *rope, yk_attention_widths widths,
                            float **out, yk_err *err)
{
  const int32_t n_positions = loader->source.limits->step.max_model_tokens;
  const size_t n_bytes = yk_rope_table_floats(n_positions, widths.head_dim) * sizeof(float);
  float *table = malloc(n_bytes);
  if (!table) return yk_err_set(err, YK_E_NOMEM, "no memory for the rotary table of %zu bytes", n_bytes);
  yk_rope_table_fill(rope, widths.head_dim, widths.rotary_dim, n_positions, table);
  void *device_table = NULL;
  yk_status status = yk_rank_alloc(loader, n_bytes, &device_table, err);
  *out = device_table;
  if (status == YK_OK) status = loader->dev->ops->upload(loader->dev, device_table, table, n_bytes, err);
  free(table);
  return status;
}

static yk_status build_activations(yk_model *m, const yk_rank_loader *loader, yk_err *err)
{
  sizes s;
  yk_activations *a = &m->act;
  void *logits = NULL, *bests = NULL, *timestamps = NULL;
  YK_TRY(measure(&loader->source, &s, err));
  const yk_model_config *c = loader->source.config;
  const yk_attention_widths widths = {c->n_kv_heads, c->head_dim, c->rotary_dim};
  YK_TRY(build_rope(loader, &c->rope, widths, &m->rope, err));
  if (c->has_local_rope) YK_TRY(build_rope(loader, &c->local_rope, local_widths(c), &m->local_rope, err));
  YK_TRY(yk_rank_alloc(loader, s.buffers.residual, &a->residual, err));
  YK_TRY(yk_rank_alloc(loader, s.buffers.normed, &a->normed, err));
  YK_TRY(yk_rank_alloc(loader, s.buffers.attention_scratch, &a->attention_scratch, err));
  YK_TRY(yk_rank_alloc(loader, s.buffers.partial, &a->partial, err));
  YK_TRY(yk_rank_alloc(loader, s.buffers.ffn_scratch, &a->ffn_scratch, err));
  YK_TRY(yk_rank_alloc(loader, (size_t)(s.kv_staging_per_block * loader->source.limits->n_kv_blocks), &a->kv_staging,
                       err));
  YK_TRY(yk_rank_alloc(loader, s.buffers.wanted, &a->wanted, err));
  YK_TRY(yk_rank_alloc(loader, s.buffers.step, &a->step, err));
  YK_TRY(yk_rank_alloc(loader, s.buffers.logits, &logits, err));
  a->logits = logits;
  size_t max_tokens = (size_t)loader->source.limits->step.max_tokens;
  if (m->is_last_stage) YK_TRY(m->dev->ops->host_alloc(m->dev, max_tokens * sizeof *a->bests, &bests, err));
  a->bests = bests;
  if (m->is_last_stage && m->comm->rank == 0) {
    a->all_bests = calloc((size_t)m->comm->n_ranks * max_tokens, sizeof *a->all_bests);
    if (!a->all_bests) return yk_err_set(err, YK_E_NOMEM, "no memory for the best logits of %zu rows", max_tokens);
  }
  if (loader->source.config->pooling.takes_last_token && m->is_last_stage && m->comm->rank == 0)
    YK_TRY(m->dev->ops->host_alloc(m->dev, s.buffers.wanted, &a->hidden, err));
  YK_TRY(yk_rank_alloc(loader, s.buffers.timestamps, &timestamps, err));
  return yk_step_profile_create(&m->profile, m->dev, (int32_t)(s.buffers.timestamps / sizeof *m->profile.table),
                                timestamps, err);
}

static float rounded(yk_dtype dtype, float number)
{
  uint32_t stored = 0;
  yk_cpu_simd_best()->from_f32(&stored, dtype, &number, 1);
  return yk_dtype_load(dtype, &stored, 0);
}

static void set_numbers(yk_model *m, const yk_rank_source *source)
{
  const yk_model_config *c = source->config;
  m->family = c->family;
  m->hidden = c->hidden_size;
  m->batch_invariant = source->limits->batch_invariant;
  m->is_first_stage = source->share.is_first_stage;
  m->is_last_stage = source->share.is_last_stage;
  m->first_layer = (int32_t)source->share.layers.begin;
  m->n_layers = (int32_t)yk_range_size(source->share.layers);
  for (int32_t i = 0; i < m->first_layer; i++) m->n_mixtures_before += c->experts.layers[i];
  m->n_experts = c->experts.n_experts;
  m->max_wanted = source->limits->step.max_seqs;
  m->eps = c->rms_norm_eps;
  m->embed_scale = c->embed_scale;
  if (c->rounds_embed_scale) m->embed_scale = rounded(m->dev->dtype, c->embed_scale);
  m->residual_scale = c->residual_scale;
  m->logit_cap = c->logit_cap;
  m->shard_stride = (int32_t)shard_stride_of(c, source->share.n_ranks);
  for (int rank = 0; rank < source->share.n_ranks; rank++)
    m->shard_first[rank] = (int32_t)yk_rank_vocab_of(c, rank, source->share.n_ranks).begin;
  m->shard_first[source->share.n_ranks] = c->vocab_size;
}

static yk_status load_head(yk_model *m, const yk_rank_loader *loader, yk_err *err)
{
  const yk_model_config *c = loader->source.config;
  yk_linear_spec head;
  /* The scale before lm_head is folded into the weights of the final norm, so no step applies the scale. */
  YK_TRY(yk_rank_load_vector(loader, YK_ROLE_FINAL_NORM, 0, c->hidden_size, c->logit_scale, &m->final_norm.w, err));
  m->logit_scale = c->logit_scale;
  if (c->lacks_head) return YK_OK;
  YK_TRY(yk_lm_head_spec_make(&loader->source, &head, err));
  YK_TRY(yk_invariance_head(&loader->source, &head, err));
  head.parts[0].resident = m->embedding;
  return yk_rank_load_linear(loader, &head, &m->lm_head, err);
}

static yk_status build(yk_model *m, yk_rank_loader *loader, yk_err *err)
{
  const yk_model_limits *limits = loader->source.limits;
  set_numbers(m, &loader->source);
  m->layers = calloc((size_t)m->n_layers, sizeof *m->layers);
  if (!m->layers) return yk_err_set(err, YK_E_NOMEM, "no memory for %d layers", m->n_layers);
  loader->layers = m->layers;
  if (needs_embedding(&loader->source)) YK_TRY(yk_rank_load_embedding(loader, &m->embedding, err));
  if (m->is_last_stage) YK_TRY(load_head(m, loader, err));
  for (int32_t i = 0; i < m->n_layers; i++) YK_TRY(yk_layer_load(loader, m->first_layer + i, &m->layers[i], err));
  YK_TRY(yk_layer_inputs_load(loader, &m->layer_inputs, err));
  YK_TRY(build_activations(m, loader, err));
  YK_TRY(yk_decode_layers_load(m, limits->n_adapters, err));
  if (m->dev->ops->graph_begin)
    YK_TRY(yk_decode_graphs_create((int32_t)yk_min_i64(limits->step.max_seqs, limits->step.max_tokens),
                                   limits->step.max_model_tokens, limits->n_adapters > 0, &m->graphs, err));
  return m->dev->ops->sync(m->dev, err);
}

yk_status yk_model_create(const yk_checkpoint *checkpoint, const yk_model_limits *limits, yk_device *dev, yk_comm *comm,
                          void (*on_bytes)(void *user, int64_t n_bytes), void *user, yk_model **out, yk_err *err)
{
  yk_model *m = calloc(1, sizeof *m);
  if (!m) return yk_err_set(err, YK_E_NOMEM, "no memory for a model");
  yk_model_device sizes_on = {.dtype = dev->dtype,
                              .abilities = dev->ops->abilities,
                              .linear_bytes = dev->ops->linear_bytes,
                              .linear_keeps = dev->ops->linear_keeps,
                              .linear_divides = dev->ops->linear_divides,
                              .linear_shared_bytes = dev->ops->linear_shared_bytes,
                              .mixture_scratch_bytes = dev->ops->mixture_scratch_bytes,
                              .latent_scratch_bytes = dev->ops->latent_scratch_bytes,
                              .needs_kv_staging = dev->ops->needs_kv_staging};
  yk_rank_buffer repacked = {0};
  yk_rank_loader loader = {
      .dev = dev, .on_bytes = on_bytes, .user = user, .adapted = &m->adapted, .repacked = &repacked};
  const yk_rank_place place = {comm->rank, comm->n_ranks, comm->stage, comm->n_stages};
  m->dev = dev;
  m->comm = comm;
  m->operations.rank = yk_comm_world_rank(comm);
  m->operations.stage = comm->n_stages > 1 ? comm->stage : -1;
  m->operations.dev = dev;
  yk_status status = make_source(checkpoint, limits, &sizes_on, &place, &loader.source, err);
  if (status == YK_OK) status = yk_invariance_check_comm(&loader.source, comm, err);
  if (status == YK_OK) status = build(m, &loader, err);
  free(repacked.memory);
  if (status != YK_OK) {
    yk_model_destroy(m);
    return status;
  }
  *out = m;
  return YK_OK;
}

void yk_model_destroy(yk_model *model)
{
  if (!model) return;
  yk_device *dev = model->dev;
  yk_activations *a = &model->act;
  yk_decode_graphs_destroy(model->graphs, dev);
  yk_decode_layers_unload(model);
  for (int32_t i = 0; model->layers && i < model->n_layers; i++) yk_layer_destroy(dev, &model->layers[i]);
  free(model->layers);
  yk_layer_inputs_destroy(dev, &model->layer_inputs);
  yk_adapted_free(&model->adapted);
  if (model->lm_head) dev->ops->linear_destroy(dev, model->lm_head);
  void *const buffers[] = {model->embedding,     model->final_norm.w, model->rope,          a->step,
                           a->residual,          a->normed,           a->attention_scratch, a->partial,
                           a->ffn_scratch,       a->wanted,           a->kv_staging,        a->logits,
                           model->profile.table, model->local_rope};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) dev->ops->free(dev, buffers[i]);
  dev->ops->host_free(dev, a->bests);
  dev->ops->host_free(dev, a->hidden);
  free(a->all_bests);
  yk_step_profile_destroy(&model->profile);
  free(model);
}

static yk_status connect_logits(yk_model *m, yk_err *err)
{
  void *opened[YK_MAX_RANKS] = {0}, *own = m->comm->rank == 0 ? m->act.logits : NULL;
  if (m->comm->n_ranks == 1 || !m->is_last_stage) return YK_OK;
  YK_RUN(&m->operations, UNTIMED, YK_OUTSIDE_LAYERS, "connection of logits",
         m->comm->ops->open_memories(m->comm, own, opened, err));
  m->rank_0_logits = opened[0];
  return YK_OK;
}

yk_status yk_model_connect(yk_model *m, yk_err *err)
{
  YK_TRY(connect_logits(m, err));
  return yk_decode_layers_connect(m, err);
}
