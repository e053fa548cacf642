#include "model/step_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"

enum {
  LAYER_OPERATIONS = 24, /* upper bound: latent attention, a shared expert and experts, all of them W8A8 */
  /* Upload, message of the previous stage, embedding, all-reduce, norm, two of embeddings of layers, first norm of the
   * stage, message to the next stage or late data and penalties, end. */
  OTHER_OPERATIONS = 12,
  ROUND_OPERATIONS = 6, /* per chunk of wanted rows: barrier, row selection, lm_head, gather, sampling, hidden states */
  N_CALIBRATING = 32,
  N_CHAINS = 8
};

int32_t yk_step_profile_capacity(int32_t n_layers, const yk_device_limits *limits)
{
  int32_t n_rounds = (int32_t)yk_ceil_div_i64(limits->max_tokens, limits->max_seqs);
  int32_t n = n_layers * LAYER_OPERATIONS + OTHER_OPERATIONS + n_rounds * ROUND_OPERATIONS;
  return n > N_CALIBRATING ? n : N_CALIBRATING;
}

/* ---- The cost of a stamp ----------------------------------------------------------------------------------------- */

static yk_status stamp_chain(yk_step_profile *profile, yk_device *dev, yk_err *err)
{
  for (int i = 0; i < N_CALIBRATING; i++) YK_TRY(dev->ops->timestamp(dev, profile->table + i, err));
  return YK_OK;
}

/* The stamps run as in a decode step: recorded as a graph on devices that record graphs. */
static yk_status run_chain(yk_step_profile *profile, yk_device *dev, yk_err *err)
{
  const yk_device_ops *ops = dev->ops;
  yk_graph *graph = NULL;
  YK_TRY(stamp_chain(profile, dev, err));
  if (!ops->graph_begin) return YK_OK;
  YK_TRY(ops->graph_begin(dev, err));
  yk_status status = stamp_chain(profile, dev, err);
  yk_status ended = ops->graph_end(dev, status == YK_OK ? &graph : NULL, err);
  if (status == YK_OK) status = ended;
  for (int i = 0; i < 2 && status == YK_OK; i++) status = ops->graph_run(dev, graph, err);
  ops->graph_destroy(dev, graph);
  return status;
}

/* Preemption of the thread lengthens a chain and never shortens one, so the shortest chain counts. */
static yk_status calibrate(yk_step_profile *profile, yk_device *dev, yk_err *err)
{
  const int64_t *at = profile->begin_ns;
  int64_t shortest_ns = INT64_MAX;
  profile->resolution_ns = 0;
  for (int chain = 0; chain < N_CHAINS; chain++) {
    YK_TRY(run_chain(profile, dev, err));
    YK_TRY(dev->ops->download(dev, profile->begin_ns, profile->table, N_CALIBRATING * sizeof *at, err));
    for (int i = 1; i < N_CALIBRATING; i++)
      profile->resolution_ns = yk_gcd_i64(at[i] - at[i - 1], profile->resolution_ns);
    shortest_ns = yk_min_i64(shortest_ns, at[N_CALIBRATING - 1] - at[0]);
  }
  profile->stamp_ns = (double)shortest_ns / (N_CALIBRATING - 1);
  return YK_OK;
}

yk_status yk_step_profile_create(yk_step_profile *profile, yk_device *dev, int32_t capacity, int64_t *table,
                                 yk_err *err)
{
  profile->capacity = capacity;
  profile->table = table;
  profile->operations = calloc((size_t)capacity, sizeof *profile->operations);
  profile->begin_ns = calloc((size_t)capacity, sizeof *profile->begin_ns);
  if (profile->operations && profile->begin_ns) return calibrate(profile, dev, err);
  return yk_err_set(err, YK_E_NOMEM, "no memory for the timestamps of %d operations", capacity);
}

void yk_step_profile_destroy(yk_step_profile *profile)
{
  free(profile->operations);
  free(profile->begin_ns);
}

/* ---- A step ------------------------------------------------------------------------------------------------------ */

void yk_step_profile_begin(yk_step_profile *profile)
{
  profile->is_whole = true;
  profile->n = 0;
  profile->forward_begin_ns = yk_clock_now_ns();
}

static bool is_same(const yk_timed_operation *a, const yk_timed_operation *b)
{
  return a->kind == b->kind && a->layer == b->layer && a->name == b->name;
}

int64_t *yk_step_profile_add(yk_step_profile *profile, const yk_timed_operation *operation)
{
  if (profile->n == profile->capacity) {
    profile->is_whole = false;
    return NULL;
  }
  profile->operations[profile->n] = *operation;
  return profile->table + profile->n++;
}

yk_status yk_step_profile_stamp(yk_step_profile *profile, yk_device *dev, const yk_timed_operation *operation,
                                yk_err *err)
{
  if (operation->kind == YK_OPERATION_UNTIMED) return YK_OK;
  if (profile->n > 0 && is_same(operation, &profile->operations[profile->n - 1])) return YK_OK;
  int64_t *at = yk_step_profile_add(profile, operation);
  return at ? dev->ops->timestamp(dev, at, err) : YK_OK;
}

void yk_step_profile_rewind(yk_step_profile *profile, int32_t n)
{
  profile->n = n;
  profile->is_whole = false;
}

yk_status yk_step_profile_recorded(const yk_step_profile *profile, int32_t first, yk_graph_stamps *out, yk_err *err)
{
  const size_t n_bytes = (size_t)(profile->n - first) * sizeof *out->operations;
  yk_timed_operation *operations = malloc(n_bytes + 1);
  if (!operations)
    return yk_err_set(err, YK_E_NOMEM, "no memory for the operations of a graph with %d timestamps",
                      profile->n - first);
  memcpy(operations, profile->operations + first, n_bytes);
  *out = (yk_graph_stamps){.first = first, .n = profile->n - first, .operations = operations};
  return YK_OK;
}

void yk_step_profile_replayed(yk_step_profile *profile, const yk_graph_stamps *stamps)
{
  memcpy(profile->operations + stamps->first, stamps->operations, (size_t)stamps->n * sizeof *stamps->operations);
  profile->n = stamps->first + stamps->n;
}

yk_status yk_step_profile_end(yk_step_profile *profile, yk_device *dev, yk_err *err)
{
  profile->forward_end_ns = yk_clock_now_ns();
  YK_TRY(dev->ops->download(dev, profile->begin_ns, profile->table, (size_t)profile->n * sizeof *profile->table, err));
  profile->read_end_ns = yk_clock_now_ns();
  return YK_OK;
}
