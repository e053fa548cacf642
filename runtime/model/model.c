#include <stdio.h>

#include "model/model_parts.h"

static yk_status begin(yk_model *model, int32_t layer, const char *operation, yk_err *err)
{
  atomic_store_explicit(&model->layer, layer, memory_order_relaxed);
  atomic_store_explicit(&model->operation, operation, memory_order_relaxed);
  atomic_fetch_add_explicit(&model->n_begun, 1, memory_order_relaxed);
  if (!atomic_load_explicit(&model->is_stopped, memory_order_relaxed)) return YK_OK;
  return yk_err_set(err, YK_E_COMM, "rank %d was stopped because the step had failed", model->comm->rank);
}

/* Name the operation that failed; layer -1 stands outside the layers. */
static yk_status named(const yk_model *model, int32_t layer, const char *operation, yk_status status, yk_err *err)
{
  if (status == YK_OK) return YK_OK;
  if (layer < 0)
    yk_err_prefix(err, "rank %d, %s", model->comm->rank, operation);
  else
    yk_err_prefix(err, "rank %d, layer %d, %s", model->comm->rank, layer, operation);
  return status;
}

#define RUN(layer, operation, call)                                                                                    \
  do {                                                                                                                 \
    YK_TRY(begin(m, layer, operation, err));                                                                           \
    YK_TRY(named(m, layer, operation, call, err));                                                                     \
  } while (0)

static yk_status linear(yk_model *m, const yk_linear *weights, const void *x, void *y, int64_t y_stride,
                        int32_t n_tokens, yk_err *err)
{
  yk_linear_args args = {.x = x, .y = y, .n_tokens = n_tokens, .y_stride = y_stride};
  return m->dev->ops->linear_forward(m->dev, weights, &args, err);
}

/* residual += scale * sum over ranks of partial, then the norm that the next product reads. */
static yk_status sum_add_norm(yk_model *m, float scale, const void *norm_w, int32_t n_tokens, yk_err *err)
{
  yk_sum_add_norm_args args = {.partial = m->act.partial,
                               .residual = m->act.residual,
                               .y = m->act.normed,
                               .w = norm_w,
                               .n_rows = n_tokens,
                               .hidden = m->hidden,
                               .alpha = scale,
                               .eps = m->eps};
  return m->comm->ops->sum_add_norm(m->comm, &args, err);
}

static yk_status attend(yk_model *m, const yk_layer *layer, const yk_batch *batch, yk_err *err)
{
  if (m->heads.n_q_heads == 0) return YK_OK;
  yk_attention_args args = {.y = m->act.attended,
                            .qkv = m->act.qkv,
                            .heads = m->heads,
                            .kv = layer->kv,
                            .scale = m->attention_scale,
                            .window_tokens = layer->window_tokens,
                            .batch = batch};
  return m->dev->ops->attention(m->dev, &args, err);
}

static yk_status rotate_and_cache(yk_model *m, const yk_layer *layer, const yk_batch *batch, yk_err *err)
{
  if (m->heads.n_q_heads == 0) return YK_OK;
  yk_qk_rope_kv_args args = {.qkv = m->act.qkv,
                             .heads = m->heads,
                             .q_norm_w = layer->q_norm_w,
                             .k_norm_w = layer->k_norm_w,
                             .norm_eps = m->eps,
                             .rope = m->rope,
                             .kv = layer->kv,
                             .batch = batch};
  return m->dev->ops->qk_rope_kv(m->dev, &args, err);
}

static yk_status run_layer(yk_model *m, int32_t i, const yk_batch *batch, yk_err *err)
{
  const yk_layer *layer = &m->layers[i];
  const yk_activations *a = &m->act;
  const void *next_norm_w = i + 1 < m->n_layers ? m->layers[i + 1].input_norm_w : m->final_norm_w;
  int64_t q_width = (int64_t)m->heads.n_q_heads * m->heads.head_dim;
  int64_t kv_width = (int64_t)m->heads.n_kv_heads * m->heads.head_dim;
  int32_t n = batch->n_tokens;
  RUN(i, "qkv_proj", linear(m, layer->qkv, a->normed, a->qkv, q_width + 2 * kv_width, n, err));
  RUN(i, "rotary embedding", rotate_and_cache(m, layer, batch, err));
  RUN(i, "attention", attend(m, layer, batch, err));
  RUN(i, "o_proj", linear(m, layer->o, a->attended, a->partial, m->hidden, n, err));
  RUN(i, "sum after o_proj", sum_add_norm(m, m->residual_scale, layer->post_norm_w, n, err));
  RUN(i, "gate_up_proj", linear(m, layer->gate_up, a->normed, a->ffn, m->ffn_local, n, err));
  RUN(i, "down_proj", linear(m, layer->down, a->ffn, a->partial, m->hidden, n, err));
  RUN(i, "sum after down_proj", sum_add_norm(m, m->residual_scale, next_norm_w, n, err));
  return YK_OK;
}

/* A row of the embedding is one rank's, and zeros on the others: the sum is exact, and alike on any number of ranks (a
 * zero comes out of it as plus zero on one rank too). */
static yk_status embed(yk_model *m, const yk_batch *batch, yk_err *err)
{
  int32_t first_id = m->shard_first[m->comm->rank];
  yk_embed_args args = {.y = m->act.partial,
                        .cleared = m->act.residual,
                        .table = m->embedding,
                        .token_ids = batch->token_ids,
                        .first_id = first_id,
                        .n_ids = m->shard_first[m->comm->rank + 1] - first_id,
                        .n_tokens = batch->n_tokens,
                        .hidden = m->hidden,
                        .scale = m->embed_scale};
  RUN(-1, "embedding", m->dev->ops->embed(m->dev, &args, err));
  RUN(-1, "sum after embedding", sum_add_norm(m, 1, m->layers[0].input_norm_w, batch->n_tokens, err));
  return YK_OK;
}

static yk_status sample(yk_model *m, const yk_step *step, int32_t first, int32_t count, yk_err *err)
{
  yk_sample_args args = {.logits = m->act.logits,
                         .n_rows = count,
                         .n_shards = m->comm->n_ranks,
                         .shard_stride = m->shard_stride,
                         .rows = step->sampling + first,
                         .out = step->sampled + first};
  for (int rank = 0; rank <= m->comm->n_ranks; rank++) args.shard_first[rank] = m->shard_first[rank];
  RUN(-1, "sampling", m->dev->ops->sample(m->dev, &args, err));
  return YK_OK;
}

/* Logits of some of the wanted rows: each rank its share of the vocabulary, gathered and sampled on rank 0. */
static yk_status finish_rows(yk_model *m, const yk_step *step, int32_t first, int32_t count, yk_err *err)
{
  yk_gather_rows_args rows = {.y = m->act.wanted,
                              .x = m->act.normed,
                              .rows = yk_step_rebase(step, step->wanted_rows, m->act.words) + first,
                              .n_rows = count,
                              .hidden = m->hidden};
  RUN(-1, "row selection", m->dev->ops->gather_rows(m->dev, &rows, err));
  RUN(-1, "lm_head", linear(m, m->lm_head, m->act.wanted, m->act.logits, m->shard_stride, count, err));
  if (m->comm->n_ranks > 1) {
    int64_t n_bytes = (int64_t)count * m->shard_stride * (int64_t)sizeof(float);
    RUN(-1, "logits gather", m->comm->ops->gather(m->comm, m->act.logits, n_bytes, err));
  }
  return m->comm->rank == 0 ? sample(m, step, first, count, err) : YK_OK;
}

static yk_status load_penalties(yk_model *m, const yk_step *step, yk_err *err)
{
  for (int32_t i = 0; i < step->n_penalty_loads; i++) {
    const yk_penalty_load *load = &step->penalty_loads[i];
    RUN(-1, "penalty counts",
        m->dev->ops->penalties_set(m->dev, load->slot, load->tokens, load->n_prompt, load->n_tokens, err));
  }
  return YK_OK;
}

/* The logits buffers hold max_seqs rows, enough for a step of decodes; prompts whose every row is wanted take turns. */
static yk_status finish(yk_model *m, const yk_step *step, yk_err *err)
{
  if (m->comm->rank == 0) YK_TRY(load_penalties(m, step, err));
  for (int32_t first = 0; first < step->n_wanted; first += m->max_wanted) {
    int32_t left = step->n_wanted - first;
    YK_TRY(finish_rows(m, step, first, left < m->max_wanted ? left : m->max_wanted, err));
  }
  return YK_OK;
}

static yk_batch on_device(const yk_model *m, const yk_step *step)
{
  yk_batch batch = step->batch;
  batch.token_ids = yk_step_rebase(step, batch.token_ids, m->act.words);
  batch.positions = yk_step_rebase(step, batch.positions, m->act.words);
  batch.kv_slots = yk_step_rebase(step, batch.kv_slots, m->act.words);
  batch.seq_of_row = yk_step_rebase(step, batch.seq_of_row, m->act.words);
  batch.row_starts = yk_step_rebase(step, batch.row_starts, m->act.words);
  batch.kv_tokens = yk_step_rebase(step, batch.kv_tokens, m->act.words);
  batch.block_tables = yk_step_rebase(step, batch.block_tables, m->act.words);
  return batch;
}

static yk_status run_layers(yk_model *m, const yk_batch *batch, yk_err *err)
{
  YK_TRY(embed(m, batch, err));
  for (int32_t i = 0; i < m->n_layers; i++) YK_TRY(run_layer(m, i, batch, err));
  return YK_OK;
}

/* The layers of a padded decode step: as a graph, once there is one. The first step of its kind runs launch by launch,
 * which is the warm-up that recording needs, and is then recorded for those to come.                                 */
static yk_status run_recorded(yk_model *m, const yk_batch *batch, yk_graph **graph, yk_err *err)
{
  const yk_device_ops *ops = m->dev->ops;
  if (*graph) {
    RUN(-1, "decode graph", ops->graph_run(m->dev, *graph, err));
    return YK_OK;
  }
  YK_TRY(run_layers(m, batch, err));
  RUN(-1, "recording", ops->graph_begin(m->dev, err));
  yk_status status = run_layers(m, batch, err);
  yk_status ended = ops->graph_end(m->dev, status == YK_OK ? graph : NULL, err);
  YK_TRY(status);
  RUN(-1, "recording", ended);
  return YK_OK;
}

static yk_status forward(yk_model *m, const yk_step *step, yk_err *err)
{
  yk_graph **graph = NULL;
  const yk_step *padded = m->graphs ? yk_decode_graphs_pad(m->graphs, step, &graph) : NULL;
  if (padded) step = padded;
  RUN(-1, "step upload", m->dev->ops->upload(m->dev, m->act.words, step->words, step->n_words * sizeof(int32_t), err));
  yk_batch batch = on_device(m, step);
  YK_TRY(padded ? run_recorded(m, &batch, graph, err) : run_layers(m, &batch, err));
  YK_TRY(finish(m, step, err));
  RUN(-1, "step end", m->dev->ops->sync(m->dev, err));
  return YK_OK;
}

yk_status yk_model_forward(yk_model *model, const yk_step *step, yk_err *err)
{
  yk_status status = forward(model, step, err);
  atomic_store(&model->n_begun, 0);
  return status;
}

void yk_model_stop(yk_model *model)
{
  atomic_store(&model->is_stopped, true);
}

void yk_model_describe(const yk_model *model, char *text, size_t n_bytes)
{
  int layer = atomic_load(&model->layer);
  const char *operation = atomic_load(&model->operation);
  if (!operation)
    snprintf(text, n_bytes, "its start");
  else if (layer < 0)
    snprintf(text, n_bytes, "%s", operation);
  else
    snprintf(text, n_bytes, "layer %d, %s", layer, operation);
}

int yk_model_n_begun(const yk_model *model)
{
  return atomic_load(&model->n_begun);
}
