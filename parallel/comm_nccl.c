/* comm_nccl.c - one non-blocking NCCL communicator per end, for ranks of one or several processes: pending NCCL calls
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
#include "parallel/host_group.h"
#include "parallel/nccl_functions.h"

enum { CREATE_TIMEOUT_S = 60, END_TIMEOUT_S = 60, FAILED_END_TIMEOUT_S = 5 };
enum { WATCHES_PER_QUERY = 256 }; /* calls of the watch per query of NCCL; every call checks for aborts */

/* Ranks that communicate: a pipeline stage; all ranks, for messages between stages; or one rank of each host. Shared by
 * the ends of this process; freed with the last of them. */
typedef struct group {
  int n_ranks;
  yk_nccl_functions functions; /* empty with one rank, and without NCCL */
  yk_host_group *host;
  atomic_int n_ends;
} group;

typedef struct nccl_comm {
  yk_comm base;
  group *group;
  const yk_nccl_functions *functions; /* the group's */
  ncclComm_t nccl;                    /* NULL with one rank, without NCCL, and once aborted */
  int nccl_rank;                      /* in the group */
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

static bool is_over(const nccl_comm *comm)
{
  return comm->has_failed || yk_host_group_is_aborted(comm->group->host, NULL);
}

/* Returns whether NCCL has finished the abort. On a GPU that many processes share this takes long; after an error that
 * corrupted the process's CUDA state it may never happen: NCCL's resources are then left until the process ends. */
static bool end_abort(nccl_comm *comm)
{
  struct timespec deadline = yk_wait_deadline(is_over(comm) ? FAILED_END_TIMEOUT_S : END_TIMEOUT_S);
  if (!comm->is_aborting) return true;
  comm->is_aborting = false;
  if (pthread_clockjoin_np(comm->aborter, NULL, CLOCK_MONOTONIC, &deadline) == 0) return true;
  pthread_detach(comm->aborter);
  return false;
}

/* Called by this end's thread: abandons operations that wait for other ranks. */
static yk_status give_up(nccl_comm *comm, yk_err *err)
{
  const yk_err *failure;
  begin_abort(comm);
  if (!yk_host_group_is_aborted(comm->group->host, &failure) || failure->code == YK_OK)
    return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
  if (err && err->code == YK_OK) *err = *failure;
  return failure->code;
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
  if (is_over(comm)) return give_up(comm, err);
  return yk_cuda_device_activate(comm->base.dev, err);
}

yk_status yk_comm_nccl_check(yk_comm *base, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  if (is_over(comm)) return give_up(comm, err);
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

/* Start of an operation of several ranks on their GPUs. */
static yk_status enter_nccl(nccl_comm *comm, const char *operation, yk_err *err)
{
  YK_TRY(enter(comm, err));
  if (comm->functions->all_reduce) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s of this size needs NCCL, which takes one rank on each GPU", operation);
}

static yk_status nccl_all_reduce(yk_comm *base, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  if (base->n_ranks == 1 || count == 0) return enter(comm, err);
  YK_TRY(enter_nccl(comm, "all-reduce", err));
  ncclResult_t result =
      comm->functions->all_reduce(data, data, (size_t)count, type_of(dtype), ncclSum, comm->nccl, comm->stream);
  return taken(comm, result, "all-reduce", err);
}

static yk_status nccl_all_reduce_i32(yk_comm *base, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  if (base->n_ranks == 1 || count == 0) return enter(comm, err);
  YK_TRY(enter_nccl(comm, "all-reduce of integers", err));
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
                          .result_w = args->result_w,
                          .w = args->w,
                          .n_rows = args->n_rows,
                          .hidden = args->hidden,
                          .alpha = args->alpha,
                          .gain = args->gain,
                          .eps = args->eps,
                          .combine = base->n_ranks == 1 ? yk_partial_slots(&args->partial) : NULL};
  return base->dev->ops->add_norm(base->dev, &add, err);
}

static yk_status nccl_all_gather(yk_comm *base, const void *data, int64_t n_bytes, void *all, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  YK_TRY(enter_nccl(comm, "all-gather", err));
  ncclResult_t result = comm->functions->all_gather(data, all, (size_t)n_bytes, ncclInt8, comm->nccl, comm->stream);
  return taken(comm, result, "all-gather", err);
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
  if (n_bytes == 0 || base->n_ranks == 1) return enter(comm, err);
  YK_TRY(enter_nccl(comm, "gather", err));
  if (base->rank == 0) return taken(comm, receive_all(comm, data, n_bytes), "receive", err);
  return taken(comm, comm->functions->send(data, (size_t)n_bytes, ncclInt8, 0, comm->nccl, comm->stream), "send", err);
}

/* From stage to stage: in the group of all ranks, the numbers of neighbours differ by the size of a stage. */
static yk_status nccl_send_next(yk_comm *base, const void *data, int64_t n_bytes, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  const int next = comm->nccl_rank + base->n_ranks;
  YK_TRY(enter(comm, err));
  return taken(comm, comm->functions->send(data, (size_t)n_bytes, ncclInt8, next, comm->nccl, comm->stream),
               "send to the next stage", err);
}

static yk_status nccl_receive_previous(yk_comm *base, void *data, int64_t n_bytes, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  const int previous = comm->nccl_rank - base->n_ranks;
  YK_TRY(enter(comm, err));
  return taken(comm, comm->functions->recv(data, (size_t)n_bytes, ncclInt8, previous, comm->nccl, comm->stream),
               "receive from the previous stage", err);
}

/* Called before each check for a missing rank: the device's watch finds peers that another transport misses. */
static yk_status watch_device(void *context, yk_err *err)
{
  return yk_cuda_device_check_watch(context, err);
}

static yk_host_member member_of(const nccl_comm *comm)
{
  return (yk_host_member){comm->group->host, comm->base.rank, {watch_device, comm->base.dev}};
}

/* End of an operation on the host that returned `status`. */
static yk_status after_host(nccl_comm *comm, yk_status status, yk_err *err)
{
  return status == YK_E_COMM && !comm->has_failed ? give_up(comm, err) : status;
}

static yk_status nccl_gather_host(yk_comm *base, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  const yk_host_member member = member_of(comm);
  YK_TRY(enter(comm, err));
  return after_host(comm, yk_host_group_gather(&member, data, n_bytes, all, err), err);
}

yk_status yk_comm_nccl_share_host(yk_comm *base, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  const yk_host_member member = member_of(comm);
  YK_TRY(enter(comm, err));
  return after_host(comm, yk_host_group_share(&member, data, n_bytes, all, err), err);
}

/* NCCL alone gives no access to a peer's memory. */
static yk_status nccl_open_memories(yk_comm *base, void *memory, void **opened, yk_err *err)
{
  (void)memory;
  memset(opened, 0, (size_t)base->n_ranks * sizeof *opened);
  return enter((nccl_comm *)base, err);
}

static yk_status nccl_barrier(yk_comm *base, yk_err *err)
{
  nccl_comm *comm = (nccl_comm *)base;
  const yk_host_member member = member_of(comm);
  YK_TRY(enter(comm, err));
  return after_host(comm, yk_host_group_barrier(&member, err), err);
}

static void nccl_abort(yk_comm *base)
{
  yk_host_group_abort(((nccl_comm *)base)->group->host);
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static void release_group(group *g)
{
  if (atomic_fetch_sub(&g->n_ends, 1) > 1) return;
  yk_host_group_destroy(g->host);
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

/* How ends are made. */
typedef struct plan {
  const yk_world *world;
  yk_device *const *devs; /* [n_local] */
  const yk_comm_ops *ops;
  /* Creates groups of equal size: group_ranks * stride consecutive ranks form `stride` groups, whose members' numbers
   * differ by multiples of `stride`. */
  int n_groups, group_ranks, stride;
  bool has_nccl;
  group *groups[YK_MAX_RANKS];   /* [n_groups] NULL: this process has no rank of the group */
  nccl_comm *ends[YK_MAX_RANKS]; /* [n_local] */
} plan;

static int group_of(const plan *p, int rank)
{
  return rank / (p->group_ranks * p->stride) * p->stride + rank % p->stride;
}

/* A rank's number in its group. */
static int number_of(const plan *p, int rank)
{
  return rank / p->stride % p->group_ranks;
}

/* The rank with a number in group g. */
static int member_at(const plan *p, int g, int number)
{
  return g / p->stride * p->group_ranks * p->stride + number * p->stride + g % p->stride;
}

/* The ids of all groups, each made by the process of the group's first rank: NCCL listens for connections to each id
 * that was made. ids [n_groups]. */
static yk_status agree_on_ids(const plan *p, const yk_nccl_functions *nccl, const yk_exchange *exchange,
                              ncclUniqueId *ids, yk_err *err)
{
  typedef struct made_id {
    ncclUniqueId id;
    bool is_made;
  } made_id;
  const size_t n_groups = (size_t)p->n_groups, n_processes = (size_t)exchange->n_processes;
  made_id *mine = calloc(n_groups, sizeof *mine), *all = calloc(n_groups * n_processes, sizeof *all);
  yk_status status = mine && all ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for NCCL's ids");
  for (size_t i = 0; i < n_groups && status == YK_OK; i++) {
    mine[i].is_made = yk_world_is_local(p->world, member_at(p, (int)i, 0));
    ncclResult_t result = mine[i].is_made ? nccl->get_unique_id(&mine[i].id) : ncclSuccess;
    if (result != ncclSuccess)
      status = yk_err_set(err, YK_E_COMM, "NCCL has no id: %s", nccl->get_error_string(result));
  }
  if (status == YK_OK) status = exchange->all_gather(exchange, mine, n_groups * sizeof *mine, all, err);
  for (size_t i = 0; i < n_groups * n_processes && status == YK_OK; i++)
    if (all[i].is_made) ids[i % n_groups] = all[i].id;
  free(mine);
  free(all);
  return status;
}

static ncclResult_t begin_connecting(const plan *p, const yk_nccl_functions *nccl, const ncclUniqueId *ids, yk_err *err)
{
  ncclResult_t result = nccl->group_start();
  if (result != ncclSuccess) return result;
  for (int i = 0; i < p->world->n_local && result == ncclSuccess; i++) {
    nccl_comm *comm = p->ends[i];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (yk_cuda_device_activate(comm->base.dev, err) != YK_OK) result = ncclUnhandledCudaError;
    if (result == ncclSuccess)
      result = nccl->comm_init_rank_config(&comm->nccl, p->group_ranks, ids[group_of(p, p->world->first_rank + i)],
                                           comm->nccl_rank, &config);
    if (result == ncclInProgress) result = ncclSuccess;
  }
  ncclResult_t ended = nccl->group_end();
  return result != ncclSuccess ? result : ended == ncclInProgress ? ncclSuccess : ended;
}

/* One thread connects all ends at once, with a time limit. */
static yk_status connect_ends(const plan *p, const yk_exchange *exchange, yk_err *err)
{
  const yk_nccl_functions *nccl = &p->groups[group_of(p, p->world->first_rank)]->functions;
  const int n_ranks = p->group_ranks;
  int64_t start_ns = yk_clock_now_ns();
  ncclUniqueId ids[YK_MAX_RANKS];
  YK_TRY(agree_on_ids(p, nccl, exchange, ids, err));
  ncclResult_t result = begin_connecting(p, nccl, ids, err);
  for (int i = 0; i < p->world->n_local && result == ncclSuccess;) {
    ncclResult_t query = nccl->comm_get_async_error(p->ends[i]->nccl, &result);
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

static yk_status group_create(const plan *p, int number, group **out, yk_err *err)
{
  int n_local = 0;
  group *g = calloc(1, sizeof *g);
  if (!g) return yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  g->n_ranks = p->group_ranks;
  g->n_ends = 1; /* the creating function's, until every end exists */
  *out = g;
  for (int i = 0; i < g->n_ranks; i++) n_local += yk_world_is_local(p->world, member_at(p, number, i));
  YK_TRY(yk_host_group_create(g->n_ranks, n_local, &g->host, err));
  return p->has_nccl && g->n_ranks > 1 ? yk_nccl_load(&g->functions, err) : YK_OK;
}

static yk_status end_create(plan *p, int i, yk_err *err)
{
  const yk_world *world = p->world;
  const int rank = world->first_rank + i;
  nccl_comm *comm = calloc(1, sizeof *comm);
  if (!comm) return yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  comm->base = (yk_comm){.ops = p->ops,
                         .dev = p->devs[i],
                         .rank = yk_world_group_rank(world, rank),
                         .n_ranks = yk_world_group_size(world),
                         .stage = yk_world_stage_of(world, rank),
                         .n_stages = world->n_stages};
  comm->group = p->groups[group_of(p, rank)];
  comm->functions = &comm->group->functions;
  comm->nccl_rank = number_of(p, rank);
  if (p->stride > 1) {
    comm->base.rank = comm->nccl_rank;
    comm->base.n_ranks = p->group_ranks;
  }
  comm->stream = yk_cuda_device_stream(p->devs[i]);
  comm->group->n_ends++;
  yk_cuda_device_set_watch(p->devs[i], watch, comm);
  p->ends[i] = comm;
  return YK_OK;
}

/* Host data between processes, of the groups that have ranks in several. */
static yk_status connect_hosts(const plan *p, const yk_wires *wires, yk_err *err)
{
  char tag[24], name[32];
  if (!wires || yk_world_is_whole(p->world)) return YK_OK;
  snprintf(tag, sizeof tag, "%u nccl", (*wires->n_communicators)++);
  for (int i = 0; i < p->n_groups; i++) {
    if (!p->groups[i]) continue;
    snprintf(name, sizeof name, "%.22s %d", tag, i);
    yk_remote *remote;
    YK_TRY(yk_remote_create(p->world, wires, i, name, &remote, err));
    yk_host_group_connect(p->groups[i]->host, remote);
  }
  return YK_OK;
}

static yk_status create_groups(plan *p, const yk_wires *wires, yk_err *err)
{
  for (int i = 0; i < p->world->n_local; i++) {
    const int number = group_of(p, p->world->first_rank + i);
    if (!p->groups[number]) YK_TRY(group_create(p, number, &p->groups[number], err));
  }
  YK_TRY(connect_hosts(p, wires, err));
  for (int i = 0; i < p->world->n_local; i++) YK_TRY(end_create(p, i, err));
  return YK_OK;
}

static yk_status create(plan *p, const yk_exchange *exchange, const yk_wires *wires, yk_comm **out, yk_err *err)
{
  yk_status status = create_groups(p, wires, err);
  if (status == YK_OK && p->has_nccl && p->group_ranks > 1) status = connect_ends(p, exchange, err);
  for (int i = 0; i < p->n_groups; i++) /* ends the waits for ends that NCCL could not connect */
    if (status != YK_OK && p->groups[i] && p->groups[i]->host) yk_host_group_abort(p->groups[i]->host);
  for (int i = 0; i < p->world->n_local; i++) {
    if (status == YK_OK)
      out[i] = &p->ends[i]->base;
    else
      nccl_destroy((yk_comm *)p->ends[i]);
  }
  for (int i = 0; i < p->n_groups; i++)
    if (p->groups[i]) release_group(p->groups[i]);
  return status;
}

yk_status yk_comm_nccl_create(const yk_world *world, yk_nccl_use use, const yk_exchange *exchange,
                              const yk_wires *wires, yk_device *const *devs, yk_comm **out, yk_err *err)
{
  static const yk_comm_ops ops = {.name = "nccl",
                                  .destroy = nccl_destroy,
                                  .all_reduce = nccl_all_reduce,
                                  .all_reduce_add_norm = nccl_all_reduce_add_norm,
                                  .all_reduce_i32 = nccl_all_reduce_i32,
                                  .all_gather = nccl_all_gather,
                                  .gather = nccl_gather,
                                  .gather_host = nccl_gather_host,
                                  .open_memories = nccl_open_memories,
                                  .barrier = nccl_barrier,
                                  .abort = nccl_abort};
  YK_TRY(yk_world_check(world, err));
  plan p = {.world = world,
            .devs = devs,
            .ops = &ops,
            .n_groups = world->n_stages,
            .group_ranks = yk_world_group_size(world),
            .stride = 1,
            .has_nccl = use == YK_NCCL_ALL};
  return create(&p, exchange, wires, out, err);
}

yk_status yk_comm_nccl_create_messages(const yk_world *world, const yk_exchange *exchange, yk_device *const *devs,
                                       yk_comm **out, yk_err *err)
{
  static const yk_comm_ops ops = {.name = "nccl messages",
                                  .destroy = nccl_destroy,
                                  .send_next = nccl_send_next,
                                  .receive_previous = nccl_receive_previous,
                                  .abort = nccl_abort};
  YK_TRY(yk_world_check(world, err));
  plan p = {.world = world,
            .devs = devs,
            .ops = &ops,
            .n_groups = 1,
            .group_ranks = world->n_ranks,
            .stride = 1,
            .has_nccl = true};
  return create(&p, exchange, NULL, out, err);
}

yk_status yk_comm_nccl_create_between(const yk_world *world, int n_local, const yk_exchange *exchange,
                                      yk_device *const *devs, yk_comm **out, yk_err *err)
{
  static const yk_comm_ops ops = {.name = "nccl between hosts",
                                  .destroy = nccl_destroy,
                                  .all_reduce = nccl_all_reduce,
                                  .all_reduce_i32 = nccl_all_reduce_i32,
                                  .all_gather = nccl_all_gather,
                                  .abort = nccl_abort};
  const int n_ranks = yk_world_group_size(world);
  YK_TRY(yk_world_check(world, err));
  if (n_local < 1 || n_ranks % n_local != 0)
    return yk_err_set(err, YK_E_INVAL, "ranks of a host: expected a divisor of %d, found %d", n_ranks, n_local);
  plan p = {.world = world,
            .devs = devs,
            .ops = &ops,
            .n_groups = world->n_stages * n_local,
            .group_ranks = n_ranks / n_local,
            .stride = n_local,
            .has_nccl = true};
  return create(&p, exchange, NULL, out, err);
}
