/* comm_local.c - ranks that are threads of one process and share host memory (CPU devices).
 *
 * A collective publishes a pointer, passes a barrier, reads the other ranks' data, and passes a second barrier, so that
 * no rank reuses memory that a peer still reads. Sums are in rank order, and one rule computes a row's sum on any rank,
 * so all ranks hold the same bits. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/spin.h"
#include "parallel/comm.h"
#include "parallel/host_gather.h"

/* A pipeline stage. Shared by all its ends and those of the previous stage, which send to it; freed with the last of
 * them. All members but n_ranks are written under mutex; the two atomics are
 * also read without it: a rank polls before it sleeps, since a layer has several barriers. */
typedef struct group {
  int n_ranks;
  pthread_mutex_t mutex;
  pthread_cond_t cv_passed;    /* generation grew, or aborted */
  _Atomic uint64_t generation; /* completed barriers */
  int n_arrived;
  int n_ends;
  int n_sleeping; /* ranks that wait on cv_passed */
  atomic_bool aborted;
  yk_host_gather *host_gather;
  yk_mailbox inboxes[YK_MAX_RANKS]; /* [n_ranks] messages of the previous stage */
  const void *published[YK_MAX_RANKS];
} group;

enum { SPIN_NS = 500000 }; /* longer than a rank usually lags */

typedef struct local_comm {
  yk_comm base;
  group *group;
  group *next;   /* the next stage, or NULL */
  void *scratch; /* [scratch_bytes] the sums of one all_reduce */
  size_t scratch_bytes;
} local_comm;

static group *group_of(yk_comm *comm)
{
  return ((local_comm *)comm)->group;
}

static yk_status aborted_error(yk_err *err)
{
  return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
}

/* Records this rank's arrival and returns the number of its barrier. The last rank to arrive ends the barrier. */
static uint64_t arrive(group *g, int rank, const void *pointer)
{
  pthread_mutex_lock(&g->mutex);
  if (pointer) g->published[rank] = pointer;
  uint64_t generation = g->generation;
  if (!g->aborted && ++g->n_arrived == g->n_ranks) {
    g->n_arrived = 0;
    g->generation++;
    if (g->n_sleeping > 0) pthread_cond_broadcast(&g->cv_passed);
  }
  pthread_mutex_unlock(&g->mutex);
  return generation;
}

/* Publishes a pointer (NULL: barrier only) and waits for every rank. */
static yk_status publish_and_wait(yk_comm *comm, const void *pointer, yk_err *err)
{
  group *g = group_of(comm);
  uint64_t generation = arrive(g, comm->rank, pointer);
  for (yk_spin spin = {0}; g->generation == generation && !g->aborted;)
    if (!yk_spin_again(&spin, SPIN_NS)) break;
  if (g->generation != generation) return YK_OK;
  pthread_mutex_lock(&g->mutex);
  g->n_sleeping++;
  while (g->generation == generation && !g->aborted) pthread_cond_wait(&g->cv_passed, &g->mutex);
  g->n_sleeping--;
  bool passed = g->generation != generation;
  pthread_mutex_unlock(&g->mutex);
  return passed ? YK_OK : aborted_error(err);
}

/* The device may still be computing the published data. */
static yk_status publish(yk_comm *comm, const void *pointer, yk_err *err)
{
  YK_TRY(comm->dev->ops->sync(comm->dev, err));
  return publish_and_wait(comm, pointer, err);
}

static yk_status local_barrier(yk_comm *comm, yk_err *err)
{
  return publish_and_wait(comm, NULL, err);
}

/* A rank's share of count elements: [share of rank, share of rank + 1). */
static int64_t i32_share(const yk_comm *comm, int64_t count, int rank)
{
  return count * rank / comm->n_ranks;
}

static void reduce_i32(int32_t *to, const int32_t *from, int64_t begin, int64_t end, yk_reduction reduction)
{
  if (reduction == YK_REDUCE_SUM)
    for (int64_t i = begin; i < end; i++) to[i] += from[i];
  else
    for (int64_t i = begin; i < end; i++) to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* Each rank reduces its share in place, which no other rank accesses before the barrier, and copies the others' shares.
 * The order of integer additions is irrelevant. */
static yk_status local_all_reduce_i32(yk_comm *comm, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  if (comm->n_ranks == 1) return YK_OK;
  YK_TRY(publish(comm, data, err));
  const void *const *theirs = group_of(comm)->published;
  int64_t first = i32_share(comm, count, comm->rank), end = i32_share(comm, count, comm->rank + 1);
  for (int rank = 0; rank < comm->n_ranks; rank++)
    if (rank != comm->rank) reduce_i32(data, theirs[rank], first, end, reduction);
  YK_TRY(publish_and_wait(comm, NULL, err));
  for (int rank = 0; rank < comm->n_ranks; rank++) {
    int64_t begin = i32_share(comm, count, rank), n = i32_share(comm, count, rank + 1) - begin;
    if (rank != comm->rank && n > 0) memcpy(data + begin, (const int32_t *)theirs[rank] + begin, (size_t)n * 4);
  }
  return publish_and_wait(comm, NULL, err);
}

static void *row_of(const yk_comm *comm, const yk_all_reduce_add_norm_args *args, void *matrix, int32_t row)
{
  return (char *)matrix + (size_t)row * (size_t)args->hidden * yk_dtype_bytes(comm->dev->dtype);
}

/* Sum and norm of rows first .. end - 1, from every rank's partial result into this rank's residual and y. */
static yk_status sum_rows(yk_comm *comm, const yk_all_reduce_add_norm_args *args, int32_t first, int32_t end,
                          yk_err *err)
{
  yk_add_norm_args sum = {.y = args->w ? row_of(comm, args, args->y, first) : NULL,
                          .residual = row_of(comm, args, args->residual, first),
                          .n_partials = comm->n_ranks,
                          .w = args->w,
                          .n_rows = end - first,
                          .hidden = args->hidden,
                          .alpha = args->alpha,
                          .eps = args->eps};
  for (int rank = 0; rank < comm->n_ranks; rank++) {
    const yk_all_reduce_add_norm_args *theirs = group_of(comm)->published[rank];
    sum.partials[rank] = row_of(comm, args, theirs->partial.rows, first);
  }
  return comm->dev->ops->add_norm(comm->dev, &sum, err);
}

static int32_t share_begin(const yk_comm *comm, const yk_all_reduce_add_norm_args *args, int rank)
{
  return (int32_t)((int64_t)args->n_rows * rank / comm->n_ranks);
}

/* Copies the rows that the other ranks computed. */
static void copy_rows(yk_comm *comm, const yk_all_reduce_add_norm_args *args)
{
  for (int rank = 0; rank < comm->n_ranks; rank++) {
    const yk_all_reduce_add_norm_args *theirs = group_of(comm)->published[rank];
    int32_t first = share_begin(comm, args, rank), end = share_begin(comm, args, rank + 1);
    size_t n_bytes = (size_t)(end - first) * (size_t)args->hidden * yk_dtype_bytes(comm->dev->dtype);
    if (rank == comm->rank || n_bytes == 0) continue;
    memcpy(row_of(comm, args, args->residual, first), row_of(comm, args, theirs->residual, first), n_bytes);
    if (args->w) memcpy(row_of(comm, args, args->y, first), row_of(comm, args, theirs->y, first), n_bytes);
  }
}

/* Every rank sums few rows itself. For many rows each rank sums its share and copies the others': the same bits, and a
 * copy costs less than repeating every rank's work, at the price of one more barrier. */
static yk_status local_all_reduce_add_norm(yk_comm *comm, const yk_all_reduce_add_norm_args *args, yk_err *err)
{
  enum { SHARED_ROWS_PER_RANK = 4 };
  YK_TRY(comm->dev->ops->partial_complete(comm->dev, &args->partial, err));
  if (comm->n_ranks == 1) {
    group_of(comm)->published[0] = args;
    return sum_rows(comm, args, 0, args->n_rows, err);
  }
  YK_TRY(publish(comm, args, err));
  if (args->n_rows < SHARED_ROWS_PER_RANK * comm->n_ranks)
    YK_TRY(sum_rows(comm, args, 0, args->n_rows, err));
  else {
    YK_TRY(sum_rows(comm, args, share_begin(comm, args, comm->rank), share_begin(comm, args, comm->rank + 1), err));
    YK_TRY(publish(comm, NULL, err));
    copy_rows(comm, args);
  }
  return publish(comm, NULL, err);
}

/* Grows the scratch of an end to n_bytes; the content is not kept. */
static yk_status reserve(local_comm *local, size_t n_bytes, yk_err *err)
{
  if (n_bytes <= local->scratch_bytes) return YK_OK;
  free(local->scratch);
  local->scratch = malloc(n_bytes);
  local->scratch_bytes = local->scratch ? n_bytes : 0;
  return local->scratch ? YK_OK : yk_err_set(err, YK_E_NOMEM, "all-reduce: no memory for %zu bytes of sums", n_bytes);
}

/* The rows are added to a residual of zeros, without a norm, by the device. */
static yk_status local_all_reduce(yk_comm *comm, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  enum { HIDDEN = 1024 }; /* elements per row: few, so that the rows of small data are also divided among ranks */
  local_comm *local = (local_comm *)comm;
  size_t n_bytes = (size_t)count * yk_dtype_bytes(dtype);
  if (dtype != comm->dev->dtype)
    return yk_err_set(err, YK_E_UNSUPPORTED, "all-reduce: expected %s, the device's type, found %s",
                      yk_dtype_name(comm->dev->dtype), yk_dtype_name(dtype));
  if (comm->n_ranks == 1) return YK_OK;
  YK_TRY(reserve(local, n_bytes, err));
  memset(local->scratch, 0, n_bytes);
  int32_t n_rows = (int32_t)(count / HIDDEN), n_left = (int32_t)(count % HIDDEN);
  size_t whole_bytes = n_bytes - (size_t)n_left * yk_dtype_bytes(dtype);
  yk_all_reduce_add_norm_args rows = {
      .partial.rows = data, .residual = local->scratch, .n_rows = n_rows, .hidden = HIDDEN, .alpha = 1};
  yk_all_reduce_add_norm_args rest = {.partial.rows = (char *)data + whole_bytes,
                                      .residual = (char *)local->scratch + whole_bytes,
                                      .n_rows = 1,
                                      .hidden = n_left,
                                      .alpha = 1};
  if (n_rows > 0) YK_TRY(local_all_reduce_add_norm(comm, &rows, err));
  if (n_left > 0) YK_TRY(local_all_reduce_add_norm(comm, &rest, err));
  memcpy(data, local->scratch, n_bytes);
  return YK_OK;
}

static yk_status local_gather(yk_comm *comm, void *data, int64_t n_bytes, yk_err *err)
{
  YK_TRY(publish(comm, data, err));
  for (int rank = 1; comm->rank == 0 && rank < comm->n_ranks; rank++)
    memcpy((char *)data + rank * n_bytes, group_of(comm)->published[rank], (size_t)n_bytes);
  return publish_and_wait(comm, NULL, err);
}

static yk_status local_await_writes(yk_comm *comm, yk_err *err)
{
  return publish(comm, NULL, err);
}

static yk_status local_gather_host(yk_comm *comm, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  const yk_mailbox_watch none = {0};
  return yk_host_gather_run(group_of(comm)->host_gather, comm->rank, data, n_bytes, all, &none, err);
}

/* All devices use host memory. */
static yk_status local_open_memory(yk_comm *comm, void *memory, void **opened, yk_err *err)
{
  YK_TRY(publish_and_wait(comm, memory, err));
  *opened = (void *)(uintptr_t)group_of(comm)->published[0];
  return publish_and_wait(comm, NULL, err);
}

static yk_status local_send_next(yk_comm *comm, const void *data, int64_t n_bytes, yk_err *err)
{
  const yk_mailbox_watch none = {0};
  YK_TRY(comm->dev->ops->sync(comm->dev, err));
  return yk_mailbox_put(&((local_comm *)comm)->next->inboxes[comm->rank], data, (size_t)n_bytes, &none, err);
}

static yk_status local_receive_previous(yk_comm *comm, void *data, int64_t n_bytes, yk_err *err)
{
  const yk_mailbox_watch none = {0};
  YK_TRY(comm->dev->ops->sync(comm->dev, err)); /* earlier operations may still read data */
  return yk_mailbox_take(&group_of(comm)->inboxes[comm->rank], data, (size_t)n_bytes, &none, err);
}

static void local_abort(yk_comm *comm)
{
  group *g = group_of(comm);
  pthread_mutex_lock(&g->mutex);
  g->aborted = true;
  pthread_cond_broadcast(&g->cv_passed);
  pthread_mutex_unlock(&g->mutex);
  yk_host_gather_abort(g->host_gather);
  for (int rank = 0; rank < g->n_ranks; rank++) yk_mailbox_abort(&g->inboxes[rank]);
}

static void release_group(group *g)
{
  if (!g) return;
  pthread_mutex_lock(&g->mutex);
  bool last = --g->n_ends == 0;
  pthread_mutex_unlock(&g->mutex);
  if (!last) return;
  yk_host_gather_destroy(g->host_gather);
  for (int rank = 0; rank < g->n_ranks; rank++) yk_mailbox_destroy(&g->inboxes[rank]);
  pthread_cond_destroy(&g->cv_passed);
  pthread_mutex_destroy(&g->mutex);
  free(g);
}

static bool local_destroy(yk_comm *comm)
{
  if (!comm) return true;
  local_comm *local = (local_comm *)comm;
  release_group(local->group);
  release_group(local->next);
  free(local->scratch);
  free(local);
  return true;
}

static yk_status check_whole(const yk_world *world, yk_err *err)
{
  YK_TRY(yk_world_check(world, err));
  if (yk_world_is_whole(world)) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "communicator: expected %d ranks of one process, found %d", world->n_ranks,
                    world->n_local);
}

yk_status yk_comm_check_world(const yk_world *world, yk_err *err)
{
  YK_TRY(check_whole(world, err));
  if (world->n_stages == 1) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "pipeline stages run on CPU ranks so far: expected one on GPUs, found %d",
                    world->n_stages);
}

/* A group with one end: the creating function's, until every end exists. */
static yk_status create_group(int n_ranks, group **out, yk_err *err)
{
  group *g = calloc(1, sizeof *g);
  if (!g) return yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  pthread_mutex_init(&g->mutex, NULL);
  pthread_cond_init(&g->cv_passed, NULL);
  for (int rank = 0; rank < n_ranks; rank++) yk_mailbox_init(&g->inboxes[rank]);
  g->n_ranks = n_ranks;
  g->n_ends = 1;
  *out = g;
  return yk_host_gather_create(n_ranks, &g->host_gather, err);
}

/* The end of a rank of the world. groups: [n_stages + 1], the last NULL. */
static yk_status create_end(const yk_world *world, group *const *groups, int rank, yk_device *dev, yk_comm **out,
                            yk_err *err)
{
  static const yk_comm_ops ops = {.name = "local",
                                  .destroy = local_destroy,
                                  .all_reduce = local_all_reduce,
                                  .all_reduce_add_norm = local_all_reduce_add_norm,
                                  .all_reduce_i32 = local_all_reduce_i32,
                                  .gather = local_gather,
                                  .gather_host = local_gather_host,
                                  .open_memory = local_open_memory,
                                  .await_writes = local_await_writes,
                                  .barrier = local_barrier,
                                  .send_next = local_send_next,
                                  .receive_previous = local_receive_previous,
                                  .abort = local_abort};
  local_comm *local = calloc(1, sizeof *local);
  if (!local) return yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  int stage = yk_world_stage_of(world, rank);
  local->base = (yk_comm){.ops = &ops,
                          .dev = dev,
                          .rank = yk_world_group_rank(world, rank),
                          .n_ranks = yk_world_group_size(world),
                          .stage = stage,
                          .n_stages = world->n_stages};
  local->group = groups[stage];
  local->next = groups[stage + 1];
  local->group->n_ends++;
  if (local->next) local->next->n_ends++;
  *out = &local->base;
  return YK_OK;
}

yk_status yk_comm_local_create(const yk_world *world, yk_device *const *devs, yk_comm **out, yk_err *err)
{
  group *groups[YK_MAX_RANKS + 1] = {NULL};
  yk_status status = check_whole(world, err);
  if (status != YK_OK) return status;
  for (int stage = 0; stage < world->n_stages && status == YK_OK; stage++)
    status = create_group(yk_world_group_size(world), &groups[stage], err);
  int n_made = 0;
  for (; n_made < world->n_ranks && status == YK_OK; n_made += status == YK_OK)
    status = create_end(world, groups, n_made, devs[n_made], &out[n_made], err);
  while (status != YK_OK && n_made > 0) {
    local_destroy(out[--n_made]);
    out[n_made] = NULL;
  }
  for (int stage = 0; stage < world->n_stages; stage++) release_group(groups[stage]);
  return status;
}
