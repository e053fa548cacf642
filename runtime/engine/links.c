/* links.c - what the connections between GPUs are worth: each link alone, then all-reduces over all of them as a model
 * has them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "engine/arguments.h"
#include "engine/gpus.h"
#include "engine/rank_devices.h"
#include "parallel/rank_group.h"

enum { HIDDEN = 4096, CHAIN = 100, N_REPEATS = 5 };
static const int32_t rows_of_all_reduce[YOKE_ALL_REDUCE_SIZES] = {2, 128}; /* 16 KiB, 1 MiB */

/* One rank of the all-reduces. */
typedef struct all_reduce_rank {
  yk_device *dev;
  yk_comm *comm;
  void *partial, *residual, *y, *w; /* f16 [rows, HIDDEN], w [HIDDEN] */
  double us[YOKE_ALL_REDUCE_SIZES][N_REPEATS];
} all_reduce_rank;

typedef struct all_reduce_bench {
  yk_settings settings;
  yk_rank_devices devices;
  all_reduce_rank ranks[YK_MAX_RANKS];
  yk_rank_group *group;
} all_reduce_bench;

static yk_status enqueue_all_reduce(const all_reduce_rank *r, int32_t n_rows, yk_err *err)
{
  yk_all_reduce_add_norm_args args = {.partial = r->partial,
                                      .residual = r->residual,
                                      .y = r->y,
                                      .w = r->w,
                                      .n_rows = n_rows,
                                      .hidden = HIDDEN,
                                      .alpha = 1,
                                      .eps = 1e-6f};
  return r->comm->ops->all_reduce_add_norm(r->comm, &args, err);
}

/* partial := value, residual := 0, in n_rows rows. */
static yk_status fill(const all_reduce_rank *r, int32_t n_rows, float value, yk_err *err)
{
  size_t n = (size_t)n_rows * HIDDEN, n_bytes = n * sizeof(uint16_t);
  uint16_t *host = calloc(n, sizeof *host);
  if (!host) return yk_err_set(err, YK_E_NOMEM, "no memory to test all-reduces");
  yk_status status = r->dev->ops->upload(r->dev, r->residual, host, n_bytes, err);
  for (size_t i = 0; i < n; i++) yk_dtype_store(YK_F16, host, i, value);
  if (status == YK_OK) status = r->dev->ops->upload(r->dev, r->partial, host, n_bytes, err);
  free(host);
  return status;
}

/* A rank brings its number plus one everywhere. Runs launch by launch, which recording wants to have happened
 * before. */
static yk_status check_all_reduce(const all_reduce_rank *r, int32_t n_rows, yk_err *err)
{
  size_t n = (size_t)n_rows * HIDDEN, n_wrong = 0;
  float expected = (float)(r->comm->n_ranks * (r->comm->n_ranks + 1)) / 2, found = expected;
  uint16_t *host = malloc(n * sizeof *host);
  if (!host) return yk_err_set(err, YK_E_NOMEM, "no memory to test all-reduces");
  yk_status status = fill(r, n_rows, (float)(r->comm->rank + 1), err);
  if (status == YK_OK) status = enqueue_all_reduce(r, n_rows, err);
  if (status == YK_OK) status = r->dev->ops->download(r->dev, host, r->residual, n * sizeof *host, err);
  for (size_t i = 0; status == YK_OK && i < n; i++) {
    float value = yk_dtype_load(YK_F16, host, i);
    if (value == expected) continue;
    found = value;
    n_wrong++;
  }
  free(host);
  if (status != YK_OK || n_wrong == 0) return status;
  return yk_err_set(err, YK_E_COMM, "rank %d: %zu of %zu values of an all-reduce are wrong: expected %g, found %g",
                    r->comm->rank, n_wrong, n, (double)expected, (double)found);
}

static yk_status record_chain(const all_reduce_rank *r, int32_t n_rows, yk_graph **graph, yk_err *err)
{
  yk_status status = YK_OK;
  YK_TRY(r->dev->ops->graph_begin(r->dev, err));
  for (int i = 0; i < CHAIN && status == YK_OK; i++) status = enqueue_all_reduce(r, n_rows, err);
  yk_status ended = r->dev->ops->graph_end(r->dev, status == YK_OK ? graph : NULL, err);
  return status == YK_OK ? ended : status;
}

static yk_status time_chain(all_reduce_rank *r, const yk_graph *graph, double *us, yk_err *err)
{
  for (int i = -1; i < N_REPEATS; i++) { /* the first is not counted */
    YK_TRY(r->comm->ops->barrier(r->comm, err));
    int64_t start_ns = yk_clock_now_ns();
    YK_TRY(r->dev->ops->graph_run(r->dev, graph, err));
    YK_TRY(r->dev->ops->sync(r->dev, err));
    if (i >= 0) us[i] = yk_clock_seconds_since(start_ns) * 1e6 / CHAIN;
  }
  return YK_OK;
}

static yk_status run_rank(void *context, int rank, const void *command, yk_err *err)
{
  all_reduce_rank *r = &((all_reduce_bench *)context)->ranks[rank];
  (void)command;
  for (int i = 0; i < YOKE_ALL_REDUCE_SIZES; i++) {
    yk_graph *graph = NULL;
    YK_TRY(check_all_reduce(r, rows_of_all_reduce[i], err));
    YK_TRY(fill(r, rows_of_all_reduce[i], 0, err)); /* the chain adds up again and again */
    YK_TRY(record_chain(r, rows_of_all_reduce[i], &graph, err));
    yk_status status = time_chain(r, graph, r->us[i], err);
    r->dev->ops->graph_destroy(r->dev, graph);
    YK_TRY(status);
  }
  return YK_OK;
}

static yk_status open_bench(all_reduce_bench *b, yk_err *err)
{
  int n_ranks = b->settings.n_ranks;
  const size_t row_bytes = HIDDEN * sizeof(uint16_t), n_bytes = row_bytes * (size_t)b->settings.limits.step.max_tokens;
  YK_TRY(yk_rank_devices_open(&b->settings, &b->devices, err));
  for (int rank = 0; rank < n_ranks; rank++) {
    all_reduce_rank *r = &b->ranks[rank];
    void **const arrays[] = {&r->partial, &r->residual, &r->y};
    r->dev = b->devices.devs[rank];
    r->comm = b->devices.comms[rank];
    YK_TRY(r->dev->ops->alloc(r->dev, row_bytes, &r->w, err));
    for (int i = 0; i < 3; i++) YK_TRY(r->dev->ops->alloc(r->dev, n_bytes, arrays[i], err));
  }
  yk_rank_group_ops ops = {.run = run_rank, .context = b, .comms = b->devices.comms};
  return yk_rank_group_create(n_ranks, &ops, &b->group, err);
}

/* What a rank that hangs may still touch is left alone. */
static void close_bench(all_reduce_bench *b)
{
  const double grace_s = 1;
  if (!yk_rank_group_destroy(b->group, grace_s)) return;
  for (int rank = 0; rank < b->settings.n_ranks; rank++) {
    all_reduce_rank *r = &b->ranks[rank];
    void *const arrays[] = {r->partial, r->residual, r->y, r->w};
    for (int i = 0; i < 4; i++)
      if (arrays[i]) r->dev->ops->free(r->dev, arrays[i]);
  }
  yk_rank_devices_close(&b->devices);
  free(b);
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A repeat takes as long as its slowest rank. */
static yk_all_reduce_time summary(all_reduce_bench *b, int i)
{
  double slowest[N_REPEATS] = {0};
  for (int repeat = 0; repeat < N_REPEATS; repeat++)
    for (int rank = 0; rank < b->settings.n_ranks; rank++)
      if (b->ranks[rank].us[i][repeat] > slowest[repeat]) slowest[repeat] = b->ranks[rank].us[i][repeat];
  qsort(slowest, N_REPEATS, sizeof *slowest, by_size);
  return (yk_all_reduce_time){.n_bytes = (int64_t)rows_of_all_reduce[i] * HIDDEN * (int64_t)sizeof(uint16_t),
                              .us = slowest[N_REPEATS / 2],
                              .route = yk_gpus_all_reduce_route(b->ranks[0].comm, rows_of_all_reduce[i])};
}

static yk_status test_all_reduces(const int *device_ids, int n_devices, yk_link_report *out, yk_err *err)
{
  const double limit_s = 5;
  all_reduce_bench *b = calloc(1, sizeof *b);
  if (!b) return yk_err_set(err, YK_E_NOMEM, "no memory to test all-reduces");
  b->settings = (yk_settings){.device = YK_DEVICE_CUDA,
                              .dtype = YK_F16,
                              .n_ranks = n_devices,
                              .hidden_size = HIDDEN,
                              .step_timeout_s = limit_s,
                              .limits.step = {.max_tokens = rows_of_all_reduce[YOKE_ALL_REDUCE_SIZES - 1],
                                              .max_seqs = 1,
                                              .max_model_tokens = 16,
                                              .vocab = 16}};
  memcpy(b->settings.device_ids, device_ids, (size_t)n_devices * sizeof *device_ids);
  yk_status status = open_bench(b, err);
  if (status == YK_OK) status = yk_rank_group_run(b->group, b, limit_s, err);
  for (int i = 0; status == YK_OK && i < YOKE_ALL_REDUCE_SIZES; i++) out->all_reduces[i] = summary(b, i);
  if (status == YK_OK) out->n_all_reduces = YOKE_ALL_REDUCE_SIZES;
  close_bench(b);
  return status;
}

static yk_status check_devices(const int *device_ids, int n_devices, yk_err *err)
{
  int n_gpus = yk_gpus_count();
  if (!yk_gpus_are_built()) return yk_err_set(err, YK_E_UNSUPPORTED, "links: this build runs on CPU ranks only");
  if (n_devices < 1 || n_devices > YOKE_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "links: expected 1 to %d GPUs, found %d", YOKE_MAX_RANKS, n_devices);
  YK_TRY(yk_check_array("links: device_ids", device_ids, (size_t)n_devices, err));
  for (int i = 0; i < n_devices; i++) {
    if (device_ids[i] < 0 || device_ids[i] >= n_gpus)
      return yk_err_set(err, YK_E_INVAL, "links: GPU %d: this machine has %d", device_ids[i], n_gpus);
    for (int j = 0; j < i; j++)
      if (device_ids[i] == device_ids[j])
        return yk_err_set(err, YK_E_INVAL, "links: GPU %d is named twice", device_ids[i]);
  }
  return YK_OK;
}

yk_status yk_links_test(const int *device_ids, int n_devices, bool measures, yk_link_report *out, yk_err *err)
{
  yk_err all_reduce_err = YK_ERR_INIT;
  *out = (yk_link_report){0};
  YK_TRY(check_devices(device_ids, n_devices, err));
  for (int i = 0; i < n_devices; i++)
    for (int j = 0; j < n_devices; j++)
      if (i != j) yk_gpus_link(device_ids[i], device_ids[j], measures, &out->links[out->n_links++]);
  if (measures && n_devices > 1) test_all_reduces(device_ids, n_devices, out, &all_reduce_err);
  snprintf(out->all_reduce_error, sizeof out->all_reduce_error, "%s", all_reduce_err.message);
  return YK_OK;
}
