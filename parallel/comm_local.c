/* comm_local.c - ranks whose devices use host memory (CPU devices), as threads of one or several processes.
 *
 * A collective publishes a pointer, passes a barrier, reads the other ranks' data, and passes a second barrier, so that
 * no rank reuses memory that a peer still reads. If other processes run ranks of the group, the last thread to arrive
 * at the first barrier moves rows between the processes and publishes copies of the other ranks' rows; the following
 * steps are the same. Sums are in rank order, and one rule computes a row's sum on any rank, so all ranks hold the same
 * bits, for any division of ranks among processes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spin.h"
#include "parallel/comm.h"
#include "parallel/host_gather.h"
#include "parallel/remote.h"
#include "parallel/stage_wire.h"

/* A pipeline stage. Shared by all ends of the group and by the ends of the previous stage, which send to it; freed with
 * the last of these ends. All members but the constant ones are written under mutex, or by the thread that moves rows
 * while the others wait for it; the atomics are also read without it: a rank polls before it sleeps, since a layer has
 * several barriers. */
typedef struct group {
  int n_ranks, n_local; /* constant; n_local: of this process */
  yk_remote *remote;    /* constant; ranks of other processes, or NULL */
  pthread_mutex_t mutex;
  pthread_cond_t cv_passed;    /* generation grew, or aborted */
  _Atomic uint64_t generation; /* completed barriers */
  int n_arrived;
  int n_ends;
  int n_sleeping; /* ranks that wait on cv_passed */
  atomic_bool aborted;
  atomic_bool is_moving; /* a thread is moving rows between processes and reads the rows that the other threads have
                          * published */
  yk_err failure;        /* of the move */
  yk_host_gather *host_gather;
  yk_mailbox inboxes[YK_MAX_RANKS]; /* [n_ranks] messages of the previous stage */
  const void *published[YK_MAX_RANKS];
  void *memories[YK_MAX_RANKS]; /* of open_memories */
  /* Published arguments: each rank's own, which a peer may read after an abort has made the rank return, and those made
   * for ranks of other processes. */
  yk_all_reduce_add_norm_args copies[YK_MAX_RANKS];
} group;

/* Moves rows between processes before a barrier ends, by one thread of each process. args: of the calling rank. */
typedef yk_status move_function(group *g, const void *args, yk_err *err);

enum { SPIN_NS = 500000 }; /* longer than a rank usually lags */

typedef struct local_comm {
  yk_comm base;
  group *group;
  group *next; /* the next stage, or NULL; of this process */
  yk_stage_wires wires;
  void *scratch; /* [scratch_bytes] the sums of one all_reduce */
  size_t scratch_bytes;
} local_comm;

static group *group_of(yk_comm *comm)
{
  return ((local_comm *)comm)->group;
}

/* Returns the reason why a rank's call must end before the other ranks arrive. Under the mutex. */
static yk_status aborted_error(const group *g, yk_err *err)
{
  if (g->failure.code == YK_OK)
    return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
  if (err && err->code == YK_OK) *err = g->failure;
  return g->failure.code;
}

static void end_barrier(group *g)
{
  g->n_arrived = 0;
  g->generation++;
  if (g->n_sleeping > 0) pthread_cond_broadcast(&g->cv_passed);
}

/* Moves rows, for the last rank to arrive, which holds the mutex. The others do not return meanwhile, not even on an
 * abort, which ends the move soon. */
static void move_rows(group *g, move_function *move, const void *args)
{
  yk_err failure = YK_ERR_INIT;
  atomic_store(&g->is_moving, true);
  pthread_mutex_unlock(&g->mutex);
  yk_status status = move(g, args, &failure);
  pthread_mutex_lock(&g->mutex);
  atomic_store(&g->is_moving, false);
  if (status == YK_OK) return;
  if (!g->aborted) g->failure = failure;
  g->aborted = true;
  pthread_cond_broadcast(&g->cv_passed);
}

/* Records this rank's arrival and returns the number of its barrier. The last rank to arrive ends the barrier. */
static uint64_t arrive(group *g, int rank, const void *pointer, move_function *move, const void *args)
{
  pthread_mutex_lock(&g->mutex);
  if (pointer) g->published[rank] = pointer;
  uint64_t generation = g->generation;
  if (!g->aborted && ++g->n_arrived == g->n_local) {
    if (g->remote && move) move_rows(g, move, args);
    if (!g->aborted)
      end_barrier(g);
    else
      pthread_cond_broadcast(&g->cv_passed);
  }
  pthread_mutex_unlock(&g->mutex);
  return generation;
}

static bool is_over(const group *g, uint64_t generation)
{
  return g->generation != generation || (g->aborted && !g->is_moving);
}

/* Publishes a pointer (NULL: barrier only) and waits for every rank of this process, and for the others in so far as
 * rows move from or to them (NULL: none). */
static yk_status publish_and_wait(yk_comm *comm, const void *pointer, move_function *move, const void *args,
                                  yk_err *err)
{
  group *g = group_of(comm);
  uint64_t generation = arrive(g, comm->rank, pointer, move, args);
  for (yk_spin spin = {0}; !is_over(g, generation);)
    if (!yk_spin_again(&spin, SPIN_NS)) break;
  if (g->generation != generation) return YK_OK;
  pthread_mutex_lock(&g->mutex);
  g->n_sleeping++;
  while (!is_over(g, generation)) pthread_cond_wait(&g->cv_passed, &g->mutex);
  g->n_sleeping--;
  yk_status status = g->generation != generation ? YK_OK : aborted_error(g, err);
  pthread_mutex_unlock(&g->mutex);
  return status;
}

/* The device may still be computing the published data. */
static yk_status publish(yk_comm *comm, const void *pointer, move_function *move, const void *args, yk_err *err)
{
  YK_TRY(comm->dev->ops->sync(comm->dev, err));
  return publish_and_wait(comm, pointer, move, args, err);
}

static yk_status move_nothing(group *g, const void *args, yk_err *err)
{
  (void)args;
  return yk_remote_barrier(g->remote, err);
}

static yk_status local_barrier(yk_comm *comm, yk_err *err)
{
  return publish_and_wait(comm, NULL, move_nothing, NULL, err);
}

/* Moves the integers that ranks have published, and publishes the copies of the others'. */
static yk_status move_i32(group *g, yk_move move, const int64_t *count, yk_err *err)
{
  yk_moved integers = {.n_rows = *count, .row_bytes = sizeof(int32_t)};
  memcpy(integers.bases, g->published, sizeof integers.bases);
  YK_TRY(yk_remote_move(g->remote, move, &integers, 1, err));
  memcpy(g->published, integers.bases, sizeof integers.bases);
  return YK_OK;
}

static yk_status move_i32_shares(group *g, const void *count, yk_err *err)
{
  return move_i32(g, YK_MOVE_SHARES, count, err);
}

static yk_status move_i32_results(group *g, const void *count, yk_err *err)
{
  return move_i32(g, YK_MOVE_RESULTS, count, err);
}

static void reduce_i32(int32_t *to, const int32_t *from, int64_t begin, int64_t end, yk_reduction reduction)
{
  if (reduction == YK_REDUCE_SUM)
    for (int64_t i = begin; i < end; i++) to[i] += from[i];
  else
    for (int64_t i = begin; i < end; i++) to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* Each rank has reduced its share of 32-bit elements in place: copies the others' shares. */
static yk_status collect_shares(yk_comm *comm, void *data, int64_t count, yk_err *err)
{
  const void *const *theirs = group_of(comm)->published;
  YK_TRY(publish_and_wait(comm, NULL, move_i32_results, &count, err));
  for (int rank = 0; rank < comm->n_ranks; rank++) {
    const int64_t begin = yk_share_begin(count, rank, comm->n_ranks) * (int64_t)sizeof(int32_t);
    const int64_t end = yk_share_begin(count, rank + 1, comm->n_ranks) * (int64_t)sizeof(int32_t);
    if (rank != comm->rank && end > begin)
      memcpy((char *)data + begin, (const char *)theirs[rank] + begin, (size_t)(end - begin));
  }
  return publish_and_wait(comm, NULL, NULL, NULL, err);
}

/* Each rank reduces its share in place, which no other rank accesses before the barrier, and copies the others' shares.
 * The order of integer additions is irrelevant. */
static yk_status local_all_reduce_i32(yk_comm *comm, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  if (comm->n_ranks == 1) return YK_OK;
  YK_TRY(publish(comm, data, move_i32_shares, &count, err));
  const void *const *theirs = group_of(comm)->published;
  int64_t first = yk_share_begin(count, comm->rank, comm->n_ranks);
  int64_t end = yk_share_begin(count, comm->rank + 1, comm->n_ranks);
  for (int rank = 0; rank < comm->n_ranks; rank++)
    if (rank != comm->rank) reduce_i32(data, theirs[rank], first, end, reduction);
  return collect_shares(comm, data, count, err);
}

/* Elements begin .. end - 1 of the sum over ranks. */
static void add_tree(float *to, const void *const *of_ranks, int n_ranks, int64_t begin, int64_t end)
{
  for (int64_t i = begin; i < end; i++) {
    float sums[YK_MAX_RANKS] = {0};
    for (int rank = 0; rank < n_ranks; rank++) sums[rank] = ((const float *)of_ranks[rank])[i];
    for (int step = 1; step < n_ranks; step *= 2)
      for (int rank = 0; rank + step < n_ranks; rank += 2 * step) sums[rank] += sums[rank + step];
    to[i] = sums[0];
  }
}

/* As local_all_reduce_i32. */
static yk_status local_all_reduce_tree(yk_comm *comm, float *data, int64_t count, yk_err *err)
{
  if (comm->n_ranks == 1 || count == 0) return YK_OK;
  YK_TRY(publish(comm, data, move_i32_shares, &count, err));
  const void *const *theirs = group_of(comm)->published;
  add_tree(data, theirs, comm->n_ranks, yk_share_begin(count, comm->rank, comm->n_ranks),
           yk_share_begin(count, comm->rank + 1, comm->n_ranks));
  return collect_shares(comm, data, count, err);
}

static void *row_of(const yk_comm *comm, const yk_all_reduce_add_norm_args *args, void *matrix, int32_t row)
{
  return (char *)matrix + (size_t)row * (size_t)args->hidden * yk_dtype_bytes(comm->dev->dtype);
}

/* Sum and norm of rows first .. end - 1, from every rank's partial result into this rank's residual and y. */
static yk_status sum_rows(yk_comm *comm, const yk_all_reduce_add_norm_args *args, int32_t first, int32_t end,
                          yk_err *err)
{
  yk_add_norm_args sum = {.y = args->w || args->result_w ? row_of(comm, args, args->y, first) : NULL,
                          .residual = row_of(comm, args, args->residual, first),
                          .n_partials = comm->n_ranks,
                          .result_w = args->result_w,
                          .w = args->w,
                          .n_rows = end - first,
                          .hidden = args->hidden,
                          .alpha = args->alpha,
                          .gain = args->gain,
                          .eps = args->eps};
  for (int rank = 0; rank < comm->n_ranks; rank++) {
    const yk_all_reduce_add_norm_args *theirs = group_of(comm)->published[rank];
    sum.partials[rank] = row_of(comm, args, theirs->partial.rows, first);
  }
  return comm->dev->ops->add_norm(comm->dev, &sum, err);
}

static int32_t share_begin(const yk_comm *comm, const yk_all_reduce_add_norm_args *args, int rank)
{
  return (int32_t)yk_share_begin(args->n_rows, rank, comm->n_ranks);
}

/* The arguments of a rank, and the communicator that knows the type of its rows. */
typedef struct row_move {
  const yk_comm *comm;
  const yk_all_reduce_add_norm_args *args;
} row_move;

static yk_moved rows_to_move(const row_move *rows)
{
  return (yk_moved){.n_rows = rows->args->n_rows,
                    .row_bytes = (size_t)rows->args->hidden * yk_dtype_bytes(rows->comm->dev->dtype)};
}

/* Moves partial results, and publishes arguments with copies of the others'. */
static yk_status move_partials(group *g, yk_move move, const row_move *rows, yk_err *err)
{
  yk_moved partials = rows_to_move(rows);
  for (int rank = 0; rank < g->n_ranks; rank++)
    if (yk_remote_is_local(g->remote, rank))
      partials.bases[rank] = ((const yk_all_reduce_add_norm_args *)g->published[rank])->partial.rows;
  YK_TRY(yk_remote_move(g->remote, move, &partials, 1, err));
  for (int rank = 0; rank < g->n_ranks; rank++) {
    if (yk_remote_is_local(g->remote, rank)) continue;
    g->copies[rank] = (yk_all_reduce_add_norm_args){.partial.rows = (void *)(uintptr_t)partials.bases[rank]};
    g->published[rank] = &g->copies[rank];
  }
  return YK_OK;
}

static yk_status move_all_partials(group *g, const void *args, yk_err *err)
{
  return move_partials(g, YK_MOVE_ALL, args, err);
}

static yk_status move_partial_shares(group *g, const void *args, yk_err *err)
{
  return move_partials(g, YK_MOVE_SHARES, args, err);
}

static yk_status move_sums(group *g, const void *args, yk_err *err)
{
  const row_move *rows = args;
  const int n_matrices = rows->args->w ? 2 : 1;
  yk_moved sums[2] = {rows_to_move(rows), rows_to_move(rows)};
  for (int rank = 0; rank < g->n_ranks; rank++) {
    const yk_all_reduce_add_norm_args *theirs = g->published[rank];
    sums[0].bases[rank] = theirs->residual;
    sums[1].bases[rank] = theirs->y;
  }
  YK_TRY(yk_remote_move(g->remote, YK_MOVE_RESULTS, sums, n_matrices, err));
  for (int rank = 0; rank < g->n_ranks; rank++) {
    g->copies[rank].residual = (void *)(uintptr_t)sums[0].bases[rank];
    g->copies[rank].y = (void *)(uintptr_t)sums[1].bases[rank];
  }
  return YK_OK;
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
  const bool is_shared = args->n_rows >= SHARED_ROWS_PER_RANK * comm->n_ranks;
  const row_move rows = {comm, args};
  group *g = group_of(comm);
  if (!g->aborted)
    g->copies[comm->rank] = *args; /* after an abort, peers may still read the values of the earlier
                                                   * call */
  YK_TRY(publish(comm, &g->copies[comm->rank], is_shared ? move_partial_shares : move_all_partials, &rows, err));
  if (!is_shared)
    YK_TRY(sum_rows(comm, args, 0, args->n_rows, err));
  else {
    YK_TRY(sum_rows(comm, args, share_begin(comm, args, comm->rank), share_begin(comm, args, comm->rank + 1), err));
    YK_TRY(publish(comm, NULL, move_sums, &rows, err));
    copy_rows(comm, args);
  }
  return publish(comm, NULL, NULL, NULL, err);
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

/* Rank 0 has published the destination of all data. */
static yk_status move_to_rank_0(group *g, const void *n_bytes, yk_err *err)
{
  void *all = (void *)(uintptr_t)g->published[0];
  return yk_remote_gather(g->remote, g->published, *(const size_t *)n_bytes, all, err);
}

/* Rank 0: copies the data that other ranks of this process have published. */
static void copy_to_rank_0(yk_comm *comm, void *all, size_t n_bytes)
{
  const group *g = group_of(comm);
  for (int rank = 1; comm->rank == 0 && rank < g->n_local && n_bytes > 0; rank++)
    memcpy((char *)all + (size_t)rank * n_bytes, g->published[rank], n_bytes);
}

static yk_status local_gather(yk_comm *comm, void *data, int64_t n_bytes, yk_err *err)
{
  const size_t size = (size_t)n_bytes;
  YK_TRY(publish(comm, data, move_to_rank_0, &size, err));
  copy_to_rank_0(comm, data, size);
  return publish_and_wait(comm, NULL, NULL, NULL, err);
}

static yk_status local_await_writes(yk_comm *comm, yk_err *err)
{
  return publish(comm, NULL, NULL, NULL, err);
}

/* With one process, ranks only fill their mailboxes. With several processes, the ranks of a process wait for each
 * other. */
static yk_status local_gather_host(yk_comm *comm, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  const yk_mailbox_watch none = {0};
  group *g = group_of(comm);
  if (!g->remote) return yk_host_gather_run(g->host_gather, comm->rank, data, n_bytes, all, &none, err);
  if (comm->rank == 0 && all != data && n_bytes > 0) memmove(all, data, n_bytes);
  YK_TRY(publish_and_wait(comm, comm->rank == 0 ? all : data, move_to_rank_0, &n_bytes, err));
  copy_to_rank_0(comm, all, n_bytes);
  return publish_and_wait(comm, NULL, NULL, NULL, err);
}

/* All devices of a process use the same memory. */
static yk_status local_open_memories(yk_comm *comm, void *memory, void **opened, yk_err *err)
{
  group *g = group_of(comm);
  const size_t n_bytes = (size_t)comm->n_ranks * sizeof *opened;
  memset(opened, 0, n_bytes);
  if (g->remote) return YK_OK;
  g->memories[comm->rank] = memory;
  YK_TRY(publish_and_wait(comm, NULL, NULL, NULL, err));
  memcpy(opened, g->memories, n_bytes);
  return publish_and_wait(comm, NULL, NULL, NULL, err);
}

static yk_status local_send_next(yk_comm *comm, const void *data, int64_t n_bytes, yk_err *err)
{
  const yk_mailbox_watch none = {0};
  const local_comm *local = (const local_comm *)comm;
  YK_TRY(comm->dev->ops->sync(comm->dev, err));
  if (local->wires.to_next) return yk_stage_wire_send(local->wires.to_next, data, (size_t)n_bytes, err);
  return yk_mailbox_put(&local->next->inboxes[comm->rank], data, (size_t)n_bytes, &none, err);
}

static yk_status local_receive_previous(yk_comm *comm, void *data, int64_t n_bytes, yk_err *err)
{
  const yk_mailbox_watch none = {0};
  const local_comm *local = (const local_comm *)comm;
  YK_TRY(comm->dev->ops->sync(comm->dev, err)); /* earlier operations may still read data */
  if (local->wires.from_previous) return yk_stage_wire_receive(local->wires.from_previous, data, (size_t)n_bytes, err);
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
  if (g->remote) yk_remote_abort(g->remote);
  yk_stage_wires_abort(&((const local_comm *)comm)->wires);
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
  yk_remote_destroy(g->remote);
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
  yk_stage_wires_destroy(&local->wires);
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

/* The group of a stage with one end: the creating function's, until every end exists. wires: NULL if this process runs
 * all ranks. */
static yk_status create_group(const yk_world *world, const yk_wires *wires, int stage, const char *tag, group **out,
                              yk_err *err)
{
  const int n_ranks = yk_world_group_size(world);
  group *g = calloc(1, sizeof *g);
  if (!g) return yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  pthread_mutex_init(&g->mutex, NULL);
  pthread_cond_init(&g->cv_passed, NULL);
  for (int rank = 0; rank < n_ranks; rank++) {
    yk_mailbox_init(&g->inboxes[rank]);
    g->n_local += yk_world_is_local(world, stage * n_ranks + rank);
  }
  g->n_ranks = n_ranks;
  g->n_ends = 1;
  g->failure = YK_ERR_INIT;
  *out = g;
  YK_TRY(yk_host_gather_create(n_ranks, &g->host_gather, err));
  if (!wires) return YK_OK;
  char name[32];
  snprintf(name, sizeof name, "%s stage %d", tag, stage);
  return yk_remote_create(world, wires, stage, name, &g->remote, err);
}

/* The end of a rank of the world. groups: [n_stages + 1], the last NULL. */
static yk_status create_end(const yk_world *world, group *const *groups, int rank, yk_device *dev, local_comm **out,
                            yk_err *err)
{
  static const yk_comm_ops ops = {.name = "local",
                                  .destroy = local_destroy,
                                  .all_reduce = local_all_reduce,
                                  .all_reduce_tree = local_all_reduce_tree,
                                  .all_reduce_add_norm = local_all_reduce_add_norm,
                                  .all_reduce_i32 = local_all_reduce_i32,
                                  .gather = local_gather,
                                  .gather_host = local_gather_host,
                                  .open_memories = local_open_memories,
                                  .await_writes = local_await_writes,
                                  .barrier = local_barrier,
                                  .send_next = local_send_next,
                                  .receive_previous = local_receive_previous,
                                  .abort = local_abort};
  local_comm *local = calloc(1, sizeof *local);
  if (!local) return yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  const int stage = yk_world_stage_of(world, rank), n_ranks = yk_world_group_size(world);
  local->base = (yk_comm){.ops = &ops,
                          .dev = dev,
                          .rank = yk_world_group_rank(world, rank),
                          .n_ranks = n_ranks,
                          .stage = stage,
                          .n_stages = world->n_stages};
  local->group = groups[stage];
  local->group->n_ends++;
  if (yk_world_is_local(world, rank + n_ranks)) local->next = groups[stage + 1];
  if (local->next) local->next->n_ends++;
  *out = local;
  return YK_OK;
}

/* wires: NULL if this process runs all ranks. */
static yk_status create_ends(const yk_world *world, const yk_wires *wires, yk_device *const *devs, yk_comm **out,
                             yk_err *err)
{
  group *groups[YK_MAX_RANKS + 1] = {NULL};
  char tag[16] = "";
  yk_status status = YK_OK;
  const int last_rank = world->first_rank + world->n_local - 1;
  const int first_stage = yk_world_stage_of(world, world->first_rank), last_stage = yk_world_stage_of(world, last_rank);
  if (wires) snprintf(tag, sizeof tag, "%u", (*wires->n_communicators)++);
  for (int stage = first_stage; stage <= last_stage && status == YK_OK; stage++)
    status = create_group(world, wires, stage, tag, &groups[stage], err);
  int n_made = 0;
  while (n_made < world->n_local && status == YK_OK) {
    local_comm *local = NULL;
    const int rank = world->first_rank + n_made;
    status = create_end(world, groups, rank, devs[n_made], &local, err);
    if (status != YK_OK) break;
    out[n_made++] = &local->base;
    if (wires) status = yk_stage_wires_open(world, wires, rank, tag, &local->wires, err);
  }
  while (status != YK_OK && n_made > 0) {
    local_destroy(out[--n_made]);
    out[n_made] = NULL;
  }
  for (int stage = first_stage; stage <= last_stage; stage++) release_group(groups[stage]);
  return status;
}

yk_status yk_comm_local_create(const yk_world *world, yk_device *const *devs, yk_comm **out, yk_err *err)
{
  YK_TRY(check_whole(world, err));
  return create_ends(world, NULL, devs, out, err);
}

yk_status yk_comm_processes_create(const yk_world *world, const yk_wires *wires, yk_device *const *devs, yk_comm **out,
                                   yk_err *err)
{
  const int process = wires->process, n = wires->n_processes;
  YK_TRY(yk_world_check(world, err));
  if (wires->first_ranks[process] != world->first_rank ||
      wires->first_ranks[process + 1] != world->first_rank + world->n_local || wires->first_ranks[n] != world->n_ranks)
    return yk_err_set(err, YK_E_INVAL,
                      "communicator: expected ranks %d to %d of %d, as in the roll call, found %d to %d "
                      "of %d",
                      wires->first_ranks[process], wires->first_ranks[process + 1] - 1, wires->first_ranks[n],
                      world->first_rank, world->first_rank + world->n_local - 1, world->n_ranks);
  return create_ends(world, n > 1 ? wires : NULL, devs, out, err);
}
