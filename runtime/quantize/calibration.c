#include "quantize/calibration.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "model/model.h"
#include "parallel/comm.h"
#include "quantize/input_recorder.h"
#include "text/tokenizer.h"

enum { WINDOW_TOKENS = 512, MIN_TOKENS = 16 };

/* ---- The model --------------------------------------------------------------------------------------------------- */

/* A step with one sequence of n ids from position 0 on, without wanted logits. */
static yk_step step_of(const int32_t *ids, int32_t n, void *block)
{
  yk_step step = {.counts = {.n_tokens = n,
                             .n_seqs = 1,
                             .max_rows_per_seq = n,
                             .max_kv_tokens = n,
                             .block_table_stride = (int32_t)yk_ceil_div_i64(n, YK_KV_BLOCK_TOKENS)},
                  .block = block};
  step.layout = yk_step_layout_of(&step.counts);
  for (int32_t i = 0; i < n; i++) {
    yk_step_token_ids(&step)[i] = ids[i];
    yk_step_positions(&step)[i] = yk_step_kv_slots(&step)[i] = i;
    yk_step_seq_of_row(&step)[i] = 0;
  }
  yk_step_row_starts(&step)[0] = 0;
  yk_step_row_starts(&step)[1] = yk_step_kv_tokens(&step)[0] = n;
  yk_step_seq_slots(&step)[0] = 0;
  yk_step_state_loads(&step)[0] = YK_STATE_ZERO;
  yk_step_state_saves(&step)[0] = -1;
  yk_step_state_save_rows(&step)[0] = 0;
  for (int32_t i = 0; i < step.counts.block_table_stride; i++) yk_step_block_tables(&step)[i] = i;
  return step;
}

typedef struct reader {
  yk_input_recorder recorder;
  const yk_checkpoint *checkpoint;
  int32_t window_tokens;
  const int32_t *ids; /* [n_ids] */
  int32_t n_ids;
  yk_comm *comm;
  yk_model *model;
  void *block; /* block of a step of window_tokens */
} reader;

yk_device_limits yk_calibration_limits(const yk_checkpoint *checkpoint)
{
  const yk_model_config *c = yk_checkpoint_config(checkpoint);
  int32_t n = (int32_t)yk_min_i64(WINDOW_TOKENS, c->max_model_tokens);
  return (yk_device_limits){.max_tokens = n, .max_seqs = 1, .max_model_tokens = n, .vocab = c->vocab_size};
}

static yk_status load_model(reader *r, yk_err *err)
{
  const yk_quantize_rank *rank = r->recorder.rank;
  const yk_model_limits limits = {.step = yk_calibration_limits(r->checkpoint),
                                  .n_kv_blocks = (int32_t)yk_ceil_div_i64(r->window_tokens, YK_KV_BLOCK_TOKENS)};
  const yk_step_counts most = yk_step_counts_max(&limits.step);
  r->block = calloc(1, yk_step_layout_of(&most).n_bytes);
  if (!r->block) return yk_err_set(err, YK_E_NOMEM, "no memory for steps of %d tokens", (int)r->window_tokens);
  YK_TRY(yk_quantize_progress(rank, "loading", 0, 1, err));
  const yk_world alone = yk_world_of_process(1);
  YK_TRY(yk_comm_local_create(&alone, &rank->dev, &r->comm, err));
  return yk_model_create(r->checkpoint, &limits, rank->dev, r->comm, NULL, NULL, &r->model, err);
}

static yk_status read_text(reader *r, const yk_quantize_rank *rank, yk_calibration *out, yk_err *err)
{
  YK_TRY(yk_input_recorder_begin(rank, out, &r->recorder, err));
  YK_TRY(load_model(r, err));
  for (int32_t at = 0; at < r->n_ids; at += r->window_tokens) {
    YK_TRY(yk_quantize_progress(rank, "calibrating", at, r->n_ids, err));
    int32_t n = (int32_t)yk_min_i64(r->window_tokens, r->n_ids - at);
    yk_step step = step_of(r->ids + at, n, r->block);
    r->recorder.n_seen = at;
    YK_TRY(yk_model_forward(r->model, &step, err));
  }
  return yk_input_recorder_finish(&r->recorder, err);
}

static void reader_free(reader *r)
{
  if (r->model) yk_model_destroy(r->model);
  if (r->comm) r->comm->ops->destroy(r->comm);
  yk_input_recorder_free(&r->recorder);
  free(r->block);
}

/* ---- Calibration ------------------------------------------------------------------------------------------------- */

/* Check all linear layers that read inputs of this kind in this layer. */
static yk_status check_readers(const yk_checkpoint *checkpoint, int32_t layer, yk_input_kind kind, yk_err *err)
{
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  const yk_input_roles roles = yk_input_roles_of(config, layer, kind);
  char name[YK_WEIGHT_NAME_BYTES];
  for (int i = 0; i < roles.n_readers; i++) {
    const yk_weight_module m = yk_weight_module_of(config, roles.readers[i], layer);
    for (int32_t expert = 0; expert < yk_weight_count(config, roles.readers[i], layer); expert++) {
      yk_weight_view view;
      yk_weight_name_of_expert(config, roles.readers[i], layer, expert, name);
      YK_TRY(yk_checkpoint_linear(checkpoint, name, m.k, m.n, false, &view, err));
    }
  }
  return YK_OK;
}

yk_status yk_calibration_check(const yk_checkpoint *checkpoint, yk_err *err)
{
  for (int32_t layer = 0; layer < yk_checkpoint_config(checkpoint)->n_layers; layer++)
    for (int kind = 0; kind < YK_N_INPUT_KINDS; kind++)
      YK_TRY(check_readers(checkpoint, layer, (yk_input_kind)kind, err));
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
  out->config = config;
  out->n_tokens = (int32_t)yk_min_i64((int64_t)n_ids, rank->run->options->calibration_tokens);
  out->n_rows = (int32_t)yk_min_i64(out->n_tokens, YK_CALIBRATION_ROWS);
  reader r = {.checkpoint = checkpoint,
              .window_tokens = yk_calibration_limits(checkpoint).max_tokens,
              .ids = ids,
              .n_ids = out->n_tokens};
  yk_status status = read_text(&r, rank, out, err);
  reader_free(&r);
  return status;
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
