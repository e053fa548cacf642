/* comm_auto.c - combines an NCCL end and a peer-to-peer end. Both work on the device's stream, in call order.
 *
 * Failure: the device's watch checks both ends. If one fails, the other end of this rank gives up too, so that the
 * stream drains; the other ranks fail by abort, once the error is recorded. */
#include "parallel/comm_auto.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "kernels/cuda/cuda_device.h"
#include "parallel/comm_nccl.h"
#include "parallel/comm_warm_up.h"
#include "parallel/p2p/allreduce_p2p.h"

enum { WARM_UP_TIMEOUT_S = 60 };

/* Shared by all ends; freed with the last of them. */
typedef struct group {
  void *opened; /* memory of rank 0's device, written by rank 0 before a barrier */
  atomic_int n_ends;
} group;

typedef struct auto_comm {
  yk_comm base;
  yk_comm *nccl;
  yk_p2p *p2p; /* NULL with one rank, without peer access, or if max_bytes is 0 (yk_p2p_options_for) */
  group *group;
  struct CUstream_st *stream;
  int64_t row_bytes; /* row size of an all_reduce_add_norm */
} auto_comm;

/* Called by the device while it waits for its stream, and before every operation. */
static yk_status check(void *context, yk_err *err)
{
  auto_comm *comm = context;
  yk_status status = comm->p2p ? yk_p2p_check(comm->p2p, err) : YK_OK;
  if (status != YK_OK) {
    yk_comm_nccl_give_up(comm->nccl);
    return status;
  }
  status = yk_comm_nccl_check(comm->nccl, err);
  if (status != YK_OK && comm->p2p) yk_p2p_give_up(comm->p2p);
  return status;
}

static yk_status enter(auto_comm *comm, yk_err *err)
{
  YK_TRY(check(comm, err));
  return yk_cuda_device_activate(comm->base.dev, err);
}

/* The error of a launch does not name the GPU: record it as this device's. */
static yk_status blamed(const auto_comm *comm, yk_status status, yk_err *err)
{
  return status == YK_E_DEVICE ? yk_cuda_device_blame(comm->base.dev, status, err) : status;
}

static yk_status auto_all_reduce(yk_comm *base, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  int64_t row_bytes, n_bytes = count * (int64_t)yk_dtype_bytes(dtype);
  YK_TRY(enter(comm, err));
  if (!comm->p2p || yk_p2p_route_of_array(yk_p2p_get_options(comm->p2p), n_bytes, &row_bytes) == YK_P2P_NONE)
    return comm->nccl->ops->all_reduce(comm->nccl, data, count, dtype, err);
  return blamed(comm, yk_p2p_all_reduce(comm->p2p, data, count, dtype, comm->stream, err), err);
}

static yk_status auto_all_reduce_i32(yk_comm *base, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  int64_t row_bytes, n_bytes = count * (int64_t)sizeof *data;
  YK_TRY(enter(comm, err));
  if (!comm->p2p || yk_p2p_route_of_array(yk_p2p_get_options(comm->p2p), n_bytes, &row_bytes) != YK_P2P_ONE_SHOT)
    return comm->nccl->ops->all_reduce_i32(comm->nccl, data, count, reduction, err);
  return blamed(comm, yk_p2p_all_reduce_i32(comm->p2p, data, count, reduction, comm->stream, err), err);
}

/* Rows of one launch of an all-reduce of n_rows through slots; 0: the all-reduce uses NCCL. */
static int64_t rows_at_once(const auto_comm *comm, int64_t n_rows, int64_t row_bytes)
{
  return comm->p2p ? yk_p2p_rows_at_once(yk_p2p_get_options(comm->p2p), n_rows, row_bytes) : 0;
}

static const void *row_of(const void *array, int64_t row, int64_t row_bytes)
{
  return array ? (const char *)array + row * row_bytes : NULL;
}

/* The partial result of rows first .. first + n_rows - 1 alone. */
static yk_partial partial_rows_of(const yk_partial *all, int64_t first, int32_t n_rows, int64_t row_bytes)
{
  yk_partial rows = {.state = all->state, .rows = (void *)row_of(all->rows, first, row_bytes), .slots = all->slots};
  if (rows.state == YK_PARTIAL_ROWS) return rows;
  yk_combine_args *slots = &rows.slots;
  int64_t choices_bytes = slots->top_k * (int64_t)sizeof(int32_t);
  slots->y = rows.rows;
  slots->weights = row_of(slots->weights, first, choices_bytes);
  slots->slot_of_choice = row_of(slots->slot_of_choice, first, choices_bytes);
  slots->shared = row_of(slots->shared, first, row_bytes);
  slots->shared_gate = row_of(slots->shared_gate, first, slots->shared_gate_stride * (int64_t)sizeof(float));
  slots->n_tokens = n_rows;
  return rows;
}

/* The arguments of rows first .. first + n_rows - 1 alone. */
static yk_all_reduce_add_norm_args rows_of(const yk_all_reduce_add_norm_args *args, int64_t first, int32_t n_rows,
                                           int64_t row_bytes)
{
  yk_all_reduce_add_norm_args rows = *args;
  rows.partial = partial_rows_of(&args->partial, first, n_rows, row_bytes);
  rows.residual = (void *)row_of(args->residual, first, row_bytes);
  rows.y = (void *)row_of(args->y, first, row_bytes);
  rows.n_rows = n_rows;
  return rows;
}

static yk_status auto_all_reduce_add_norm(yk_comm *base, const yk_all_reduce_add_norm_args *args, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  int64_t row_bytes = args->hidden * (int64_t)yk_dtype_bytes(base->dev->dtype);
  int64_t n_rows = rows_at_once(comm, args->n_rows, row_bytes);
  YK_TRY(enter(comm, err));
  if (n_rows == 0) return comm->nccl->ops->all_reduce_add_norm(comm->nccl, args, err);
  for (int64_t first = 0; first < args->n_rows; first += n_rows) {
    const yk_all_reduce_add_norm_args rows =
        rows_of(args, first, (int32_t)yk_min_i64(n_rows, args->n_rows - first), row_bytes);
    YK_TRY(blamed(comm, yk_p2p_all_reduce_add_norm(comm->p2p, &rows, base->dev->dtype, comm->stream, err), err));
  }
  return YK_OK;
}

static yk_status auto_gather(yk_comm *base, void *data, int64_t n_bytes, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  YK_TRY(check(comm, err));
  return comm->nccl->ops->gather(comm->nccl, data, n_bytes, err);
}

static yk_status auto_await_writes(yk_comm *base, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  YK_TRY(enter(comm, err));
  return blamed(comm, yk_p2p_await_writes(comm->p2p, comm->stream, err), err);
}

static yk_status auto_gather_host(yk_comm *base, const void *data, size_t n_bytes, void *all, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  YK_TRY(check(comm, err));
  return comm->nccl->ops->gather_host(comm->nccl, data, n_bytes, all, err);
}

/* Within one process an address is valid on all peers. */
static yk_status auto_open_memory(yk_comm *base, void *memory, void **opened, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  if (base->rank == 0) comm->group->opened = memory;
  YK_TRY(comm->nccl->ops->barrier(comm->nccl, err));
  *opened = comm->p2p ? comm->group->opened : NULL;
  return YK_OK;
}

static yk_status auto_barrier(yk_comm *base, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  YK_TRY(check(comm, err));
  return comm->nccl->ops->barrier(comm->nccl, err);
}

static void auto_abort(yk_comm *base)
{
  auto_comm *comm = (auto_comm *)base;
  if (comm->p2p) yk_p2p_abort(comm->p2p);
  comm->nccl->ops->abort(comm->nccl);
}

/* One thread destroys the ends one after the other: pending waits for a peer are ended first. */
static bool auto_destroy(yk_comm *base)
{
  if (!base) return true;
  auto_comm *comm = (auto_comm *)base;
  if (comm->p2p) yk_p2p_give_up(comm->p2p);
  bool is_gone = !comm->nccl || comm->nccl->ops->destroy(comm->nccl); /* clears this device's watch */
  if (comm->p2p) base->dev->ops->sync(base->dev, NULL);               /* peers may free the slots next */
  yk_p2p_destroy(comm->p2p);
  if (atomic_fetch_sub(&comm->group->n_ends, 1) == 1) free(comm->group);
  free(comm);
  return is_gone;
}

/* *out stays NULL if the devices have no peer access to each other, some are of another process, or no all-reduce would
 * use slots. */
static yk_status create_p2p(const yk_world *world, yk_device *const *devs, const yk_p2p_options *options, yk_p2p **out,
                            yk_err *err)
{
  const int n_ranks = world->n_ranks;
  int ordinals[YK_P2P_MAX_RANKS];
  yk_err why = YK_ERR_INIT;
  if (options->max_bytes == 0 || !yk_world_is_whole(world)) return YK_OK;
  for (int rank = 0; rank < n_ranks; rank++) ordinals[rank] = yk_cuda_device_ordinal(devs[rank]);
  yk_status status = yk_p2p_create(ordinals, n_ranks, options, out, &why);
  if (status == YK_OK || status == YK_E_UNSUPPORTED) return YK_OK;
  return yk_err_set(err, status, "%s", why.message);
}

yk_status yk_comm_auto_create(const yk_world *world, const yk_exchange *exchange, const yk_wires *wires,
                              yk_device *const *devs, const yk_comm_auto_options *options, yk_comm **out, yk_err *err)
{
  static const yk_comm_ops ops = {.name = "auto",
                                  .destroy = auto_destroy,
                                  .all_reduce = auto_all_reduce,
                                  .all_reduce_add_norm = auto_all_reduce_add_norm,
                                  .all_reduce_i32 = auto_all_reduce_i32,
                                  .gather = auto_gather,
                                  .gather_host = auto_gather_host,
                                  .open_memory = auto_open_memory,
                                  .await_writes = auto_await_writes,
                                  .barrier = auto_barrier,
                                  .abort = auto_abort};
  yk_comm *nccl[YK_MAX_RANKS] = {0};
  yk_p2p *p2p[YK_MAX_RANKS] = {0};
  auto_comm *made[YK_MAX_RANKS] = {0};
  const int n_ranks = world->n_ranks, n_local = world->n_local;
  YK_TRY(yk_comm_nccl_create(world, exchange, wires, devs, nccl, err));
  yk_status status = n_ranks > 1 ? yk_comm_warm_up(nccl, n_local, WARM_UP_TIMEOUT_S, err) : YK_OK;
  if (status == YK_E_TIMEOUT) return status; /* the ends are lost */
  int64_t row_bytes = options->hidden * (int64_t)yk_dtype_bytes(devs[0]->dtype);
  yk_p2p_options sizes = yk_p2p_options_for(n_ranks, options->max_rows, row_bytes, options->step_limit_s);
  if (status == YK_OK) status = create_p2p(world, devs, &sizes, p2p, err);
  group *shared = calloc(1, sizeof *shared);
  if (!shared && status == YK_OK) status = yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  for (int i = 0; i < n_local && status == YK_OK; i++) {
    made[i] = calloc(1, sizeof *made[i]);
    if (!made[i]) status = yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  }
  for (int i = 0; i < n_local; i++) {
    if (status != YK_OK) {
      yk_p2p_destroy(p2p[i]);
      nccl[i]->ops->destroy(nccl[i]);
      free(made[i]);
      continue;
    }
    *made[i] = (auto_comm){
        .base = {.ops = &ops, .dev = devs[i], .rank = world->first_rank + i, .n_ranks = n_ranks, .n_stages = 1},
        .group = shared,
        .nccl = nccl[i],
        .p2p = p2p[i],
        .stream = yk_cuda_device_stream(devs[i]),
        .row_bytes = row_bytes};
    yk_cuda_device_set_watch(devs[i], check, made[i]); /* replaces NCCL's watch, which `check` includes */
    out[i] = &made[i]->base;
  }
  if (status == YK_OK)
    atomic_store(&shared->n_ends, n_local);
  else
    free(shared);
  return status;
}

yk_p2p_route yk_comm_auto_route(const yk_comm *comm, int64_t n_rows)
{
  const auto_comm *end = (const auto_comm *)comm;
  int64_t at_once = rows_at_once(end, n_rows, end->row_bytes);
  return at_once > 0 ? yk_p2p_route_of_rows(yk_p2p_get_options(end->p2p), at_once, end->row_bytes) : YK_P2P_NONE;
}
