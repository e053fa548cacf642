#include "engine/expert_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/struct_size.h"
#include "engine/call.h"
#include "engine/engine_internal.h"
#include "model/rank_specs.h"

static int64_t n_counts(const yk_expert_load *load)
{
  return (int64_t)load->n_layers * load->n_experts;
}

/* ---- Layout ------------------------------------------------------------------------------------------------------ */

static void share_out(const yk_model_config *config, const yk_settings *s, yk_expert_load *out)
{
  out->holds_whole = s->limits.expert_parallel;
  for (int rank = 0; rank < out->n_ranks; rank++) {
    const yk_rank_share share = yk_rank_share_of(config, rank, out->n_ranks, out->holds_whole);
    if (out->holds_whole)
      out->first[rank + 1] = out->first[rank] + (int32_t)yk_range_size(share.experts);
    else
      out->parts[rank] = (double)yk_range_size(share.expert_ffn) / config->experts.ffn_size;
  }
}

yk_status yk_expert_counts_create(const yk_model_config *config, const yk_settings *settings, yk_expert_counts *out,
                                  yk_err *err)
{
  yk_expert_load *load = &out->load;
  int32_t n_layers = 0;
  for (int32_t i = 0; i < config->n_layers; i++) n_layers += config->experts.layers[i];
  if (n_layers == 0) return YK_OK;
  *load = (yk_expert_load){.n_layers = n_layers,
                           .n_experts = config->experts.n_experts,
                           .top_k = config->experts.top_k,
                           .n_ranks = yk_world_group_size(&settings->world),
                           .layers = calloc((size_t)n_layers, sizeof *load->layers)};
  load->rows = calloc((size_t)n_counts(load), sizeof *load->rows);
  out->fresh = calloc((size_t)n_counts(load), sizeof *out->fresh);
  if (!load->layers || !load->rows || !out->fresh)
    return yk_err_set(err, YK_E_NOMEM, "no memory for the counts of %lld experts", (long long)n_counts(load));
  for (int32_t i = 0, at = 0; i < config->n_layers; i++)
    if (config->experts.layers[i]) load->layers[at++] = i;
  share_out(config, settings, load);
  return YK_OK;
}

void yk_expert_counts_destroy(yk_expert_counts *counts)
{
  yk_expert_load_free(&counts->load);
  free(counts->fresh);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static yk_status read_counts(yk_engine *e, yk_err *err)
{
  yk_expert_counts *counts = &e->experts;
  if (!counts->is_stale) return YK_OK;
  const size_t n = (size_t)n_counts(&counts->load);
  YK_TRY(yk_ranks_read_expert_rows(e->ranks, counts->fresh, n, e->settings.step_timeout_s, err));
  counts->is_stale = false;
  counts->read_ns = yk_clock_now_ns();
  pthread_mutex_lock(&e->mutex);
  memcpy(counts->load.rows, counts->fresh, n * sizeof *counts->fresh);
  pthread_mutex_unlock(&e->mutex);
  return YK_OK;
}

yk_status yk_expert_counts_step(yk_engine *e, yk_err *err)
{
  const int64_t period_ns = 1000000000;
  yk_expert_counts *counts = &e->experts;
  if (counts->load.n_layers == 0) return YK_OK;
  counts->is_stale = true;
  return yk_clock_now_ns() - counts->read_ns >= period_ns ? read_counts(e, err) : YK_OK;
}

yk_status yk_expert_counts_idle(yk_engine *e, yk_err *err)
{
  return read_counts(e, err);
}

/* ---- For callers ------------------------------------------------------------------------------------------------- */

/* Choices in a layer that fall to a rank. rows: [n_experts]. */
static double choices_of_rank(const yk_expert_load *load, const int64_t *rows, int rank)
{
  double sum = 0;
  int32_t first = load->holds_whole ? load->first[rank] : 0;
  int32_t end = load->holds_whole ? load->first[rank + 1] : load->n_experts;
  for (int32_t i = first; i < end; i++) sum += (double)rows[i];
  return load->holds_whole ? sum : sum * load->parts[rank];
}

static void sum_up(yk_expert_load *load)
{
  double total = 0, busiest = 0, of_ranks[YK_MAX_RANKS] = {0};
  for (int32_t layer = 0; layer < load->n_layers; layer++) {
    const int64_t *rows = load->rows + (int64_t)layer * load->n_experts;
    double most = 0;
    for (int32_t i = 0; i < load->n_experts; i++) total += (double)rows[i];
    for (int rank = 0; rank < load->n_ranks; rank++) {
      double choices = choices_of_rank(load, rows, rank);
      of_ranks[rank] += choices;
      most = fmax(most, choices);
    }
    busiest += most;
  }
  load->busiest_share = total > 0 ? busiest / total : 0;
  for (int rank = 0; rank < load->n_ranks; rank++) load->rank_shares[rank] = total > 0 ? of_ranks[rank] / total : 0;
}

static void run_read(yk_engine *e, yk_call *call)
{
  yk_err error = YK_ERR_INIT;
  yk_status status = read_counts(e, &error);
  yk_call_answer(e, call, status == YK_OK ? NULL : &error);
}

static yk_status get_load(yk_engine *engine, bool waits, yk_expert_load *out, yk_err *err)
{
  const yk_expert_load *load = &engine->experts.load;
  *out = (yk_expert_load){0};
  if (load->n_layers == 0) return YK_OK;
  if (waits) {
    yk_call call = {.run = run_read};
    YK_TRY(yk_call_run(engine, &call, err));
  }
  size_t layers_bytes = (size_t)load->n_layers * sizeof *out->layers;
  size_t rows_bytes = (size_t)n_counts(load) * sizeof *out->rows;
  int32_t *layers = malloc(layers_bytes);
  int64_t *rows = malloc(rows_bytes);
  if (!layers || !rows) {
    free(layers);
    free(rows);
    return yk_err_set(err, YK_E_NOMEM, "no memory for the counts of %lld experts", (long long)n_counts(load));
  }
  memcpy(layers, load->layers, layers_bytes);
  pthread_mutex_lock(&engine->mutex);
  memcpy(rows, load->rows, rows_bytes);
  pthread_mutex_unlock(&engine->mutex);
  *out = *load;
  out->layers = layers;
  out->rows = rows;
  sum_up(out);
  return YK_OK;
}

yk_status yk_engine_get_expert_load_sized(yk_engine *engine, bool waits, yk_expert_load *out, size_t struct_size,
                                          yk_err *err)
{
  yk_expert_load load;
  yk_status status = get_load(engine, waits, &load, err);
  yk_struct_write(out, struct_size, &load, sizeof load);
  return status;
}

void yk_expert_load_free(yk_expert_load *load)
{
  free(load->layers);
  free(load->rows);
  load->layers = NULL;
  load->rows = NULL;
  load->n_layers = 0;
}

void yk_expert_load_subtract(yk_expert_load *load, const yk_expert_load *before)
{
  for (int64_t i = 0; i < n_counts(load); i++) load->rows[i] -= before->rows[i];
  if (load->n_layers > 0) sum_up(load);
}
