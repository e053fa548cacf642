/* op_cases_decode.h - a decode step of one row through all layers of a dense model (kernels/decode_layers.h), composed
 * of a device's separate operations: the reference of a device that runs the layers as one operation.
 *
 * Weights are random with means of zero and scaled so that values stay near 1 in every layer. The values of a long
 * sequence are larger than that: attention's result is their mean with random signs, and has to stay near 1 too, or
 * the outputs would not show which tokens it is a mean of. */
#ifndef YK_TESTS_OP_CASES_DECODE_H
#define YK_TESTS_OP_CASES_DECODE_H

#include "op/op_cases_attention.h"
#include "op/op_linear_weight.h"

enum { DECODE_MAX_LAYERS = 3, DECODE_MAX_OUTPUTS = 2 + 2 * DECODE_MAX_LAYERS };

/* The parts of a layer's linear layers, in the order of their weights. */
enum { DECODE_Q, DECODE_K, DECODE_V, DECODE_O, DECODE_GATE, DECODE_UP, DECODE_DOWN, DECODE_N_PARTS };

/* The linear layers of a layer, and the first part of each. */
enum { DECODE_LINEAR_QKV, DECODE_LINEAR_O, DECODE_LINEAR_GATE_UP, DECODE_LINEAR_DOWN, DECODE_N_LINEARS };
static const int decode_first_part[DECODE_N_LINEARS + 1] = {DECODE_Q, DECODE_O, DECODE_GATE, DECODE_DOWN,
                                                            DECODE_N_PARTS};

enum { DECODE_INPUT_NORM, DECODE_POST_NORM, DECODE_Q_NORM, DECODE_K_NORM, DECODE_N_NORMS };

/* Bits of the parts that have biases. */
enum { DECODE_NO_BIASES = 0, DECODE_QKV_BIASES = 7, DECODE_QV_BIASES = 5, DECODE_ALL_BIASES = 127 };

typedef struct decode_shape {
  int32_t hidden, ffn, n_q_heads, n_kv_heads, n_layers;
  yk_activation activation;
  unsigned biases;
  bool has_qk_norms, lacks_final_norm;
  float alpha;
  int32_t head_dim, group; /* 0: 128 */
  int32_t group_of_k;      /* of the keys' weights; 0: group */
  bool is_plain;           /* weights of 16 bits */
  int32_t v_gain;          /* power of two that the row's values have as a factor; 0: 1 */
} decode_shape;

/* The factor of values for sequences of about n_tokens: the row itself still counts among that number of tokens. */
static inline int32_t decode_v_gain(int32_t n_tokens)
{
  int32_t gain = 2;
  while (gain * gain < 2 * n_tokens) gain *= 2;
  return gain;
}

static inline int32_t decode_head_dim(const decode_shape *shape)
{
  return shape->head_dim ? shape->head_dim : 128;
}

static inline yk_head_layout decode_heads(const decode_shape *shape)
{
  return (yk_head_layout){.n_q_heads = shape->n_q_heads,
                          .n_kv_heads = shape->n_kv_heads,
                          .head_dim = decode_head_dim(shape),
                          .q_per_kv = shape->n_q_heads / shape->n_kv_heads};
}

/* The weights of all layers in host memory, which the devices of a case share. */
typedef struct decode_weights {
  const decode_shape *shape;
  linear_part_case parts[DECODE_N_PARTS];
  linear_weight layers[DECODE_MAX_LAYERS][DECODE_N_PARTS];
} decode_weights;

static inline linear_part_case decode_part(const decode_shape *shape, yk_dtype dtype, int part)
{
  const int64_t q = (int64_t)shape->n_q_heads * decode_head_dim(shape),
                kv = (int64_t)shape->n_kv_heads * decode_head_dim(shape), hidden = shape->hidden;
  const int64_t k[] = {hidden, hidden, hidden, q, hidden, hidden, shape->ffn};
  const int64_t n[] = {q, kv, kv, hidden, shape->ffn, shape->ffn, hidden};
  int64_t group = shape->is_plain ? 0 : shape->group ? shape->group : 128;
  if (part == DECODE_K && shape->group_of_k) group = shape->group_of_k;
  return (linear_part_case){.k = k[part],
                            .n = n[part],
                            .group = group,
                            .dtype = dtype == YK_F32 ? YK_F16 : dtype,
                            .k_slice = {0, k[part]},
                            .n_slice = {0, n[part]},
                            .group_local = group,
                            .use_bias = shape->biases >> part & 1};
}

/* Multiplies a weight's scales, exactly. */
static inline void decode_amplify(linear_weight *weight, const linear_part_case *part, int32_t gain)
{
  const size_t element_bytes = yk_dtype_bytes(part->dtype);
  for (int64_t i = 0; i < part->k / part->group * part->n; i++) {
    uint32_t element = 0;
    weight->scales[i] *= gain;
    yk_dtype_store(part->dtype, &element, 0, (float)weight->scales[i]);
    memcpy((char *)(uintptr_t)weight->view.scales + (size_t)i * element_bytes, &element, element_bytes);
  }
}

/* The shape must outlive the weights. */
static inline decode_weights *decode_weights_new(const decode_shape *shape, yk_dtype dtype)
{
  op_random random = {.seed = 4000};
  decode_weights *weights = calloc(1, sizeof *weights);
  assert_non_null(weights);
  weights->shape = shape;
  for (int p = 0; p < DECODE_N_PARTS; p++) weights->parts[p] = decode_part(shape, dtype, p);
  for (int32_t layer = 0; layer < shape->n_layers; layer++)
    for (int p = 0; p < DECODE_N_PARTS; p++) {
      weights->layers[layer][p] = linear_weight_new(&weights->parts[p], &random);
      if (p == DECODE_V && shape->v_gain) decode_amplify(&weights->layers[layer][p], &weights->parts[p], shape->v_gain);
    }
  return weights;
}

static inline void decode_weights_free(decode_weights *weights)
{
  for (int32_t layer = 0; layer < weights->shape->n_layers; layer++)
    for (int p = 0; p < DECODE_N_PARTS; p++) linear_weight_free(&weights->layers[layer][p]);
  free(weights);
}

/* A rank's share of the heads and of the FFN's channels, which n_ranks divides. */
typedef struct decode_share {
  int32_t rank, n_ranks;
} decode_share;

/* The shape of a rank's layers. */
static inline decode_shape decode_shape_of(const decode_shape *whole, int32_t n_ranks)
{
  decode_shape shape = *whole;
  shape.n_q_heads /= n_ranks;
  shape.n_kv_heads /= n_ranks;
  shape.ffn /= n_ranks;
  return shape;
}

/* The layers of a rank on a device. */
typedef struct decode_model {
  const decode_weights *weights;
  const decode_shape *shape; /* of the rank's layers */
  decode_share share;
  yk_device *dev;
  yk_linear *linears[DECODE_MAX_LAYERS][DECODE_N_LINEARS];
  op_array norms[DECODE_MAX_LAYERS][DECODE_N_NORMS], final_norm;
  op_array x, qkv, heads, gated, result; /* rows between the separate operations */
} decode_model;

/* Rows of o and down, columns of the others. The biases of results are on rank 0. */
static inline yk_linear_part decode_part_of(const decode_weights *weights, int32_t layer, int part, decode_share share)
{
  const linear_part_case *whole = &weights->parts[part];
  const bool is_result = part == DECODE_O || part == DECODE_DOWN;
  yk_linear_part of_rank = {.weight = weights->layers[layer][part].view,
                            .k = whole->k_slice,
                            .n = whole->n_slice,
                            .group_local = whole->group_local,
                            .use_bias = whole->use_bias && (!is_result || share.rank == 0)};
  yk_range *range = is_result ? &of_rank.k : &of_rank.n;
  const int64_t size = yk_range_size(*range) / share.n_ranks;
  *range = (yk_range){share.rank * size, (share.rank + 1) * size};
  return of_rank;
}

static inline yk_linear *decode_linear_new(yk_device *dev, const decode_weights *weights, int32_t layer, int linear,
                                           decode_share share)
{
  yk_linear *created = NULL;
  yk_linear_spec spec = {.n_matrices = 1, .max_tokens = 4};
  if (linear == DECODE_LINEAR_GATE_UP) spec.activation = weights->shape->activation;
  for (int p = decode_first_part[linear]; p < decode_first_part[linear + 1]; p++)
    spec.parts[spec.n_parts++] = decode_part_of(weights, layer, p, share);
  op_ok(dev->ops->linear_create(dev, &spec, &created, &err));
  return created;
}

static inline op_array decode_norm_new(yk_device *dev, int32_t n, op_random *random)
{
  op_array norm = op_array_new(dev, dev->dtype, (size_t)n);
  op_normals_draw(random, 0.3, norm.values, norm.n);
  for (size_t i = 0; i < norm.n; i++) norm.values[i] += 1.0;
  op_array_send(dev, &norm);
  return norm;
}

/* shape: of the rank's layers; must outlive the model. */
static inline decode_model *decode_model_of_rank(yk_device *dev, const decode_weights *weights,
                                                 const decode_shape *shape, decode_share share)
{
  const yk_head_layout heads = decode_heads(shape);
  const int32_t sizes[DECODE_N_NORMS] = {shape->hidden, shape->hidden, heads.head_dim, heads.head_dim};
  op_random random = {.seed = 4100};
  decode_model *model = calloc(1, sizeof *model);
  assert_non_null(model);
  *model = (decode_model){.weights = weights, .shape = shape, .share = share, .dev = dev};
  for (int32_t layer = 0; layer < shape->n_layers; layer++) {
    for (int i = 0; i < DECODE_N_LINEARS; i++)
      model->linears[layer][i] = decode_linear_new(dev, weights, layer, i, share);
    for (int i = 0; i < DECODE_N_NORMS; i++) model->norms[layer][i] = decode_norm_new(dev, sizes[i], &random);
  }
  model->final_norm = decode_norm_new(dev, shape->hidden, &random);
  model->x = op_array_new(dev, dev->dtype, (size_t)shape->hidden);
  model->qkv = op_array_new(dev, dev->dtype, (size_t)yk_head_layout_width(&heads));
  model->heads = op_array_new(dev, dev->dtype, (size_t)(heads.n_q_heads * heads.head_dim));
  model->gated = op_array_new(dev, dev->dtype, (size_t)shape->ffn);
  model->result = op_array_new(dev, dev->dtype, (size_t)shape->hidden);
  return model;
}

static inline decode_model *decode_model_new(yk_device *dev, const decode_weights *weights)
{
  return decode_model_of_rank(dev, weights, weights->shape, (decode_share){0, 1});
}

static inline void decode_model_free(decode_model *model)
{
  yk_device *dev = model->dev;
  op_array *const rows[] = {&model->final_norm, &model->x, &model->qkv, &model->heads, &model->gated, &model->result};
  for (int32_t layer = 0; layer < model->shape->n_layers; layer++) {
    for (int i = 0; i < DECODE_N_LINEARS; i++) dev->ops->linear_destroy(dev, model->linears[layer][i]);
    for (int i = 0; i < DECODE_N_NORMS; i++) op_array_free(dev, &model->norms[layer][i]);
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) op_array_free(dev, rows[i]);
  free(model);
}

/* A sequence of up to most_tokens tokens with its caches, whose blocks are shuffled. */
typedef struct decode_run {
  decode_model *model;
  scene_shape scene_shape;
  scene scene;                                       /* layout of the sequence, rotary table, caches of layer 0 */
  op_array caches_after_0[DECODE_MAX_LAYERS - 1][2]; /* K, V */
  op_array residual, y;
} decode_run;

static inline op_array *decode_cache(decode_run *run, int32_t layer, int side)
{
  if (layer > 0) return &run->caches_after_0[layer - 1][side];
  return side ? &run->scene.v_cache : &run->scene.k_cache;
}

static inline yk_kv_layer decode_kv(decode_run *run, int32_t layer)
{
  return (yk_kv_layer){.k = decode_cache(run, layer, 0)->dev, .v = decode_cache(run, layer, 1)->dev};
}

/* The model must outlive the run. */
static inline decode_run *decode_run_new(decode_model *model, int32_t most_tokens)
{
  yk_device *dev = model->dev;
  decode_run *run = calloc(1, sizeof *run);
  assert_non_null(run);
  run->model = model;
  run->scene_shape =
      (scene_shape){.heads = decode_heads(model->shape), .n_seqs = 1, .seqs = {{.cached = most_tokens - 1, .rows = 1}}};
  run->scene = scene_new(dev, &run->scene_shape, 4200);
  run->scene.scale *= 1.25f; /* not the root of head_dim */
  for (int32_t layer = 1; layer < model->shape->n_layers; layer++)
    for (int side = 0; side < 2; side++)
      *decode_cache(run, layer, side) = op_array_new(dev, dev->dtype, run->scene.k_cache.n);
  run->residual = op_array_new(dev, dev->dtype, (size_t)model->shape->hidden);
  run->y = op_array_new(dev, dev->dtype, (size_t)model->shape->hidden);
  return run;
}

static inline void decode_run_free(decode_run *run)
{
  yk_device *dev = run->model->dev;
  for (int32_t layer = 1; layer < run->model->shape->n_layers; layer++)
    for (int side = 0; side < 2; side++) op_array_free(dev, decode_cache(run, layer, side));
  op_array_free(dev, &run->residual);
  op_array_free(dev, &run->y);
  scene_free(dev, &run->scene);
  free(run);
}

/* The first n_tokens tokens of the caches become random, all other slots NaNs. */
static inline void decode_fill(decode_run *run, int32_t n_tokens)
{
  op_random random = {.seed = 4300};
  const double v_sigma = run->model->shape->v_gain ? 0.5 * run->model->shape->v_gain : 1.0;
  run->scene.kv_tokens[0] = n_tokens;
  for (int32_t layer = 0; layer < run->model->shape->n_layers; layer++) {
    scene of_layer = run->scene;
    of_layer.k_cache = *decode_cache(run, layer, 0);
    of_layer.v_cache = *decode_cache(run, layer, 1);
    op_normals_draw(&random, 1.0, of_layer.k_cache.values, of_layer.k_cache.n);
    op_normals_draw(&random, v_sigma, of_layer.v_cache.values, of_layer.v_cache.n);
    poison_unused_slots(run->model->dev, &of_layer);
  }
}

/* The first n_tokens tokens of a rank's caches become those of its KV heads in the caches of the whole layers, all
 * other slots NaNs. */
static inline void decode_fill_share(decode_run *run, decode_run *whole, int32_t n_tokens, int32_t rank)
{
  const yk_head_layout *heads = &run->scene_shape.heads, *of_whole = &whole->scene_shape.heads;
  const size_t n_bytes = (size_t)heads->head_dim * sizeof(double);
  run->scene.kv_tokens[0] = n_tokens;
  for (int32_t layer = 0; layer < run->model->shape->n_layers; layer++) {
    scene of_layer = run->scene;
    of_layer.k_cache = *decode_cache(run, layer, 0);
    of_layer.v_cache = *decode_cache(run, layer, 1);
    for (int side = 0; side < 2; side++)
      for (int32_t i = 0; i < n_tokens * heads->n_kv_heads; i++) {
        const int32_t token = i / heads->n_kv_heads, head = i % heads->n_kv_heads;
        const int64_t to = cache_index(heads, slot_of(&run->scene, 0, token), head);
        const int64_t from = cache_index(of_whole, slot_of(&whole->scene, 0, token), rank * heads->n_kv_heads + head);
        memcpy((side ? &of_layer.v_cache : &of_layer.k_cache)->values + to,
               decode_cache(whole, layer, side)->values + from, n_bytes);
      }
    poison_unused_slots(run->model->dev, &of_layer);
  }
}

/* NaNs in the slots of the row, which the step has to write before it reads them. */
static inline void decode_poison_row(decode_run *run)
{
  yk_device *dev = run->model->dev;
  const yk_head_layout *heads = &run->scene_shape.heads;
  const size_t element_bytes = yk_dtype_bytes(dev->dtype), n_bytes = (size_t)heads->head_dim * element_bytes;
  char *nans = calloc(1, n_bytes);
  assert_non_null(nans);
  for (int32_t i = 0; i < heads->head_dim; i++) yk_dtype_store(dev->dtype, nans, (size_t)i, NAN);
  for (int32_t layer = 0; layer < run->model->shape->n_layers; layer++)
    for (int side = 0; side < 2; side++)
      for (int32_t h = 0; h < heads->n_kv_heads; h++) {
        const size_t at = (size_t)cache_index(heads, run->scene.slots[0], h) * element_bytes;
        op_ok(dev->ops->upload(dev, (char *)decode_cache(run, layer, side)->dev + at, nans, n_bytes, &err));
      }
  free(nans);
}

/* The inputs of a step at a position: the row's place, its residual, and a y that shows whether it is written. */
static inline void decode_place(decode_run *run, int32_t position)
{
  scene *s = &run->scene;
  yk_device *dev = run->model->dev;
  op_random random = {.seed = 4400 + (uint32_t)position};
  s->positions[0] = position;
  s->slots[0] = (int32_t)slot_of(s, 0, position);
  s->kv_tokens[0] = s->batch.max_kv_tokens = position + 1;
  const struct {
    const int32_t *to, *from;
  } numbers[] = {{s->batch.positions, s->positions}, {s->batch.kv_slots, s->slots}, {s->batch.kv_tokens, s->kv_tokens}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    op_ok(dev->ops->upload(dev, (void *)(uintptr_t)numbers[i].to, numbers[i].from, sizeof(int32_t), &err));
  op_normals_draw(&random, 0.3, run->residual.values, run->residual.n);
  for (size_t i = 0; i < run->y.n; i++) run->y.values[i] = -7.0;
  op_array_send(dev, &run->residual);
  op_array_send(dev, &run->y);
  decode_poison_row(run);
}

static inline void decode_linear(const decode_model *model, int32_t layer, int linear, const op_array *x,
                                 const op_array *y)
{
  const yk_linear_args args = {.x = x->dev, .y = y->dev, .n_tokens = 1, .y_stride = (int64_t)y->n};
  op_ok(model->dev->ops->linear_forward(model->dev, model->linears[layer][linear], &args, &err));
}

/* residual += alpha * result, and y = rms_norm(residual, w) if w is not NULL. */
static inline void decode_add(const decode_run *run, const op_array *y, const op_array *w)
{
  const decode_model *model = run->model;
  const yk_add_norm_args args = {.y = w ? y->dev : NULL,
                                 .residual = run->residual.dev,
                                 .partials = {model->result.dev},
                                 .n_partials = 1,
                                 .w = w ? w->dev : NULL,
                                 .n_rows = 1,
                                 .hidden = model->shape->hidden,
                                 .alpha = model->shape->alpha,
                                 .eps = 1e-5f};
  op_ok(model->dev->ops->add_norm(model->dev, &args, &err));
}

static inline void decode_attend(decode_run *run, int32_t layer)
{
  const decode_model *model = run->model;
  const op_array *norms = model->norms[layer];
  const yk_qk_rope_kv_args rope = {.qkv = model->qkv.dev,
                                   .heads = run->scene_shape.heads,
                                   .q_norm_w = model->shape->has_qk_norms ? norms[DECODE_Q_NORM].dev : NULL,
                                   .k_norm_w = model->shape->has_qk_norms ? norms[DECODE_K_NORM].dev : NULL,
                                   .norm_eps = 1e-5f,
                                   .rope = run->scene.rope.dev,
                                   .kv = decode_kv(run, layer),
                                   .batch = &run->scene.batch};
  const yk_attention_args attention = {.y = model->heads.dev,
                                       .qkv = model->qkv.dev,
                                       .heads = run->scene_shape.heads,
                                       .kv = rope.kv,
                                       .scale = run->scene.scale,
                                       .batch = rope.batch};
  op_ok(model->dev->ops->qk_rope_kv(model->dev, &rope, &err));
  op_ok(model->dev->ops->attention(model->dev, &attention, &err));
}

/* The step as separate operations of the device. */
static inline void decode_compose(decode_run *run)
{
  decode_model *model = run->model;
  const decode_shape *shape = model->shape;
  const yk_rms_norm_args norm = {.y = model->x.dev,
                                 .x = run->residual.dev,
                                 .w = model->norms[0][DECODE_INPUT_NORM].dev,
                                 .x_stride = shape->hidden,
                                 .n_rows = 1,
                                 .hidden = shape->hidden,
                                 .eps = 1e-5f};
  op_ok(model->dev->ops->rms_norm(model->dev, &norm, &err));
  for (int32_t layer = 0; layer < shape->n_layers; layer++) {
    const bool is_last = layer + 1 == shape->n_layers;
    const op_array *const final_norm = shape->lacks_final_norm ? NULL : &model->final_norm;
    const op_array *const next = is_last ? final_norm : &model->norms[layer + 1][DECODE_INPUT_NORM];
    decode_linear(model, layer, DECODE_LINEAR_QKV, &model->x, &model->qkv);
    decode_attend(run, layer);
    decode_linear(model, layer, DECODE_LINEAR_O, &model->heads, &model->result);
    decode_add(run, &model->x, &model->norms[layer][DECODE_POST_NORM]);
    decode_linear(model, layer, DECODE_LINEAR_GATE_UP, &model->x, &model->gated);
    decode_linear(model, layer, DECODE_LINEAR_DOWN, &model->gated, &model->result);
    decode_add(run, is_last ? &run->y : &model->x, next);
  }
}

/* The layers prepared as one operation, with caches of this format; NULL if the device does not take them. */
static inline yk_decode_layers *decode_prepare(decode_run *run, yk_kv_format format)
{
  const decode_model *model = run->model;
  const decode_shape *shape = model->shape;
  yk_decode_layer layers[DECODE_MAX_LAYERS];
  yk_decode_layers *prepared = NULL;
  for (int32_t i = 0; i < shape->n_layers; i++) {
    const op_array *norms = model->norms[i];
    layers[i] = (yk_decode_layer){.input_norm_w = norms[DECODE_INPUT_NORM].dev,
                                  .post_norm_w = norms[DECODE_POST_NORM].dev,
                                  .qkv = model->linears[i][DECODE_LINEAR_QKV],
                                  .o = model->linears[i][DECODE_LINEAR_O],
                                  .gate_up = model->linears[i][DECODE_LINEAR_GATE_UP],
                                  .down = model->linears[i][DECODE_LINEAR_DOWN],
                                  .q_norm_w = shape->has_qk_norms ? norms[DECODE_Q_NORM].dev : NULL,
                                  .k_norm_w = shape->has_qk_norms ? norms[DECODE_K_NORM].dev : NULL,
                                  .kv = decode_kv(run, i)};
    layers[i].kv.format = format;
  }
  const yk_decode_layers_spec spec = {.layers = layers,
                                      .rank = model->share.rank,
                                      .n_ranks = model->share.n_ranks,
                                      .n_layers = shape->n_layers,
                                      .hidden = shape->hidden,
                                      .n_q_heads = shape->n_q_heads,
                                      .n_kv_heads = shape->n_kv_heads,
                                      .head_dim = decode_head_dim(shape),
                                      .norm_eps = 1e-5f,
                                      .attention_scale = run->scene.scale,
                                      .alpha = shape->alpha,
                                      .rope = run->scene.rope.dev,
                                      .final_norm_w = shape->lacks_final_norm ? NULL : model->final_norm.dev};
  assert_non_null(model->dev->ops->decode_layers_create);
  op_ok(model->dev->ops->decode_layers_create(model->dev, &spec, &prepared, &err));
  return prepared;
}

/* The outputs of a step, one after the other: residual, y, then K and V of the row in each layer. */
typedef struct decode_result {
  const decode_shape *shape;
  yk_dtype dtype;
  size_t n;
  char *bytes; /* [n] of dtype */
  double *values;
} decode_result;

static inline int decode_n_outputs(const decode_shape *shape)
{
  return 2 + 2 * shape->n_layers;
}

/* The elements of output number i, and the index of the first. */
static inline size_t decode_output(const decode_shape *shape, int i, size_t *first)
{
  const size_t hidden = (size_t)shape->hidden, row = (size_t)(shape->n_kv_heads * decode_head_dim(shape));
  *first = i < 2 ? (size_t)i * hidden : 2 * hidden + (size_t)(i - 2) * row;
  return i < 2 ? hidden : row;
}

/* name: at least 32 bytes. */
static inline const char *decode_output_name(int i, char *name)
{
  if (i < 2)
    snprintf(name, 32, "%s", i ? "y" : "residual");
  else
    snprintf(name, 32, "%s of layer %d", i % 2 ? "V" : "K", i / 2 - 1);
  return name;
}

static inline decode_result decode_result_new(const decode_shape *shape, yk_dtype dtype)
{
  decode_result result = {.shape = shape, .dtype = dtype};
  size_t first;
  result.n = decode_output(shape, decode_n_outputs(shape) - 1, &first);
  result.n += first;
  result.bytes = calloc(result.n, yk_dtype_bytes(dtype));
  result.values = calloc(result.n, sizeof *result.values);
  assert_non_null(result.bytes);
  assert_non_null(result.values);
  return result;
}

static inline void decode_result_free(decode_result *result)
{
  free(result->bytes);
  free(result->values);
  *result = (decode_result){0};
}

/* The row's K or V, at to; fails if any other byte of the cache has changed. */
static inline void decode_fetch_row(decode_run *run, int32_t layer, int side, char *to)
{
  yk_device *dev = run->model->dev;
  const yk_head_layout *heads = &run->scene_shape.heads;
  op_array *cache = decode_cache(run, layer, side);
  const size_t element_bytes = yk_dtype_bytes(dev->dtype), head_bytes = (size_t)heads->head_dim * element_bytes;
  const size_t n_bytes = cache->n * element_bytes;
  char *before = cache->bytes, *after = malloc(n_bytes);
  assert_non_null(after);
  op_ok(dev->ops->download(dev, after, cache->dev, n_bytes, &err));
  for (int32_t h = 0; h < heads->n_kv_heads; h++) {
    const size_t at = (size_t)cache_index(heads, run->scene.slots[0], h) * element_bytes;
    memcpy(to + (size_t)h * head_bytes, after + at, head_bytes);
    memcpy(before + at, after + at, head_bytes);
  }
  size_t i = 0;
  while (i < n_bytes && before[i] == after[i]) i++;
  free(after);
  if (i < n_bytes)
    fail_msg("position %d, layer %d: byte %zu of the cache of %s changed, but the row is in slot %d",
             run->scene.positions[0], layer, i, side ? "V" : "K", run->scene.slots[0]);
}

/* The outputs of the step that ran last. */
static inline void decode_fetch(decode_run *run, decode_result *result)
{
  yk_device *dev = run->model->dev;
  const size_t element_bytes = yk_dtype_bytes(dev->dtype);
  for (int i = 0; i < decode_n_outputs(result->shape); i++) {
    size_t first;
    const size_t n = decode_output(result->shape, i, &first);
    char *to = result->bytes + first * element_bytes;
    if (i < 2)
      op_ok(dev->ops->download(dev, to, i ? run->y.dev : run->residual.dev, n * element_bytes, &err));
    else
      decode_fetch_row(run, i / 2 - 1, i % 2, to);
  }
  for (size_t i = 0; i < result->n; i++) result->values[i] = (double)yk_dtype_load(result->dtype, result->bytes, i);
}

/* Relative error of output i in the L2 norm; infinite for NaNs. Without a final norm y keeps its values. */
static inline double decode_error(const decode_result *found, const decode_result *expected, int i)
{
  double differences = 0.0, squares = 0.0;
  size_t first;
  const size_t n = decode_output(found->shape, i, &first);
  for (size_t j = first; j < first + n; j++) {
    const double difference = found->values[j] - expected->values[j];
    differences += difference * difference;
    squares += expected->values[j] * expected->values[j];
  }
  const bool is_kept = i == 1 && found->shape->lacks_final_norm;
  if (!(differences >= 0.0) || (is_kept && differences > 0.0)) return INFINITY;
  return differences > 0.0 ? sqrt(differences / squares) : 0.0;
}

/* Bounds of the relative error in the L2 norm. K and V of layer 0 depend on one norm and one linear layer alone. */
static inline double decode_limit(yk_dtype dtype, int output)
{
  const bool is_of_layer_0 = output == 2 || output == 3;
  if (dtype == YK_F32) return 2e-5;
  if (dtype == YK_F16) return is_of_layer_0 ? 4e-3 : 1e-2;
  return is_of_layer_0 ? 2e-2 : 4e-2;
}

/* The number of outputs that differ by more than their bounds, each of which is printed with its first NaN or its
 * largest difference. */
static inline int decode_count_wrong(const decode_result *found, const decode_result *expected, const char *what)
{
  int n_wrong = 0;
  for (int i = 0; i < decode_n_outputs(found->shape); i++) {
    char name[32];
    size_t first, worst;
    const size_t n = decode_output(found->shape, i, &first);
    const double error = decode_error(found, expected, i), limit = decode_limit(found->dtype, i);
    if (error <= limit) continue;
    worst = first;
    for (size_t j = first; j < first + n && found->values[worst] == found->values[worst]; j++)
      if (!(fabs(found->values[j] - expected->values[j]) <= fabs(found->values[worst] - expected->values[worst])))
        worst = j;
    printf("%s, %s: error %.3g, limit %.3g; at %zu of %zu found %.6g, expected %.6g\n", what,
           decode_output_name(i, name), error, limit, worst - first, n, found->values[worst], expected->values[worst]);
    n_wrong++;
  }
  return n_wrong;
}

#endif
