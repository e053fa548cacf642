#include "quantize/input_recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static const yk_model_config *config_of(const yk_input_recorder *r)
{
  return r->calibration->config;
}

/* ---- Identifying linear layers ----------------------------------------------------------------------------------- */

/* A linear layer is identified by the name of its first part's weight, for experts by that of the first expert. In a
 * layer of experts the router, whose input is every row, represents all layers that read the hidden rows. */
static yk_status on_create(void *user, const yk_linear_spec *spec, const yk_linear *linear, yk_err *err)
{
  (void)err;
  yk_input_recorder *r = user;
  const char *tensor = spec->parts[0].weight.tensor, *dot = tensor ? strrchr(tensor, '.') : NULL;
  char module[YK_WEIGHT_NAME_BYTES];
  yk_weight_place place;
  if (!dot || (size_t)(dot - tensor) >= sizeof module) return YK_OK;
  snprintf(module, sizeof module, "%.*s", (int)(dot - tensor), tensor);
  if (!yk_weight_find(config_of(r), module, &place)) return YK_OK;
  yk_input_kind kind = yk_input_read_by(config_of(r), place.layer, place.role);
  if (kind == YK_N_INPUT_KINDS) return YK_OK;
  bool has_router = kind == YK_INPUT_GATE_UP && config_of(r)->experts.layers[place.layer];
  if (!has_router || place.role == YK_ROLE_ROUTER) r->linears[place.layer * YK_N_INPUT_KINDS + kind] = linear;
  return YK_OK;
}

/* The inputs that the linear layer represents, or NULL. */
static yk_calibrated_input *input_of(yk_input_recorder *r, const yk_linear *linear, yk_input_kind *kind)
{
  int32_t n = linear ? config_of(r)->n_layers * YK_N_INPUT_KINDS : 0;
  for (int32_t i = 0; i < n; i++) {
    if (r->linears[i] != linear) continue;
    r->layer = i / YK_N_INPUT_KINDS;
    *kind = (yk_input_kind)(i % YK_N_INPUT_KINDS);
    return &r->calibration->inputs[i];
  }
  return NULL;
}

/* ---- Callbacks of the observer ----------------------------------------------------------------------------------- */

static yk_status observe(yk_input_recorder *r, yk_calibrated_input *input, const void *x, int64_t x_stride,
                         int32_t n_tokens, yk_err *err)
{
  yk_device *dev = r->rank->dev;
  const yk_awq_observe_args seen = {.x = x,
                                    .x_stride = x_stride,
                                    .first_token = r->n_seen,
                                    .n_text = r->calibration->n_tokens,
                                    .n_kept = r->calibration->n_rows,
                                    .n_tokens = n_tokens,
                                    .k = input->k,
                                    .sums = input->device_sums,
                                    .kept = input->device_rows};
  return dev->ops->awq_observe(dev, &seen, err);
}

static yk_status on_forward(void *user, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  yk_input_recorder *r = user;
  yk_input_kind kind;
  yk_calibrated_input *input = input_of(r, linear, &kind);
  return input ? observe(r, input, args->x, input->k, args->n_tokens, err) : YK_OK;
}

/* The cache begins with the window's normalised latent vectors, the inputs of kv_b. */
static yk_status on_latent(void *user, const yk_latent_attention_args *args, yk_err *err)
{
  yk_input_recorder *r = user;
  yk_calibrated_input *input = yk_calibrated_input_of(r->calibration, r->layer, YK_INPUT_KV_B);
  return observe(r, input, args->cache, yk_latent_width(&args->layout), args->batch->n_tokens, err);
}

/* ---- Experts ----------------------------------------------------------------------------------------------------- */

static yk_status fetch(yk_input_recorder *r, const void *data, size_t n_bytes, yk_host_buffer *buffer, const void **out,
                       yk_err *err)
{
  yk_device *dev = r->rank->dev;
  *out = data;
  if (dev->ops->is_host) return YK_OK;
  if (buffer->n_bytes < n_bytes) {
    free(buffer->memory);
    *buffer = (yk_host_buffer){.memory = malloc(n_bytes)};
    if (!buffer->memory) return yk_err_set(err, YK_E_NOMEM, "no memory for the inputs of experts");
    buffer->n_bytes = n_bytes;
  }
  *out = buffer->memory;
  return dev->ops->download(dev, buffer->memory, data, n_bytes, err);
}

/* Keep the choices of a token, and the inputs of the chosen experts' down projections. */
static void keep_token(const yk_input_recorder *r, int64_t token, const void *x, const int32_t *choices,
                       const int32_t *slots)
{
  const yk_calibration *c = r->calibration;
  const yk_calibrated_input *input = yk_calibrated_input_of(c, r->layer, YK_INPUT_EXPERT_DOWN);
  int64_t top_k = config_of(r)->experts.top_k, first = (r->n_seen + token) * c->n_rows / c->n_tokens * top_k;
  for (int64_t j = 0; j < top_k; j++) {
    c->choices[r->layer][first + j] = choices[token * top_k + j];
    for (int64_t i = 0; i < input->k; i++)
      input->rows[(first + j) * input->k + i] =
          yk_dtype_load(r->rank->dev->dtype, x, (size_t)(slots[token * top_k + j] * input->k + i));
  }
}

static yk_status keep_experts(yk_input_recorder *r, const yk_calibrated_input *input, const yk_mixture_args *args,
                              yk_err *err)
{
  const yk_mixture_taps *taps = args->taps;
  const void *x, *choices, *slots;
  size_t n_choices = (size_t)(args->n_rows * config_of(r)->experts.top_k);
  size_t x_bytes = (size_t)taps->max_slots * (size_t)input->k * yk_dtype_bytes(r->rank->dev->dtype);
  YK_TRY(fetch(r, taps->inner, x_bytes, &r->x, &x, err));
  YK_TRY(fetch(r, taps->choices, n_choices * sizeof(int32_t), &r->choices, &choices, err));
  YK_TRY(fetch(r, taps->slot_of_choice, n_choices * sizeof(int32_t), &r->slots, &slots, err));
  for (int32_t i = 0; i < args->n_rows; i++)
    if (yk_awq_is_kept(r->n_seen + i, r->calibration->n_tokens, r->calibration->n_rows))
      keep_token(r, i, x, choices, slots);
  return YK_OK;
}

static yk_status on_mixture(void *user, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *err)
{
  yk_input_recorder *r = user;
  yk_input_kind kind;
  yk_calibrated_input *rows = input_of(r, mixture->spec.router, &kind);
  if (rows) YK_TRY(observe(r, rows, args->x->rows, rows->k, args->n_rows, err));
  yk_calibrated_input *shared = input_of(r, mixture->spec.shared_down, &kind);
  if (shared) YK_TRY(observe(r, shared, args->taps->shared_inner, shared->k, args->n_rows, err));
  const yk_calibrated_input *inner = input_of(r, mixture->spec.down, &kind);
  return inner ? keep_experts(r, inner, args, err) : YK_OK;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static yk_status no_memory(yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "no memory for the recorded inputs of layers");
}

/* Rows per kind: experts' down projections have one per choice. */
static int64_t rows_of(const yk_calibration *c, yk_input_kind kind)
{
  return (int64_t)c->n_rows * (kind == YK_INPUT_EXPERT_DOWN ? c->config->experts.top_k : 1);
}

static yk_status make_input(const yk_quantize_rank *rank, const yk_calibration *c, int32_t layer, yk_input_kind kind,
                            yk_err *err)
{
  const yk_input_roles roles = yk_input_roles_of(c->config, layer, kind);
  yk_calibrated_input *input = yk_calibrated_input_of(c, layer, kind);
  yk_device *dev = rank->dev;
  if (roles.n_readers == 0) return YK_OK;
  size_t k = (size_t)(input->k = yk_input_size(c->config, layer, &roles)), n_rows = (size_t)rows_of(c, kind);
  if (!(input->rows = calloc(n_rows * k, sizeof *input->rows))) return no_memory(err);
  if (kind == YK_INPUT_EXPERT_DOWN) {
    c->choices[layer] = calloc(n_rows, sizeof *c->choices[layer]);
    return c->choices[layer] ? YK_OK : no_memory(err);
  }
  if (!(input->sums = calloc(k, sizeof *input->sums))) return no_memory(err);
  YK_TRY(dev->ops->alloc(dev, k * sizeof(double), (void **)&input->device_sums, err));
  return dev->ops->alloc(dev, n_rows * k * sizeof(float), (void **)&input->device_rows, err);
}

yk_status yk_input_recorder_begin(const yk_quantize_rank *rank, yk_calibration *calibration, yk_input_recorder *out,
                                  yk_err *err)
{
  int32_t n_layers = calibration->config->n_layers;
  *out = (yk_input_recorder){
      .observer = {.on_create = on_create, .on_forward = on_forward, .on_mixture = on_mixture, .on_latent = on_latent},
      .rank = rank,
      .calibration = calibration};
  out->observer.user = out;
  out->linears = calloc((size_t)n_layers * YK_N_INPUT_KINDS, sizeof *out->linears);
  calibration->inputs = calloc((size_t)n_layers * YK_N_INPUT_KINDS, sizeof *calibration->inputs);
  calibration->choices = calloc((size_t)n_layers, sizeof *calibration->choices);
  if (!out->linears || !calibration->inputs || !calibration->choices) return no_memory(err);
  for (int32_t layer = 0; layer < n_layers; layer++)
    for (int kind = 0; kind < YK_N_INPUT_KINDS; kind++)
      YK_TRY(make_input(rank, calibration, layer, (yk_input_kind)kind, err));
  yk_observer_attach(&out->observer, rank->dev);
  return YK_OK;
}

static void let_go(yk_device *dev, yk_calibrated_input *input)
{
  dev->ops->free(dev, input->device_sums);
  dev->ops->free(dev, input->device_rows);
  input->device_sums = NULL;
  input->device_rows = NULL;
}

yk_status yk_input_recorder_finish(yk_input_recorder *recorder, yk_err *err)
{
  yk_device *dev = recorder->rank->dev;
  const yk_calibration *c = recorder->calibration;
  for (int32_t i = 0; i < c->config->n_layers * YK_N_INPUT_KINDS; i++) {
    yk_calibrated_input *input = &c->inputs[i];
    if (!input->device_sums) continue;
    size_t k = (size_t)input->k;
    YK_TRY(dev->ops->download(dev, input->sums, input->device_sums, k * sizeof(double), err));
    YK_TRY(dev->ops->download(dev, input->rows, input->device_rows, (size_t)c->n_rows * k * sizeof(float), err));
    let_go(dev, input);
  }
  return YK_OK;
}

void yk_input_recorder_free(yk_input_recorder *recorder)
{
  const yk_calibration *c = recorder->calibration;
  yk_device *dev = recorder->rank->dev;
  if (recorder->observer.inner) yk_observer_detach(&recorder->observer, dev);
  for (int32_t i = 0; c->inputs && i < c->config->n_layers * YK_N_INPUT_KINDS; i++) let_go(dev, &c->inputs[i]);
  free(recorder->linears);
  free(recorder->x.memory);
  free(recorder->choices.memory);
  free(recorder->slots.memory);
}
