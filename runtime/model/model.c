#include <math.h>
#include <stdio.h>

#include "kernels/cpu/cpu_simd.h"
#include "model/decode_parts.h"
#include "model/model.h"
#include "model/model_parts.h"

#define RUN(m, kind, layer, name, call) YK_RUN(&(m)->operations, kind, layer, name, call)

/* The norm after a layer: the first norm of the next layer, or the final norm after the last layer. An earlier stage
 * ends without a norm, since the next stage normalises the received rows. */
static const yk_layer_norm *next_norm(const yk_model *m, int32_t index)
{
  return index + 1 < m->n_layers ? &m->layers[index + 1].input_norm : &m->final_norm;
}

/* How reduce adds a sublayer's result to a residual [hidden] a row: the name of the all-reduce, factors and norms. */
typedef struct addition {
  const char *name;
  void *residual;
  float alpha, gain;
  const void *result_w;
  const yk_layer_norm *norm;
} addition;

/* residual = gain * (residual + alpha * sum over ranks of s->y), where the sum is normalised unless result_w is NULL,
 * and gain 0 stands for 1; then s->x is the norm of the residual, for the next sublayer. If no sum over ranks remains
 * (a single rank, or s->complete), the reader of s->x does both. */
static yk_status reduce(yk_model *m, yk_sublayer_step *s, const addition *a, yk_err *err)
{
  s->x = (yk_normed){.state = YK_NORMED_PENDING,
                     .rows = m->act.normed,
                     .partial = s->y,
                     .residual = a->residual,
                     .result_w = a->result_w,
                     .w = a->norm->w,
                     .n_rows = s->batch->n_tokens,
                     .hidden = m->hidden,
                     .alpha = a->alpha,
                     .gain = a->gain,
                     .eps = m->eps};
  s->y.state = YK_PARTIAL_ROWS;
  if (s->complete) {
    s->x.partial = (yk_partial){.rows = s->complete};
    s->complete = NULL;
    return YK_OK;
  }
  if (yk_comm_leaves_norm(m->comm)) return YK_OK;
  const yk_all_reduce_add_norm_args args = {.partial = s->x.partial,
                                            .residual = s->x.residual,
                                            .y = s->x.rows,
                                            .result_w = a->result_w,
                                            .w = a->norm->w,
                                            .n_rows = s->x.n_rows,
                                            .hidden = m->hidden,
                                            .alpha = a->alpha,
                                            .gain = a->gain,
                                            .eps = m->eps,
                                            .reader = a->norm->reader};
  RUN(m, ALL_REDUCE, s->layer, a->name, m->comm->ops->all_reduce_add_norm(m->comm, &args, err));
  s->x.state = YK_NORMED_ROWS;
  return YK_OK;
}

/* Lets the sublayer that runs next add its result itself if reduce would do nothing but the addition a, and no mixture
 * runs the norm. */
static void let_add(const yk_model *m, yk_sublayer_step *s, const addition *a)
{
  const bool is_plain = !a->result_w && a->gain == 0 && a->norm->reader != YK_READER_ROUTER;
  s->residual = yk_comm_leaves_norm(m->comm) && is_plain ? a->residual : NULL;
  s->alpha = a->alpha;
}

/* Runs layer_input.c and adds its result to the residual. index: among the stage's layers. */
static yk_status add_layer_input(yk_model *m, yk_sublayer_step *s, int32_t index, yk_err *err)
{
  const yk_layer *layer = &m->layers[index];
  const addition after = {.name = "all-reduce after embeddings of the layer",
                          .residual = m->act.residual,
                          .alpha = m->residual_scale,
                          .gain = layer->gain,
                          .result_w = layer->input_result_w,
                          .norm = next_norm(m, index)};
  let_add(m, s, &after);
  YK_TRY(yk_layer_input.forward(layer->input, s, err));
  return reduce(m, s, &after, err);
}

/* index: among the stage's layers. */
static yk_status run_layer(yk_model *m, yk_sublayer_step *s, int32_t index, yk_err *err)
{
  static const yk_layer_norm no_norm = {.reader = YK_READER_GEMM};
  const yk_layer *layer = &m->layers[index];
  const addition after_attention = {.name = "all-reduce after attention",
                                    .residual = m->act.residual,
                                    .alpha = m->residual_scale,
                                    .result_w = layer->attention_result_w,
                                    .gain = layer->ffn_kind ? 0 : layer->gain,
                                    .norm = layer->ffn_kind ? &layer->post_norm : next_norm(m, index)};
  const addition after_ffn = {.name = "all-reduce after FFN",
                              .residual = m->act.residual,
                              .alpha = m->residual_scale,
                              .gain = layer->input ? 0 : layer->gain,
                              .result_w = layer->ffn_result_w,
                              .norm = layer->input ? &no_norm : next_norm(m, index)};
  s->layer = m->first_layer + index;
  if (layer->attention_kind) {
    s->scratch = m->act.attention_scratch;
    let_add(m, s, &after_attention);
    YK_TRY(layer->attention_kind->forward(layer->attention, s, err));
    YK_TRY(reduce(m, s, &after_attention, err));
  }
  if (!layer->ffn_kind) return YK_OK;
  s->scratch = m->act.ffn_scratch;
  let_add(m, s, &after_ffn);
  YK_TRY(layer->ffn_kind->forward(layer->ffn, s, err));
  YK_TRY(reduce(m, s, &after_ffn, err));
  return layer->input ? add_layer_input(m, s, index, err) : YK_OK;
}

/* The rows of the tokens' embeddings that the rank holds, zeros for the others. */
static yk_embed_args embedding_of(const yk_model *m, const yk_batch *batch, void *y)
{
  int32_t first_id = m->shard_first[m->comm->rank];
  return (yk_embed_args){.y = y,
                         .table = m->embedding,
                         .token_ids = batch->token_ids,
                         .first_id = first_id,
                         .n_ids = m->shard_first[m->comm->rank + 1] - first_id,
                         .n_tokens = batch->n_tokens,
                         .hidden = m->hidden,
                         .scale = m->embed_scale};
}

static const char *const after_embedding = "all-reduce after embedding";

/* rows = the tokens' embeddings, summed over ranks. */
static yk_status add_embeddings(yk_model *m, const yk_batch *batch, void *rows, yk_err *err)
{
  const int64_t count = (int64_t)batch->n_tokens * m->hidden;
  if (m->comm->n_ranks == 1) return YK_OK;
  RUN(m, ALL_REDUCE, YK_OUTSIDE_LAYERS, after_embedding,
      m->comm->ops->all_reduce(m->comm, rows, count, m->dev->dtype, err));
  return YK_OK;
}

/* residual = the tokens' embeddings, summed over ranks by the pending norm or by the all-reduce. One rank holds a row
 * of the embedding; the others contribute zeros. The sum is therefore exact and the same for any number of ranks (a
 * negative zero becomes plus zero, with one rank too). */
static yk_status embed(yk_model *m, yk_sublayer_step *s, void *residual, yk_err *err)
{
  yk_embed_args args = embedding_of(m, s->batch, s->y.rows);
  args.cleared = residual;
  const addition after = {.name = after_embedding, .residual = residual, .alpha = 1, .norm = &m->layers[0].input_norm};
  RUN(m, OTHER, YK_OUTSIDE_LAYERS, "embedding", m->dev->ops->embed(m->dev, &args, err));
  if (m->batch_invariant && m->comm->n_ranks > 1) {
    YK_TRY(add_embeddings(m, s->batch, s->y.rows, err));
    s->complete = s->y.rows; /* the norm is then the one of a single rank */
  }
  return reduce(m, s, &after, err);
}

static int64_t residual_bytes(const yk_model *m, int32_t n_rows)
{
  return (int64_t)n_rows * m->hidden * (int64_t)yk_dtype_bytes(m->dev->dtype);
}

/* The first norm of a later stage. Its input is the residual as the previous stage stored it, so that the norm has the
 * bits of a norm that follows the sum. */
static yk_status enter_stage(yk_model *m, yk_sublayer_step *s, yk_err *err)
{
  const yk_rms_norm_args norm = {.y = m->act.normed,
                                 .x = m->act.residual,
                                 .w = m->layers[0].input_norm.w,
                                 .x_stride = m->hidden,
                                 .n_rows = s->batch->n_tokens,
                                 .hidden = m->hidden,
                                 .eps = m->eps};
  RUN(m, OTHER, YK_OUTSIDE_LAYERS, "first norm of the stage", m->dev->ops->rms_norm(m->dev, &norm, err));
  s->x = (yk_normed){.state = YK_NORMED_ROWS, .rows = norm.y, .n_rows = norm.n_rows, .hidden = m->hidden};
  return YK_OK;
}

/* Sampling also needs the late data, and the counts of sequences that begin to count tokens. */
static yk_status prepare_sampling(yk_model *m, const yk_step *step, yk_err *err)
{
  const yk_penalty_load *loads = yk_step_penalty_loads(step);
  const int32_t *tokens = yk_step_penalty_tokens(step);
  if (step->late)
    RUN(m, UNTIMED, YK_OUTSIDE_LAYERS, "late data", yk_step_late_await(step->late, &m->operations.is_stopped, err));
  for (int32_t i = 0; i < step->counts.n_penalty_loads; tokens += loads[i++].n_tokens)
    RUN(m, SAMPLING, YK_OUTSIDE_LAYERS, "penalty counts",
        m->dev->ops->penalties_set(m->dev, loads[i].slot, tokens, loads[i].n_prompt, loads[i].n_tokens, err));
  return YK_OK;
}

static yk_status sample(yk_model *m, const yk_step *step, int32_t first, int32_t count, yk_err *err)
{
  yk_sample_args args = {.logits = m->act.logits,
                         .n_rows = count,
                         .n_shards = m->comm->n_ranks,
                         .shard_stride = m->shard_stride,
                         .shard_first = m->shard_first,
                         .rows = yk_step_sampling(step) + first,
                         .biases = yk_step_biases(step),
                         .masks = yk_step_masks(step),
                         .logits_out = step->answer.logits,
                         .out = step->answer.sampled + first};
  RUN(m, SAMPLING, YK_OUTSIDE_LAYERS, "sampling", m->dev->ops->sample(m->dev, &args, err));
  return YK_OK;
}

/* Reduce this rank's logits to the best logit per row, which is enough for plain rows. The logits stay on their rank,
 * without an all-reduce. */
static yk_status find_bests(yk_model *m, int32_t first, int32_t count, yk_err *err)
{
  int32_t first_id = m->shard_first[m->comm->rank];
  yk_best_logits_args args = {.logits = m->act.logits,
                              .n_rows = count,
                              .n_ids = m->shard_first[m->comm->rank + 1] - first_id,
                              .first_id = first_id,
                              .stride = m->shard_stride,
                              .out = m->act.bests + first};
  RUN(m, SAMPLING, YK_OUTSIDE_LAYERS, "best logits", m->dev->ops->best_logits(m->dev, &args, err));
  return YK_OK;
}

/* all: the best logits of every rank, `stride` rows per rank. */
static yk_sampled choose_row(const yk_best_logit *all, int n_ranks, int32_t stride, int32_t row)
{
  yk_best_logit best = all[row];
  for (int rank = 1; rank < n_ranks && !isnan(best.value); rank++) { /* ids rise with ranks */
    yk_best_logit other = all[(int64_t)rank * stride + row];
    if (isnan(other.value) || other.value > best.value) best = other;
  }
  if (isfinite(best.value)) return (yk_sampled){.state = YK_ROW_SAMPLED, .token_id = best.id};
  return (yk_sampled){.state = isnan(best.value) ? YK_ROW_NAN : YK_ROW_INFINITE, .token_id = -1};
}

/* The tokens of a plain step, on rank 0: per row the best of the ranks' best logits, the lower id among equals. The
 * device has already written this rank's best logits. */
static yk_status choose_tokens(yk_model *m, const yk_step *step, yk_err *err)
{
  int32_t n = step->counts.n_wanted;
  RUN(m, UNTIMED, YK_OUTSIDE_LAYERS, "best logits of all ranks",
      m->comm->ops->gather_host(m->comm, m->act.bests, (size_t)n * sizeof *m->act.bests, m->act.all_bests, err));
  for (int32_t row = 0; m->comm->rank == 0 && row < n; row++)
    step->answer.sampled[row] = choose_row(m->act.all_bests, m->comm->n_ranks, n, row);
  return YK_OK;
}

/* The destination of this rank's share of count rows of logits. */
static float *own_logits(const yk_model *m, const yk_step *step, int32_t count)
{
  if (step->counts.is_plain || !m->rank_0_logits) return m->act.logits;
  return m->rank_0_logits + (int64_t)m->comm->rank * count * m->shard_stride;
}

static yk_status gather_logits(yk_model *m, int32_t count, yk_err *err)
{
  int64_t n_bytes = (int64_t)count * m->shard_stride * (int64_t)sizeof(float);
  if (m->rank_0_logits) return m->comm->ops->await_writes(m->comm, err);
  return m->comm->ops->gather(m->comm, m->act.logits, n_bytes, err);
}

/* Caps the results of lm_head: rows of this rank's share of the vocabulary. */
static yk_status cap_logits(yk_model *m, const yk_linear_args *head, yk_err *err)
{
  const yk_cap_logits_args cap = {.logits = head->y,
                                  .n_rows = head->n_tokens,
                                  .n = m->shard_first[m->comm->rank + 1] - m->shard_first[m->comm->rank],
                                  .stride = head->y_stride,
                                  .cap = m->logit_cap};
  RUN(m, LM_HEAD, YK_OUTSIDE_LAYERS, "cap of logits", m->dev->ops->cap_logits(m->dev, &cap, err));
  return YK_OK;
}

/* Logits of some of the wanted rows: each rank computes its share of the vocabulary. If the step is not plain, the
 * shares are gathered and sampled on rank 0. */
static yk_status finish_logits(yk_model *m, const yk_step *step, int32_t first, int32_t count, yk_err *err)
{
  yk_linear_args head = {
      .x = m->act.wanted, .y = own_logits(m, step, count), .n_tokens = count, .y_stride = m->shard_stride};
  RUN(m, LM_HEAD, YK_OUTSIDE_LAYERS, "lm_head", m->dev->ops->linear_forward(m->dev, m->lm_head, &head, err));
  if (m->logit_cap > 0) YK_TRY(cap_logits(m, &head, err));
  if (step->counts.is_plain) return find_bests(m, first, count, err);
  if (m->comm->n_ranks > 1) RUN(m, GATHER, YK_OUTSIDE_LAYERS, "logits gather", gather_logits(m, count, err));
  if (m->comm->rank != 0) return YK_OK;
  if (first == 0) YK_TRY(prepare_sampling(m, step, err));
  return sample(m, step, first, count, err);
}

/* Whether a step has wanted rows other than those that return their hidden state. */
static bool needs_logits(const yk_step *step)
{
  return step->counts.n_hidden < step->counts.n_wanted;
}

/* A hidden state [hidden] as float32; the scale before lm_head, which is no part of the state, is taken out. */
static yk_row_state copy_hidden(const yk_model *m, const void *from, float *to)
{
  yk_row_state state = YK_ROW_SAMPLED;
  yk_cpu_simd_best()->to_f32(to, m->dev->dtype, from, (size_t)m->hidden);
  for (int32_t i = 0; i < m->hidden; i++) {
    to[i] /= m->logit_scale;
    if (isnan(to[i])) return YK_ROW_NAN;
    if (isinf(to[i])) state = YK_ROW_INFINITE;
  }
  return state;
}

/* Copies the hidden states among the wanted rows first .. first + count - 1 to the answer. */
static yk_status return_hidden(yk_model *m, const yk_step *step, int32_t first, int32_t count, yk_err *err)
{
  const size_t row_bytes = (size_t)m->hidden * yk_dtype_bytes(m->dev->dtype);
  RUN(m, SAMPLING, YK_OUTSIDE_LAYERS, "hidden states",
      m->dev->ops->download(m->dev, m->act.hidden, m->act.wanted, (size_t)count * row_bytes, err));
  for (int32_t i = 0; i < step->counts.n_hidden; i++) {
    int32_t row = yk_step_hidden_rows(step)[i];
    if (row < first || row >= first + count) continue;
    const char *from = (const char *)m->act.hidden + (size_t)(row - first) * row_bytes;
    yk_row_state state = copy_hidden(m, from, step->answer.hidden + (int64_t)i * m->hidden);
    step->answer.sampled[row] = (yk_sampled){.state = state, .token_id = -1};
  }
  return YK_OK;
}

/* Results of some of the wanted rows. */
static yk_status finish_rows(yk_model *m, const yk_step *step, const int32_t *wanted_rows, int32_t first, int32_t count,
                             yk_err *err)
{
  yk_gather_rows_args rows = {
      .y = m->act.wanted, .x = m->act.normed, .rows = wanted_rows + first, .n_rows = count, .hidden = m->hidden};
  RUN(m, OTHER, YK_OUTSIDE_LAYERS, "row selection", m->dev->ops->gather_rows(m->dev, &rows, err));
  if (needs_logits(step)) YK_TRY(finish_logits(m, step, first, count, err));
  return step->counts.n_hidden > 0 && m->comm->rank == 0 ? return_hidden(m, step, first, count, err) : YK_OK;
}

/* The logits buffers hold max_seqs rows, enough for a decode step. Prompts whose rows all have wanted logits run in
 * chunks of this size. No rank may write a chunk to rank 0's logits before rank 0 has sampled the previous chunk; the
 * last chunk of the previous step is sampled before a step begins. wanted_rows: on the device. */
static yk_status finish(yk_model *m, const yk_step *step, const int32_t *wanted_rows, yk_err *err)
{
  int32_t n_wanted = step->counts.n_wanted;
  for (int32_t first = 0; first < n_wanted; first += m->max_wanted) {
    int32_t left = n_wanted - first;
    if (first > 0 && m->rank_0_logits && !step->counts.is_plain && needs_logits(step))
      RUN(m, GATHER, YK_OUTSIDE_LAYERS, "barrier before rows", m->comm->ops->barrier(m->comm, err));
    YK_TRY(finish_rows(m, step, wanted_rows, first, left < m->max_wanted ? left : m->max_wanted, err));
  }
  return YK_OK;
}

/* Computes the embeddings of the stage's layers from the tokens' embeddings, which normalising completes in the
 * residual that embed got. */
static yk_status embed_layers(yk_model *m, yk_sublayer_step *s, const void *embedded, yk_err *err)
{
  YK_TRY(yk_sublayer_normalise(s, err));
  return yk_layer_inputs_run(&m->layer_inputs, s, embedded, err);
}

/* Leaves the input of the stage's first layer in s->x. Layers with embeddings need the tokens' embeddings, which a
 * later stage computes again: the previous stage sends its residual alone. */
static yk_status begin_layers(yk_model *m, yk_sublayer_step *s, yk_err *err)
{
  void *embedded = m->is_first_stage ? m->act.residual : m->layer_inputs.embedded;
  if (embedded) YK_TRY(embed(m, s, embedded, err));
  if (m->layer_inputs.size > 0) YK_TRY(embed_layers(m, s, embedded, err));
  return m->is_first_stage ? YK_OK : enter_stage(m, s, err);
}

/* The layers as one operation of the device. */
static yk_status run_decode_layers(yk_model *m, const yk_batch *batch, yk_err *err)
{
  yk_decode_layers_args args = {.residual = m->act.residual, .y = m->act.normed, .batch = batch};
  if (m->is_first_stage) {
    const yk_embed_args embedding = embedding_of(m, batch, m->act.residual);
    RUN(m, OTHER, YK_OUTSIDE_LAYERS, "embedding", m->dev->ops->embed(m->dev, &embedding, err));
    YK_TRY(add_embeddings(m, batch, m->act.residual, err));
  }
  if (m->operations.profile) args.stamps = yk_decode_parts_stamp(m->operations.profile, m->first_layer, m->n_layers);
  RUN(m, UNTIMED, YK_OUTSIDE_LAYERS, "decode layers", m->dev->ops->decode_layers_run(m->dev, m->decode, &args, err));
  return YK_OK;
}

/* Leaves the rows of the final norm in m->act.normed, or, before the last stage, those for the next stage in
 * m->act.residual. */
static yk_status run_layers(yk_model *m, const yk_batch *batch, yk_err *err)
{
  yk_sublayer_step s = {.dev = m->dev,
                        .comm = m->comm,
                        .operations = &m->operations,
                        .layer = YK_OUTSIDE_LAYERS,
                        .hidden = m->hidden,
                        .norm_eps = m->eps,
                        .rope = m->rope,
                        .local_rope = m->local_rope,
                        .batch = batch,
                        .layer_inputs = &m->layer_inputs,
                        .y = {.rows = m->act.partial},
                        .kv_staging = m->act.kv_staging};
  if (m->decode && m->dev->ops->decode_layers_takes(m->dev, m->decode, batch)) return run_decode_layers(m, batch, err);
  YK_TRY(begin_layers(m, &s, err));
  for (int32_t i = 0; i < m->n_layers; i++) YK_TRY(run_layer(m, &s, i, err));
  s.layer = YK_OUTSIDE_LAYERS;
  return yk_sublayer_normalise(&s, err);
}

/* The layers of a padded decode step, replayed as a graph once a graph exists. The first step of its kind runs launch
 * by launch, the warm-up that recording needs; the graph is recorded afterwards for later steps. */
static yk_status run_recorded(yk_model *m, const yk_batch *batch, yk_decode_graph *graph, yk_err *err)
{
  const yk_device_ops *ops = m->dev->ops;
  yk_step_profile *profile = m->operations.profile;
  int32_t first_stamp = profile ? profile->n : 0;
  if (graph->graph) {
    RUN(m, UNTIMED, YK_OUTSIDE_LAYERS, "decode graph", ops->graph_run(m->dev, graph->graph, err));
    if (profile) yk_step_profile_replayed(profile, &graph->stamps);
    return YK_OK;
  }
  YK_TRY(run_layers(m, batch, err));
  RUN(m, UNTIMED, YK_OUTSIDE_LAYERS, "recording", ops->graph_begin(m->dev, err));
  if (profile) yk_step_profile_rewind(profile, first_stamp);
  yk_status status = run_layers(m, batch, err);
  yk_status ended = ops->graph_end(m->dev, status == YK_OK ? &graph->graph : NULL, err);
  YK_TRY(status);
  RUN(m, UNTIMED, YK_OUTSIDE_LAYERS, "recording", ended);
  return profile ? yk_step_profile_recorded(profile, first_stamp, &graph->stamps, err) : YK_OK;
}

static yk_status copy_memory(yk_model *m, const yk_step_copy *copy, yk_err *err)
{
  for (int32_t i = 0; i < m->n_layers; i++) {
    const yk_layer *layer = &m->layers[i];
    if (layer->attention_kind) YK_TRY(layer->attention_kind->copy(layer->attention, m->dev, copy, err));
  }
  return YK_OK;
}

static yk_status copy_memories(yk_model *m, const yk_step *step, yk_err *err)
{
  for (int32_t i = 0; i < step->counts.n_copies; i++)
    RUN(m, OTHER, YK_OUTSIDE_LAYERS, "copy of a sequence", copy_memory(m, &yk_step_copies(step)[i], err));
  return YK_OK;
}

static yk_status forward(yk_model *m, const yk_step *step, yk_err *err)
{
  yk_decode_graph *graph = NULL;
  const yk_step *padded = m->graphs ? yk_decode_graphs_pad(m->graphs, step, &graph) : NULL;
  const yk_step *uploaded = padded ? padded : step;
  RUN(m, OTHER, YK_OUTSIDE_LAYERS, "step upload",
      m->dev->ops->upload(m->dev, m->act.step, uploaded->block, uploaded->layout.rank_bytes, err));
  yk_batch batch = yk_step_batch(uploaded, m->act.step);
  int64_t n_bytes = residual_bytes(m, batch.n_tokens);
  if (!m->is_first_stage)
    RUN(m, STAGES, YK_OUTSIDE_LAYERS, "rows of the previous stage",
        m->comm->ops->receive_previous(m->comm, m->act.residual, n_bytes, err));
  YK_TRY(copy_memories(m, step, err));
  YK_TRY(padded ? run_recorded(m, &batch, graph, err) : run_layers(m, &batch, err));
  if (m->is_last_stage)
    YK_TRY(finish(m, step, yk_step_in_copy(uploaded, YK_STEP_WANTED_ROWS, m->act.step), err));
  else
    RUN(m, STAGES, YK_OUTSIDE_LAYERS, "rows for the next stage",
        m->comm->ops->send_next(m->comm, m->act.residual, n_bytes, err));
  RUN(m, END, YK_OUTSIDE_LAYERS, "step end", m->dev->ops->sync(m->dev, err));
  return m->is_last_stage && step->counts.is_plain ? choose_tokens(m, step, err) : YK_OK;
}

static yk_status forward_timed(yk_model *m, const yk_step *step, yk_err *err)
{
  yk_step_profile_begin(&m->profile);
  m->operations.profile = &m->profile;
  yk_status status = forward(m, step, err);
  m->operations.profile = NULL;
  if (status != YK_OK) return status;
  status = yk_step_profile_end(&m->profile, m->dev, err);
  return yk_operation_name_error(&m->operations, YK_OUTSIDE_LAYERS, "timestamps", status, err);
}

yk_status yk_model_forward(yk_model *model, const yk_step *step, yk_err *err)
{
  yk_status status = step->counts.is_timed ? forward_timed(model, step, err) : forward(model, step, err);
  atomic_store(&model->operations.n_begun, 0);
  return status;
}

yk_status yk_model_read_expert_rows(yk_model *m, int64_t *rows, yk_err *err)
{
  rows += (int64_t)m->n_mixtures_before * m->n_experts;
  for (int32_t i = 0; i < m->n_layers; i++) {
    const yk_layer *layer = &m->layers[i];
    if (!layer->ffn_kind || !layer->ffn_kind->read_expert_rows) continue;
    RUN(m, OTHER, m->first_layer + i, "counts of experts",
        layer->ffn_kind->read_expert_rows(layer->ffn, m->dev, rows, err));
    rows += m->n_experts;
  }
  atomic_store(&m->operations.n_begun, 0);
  return YK_OK;
}

yk_status yk_model_adapt(yk_model *m, const yk_adapter *adapter, int32_t number, yk_err *err)
{
  return yk_adapted_set(&m->adapted, m->dev, m->family, adapter, number, err);
}

void yk_model_stop(yk_model *model)
{
  atomic_store(&model->operations.is_stopped, true);
}

void yk_model_describe(const yk_model *model, char *text, size_t n_bytes)
{
  int layer = atomic_load(&model->operations.layer);
  const char *operation = atomic_load(&model->operations.name);
  if (!operation)
    snprintf(text, n_bytes, "its start");
  else if (layer == YK_OUTSIDE_LAYERS)
    snprintf(text, n_bytes, "%s", operation);
  else
    snprintf(text, n_bytes, "layer %d, %s", layer, operation);
}

const yk_step_profile *yk_model_profile(const yk_model *model)
{
  return &model->profile;
}

int yk_model_n_begun(const yk_model *model)
{
  return atomic_load(&model->operations.n_begun);
}
