#include "quantize/calibration.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "model/model.h"
#include "parallel/comm.h"
#include "quantize/observer.h"
#include "text/tokenizer.h"

enum { WINDOW_TOKENS = 512, MIN_TOKENS = 16 };

/* Which of a layer's modules stands for a kind: the first part of its linear layer. */
static const yk_weight_role first_part[YK_N_INPUT_KINDS] = {YK_ROLE_Q, YK_ROLE_O, YK_ROLE_GATE, YK_ROLE_DOWN};

typedef struct observed {
  const yk_quantize_rank *rank;
  const yk_checkpoint *checkpoint;
  yk_calibration *calibration;
  const yk_linear **linears; /* [n_layers, YK_N_INPUT_KINDS] */
  int32_t n_seen;            /* tokens of earlier windows */
} observed;

/* ---- What the device shows --------------------------------------------------------------------------------------- */

static yk_status module_data(const yk_checkpoint *checkpoint, int32_t layer, yk_input_kind kind, const void **data,
                             int64_t *k, yk_err *err)
{
  const yk_model_config *c = yk_checkpoint_config(checkpoint);
  const yk_weight_module m = yk_weight_module_of(c, first_part[kind]);
  char module[YK_WEIGHT_NAME_BYTES];
  yk_weight_view view;
  yk_weight_name(c->family, first_part[kind], layer, module);
  YK_TRY(yk_checkpoint_linear(checkpoint, module, m.k, m.n, false, &view, err));
  *data = view.plain;
  *k = view.k;
  return YK_OK;
}

/* A linear layer is known by where its first part's weight lies. */
static yk_status on_create(void *user, const yk_linear_spec *spec, const yk_linear *linear, yk_err *err)
{
  observed *o = user;
  for (int32_t layer = 0; layer < o->calibration->n_layers; layer++)
    for (int kind = 0; kind < YK_N_INPUT_KINDS; kind++) {
      const void *data;
      int64_t k;
      YK_TRY(module_data(o->checkpoint, layer, (yk_input_kind)kind, &data, &k, err));
      if (data == spec->parts[0].weight.plain) o->linears[layer * YK_N_INPUT_KINDS + kind] = linear;
    }
  return YK_OK;
}

static yk_status on_forward(void *user, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  const observed *o = user;
  const yk_calibration *c = o->calibration;
  yk_device *dev = o->rank->dev;
  int32_t i = 0, n = c->n_layers * YK_N_INPUT_KINDS;
  while (i < n && o->linears[i] != linear) i++;
  if (i == n) return YK_OK; /* lm_head */
  const yk_calibrated_input *input = &c->inputs[i];
  const yk_awq_observe_args seen = {.x = args->x,
                                    .first_token = o->n_seen,
                                    .n_text = c->n_tokens,
                                    .n_kept = input->n_rows,
                                    .n_tokens = args->n_tokens,
                                    .k = input->k,
                                    .sums = input->device_sums,
                                    .kept = input->rows};
  return dev->ops->awq_observe(dev, &seen, err);
}

/* ---- The model --------------------------------------------------------------------------------------------------- */

/* One sequence of n_tokens ids from position 0 on, of which no logits are wanted. words: yk_step_words_max. */
static yk_step step_of(const int32_t *ids, int32_t n, int32_t *words)
{
  int32_t n_blocks = (int32_t)yk_ceil_div_i64(n, YK_KV_BLOCK_TOKENS);
  int32_t *token_ids = words, *positions = token_ids + n, *kv_slots = positions + n, *seq_of_row = kv_slots + n;
  int32_t *row_starts = seq_of_row + n, *kv_tokens = row_starts + 2, *blocks = kv_tokens + 1;
  for (int32_t i = 0; i < n; i++) {
    token_ids[i] = ids[i];
    positions[i] = kv_slots[i] = i;
    seq_of_row[i] = 0;
  }
  row_starts[0] = 0;
  row_starts[1] = kv_tokens[0] = n;
  for (int32_t i = 0; i < n_blocks; i++) blocks[i] = i;
  return (yk_step){.batch = {.n_tokens = n,
                             .n_seqs = 1,
                             .max_rows_per_seq = n,
                             .max_kv_tokens = n,
                             .block_table_stride = n_blocks,
                             .token_ids = token_ids,
                             .positions = positions,
                             .kv_slots = kv_slots,
                             .seq_of_row = seq_of_row,
                             .row_starts = row_starts,
                             .kv_tokens = kv_tokens,
                             .block_tables = blocks},
                   .wanted_rows = blocks + n_blocks,
                   .words = words,
                   .n_words = (size_t)(blocks + n_blocks - words)};
}

typedef struct reader {
  observed observed;
  yk_observer observer;
  int32_t window_tokens;
  const int32_t *ids; /* [n_ids] */
  int32_t n_ids;
  yk_comm *comm;
  yk_model *model;
  int32_t *words;
} reader;

yk_device_limits yk_calibration_limits(const yk_checkpoint *checkpoint)
{
  const yk_model_config *c = yk_checkpoint_config(checkpoint);
  int32_t n = (int32_t)yk_min_i64(WINDOW_TOKENS, c->max_model_tokens);
  return (yk_device_limits){.max_tokens = n, .max_seqs = 1, .max_model_tokens = n, .vocab = c->vocab_size};
}

static yk_status load_model(reader *r, yk_err *err)
{
  const yk_quantize_rank *rank = r->observed.rank;
  const yk_model_limits limits = {.step = yk_calibration_limits(r->observed.checkpoint),
                                  .n_kv_blocks = (int32_t)yk_ceil_div_i64(r->window_tokens, YK_KV_BLOCK_TOKENS)};
  r->words = calloc(yk_step_words_max(r->window_tokens, 1, limits.n_kv_blocks), sizeof *r->words);
  if (!r->words) return yk_err_set(err, YK_E_NOMEM, "no memory for steps of %d tokens", (int)r->window_tokens);
  YK_TRY(yk_quantize_progress(rank, "loading", 0, 1, err));
  YK_TRY(yk_comm_local_create(&rank->dev, 1, &r->comm, err));
  yk_observer_attach(&r->observer, rank->dev);
  return yk_model_create(r->observed.checkpoint, &limits, rank->dev, r->comm, NULL, NULL, &r->model, err);
}

static yk_status read_text(reader *r, yk_err *err)
{
  YK_TRY(load_model(r, err));
  for (int32_t at = 0; at < r->n_ids; at += r->window_tokens) {
    YK_TRY(yk_quantize_progress(r->observed.rank, "calibrating", at, r->n_ids, err));
    int32_t n = (int32_t)yk_min_i64(r->window_tokens, r->n_ids - at);
    yk_step step = step_of(r->ids + at, n, r->words);
    r->observed.n_seen = at;
    YK_TRY(yk_model_forward(r->model, &step, err));
  }
  return YK_OK;
}

static void reader_free(reader *r)
{
  if (r->model) yk_model_destroy(r->model);
  if (r->comm) r->comm->ops->destroy(r->comm);
  if (r->observer.inner) yk_observer_detach(&r->observer, r->observed.rank->dev);
  free(r->words);
  free(r->observed.linears);
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

yk_status yk_calibration_check(const yk_checkpoint *checkpoint, yk_err *err)
{
  const void *data;
  int64_t k;
  for (int32_t layer = 0; layer < yk_checkpoint_config(checkpoint)->n_layers; layer++)
    for (int kind = 0; kind < YK_N_INPUT_KINDS; kind++)
      YK_TRY(module_data(checkpoint, layer, (yk_input_kind)kind, &data, &k, err));
  return YK_OK;
}

static yk_status make_inputs(const yk_quantize_rank *rank, yk_calibration *c, yk_err *err)
{
  yk_device *dev = rank->dev;
  size_t n = (size_t)c->n_layers * YK_N_INPUT_KINDS;
  c->inputs = calloc(n, sizeof *c->inputs);
  if (!c->inputs) return yk_err_set(err, YK_E_NOMEM, "no memory for the inputs of %zu layers", n);
  for (size_t i = 0; i < n; i++) {
    yk_calibrated_input *input = &c->inputs[i];
    const void *data;
    YK_TRY(module_data(rank->run->checkpoint, (int32_t)(i / YK_N_INPUT_KINDS), (yk_input_kind)(i % YK_N_INPUT_KINDS),
                       &data, &input->k, err));
    size_t k = (size_t)input->k;
    input->n_rows = (int32_t)yk_min_i64(c->n_tokens, YOKE_CALIBRATION_ROWS);
    input->sums = calloc(k, sizeof *input->sums);
    if (!input->sums) return yk_err_set(err, YK_E_NOMEM, "no memory for the inputs of %zu layers", n);
    YK_TRY(dev->ops->alloc(dev, k * sizeof(double), (void **)&input->device_sums, err));
    YK_TRY(dev->ops->alloc(dev, (size_t)input->n_rows * k * sizeof(float), (void **)&input->rows, err));
  }
  return YK_OK;
}

static yk_status fetch_sums(const yk_quantize_rank *rank, const yk_calibration *c, yk_err *err)
{
  yk_device *dev = rank->dev;
  for (int32_t i = 0; i < c->n_layers * YK_N_INPUT_KINDS; i++) {
    yk_calibrated_input *input = &c->inputs[i];
    YK_TRY(dev->ops->download(dev, input->sums, input->device_sums, (size_t)input->k * sizeof(double), err));
    dev->ops->free(dev, input->device_sums);
    input->device_sums = NULL;
  }
  return YK_OK;
}

static yk_status calibrate_on(const yk_quantize_rank *rank, const int32_t *ids, size_t n_ids, yk_calibration *out,
                              yk_err *err)
{
  const yk_checkpoint *checkpoint = rank->run->checkpoint;
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  if (n_ids < MIN_TOKENS)
    return yk_err_set(err, YK_E_INVAL, "calibration: expected a text of at least %d tokens, found %zu", MIN_TOKENS,
                      n_ids);
  for (size_t i = 0; i < n_ids; i++)
    if (ids[i] >= config->vocab_size)
      return yk_err_set(err, YK_E_FORMAT, "tokenizer: token %d is beyond the model's vocabulary of %d", (int)ids[i],
                        (int)config->vocab_size);
  out->n_layers = config->n_layers;
  out->n_tokens = (int32_t)yk_min_i64((int64_t)n_ids, rank->run->options->calibration_tokens);
  YK_TRY(make_inputs(rank, out, err));
  reader r = {.observed = {.rank = rank, .checkpoint = checkpoint, .calibration = out},
              .observer = {.on_create = on_create, .on_forward = on_forward},
              .window_tokens = yk_calibration_limits(checkpoint).max_tokens,
              .ids = ids,
              .n_ids = out->n_tokens};
  r.observer.user = &r.observed;
  r.observed.linears = calloc((size_t)out->n_layers * YK_N_INPUT_KINDS, sizeof *r.observed.linears);
  yk_status status = r.observed.linears ? read_text(&r, err) : yk_err_set(err, YK_E_NOMEM, "no memory for a model");
  reader_free(&r);
  YK_TRY(status);
  return fetch_sums(rank, out, err);
}

yk_status yk_calibrate(const yk_quantize_rank *rank, yk_calibration *out, yk_err *err)
{
  const yk_quantize_options *o = rank->run->options;
  yk_tokenizer *tokenizer;
  int32_t *ids = NULL;
  size_t n_ids = 0;
  *out = (yk_calibration){0};
  YK_TRY(yk_tokenizer_load(o->model_dir, &tokenizer, err));
  yk_status status = yk_tokenizer_encode(tokenizer, o->calibration, o->calibration_bytes, true, &ids, &n_ids, err);
  yk_tokenizer_free(tokenizer);
  if (status == YK_OK) status = calibrate_on(rank, ids, n_ids, out, err);
  free(ids);
  return status;
}

void yk_calibration_free(const yk_quantize_rank *rank, yk_calibration *calibration)
{
  for (size_t i = 0; calibration->inputs && i < (size_t)calibration->n_layers * YK_N_INPUT_KINDS; i++) {
    yk_calibrated_input *input = &calibration->inputs[i];
    free(input->sums);
    rank->dev->ops->free(rank->dev, input->device_sums);
    rank->dev->ops->free(rank->dev, input->rows);
  }
  free(calibration->inputs);
}
