/* comm_nccl.c - one non-blocking NCCL communicator per rank, for ranks of one or several processes: pending NCCL calls
 * are polled together with the device's watch, a function that the device calls while it waits. The watch detects
 * aborts, and missing peers that another transport finds. Host data passes between processes over their wires.
 *
 * Abort only sets the flag. Each end's own thread sees the flag, in a call of this file or while its device waits for
 * the stream, and starts the abort of its NCCL communicator, which ends the kernels that wait for peers. The abort runs
 * in a separate thread: ncclCommAbort returns only once the recorded graphs that hold its operations are destroyed,
 * which happens later. */
#define _GNU_SOURCE /* pthread_clockjoin_np */
#include "parallel/comm_nccl.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"
#include "kernels/cuda/cuda_device.h"
#include "parallel/host_gather.h"
#include "parallel/nccl_functions.h"
#include "parallel/remote.h"

enum { CREATE_TIMEOUT_S = 60, END_TIMEOUT_S = 60, FAILED_END_TIMEOUT_S = 5 };
enum { WATCHES_PER_QUERY = 256 }; /* calls of the watch per query of NCCL; every call checks for aborts */

/* Shared by all ends of this process; freed with the last of them. generation, n_arrived, n_ends, published and
 * is_moving under mutex. */
typedef struct group {
  int n_ranks, n_local;
  yk_remote *remote;           /* host data to and from other processes, or NULL */
  yk_nccl_functions functions; /* empty with one rank */
  yk_host_gather *host_gather;
  atomic_bool aborted;
  yk_err failure; /* of other processes: written once, before aborted; else YK_OK */
  pthread_mutex_t mutex;
  pthread_cond_t cv_passed; /* generation grew, or aborted */
  uint64_t generation;      /* completed barriers */
  int n_arrived, n_ends;
  bool is_moving; /* the last rank to arrive exchanges published host data with other processes */
  const void *published[YK_MAX_RANKS];
} group;

/* Exchanges host data with other processes before a barrier ends. */
typedef yk_status move_function(group *g, size_t n_bytes, yk_err *err);

typedef struct nccl_comm {
  yk_comm base;
  group *group;
  const yk_nccl_functions *functions; /* the group's */
  ncclComm_t nccl;                    /* NULL with one rank, and once aborted */
  cudaStream_t stream;
  int n_watches; /* since the last query of NCCL's asynchronous error */
  pthread_t aborter;
  bool is_aborting; /* aborter runs, and must be joined */
  bool has_failed;
} nccl_comm;

/* ---- Abort and errors -------------------------------------------------------------------------------------------- */

/* Freed by the aborting thread, which may outlive the communicator. */
typedef struct abort_call {
  __typeof__(ncclCommAbort) *comm_abort;
  ncclComm_t nccl;
} abort_call;

static void *abort_nccl(void *argument)
{
  abort_call call = *(abort_call *)argument;
  free(argument);
  call.comm_abort(call.nccl);
  return NULL;
}

/* Starts the abort that ends NCCL's kernels. NCCL makes the GPU current for the thread that it works in. */
static void begin_abort(nccl_comm *comm)
{
  if (!comm->nccl) return;
  abort_call *call = malloc(sizeof *call);
  if (call) *call = (abort_call){comm->functions->comm_abort, comm->nccl};
  comm->is_aborting = call && pthread_create(&comm->aborter, NULL, abort_nccl, call) == 0;
  if (!comm->is_aborting) {
    free(call);
    comm->functions->comm_abort(comm->nccl);
  }
  comm->nccl = NULL;
}

/* Returns whether NCCL has finished the abort. On a GPU that many processes share this takes long; after an error that
 * corrupted the process's CUDA state it may never happen: NCCL's resources are then left until the process ends. */
static bool end_abort(nccl_comm *comm)
{
  bool has_failed = comm->has_failed || atomic_load(&comm->group->aborted);
  struct timespec deadline = yk_wait_deadline(has_failed ? FAILED_END_TIMEOUT_S : END_TIMEOUT_S);
  if (!comm->is_aborting) return true;
  comm->is_aborting = false;
  if (pthread_clockjoin_np(comm->aborter, NULL, CLOCK_MONOTONIC, &deadline) == 0) return true;
  pthread_detach(comm->aborter);
  return false;
}

/* Called by this end's own thread: abandons operations that wait for the others. */
static yk_status give_up(nccl_comm *comm, yk_err *err)
{
  const group *g = comm->group;
  begin_abort(comm);
  if (!atomic_load(&g->aborted) || g->failure.code == YK_OK)
    return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
  if (err && err->code == YK_OK) *err = g->failure;
  return g->failure.code;
}

static void signal_abort(group *g)
{
  pthread_mutex_lock(&g->mutex);
  atomic_store(&g->aborted, true);
  pthread_cond_broadcast(&g->cv_passed);
  pthread_mutex_unlock(&g->mutex);
  yk_host_gather_abort(g->host_gather);
  if (g->remote) yk_remote_abort(g->remote);
}

/* Records an error of NCCL. Does not abort the group: the receiver of the error does so once the error is recorded, so
 * that no error caused by the abort on another rank is recorded first. */
static yk_status fail(nccl_comm *comm, ncclResult_t result, const char *operation, yk_err *err)
{
  yk_err_set(err, YK_E_COMM, "NCCL %s: %s: %s", operation, comm->functions->get_error_string(result),
             comm->functions->get_last_error(comm->nccl));
  yk_cuda_device_blame(comm->base.dev, YK_E_COMM, err);
  comm->has_failed = true;
  return give_up(comm, NULL);
}

/* Waits until NCCL has enqueued the operation of a call that returned `result`; this may take until the peers make the
 * same call. */
static yk_status taken(nccl_comm *comm, ncclResult_t result, const char *operation, yk_err *err)
{
  while (result == ncclInProgress) {
    YK_TRY(yk_cuda_device_check_watch(comm->base.dev, err));
    ncclResult_t query = comm->functions->comm_get_async_error(comm->nccl, &result);
    if (query != ncclSuccess) result = query;
  }
  return result == ncclSuccess ? YK_OK : fail(comm, result, operation, err);
}

/* Start of every operation. */
static yk_status enter(nccl_comm *comm, yk_err *err)
{
  if (atomic_load(&comm->group->aborted) || comm->has_failed) return give_up(comm, err);
  return yk_cuda_device_activate(comm->base.dev, err);
}

yk_status yk_comm_nccl_check(yk_comm *base, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  if (atomic_load(&comm->group->aborted) || comm->has_failed) return give_up(comm, err);
  if (!comm->nccl || ++comm->n_watches < WATCHES_PER_QUERY) return YK_OK;
  ncclResult_t result = ncclSuccess;
  comm->n_watches = 0;
  ncclResult_t query = comm->functions->comm_get_async_error(comm->nccl, &result);
  if (query != ncclSuccess) result = query;
  return result == ncclSuccess || result == ncclInProgress ? YK_OK : fail(comm, result, "operation", err);
}

void yk_comm_nccl_give_up(yk_comm *base)
{
  nccl_comm *comm = (nccl_comm *)base;
  comm->has_failed = true;
  give_up(comm, NULL);
}

/* Called by the device while it waits for its stream. */
static yk_status watch(void *context, yk_err *err)
{
  return yk_comm_nccl_check(context, err);
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

static ncclDataType_t type_of(yk_dtype dtype)
{
  return dtype == YK_F16 ? ncclFloat16 : dtype == YK_BF16 ? ncclBfloat16 : ncclFloat32;
}

static yk_status nccl_all_reduce(yk_comm *base, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  YK_TRY(enter(comm, err));
  if (base->n_ranks == 1 || count == 0) return YK_OK;
  ncclResult_t result =
      comm->functions->all_reduce(data, data, (size_t)count, type_of(dtype), ncclSum, comm->nccl, comm->stream);
  return taken(comm, result, "all-reduce", err);
}

static yk_status nccl_all_reduce_i32(yk_comm *base, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  YK_TRY(enter(comm, err));
  if (base->n_ranks == 1 || count == 0) return YK_OK;
  ncclRedOp_t operation = reduction == YK_REDUCE_SUM ? ncclSum : ncclMax;
  ncclResult_t result =
      comm->functions->all_reduce(data, data, (size_t)count, ncclInt32, operation, comm->nccl, comm->stream);
  return taken(comm, result, "all-reduce of integers", err);
}

static yk_status nccl_all_reduce_add_norm(yk_comm *base, const yk_all_reduce_add_norm_args *args, yk_err *err)
{
  int64_t count = (int64_t)args->n_rows * args->hidden;
  YK_TRY(enter((nccl_comm *)base, err));
  if (base->n_ranks > 1) YK_TRY(base->dev->ops->partial_complete(base->dev, &args->partial, err));
  YK_TRY(nccl_all_reduce(base, args->partial.rows, count, base->dev->dtype, err));
  yk_add_norm_args add = {.y = args->y,
                          .residual = args->residual,
                          .partials = {args->partial.rows},
                          .n_partials = 1,
                          .w = args->w,
                          .n_rows = args->n_rows,
                          .hidden = args->hidden,
                          .alpha = args->alpha,
                          .eps = args->eps,
                          .combine = base->n_ranks == 1 ? yk_partial_slots(&args->partial) : NULL};
  return base->dev->ops->add_norm(base->dev, &add, err);
}

static ncclResult_t receive_all(nccl_comm *comm, char *data, int64_t n_bytes)
{
  const yk_nccl_functions *nccl = comm->functions;
  ncclResult_t result = nccl->group_start();
  for (int rank = 1; rank < comm->base.n_ranks && result == ncclSuccess; rank++)
    result = nccl->recv(data + rank * n_bytes, (size_t)n_bytes, ncclInt8, rank, comm->nccl, comm->stream);
  ncclResult_t ended = nccl->group_end();
  return result == ncclSuccess ? ended : result;
}

static yk_status nccl_gather(yk_comm *base, void *data, int64_t n_bytes, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  YK_TRY(enter(comm, err));
  if (n_bytes == 0 || base->n_ranks == 1) return YK_OK;
  if (base->rank == 0) return taken(comm, receive_all(comm, data, n_bytes), "receive", err);
  return taken(comm, comm->functions->send(data, (size_t)n_bytes, ncclInt8, 0, comm->nccl, comm->stream), "send", err);
}

/* Called before each check for a missing rank: the device's watch finds peers that another transport misses. */
static yk_status watch_device(void *context, yk_err *err)
{
  return yk_cuda_device_check_watch(context, err);
}

/* For the last rank to arrive, which holds the mutex. */
static void move_data(group *g, move_function *move, size_t n_bytes)
{
  yk_err failure = YK_ERR_INIT;
  g->is_moving = true;
  pthread_mutex_unlock(&g->mutex);
  yk_status status = move(g, n_bytes, &failure);
  pthread_mutex_lock(&g->mutex);
  g->is_moving = false;
  if (status == YK_OK || atomic_load(&g->aborted)) return;
  g->failure = failure;
  atomic_store(&g->aborted, true);
}

/* Under the mutex. */
static void arrive(group *g, move_function *move, size_t n_bytes)
{
  if (atomic_load(&g->aborted) || ++g->n_arrived < g->n_local) return;
  g->n_arrived = 0;
  if (g->remote && move) move_data(g, move, n_bytes);
  if (!atomic_load(&g->aborted)) g->generation++;
  pthread_cond_broadcast(&g->cv_passed);
}

/* Publishes a pointer (NULL: none) and waits for every rank of this process; the last one moves data of n_bytes a rank
 * between the processes (NULL: nothing). No rank returns during the move, which reads what the ranks have published; an
 * abort ends the move soon. */
static yk_status pass_barrier(yk_comm *base, const void *pointer, move_function *move, size_t n_bytes, yk_err *err)
{
  const double watch_every_s = 0.02;
  nccl_comm *comm = (nccl_comm *)base;
  group *g = comm->group;
  yk_status status = YK_OK;
  YK_TRY(enter(comm, err));
  pthread_mutex_lock(&g->mutex);
  uint64_t generation = g->generation;
  if (pointer) g->published[base->rank] = pointer;
  arrive(g, move, n_bytes);
  while (g->generation == generation && (g->is_moving || (!atomic_load(&g->aborted) && status == YK_OK))) {
    struct timespec deadline = yk_wait_deadline(watch_every_s);
    if (pthread_cond_timedwait(&g->cv_passed, &g->mutex, &deadline) != ETIMEDOUT || status != YK_OK) continue;
    pthread_mutex_unlock(&g->mutex);
    status = yk_cuda_device_check_watch(base->dev, err);
    pthread_mutex_lock(&g->mutex);
  }
  bool has_passed = g->generation != generation;
  pthread_mutex_unlock(&g->mutex);
  if (has_passed) return YK_OK;
  return status == YK_OK ? give_up(comm, err) : status;
}

static yk_status move_to_rank_0(group *g, size_t n_bytes, yk_err *err)
{
  return yk_remote_gather(g->remote, g->published, n_bytes, (void *)(uintptr_t)g->published[0], err);
}

/* With ranks of other processes: rank 0 publishes where all data goes. */
static yk_status gather_from_processes(yk_comm *base, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  const group *g = ((nccl_comm *)base)->group;
  if (base->rank == 0 && all != data && n_bytes > 0) memmove(all, data, n_bytes);
  YK_TRY(pass_barrier(base, base->rank == 0 ? all : data, move_to_rank_0, n_bytes, err));
  for (int rank = 1; base->rank == 0 && rank < g->n_local && n_bytes > 0; rank++)
    memcpy((char *)all + (size_t)rank * n_bytes, g->published[rank], n_bytes);
  return pass_barrier(base, NULL, NULL, 0, err);
}

static yk_status nccl_gather_host(yk_comm *base, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  const yk_mailbox_watch device = {watch_device, base->dev};
  YK_TRY(enter(comm, err));
  if (comm->group->remote) return gather_from_processes(base, data, n_bytes, all, err);
  yk_status status = yk_host_gather_run(comm->group->host_gather, base->rank, data, n_bytes, all, &device, err);
  return status == YK_E_COMM && !comm->has_failed ? give_up(comm, err) : status;
}

/* NCCL alone gives no access to a peer's memory. */
static yk_status nccl_open_memory(yk_comm *base, void *memory, void **opened, yk_err *err)
{
  (void)memory;
  *opened = NULL;
  return enter((nccl_comm *)base, err);
}

static yk_status move_nothing(group *g, size_t n_bytes, yk_err *err)
{
  (void)n_bytes;
  return yk_remote_barrier(g->remote, err);
}

static yk_status nccl_barrier(yk_comm *base, yk_err *err)
{
  return pass_barrier(base, NULL, move_nothing, 0, err);
}

static void nccl_abort(yk_comm *base)
{
  signal_abort(((nccl_comm *)base)->group);
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static void release_group(group *g)
{
  pthread_mutex_lock(&g->mutex);
  bool last = --g->n_ends == 0;
  pthread_mutex_unlock(&g->mutex);
  if (!last) return;
  yk_host_gather_destroy(g->host_gather);
  yk_remote_destroy(g->remote);
  pthread_cond_destroy(&g->cv_passed);
  pthread_mutex_destroy(&g->mutex);
  free(g);
}

/* One thread destroys the ends one after the other, so nothing here may wait for a peer, as NCCL's regular destruction
 * would. */
static bool nccl_destroy(yk_comm *base)
{
  if (!base) return true;
  nccl_comm *comm = (nccl_comm *)base;
  yk_cuda_device_set_watch(base->dev, NULL, NULL);
  yk_cuda_device_activate(base->dev, NULL);
  begin_abort(comm);
  bool is_gone = end_abort(comm);
  release_group(comm->group);
  free(comm);
  return is_gone;
}

/* The first process's id. The others make none: NCCL listens for connections to each id that was made. */
static yk_status agree_on_id(const yk_nccl_functions *nccl, const yk_exchange *exchange, ncclUniqueId *id, yk_err *err)
{
  ncclUniqueId *all = calloc((size_t)exchange->n_processes, sizeof *all);
  *id = (ncclUniqueId){0};
  ncclResult_t result = exchange->process == 0 ? nccl->get_unique_id(id) : ncclSuccess;
  yk_status status = YK_OK;
  if (!all) status = yk_err_set(err, YK_E_NOMEM, "no memory for NCCL's ids");
  if (status == YK_OK && result != ncclSuccess)
    status = yk_err_set(err, YK_E_COMM, "NCCL has no id: %s", nccl->get_error_string(result));
  if (status == YK_OK) status = exchange->all_gather(exchange, id, sizeof *id, all, err);
  if (status == YK_OK) *id = all[0];
  free(all);
  return status;
}

static ncclResult_t begin_connecting(const yk_nccl_functions *nccl, yk_comm *const *ends, int n_local,
                                     const ncclUniqueId *id, yk_err *err)
{
  ncclResult_t result = nccl->group_start();
  if (result != ncclSuccess) return result;
  for (int i = 0; i < n_local && result == ncclSuccess; i++) {
    nccl_comm *comm = (nccl_comm *)ends[i];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (yk_cuda_device_activate(comm->base.dev, err) != YK_OK) result = ncclUnhandledCudaError;
    if (result == ncclSuccess)
      result = nccl->comm_init_rank_config(&comm->nccl, comm->base.n_ranks, *id, comm->base.rank, &config);
    if (result == ncclInProgress) result = ncclSuccess;
  }
  ncclResult_t ended = nccl->group_end();
  return result != ncclSuccess ? result : ended == ncclInProgress ? ncclSuccess : ended;
}

/* One thread connects all ends at once, with a time limit. */
static yk_status connect_ends(const yk_nccl_functions *nccl, const yk_exchange *exchange, yk_comm *const *ends,
                              int n_local, yk_err *err)
{
  int64_t start_ns = yk_clock_now_ns();
  int n_ranks = ends[0]->n_ranks;
  ncclUniqueId id;
  YK_TRY(agree_on_id(nccl, exchange, &id, err));
  ncclResult_t result = begin_connecting(nccl, ends, n_local, &id, err);
  for (int i = 0; i < n_local && result == ncclSuccess;) {
    nccl_comm *comm = (nccl_comm *)ends[i];
    ncclResult_t query = nccl->comm_get_async_error(comm->nccl, &result);
    if (query != ncclSuccess) result = query;
    if (result == ncclSuccess) i++;
    if (result != ncclInProgress) continue;
    result = ncclSuccess;
    if (yk_clock_seconds_since(start_ns) > CREATE_TIMEOUT_S)
      return yk_err_set(err, YK_E_TIMEOUT, "NCCL did not connect %d GPUs within %d s", n_ranks, CREATE_TIMEOUT_S);
  }
  if (result == ncclSuccess) return YK_OK;
  return yk_err_set(err, YK_E_COMM, "NCCL cannot connect %d GPUs: %s: %s", n_ranks, nccl->get_error_string(result),
                    nccl->get_last_error(NULL));
}

static group *group_new(const yk_world *world)
{
  group *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  pthread_mutex_init(&g->mutex, NULL);
  yk_cond_init(&g->cv_passed);
  g->failure = YK_ERR_INIT;
  g->n_ranks = world->n_ranks;
  g->n_local = world->n_local;
  g->n_ends = 1; /* the creating function's, until every end exists */
  return g;
}

static nccl_comm *end_new(group *g, yk_device *dev, int rank)
{
  static const yk_comm_ops ops = {.name = "nccl",
                                  .destroy = nccl_destroy,
                                  .all_reduce = nccl_all_reduce,
                                  .all_reduce_add_norm = nccl_all_reduce_add_norm,
                                  .all_reduce_i32 = nccl_all_reduce_i32,
                                  .gather = nccl_gather,
                                  .gather_host = nccl_gather_host,
                                  .open_memory = nccl_open_memory,
                                  .barrier = nccl_barrier,
                                  .abort = nccl_abort};
  nccl_comm *comm = calloc(1, sizeof *comm);
  if (!comm) return NULL;
  comm->base = (yk_comm){.ops = &ops, .dev = dev, .rank = rank, .n_ranks = g->n_ranks, .n_stages = 1};
  comm->group = g;
  comm->functions = &g->functions;
  comm->stream = yk_cuda_device_stream(dev);
  g->n_ends++;
  yk_cuda_device_set_watch(dev, watch, comm);
  return comm;
}

static yk_status connect_hosts(const yk_world *world, const yk_wires *wires, group *g, yk_err *err)
{
  char tag[24];
  if (yk_world_is_whole(world)) return YK_OK;
  snprintf(tag, sizeof tag, "%u nccl", (*wires->n_communicators)++);
  return yk_remote_create(world, wires, 0, tag, &g->remote, err);
}

yk_status yk_comm_nccl_create(const yk_world *world, const yk_exchange *exchange, const yk_wires *wires,
                              yk_device *const *devs, yk_comm **out, yk_err *err)
{
  YK_TRY(yk_comm_check_world(world, err));
  const int n_local = world->n_local;
  group *g = group_new(world);
  if (!g) return yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  yk_status status = yk_host_gather_create(world->n_ranks, &g->host_gather, err);
  if (status == YK_OK) status = connect_hosts(world, wires, g, err);
  if (status == YK_OK && world->n_ranks > 1) status = yk_nccl_load(&g->functions, err);
  yk_comm *ends[YK_MAX_RANKS] = {0};
  for (int i = 0; i < n_local && status == YK_OK; i++) {
    ends[i] = (yk_comm *)end_new(g, devs[i], world->first_rank + i);
    if (!ends[i]) status = yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  }
  if (status == YK_OK && world->n_ranks > 1) status = connect_ends(&g->functions, exchange, ends, n_local, err);
  if (status != YK_OK && g->host_gather) signal_abort(g); /* ends the waits for ends that NCCL could not connect */
  for (int i = 0; i < n_local; i++) {
    if (status == YK_OK)
      out[i] = ends[i];
    else
      nccl_destroy(ends[i]);
  }
  release_group(g);
  return status;
}
