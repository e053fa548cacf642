#include "tools/all_reduce_times.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/spin.h"
#include "engine/machine/gpus.h"
#include "engine/machine/rank_devices.h"
#include "parallel/rank_group.h"
#include "tools/gpu_times.h"

enum { HIDDEN = YK_ALL_REDUCE_HIDDEN, ELEMENT_BYTES = 2, CHUNK_BYTES = 1 << 20, MAX_CHAIN = 100, MIN_CHAIN = 4 };

/* Arrays of one rank. */
typedef struct rank_arrays {
  yk_device *dev;
  yk_comm *comm;
  void *partial, *residual, *y, *w; /* f16 [max_bytes / ELEMENT_BYTES], w [HIDDEN] */
  double us[YK_ALL_REDUCE_MAX_REPEATS];
} rank_arrays;

struct yk_all_reduce_times {
  yk_settings settings;
  double limit_s;
  yk_rank_devices devices;
  rank_arrays ranks[YK_MAX_RANKS];
  atomic_int n_ready; /* ranks that have arrived at a repeat, summed over all repeats */
  int n_begun;        /* repeats of all earlier measurements: the same for all ranks during a measurement */
  yk_rank_group *group;
};

/* ---- One rank ---------------------------------------------------------------------------------------------------- */

static yk_status enqueue(const rank_arrays *r, const yk_all_reduce_case *c, yk_err *err)
{
  int64_t count = c->n_bytes / ELEMENT_BYTES;
  if (!c->add_norm) return r->comm->ops->all_reduce(r->comm, r->partial, count, YK_F16, err);
  int32_t hidden = (int32_t)yk_min_i64(count, HIDDEN);
  yk_all_reduce_add_norm_args args = {.partial = {.rows = r->partial},
                                      .residual = r->residual,
                                      .y = r->y,
                                      .w = r->w,
                                      .n_rows = (int32_t)(count / hidden),
                                      .hidden = hidden,
                                      .alpha = 1,
                                      .eps = 1e-6f};
  return r->comm->ops->all_reduce_add_norm(r->comm, &args, err);
}

static void fill_chunk(uint16_t *chunk, float value)
{
  for (size_t i = 0; i < CHUNK_BYTES / ELEMENT_BYTES; i++) yk_dtype_store(YK_F16, chunk, i, value);
}

/* Fills array [n_bytes] with value; chunk [CHUNK_BYTES] is scratch. */
static yk_status fill(const rank_arrays *r, void *array, int64_t n_bytes, float value, uint16_t *chunk, yk_err *err)
{
  fill_chunk(chunk, value);
  for (int64_t at = 0; at < n_bytes; at += CHUNK_BYTES)
    YK_TRY(r->dev->ops->upload(r->dev, (char *)array + at, chunk, (size_t)yk_min_i64(CHUNK_BYTES, n_bytes - at), err));
  return YK_OK;
}

static yk_status compare(const rank_arrays *r, const void *array, int64_t n_bytes, float expected, uint16_t *chunk,
                         yk_err *err)
{
  int64_t n_wrong = 0;
  float found = expected;
  for (int64_t at = 0; at < n_bytes; at += CHUNK_BYTES) {
    size_t n = (size_t)yk_min_i64(CHUNK_BYTES, n_bytes - at);
    YK_TRY(r->dev->ops->download(r->dev, chunk, (const char *)array + at, n, err));
    for (size_t i = 0; i < n / ELEMENT_BYTES; i++) {
      float value = yk_dtype_load(YK_F16, chunk, i);
      if (value == expected) continue;
      found = value;
      n_wrong++;
    }
  }
  if (n_wrong == 0) return YK_OK;
  return yk_err_set(err, YK_E_COMM, "rank %d: %lld of %lld values of an all-reduce are wrong: expected %g, found %g",
                    r->comm->rank, (long long)n_wrong, (long long)(n_bytes / ELEMENT_BYTES), (double)expected,
                    (double)found);
}

/* Each rank fills its array with its number plus one. The all-reduce is launched without a graph: recording needs an
 * earlier launch. Leaves zeros in the arrays, so that the sums of a chain of all-reduces stay zeros. */
static yk_status check_values(const rank_arrays *r, const yk_all_reduce_case *c, uint16_t *chunk, yk_err *err)
{
  float expected = (float)(r->comm->n_ranks * (r->comm->n_ranks + 1)) / 2;
  if (c->add_norm) YK_TRY(fill(r, r->residual, c->n_bytes, 0, chunk, err));
  YK_TRY(fill(r, r->partial, c->n_bytes, (float)(r->comm->rank + 1), chunk, err));
  YK_TRY(enqueue(r, c, err));
  YK_TRY(compare(r, c->add_norm ? r->residual : r->partial, c->n_bytes, expected, chunk, err));
  if (c->add_norm) YK_TRY(fill(r, r->residual, c->n_bytes, 0, chunk, err));
  return fill(r, r->partial, c->n_bytes, 0, chunk, err);
}

static int chain_of(const yk_all_reduce_case *c)
{
  return (int)yk_max_i64(MIN_CHAIN, yk_min_i64(MAX_CHAIN, (INT64_C(100) << 20) / c->n_bytes));
}

static yk_status enqueue_chain(const rank_arrays *r, const yk_all_reduce_case *c, yk_err *err)
{
  for (int i = 0; i < chain_of(c); i++) YK_TRY(enqueue(r, c, err));
  return YK_OK;
}

/* *graph stays NULL on a device without graphs. */
static yk_status record_chain(const rank_arrays *r, const yk_all_reduce_case *c, yk_graph **graph, yk_err *err)
{
  if (!r->dev->ops->graph_begin) return YK_OK;
  YK_TRY(r->dev->ops->graph_begin(r->dev, err));
  yk_status status = enqueue_chain(r, c, err);
  yk_status ended = r->dev->ops->graph_end(r->dev, status == YK_OK ? graph : NULL, err);
  return status == YK_OK ? ended : status;
}

/* The communicator's barrier detects failures, but releases the ranks one after the other: early ranks spin until the
 * last has arrived. */
static yk_status begin_together(yk_all_reduce_times *times, const rank_arrays *r, int n_before, yk_err *err)
{
  const int64_t limit_ns = 1000000;
  YK_TRY(r->comm->ops->barrier(r->comm, err));
  atomic_fetch_add(&times->n_ready, 1);
  for (yk_spin spin = {0}; atomic_load(&times->n_ready) < (n_before + 1) * r->comm->n_ranks;)
    if (!yk_spin_again(&spin, limit_ns)) break;
  return YK_OK;
}

static yk_status time_chain(yk_all_reduce_times *times, rank_arrays *r, const yk_all_reduce_case *c,
                            const yk_graph *graph, yk_err *err)
{
  for (int i = -1; i < c->n_repeats; i++) { /* the first is not counted */
    YK_TRY(begin_together(times, r, times->n_begun + i + 1, err));
    int64_t start_ns = yk_clock_now_ns();
    if (graph)
      YK_TRY(r->dev->ops->graph_run(r->dev, graph, err));
    else
      YK_TRY(enqueue_chain(r, c, err));
    YK_TRY(r->dev->ops->sync(r->dev, err));
    if (i >= 0) r->us[i] = yk_clock_seconds_since(start_ns) * 1e6 / chain_of(c);
  }
  return YK_OK;
}

static yk_status run_rank(void *context, int rank, const void *command, yk_err *err)
{
  yk_all_reduce_times *times = context;
  rank_arrays *r = &times->ranks[rank];
  const yk_all_reduce_case *c = command;
  yk_graph *graph = NULL;
  uint16_t *chunk = malloc(CHUNK_BYTES);
  if (!chunk) return yk_err_set(err, YK_E_NOMEM, "no memory to test all-reduces");
  yk_status status = check_values(r, c, chunk, err);
  free(chunk);
  if (status == YK_OK) status = record_chain(r, c, &graph, err);
  if (status == YK_OK) status = time_chain(times, r, c, graph, err);
  if (graph) r->dev->ops->graph_destroy(r->dev, graph);
  return status;
}

/* ---- All ranks --------------------------------------------------------------------------------------------------- */

static yk_status open_devices(yk_all_reduce_times *times, bool nccl, yk_err *err)
{
  if (!nccl) return yk_rank_devices_open(&times->settings, NULL, &times->devices, err);
  times->devices.n_local = times->settings.world.n_local;
  YK_TRY(yk_gpus_open(&times->settings, times->devices.devs, err));
  return yk_gpu_times_connect_nccl(&times->settings, times->devices.devs, times->devices.comms, err);
}

static yk_status open_ranks(yk_all_reduce_times *times, const yk_all_reduce_options *options, yk_err *err)
{
  YK_TRY(open_devices(times, options->nccl, err));
  for (int rank = 0; rank < options->n_ranks; rank++) {
    rank_arrays *r = &times->ranks[rank];
    void **const arrays[] = {&r->partial, &r->residual, &r->y};
    r->dev = times->devices.devs[rank];
    r->comm = times->devices.comms[rank];
    YK_TRY(r->dev->ops->alloc(r->dev, HIDDEN * ELEMENT_BYTES, &r->w, err));
    for (int i = 0; i < 3; i++) YK_TRY(r->dev->ops->alloc(r->dev, (size_t)options->max_bytes, arrays[i], err));
  }
  yk_rank_group_ops ops = {.run = run_rank, .context = times, .comms = times->devices.comms};
  return yk_rank_group_create(options->n_ranks, &ops, &times->group, err);
}

yk_status yk_all_reduce_times_open(const yk_all_reduce_options *options, yk_all_reduce_times **out, yk_err *err)
{
  yk_all_reduce_times *times = calloc(1, sizeof *times);
  if (!times) return yk_err_set(err, YK_E_NOMEM, "no memory to test all-reduces");
  times->limit_s = options->limit_s;
  times->settings =
      (yk_settings){.device = options->device,
                    .dtype = YK_F16,
                    .world = yk_world_of_process(options->n_ranks),
                    .n_threads_per_rank = options->n_threads,
                    .hidden_size = HIDDEN,
                    .step_timeout_s = options->limit_s,
                    .limits.step = {.max_tokens = (int32_t)yk_ceil_div_i64(options->max_bytes, HIDDEN * ELEMENT_BYTES),
                                    .max_seqs = 1,
                                    .max_model_tokens = 16,
                                    .vocab = 16}};
  if (options->device == YK_DEVICE_CUDA)
    memcpy(times->settings.device_ids, options->device_ids, (size_t)options->n_ranks * sizeof *options->device_ids);
  yk_status status = open_ranks(times, options, err);
  if (status == YK_OK)
    *out = times;
  else
    yk_all_reduce_times_close(times);
  return status;
}

/* The time of a repeat is the time of its slowest rank. */
yk_status yk_all_reduce_times_measure(yk_all_reduce_times *times, const yk_all_reduce_case *which, yk_spread *us,
                                      yk_err *err)
{
  const double fill_s = 30; /* in addition to the time that ranks wait for each other */
  YK_TRY(yk_rank_group_run(times->group, which, times->limit_s + fill_s, err));
  times->n_begun += which->n_repeats + 1;
  double slowest[YK_ALL_REDUCE_MAX_REPEATS] = {0};
  for (int i = 0; i < which->n_repeats; i++)
    for (int rank = 0; rank < times->settings.world.n_ranks; rank++)
      if (times->ranks[rank].us[i] > slowest[i]) slowest[i] = times->ranks[rank].us[i];
  *us = yk_spread_of(slowest, which->n_repeats);
  return YK_OK;
}

const char *yk_all_reduce_times_route(const yk_all_reduce_times *times, int32_t n_rows)
{
  return yk_gpus_all_reduce_route(times->ranks[0].comm, n_rows);
}

void yk_all_reduce_times_close(yk_all_reduce_times *times)
{
  const double grace_s = 1;
  if (!times || !yk_rank_group_destroy(times->group, grace_s)) return;
  for (int rank = 0; rank < times->settings.world.n_ranks; rank++) {
    rank_arrays *r = &times->ranks[rank];
    void *const arrays[] = {r->partial, r->residual, r->y, r->w};
    for (int i = 0; i < 4; i++)
      if (arrays[i]) r->dev->ops->free(r->dev, arrays[i]);
  }
  yk_rank_devices_close(&times->devices);
  free(times);
}
