/* comm_auto.c - combines an NCCL end, a peer-to-peer end, NCCL's end between hosts and the messages of pipeline stages.
 * All work on the device's stream, in call order.
 *
 * Failure: the device's watch checks all of them. If one fails, the others of this rank give up too, so that the stream
 * drains; the other ranks fail by abort, once the error is recorded. */
#include "parallel/comm_auto.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cuda/cuda_device.h"
#include "parallel/comm_nccl.h"
#include "parallel/comm_warm_up.h"
#include "parallel/gpu_places.h"
#include "parallel/gpu_slots.h"
#include "parallel/stage_ends.h"

enum { WARM_UP_TIMEOUT_S = 60 };

typedef struct auto_comm {
  yk_comm base;
  yk_comm *nccl;
  yk_comm *messages;    /* NCCL's, to stages in other processes; or NULL */
  yk_comm *between;     /* NCCL's, to the rank of the same number on other hosts; or NULL */
  yk_p2p *p2p;          /* of the ranks on this host: NULL with one rank, without peer access, or if max_bytes is 0
                         * (yk_p2p_options_for) */
  yk_comm local;        /* p2p as a communicator, for levels */
  yk_levels levels;     /* `between` NULL: all ranks are on one host, or reductions have one level */
  yk_stage_end *stages; /* NULL with one stage */
  bool has_nccl;        /* false: ranks share a GPU; slots and host memory carry all data */
  bool is_divided;      /* other processes have ranks */
  yk_range local_ranks; /* of the group, in this process */
  struct CUstream_st *stream;
  int64_t row_bytes; /* row size of an all_reduce_add_norm */
} auto_comm;

static void give_up(auto_comm *comm)
{
  if (comm->p2p) yk_p2p_give_up(comm->p2p);
  yk_comm_nccl_give_up(comm->nccl);
  if (comm->messages) yk_comm_nccl_give_up(comm->messages);
  if (comm->between) yk_comm_nccl_give_up(comm->between);
}

/* Called by the device while it waits for its stream, and before every operation. */
static yk_status check(void *context, yk_err *err)
{
  auto_comm *comm = context;
  yk_status status = comm->p2p ? yk_p2p_check(comm->p2p, err) : YK_OK;
  if (status == YK_OK) status = yk_comm_nccl_check(comm->nccl, err);
  if (status == YK_OK && comm->messages) status = yk_comm_nccl_check(comm->messages, err);
  if (status == YK_OK && comm->between) status = yk_comm_nccl_check(comm->between, err);
  if (status != YK_OK) give_up(comm);
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

/* ---- Ranks of this host, through slots --------------------------------------------------------------------------- */

static auto_comm *owner_of(yk_comm *local)
{
  return (auto_comm *)((char *)local - offsetof(auto_comm, local));
}

static yk_status local_all_reduce(yk_comm *local, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  auto_comm *comm = owner_of(local);
  return blamed(comm, yk_p2p_all_reduce(comm->p2p, data, count, dtype, comm->stream, err), err);
}

static yk_status local_all_reduce_i32(yk_comm *local, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  auto_comm *comm = owner_of(local);
  return blamed(comm, yk_p2p_all_reduce_i32(comm->p2p, data, count, reduction, comm->stream, err), err);
}

static yk_status local_reduce_scatter(yk_comm *local, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  auto_comm *comm = owner_of(local);
  const int64_t n_bytes = count * (int64_t)yk_dtype_bytes(dtype);
  return blamed(comm, yk_p2p_reduce_scatter(comm->p2p, data, n_bytes, dtype, comm->stream, err), err);
}

static yk_status local_all_gather(yk_comm *local, const void *data, int64_t n_bytes, void *all, yk_err *err)
{
  auto_comm *comm = owner_of(local);
  (void)data; /* data is this rank's part of all */
  return blamed(comm, yk_p2p_all_gather(comm->p2p, all, n_bytes * local->n_ranks, comm->stream, err), err);
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

static bool has_levels(const auto_comm *comm)
{
  return comm->levels.between != NULL;
}

static yk_levels_route levels_route(const auto_comm *comm, int64_t n_bytes)
{
  return has_levels(comm) ? yk_levels_route_of(&comm->levels.sizes, n_bytes) : YK_LEVELS_NONE;
}

static yk_status auto_all_reduce(yk_comm *base, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  int64_t row_bytes, n_bytes = count * (int64_t)yk_dtype_bytes(dtype);
  YK_TRY(enter(comm, err));
  if (levels_route(comm, n_bytes) == YK_LEVELS_SLICES && dtype != YK_F32)
    return yk_levels_all_reduce(&comm->levels, data, count, dtype, err);
  if (!comm->p2p || has_levels(comm) ||
      yk_p2p_route_of_array(yk_p2p_get_options(comm->p2p), n_bytes, &row_bytes) == YK_P2P_NONE)
    return comm->nccl->ops->all_reduce(comm->nccl, data, count, dtype, err);
  return blamed(comm, yk_p2p_all_reduce(comm->p2p, data, count, dtype, comm->stream, err), err);
}

/* Through slots, in pieces that slots take; two ranks may use NCCL, whose sum of two is the same. */
static yk_status auto_all_reduce_tree(yk_comm *base, float *sums, int64_t count, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  const bool has_slots = comm->p2p && !has_levels(comm);
  YK_TRY(yk_p2p_tree_check(base->n_ranks, has_slots, err));
  if (count == 0) return YK_OK;
  YK_TRY(enter(comm, err));
  if (!has_slots) return comm->nccl->ops->all_reduce(comm->nccl, sums, count, YK_F32, err);
  const int64_t most = yk_p2p_get_options(comm->p2p)->max_bytes / (int64_t)sizeof *sums / 4 * 4;
  for (int64_t first = 0; first < count; first += most)
    YK_TRY(local_all_reduce(&comm->local, sums + first, yk_min_i64(most, count - first), YK_F32, err));
  return YK_OK;
}

static yk_status auto_all_reduce_i32(yk_comm *base, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  int64_t row_bytes, n_bytes = count * (int64_t)sizeof *data;
  YK_TRY(enter(comm, err));
  if (levels_route(comm, n_bytes) == YK_LEVELS_GATHER)
    return yk_levels_all_reduce_i32(&comm->levels, data, count, reduction, err);
  if (!comm->p2p || has_levels(comm) ||
      yk_p2p_route_of_array(yk_p2p_get_options(comm->p2p), n_bytes, &row_bytes) != YK_P2P_ONE_SHOT)
    return comm->nccl->ops->all_reduce_i32(comm->nccl, data, count, reduction, err);
  return blamed(comm, yk_p2p_all_reduce_i32(comm->p2p, data, count, reduction, comm->stream, err), err);
}

/* Rows of one launch of an all-reduce of n_rows through slots; 0: the all-reduce uses NCCL. */
static int64_t rows_at_once(const auto_comm *comm, int64_t n_rows, int64_t row_bytes)
{
  return comm->p2p && !has_levels(comm) ? yk_p2p_rows_at_once(yk_p2p_get_options(comm->p2p), n_rows, row_bytes) : 0;
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
  if (levels_route(comm, args->n_rows * row_bytes) != YK_LEVELS_NONE)
    return yk_levels_all_reduce_add_norm(&comm->levels, args, err);
  if (n_rows == 0) return comm->nccl->ops->all_reduce_add_norm(comm->nccl, args, err);
  yk_all_reduce_add_norm_args all = *args;
  if (args->result_w || args->gain != 0) { /* such kernels do not combine */
    YK_TRY(base->dev->ops->partial_complete(base->dev, &args->partial, err));
    all.partial.state = YK_PARTIAL_ROWS;
  }
  for (int64_t first = 0; first < args->n_rows; first += n_rows) {
    const yk_all_reduce_add_norm_args rows =
        rows_of(&all, first, (int32_t)yk_min_i64(n_rows, args->n_rows - first), row_bytes);
    YK_TRY(blamed(comm, yk_p2p_all_reduce_add_norm(comm->p2p, &rows, base->dev->dtype, comm->stream, err), err));
  }
  return YK_OK;
}

/* Without NCCL: through host memory. */
static yk_status gather_on_host(auto_comm *comm, void *data, size_t n_bytes, yk_err *err)
{
  yk_device *dev = comm->base.dev;
  const int n_ranks = comm->base.n_ranks;
  char *mine = malloc(n_bytes), *all = comm->base.rank == 0 ? malloc((size_t)n_ranks * n_bytes) : NULL;
  yk_status status = mine && (all || comm->base.rank > 0)
                         ? dev->ops->download(dev, mine, data, n_bytes, err)
                         : yk_err_set(err, YK_E_NOMEM, "no memory to gather %zu bytes of each rank", n_bytes);
  if (status == YK_OK) status = comm->nccl->ops->gather_host(comm->nccl, mine, n_bytes, all, err);
  if (status == YK_OK && all)
    status = dev->ops->upload(dev, (char *)data + n_bytes, all + n_bytes, (size_t)(n_ranks - 1) * n_bytes, err);
  free(mine);
  free(all);
  return status;
}

static yk_status auto_gather(yk_comm *base, void *data, int64_t n_bytes, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  YK_TRY(check(comm, err));
  if (!comm->has_nccl && n_bytes > 0) return gather_on_host(comm, data, (size_t)n_bytes, err);
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

/* A rank's memory, as sent to the other ranks; in its own process the address is valid on all GPUs. */
typedef struct shared_memory {
  void *address;
  yk_p2p_handle handle;
  bool is_exported;
} shared_memory;

static shared_memory describe_memory(const auto_comm *comm, void *memory)
{
  shared_memory m = {.address = memory};
  m.is_exported = memory && comm->is_divided && yk_p2p_export_memory(comm->p2p, memory, &m.handle, NULL) == YK_OK;
  return m;
}

/* The address at which this rank's device reaches the memory of rank `owner`, or NULL. */
static void *open_shared(const auto_comm *comm, int owner, const shared_memory *memory)
{
  void *opened = NULL;
  if (owner >= comm->local_ranks.begin && owner < comm->local_ranks.end) return memory->address;
  if (memory->is_exported) yk_p2p_open_memory(comm->p2p, &memory->handle, &opened, NULL);
  return opened;
}

static yk_status auto_open_memories(yk_comm *base, void *memory, void **opened, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  shared_memory all[YK_P2P_MAX_RANKS];
  bool mine[YK_P2P_MAX_RANKS] = {0}, of_ranks[YK_P2P_MAX_RANKS][YK_P2P_MAX_RANKS]; /* whether a memory is open */
  memset(opened, 0, (size_t)base->n_ranks * sizeof *opened);
  if (!comm->p2p || has_levels(comm)) return comm->nccl->ops->barrier(comm->nccl, err);
  const shared_memory own = describe_memory(comm, memory);
  YK_TRY(yk_comm_nccl_share_host(comm->nccl, &own, sizeof own, all, err));
  for (int owner = 0; owner < base->n_ranks; owner++) {
    opened[owner] = open_shared(comm, owner, &all[owner]);
    mine[owner] = opened[owner] != NULL;
  }
  YK_TRY(yk_comm_nccl_share_host(comm->nccl, mine, sizeof mine, of_ranks, err));
  for (int owner = 0; owner < base->n_ranks; owner++)
    for (int rank = 0; rank < base->n_ranks; rank++)
      if (!of_ranks[rank][owner]) opened[owner] = NULL;
  return YK_OK;
}

static bool auto_peer_wait(const yk_comm *base, yk_peer_wait *out)
{
  const auto_comm *comm = (const auto_comm *)base;
  if (!comm->p2p || !comm->has_nccl || has_levels(comm)) return false;
  *out = yk_p2p_peer_wait(comm->p2p);
  return true;
}

static yk_status auto_barrier(yk_comm *base, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  YK_TRY(check(comm, err));
  return comm->nccl->ops->barrier(comm->nccl, err);
}

static yk_status auto_send_next(yk_comm *base, const void *data, int64_t n_bytes, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  YK_TRY(enter(comm, err));
  return blamed(comm, yk_stage_end_send(comm->stages, data, n_bytes, err), err);
}

static yk_status auto_receive_previous(yk_comm *base, void *data, int64_t n_bytes, yk_err *err)
{
  auto_comm *comm = (auto_comm *)base;
  YK_TRY(enter(comm, err));
  return blamed(comm, yk_stage_end_receive(comm->stages, data, n_bytes, err), err);
}

static void auto_abort(yk_comm *base)
{
  auto_comm *comm = (auto_comm *)base;
  if (comm->p2p) yk_p2p_abort(comm->p2p);
  if (comm->stages) yk_stage_end_abort(comm->stages);
  if (comm->messages) comm->messages->ops->abort(comm->messages);
  if (comm->between) comm->between->ops->abort(comm->between);
  comm->nccl->ops->abort(comm->nccl);
}

static bool destroy_nccl(yk_comm *end)
{
  return !end || end->ops->destroy(end);
}

/* One thread destroys the ends one after the other: pending waits for a peer are ended first. */
static bool auto_destroy(yk_comm *base)
{
  if (!base) return true;
  auto_comm *comm = (auto_comm *)base;
  if (comm->p2p) yk_p2p_give_up(comm->p2p);
  bool is_gone = destroy_nccl(comm->messages);
  is_gone = destroy_nccl(comm->between) && is_gone;
  is_gone = destroy_nccl(comm->nccl) && is_gone;                        /* clears this device's watch */
  if (comm->p2p || comm->stages) base->dev->ops->sync(base->dev, NULL); /* peers may free the slots next */
  yk_stage_end_destroy(comm->stages);
  yk_p2p_destroy(comm->p2p);
  if (comm->levels.gathered) base->dev->ops->free(base->dev, comm->levels.gathered);
  free(comm);
  return is_gone;
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

/* The parts of the ends of this process, arrays over its ranks. */
typedef struct parts {
  const yk_world *world;
  const yk_exchange *exchange;
  yk_device *const *devs;
  yk_p2p_options sizes;
  yk_gpu_places places;
  int host_ranks; /* of each group on each of its hosts; 0: uneven, or without slots */
  bool has_nccl;
  yk_comm *nccl[YK_MAX_RANKS], *messages[YK_MAX_RANKS], *between[YK_MAX_RANKS];
  yk_p2p *p2p[YK_MAX_RANKS];
  yk_stage_end *stages[YK_MAX_RANKS];
  void *gathered[YK_MAX_RANKS];
} parts;

/* Ranks of a group on each host, 0 for groups without slots. The same for all groups, so that sizes are. */
static int find_host_ranks(const parts *p)
{
  const int n_ranks = yk_world_group_size(p->world);
  const int found = yk_gpu_places_host_ranks(&p->places, 0, n_ranks);
  for (int first = n_ranks; first < p->world->n_ranks; first += n_ranks)
    if (yk_gpu_places_host_ranks(&p->places, first, n_ranks) != found) return 0;
  return found;
}

static yk_status create_p2p(parts *p, yk_err *err)
{
  const yk_gpu_slots_plan plan = {
      .world = p->world, .exchange = p->exchange, .devs = p->devs, .host_ranks = p->host_ranks, .sizes = &p->sizes};
  return p->host_ranks < 2 || p->sizes.max_bytes == 0 ? YK_OK : yk_gpu_slots_create(&plan, p->p2p, err);
}

/* Ranks that share a GPU need slots for everything. */
static yk_status check_without_nccl(const parts *p, const yk_comm_auto_options *options, yk_err *err)
{
  if (p->has_nccl || yk_world_group_size(p->world) == 1) return YK_OK;
  if (options->nccl_only)
    return yk_err_set(err, YK_E_UNSUPPORTED, "disable_custom_all_reduce: ranks that share a GPU cannot use NCCL");
  for (int i = 0; i < p->world->n_local; i++)
    if (!p->p2p[i])
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "ranks that share a GPU: expected at most %d on one host, and rows of whole 16 bytes",
                        YK_P2P_MAX_RANKS);
  return YK_OK;
}

/* NCCL's ends, used once. YK_E_TIMEOUT: they are lost. */
static yk_status create_nccl(parts *p, const yk_wires *wires, yk_err *err)
{
  const yk_world *world = p->world;
  YK_TRY(
      yk_comm_nccl_create(world, p->has_nccl ? YK_NCCL_ALL : YK_NCCL_NONE, p->exchange, wires, p->devs, p->nccl, err));
  if (p->has_nccl && yk_world_group_size(world) > 1)
    YK_TRY(yk_comm_warm_up(p->nccl, world->n_local, WARM_UP_TIMEOUT_S, err));
  if (world->n_stages == 1 || yk_world_is_whole(world) || !p->has_nccl || !p->places.has_nccl) return YK_OK;
  YK_TRY(yk_comm_nccl_create_messages(world, p->exchange, p->devs, p->messages, err));
  return yk_comm_warm_up(p->messages, world->n_local, WARM_UP_TIMEOUT_S, err);
}

/* NCCL's ends between hosts, each used by one end. With one rank of a group on each host, these are the ends of the
 * group. */
static yk_status create_between(parts *p, yk_err *err)
{
  const yk_world *world = p->world;
  if (p->host_ranks < 2 || p->host_ranks == yk_world_group_size(world) || p->sizes.max_bytes == 0) return YK_OK;
  YK_TRY(yk_comm_nccl_create_between(world, p->host_ranks, p->exchange, p->devs, p->between, err));
  return yk_comm_warm_up(p->between, world->n_local, WARM_UP_TIMEOUT_S, err);
}

static yk_levels_sizes level_sizes(const parts *p)
{
  return yk_levels_sizes_for(yk_world_group_size(p->world) / p->host_ranks, p->host_ranks, &p->sizes);
}

/* Whether an end's reductions have two levels: slots of one host's ranks then never serve the whole group. */
static bool end_has_levels(const parts *p, int i)
{
  if (p->host_ranks == 0 || p->host_ranks == yk_world_group_size(p->world)) return false;
  return p->host_ranks == 1 || p->p2p[i];
}

/* The buffers of reductions in two levels, on the devices whose ranks use them. */
static yk_status allocate_gathered(parts *p, yk_err *err)
{
  for (int i = 0; i < p->world->n_local; i++) {
    const yk_levels_sizes sizes = end_has_levels(p, i) ? level_sizes(p) : (yk_levels_sizes){0};
    if (sizes.gather_bytes == 0) continue;
    YK_TRY(p->devs[i]->ops->alloc(p->devs[i], (size_t)(sizes.n_hosts * sizes.gather_bytes), &p->gathered[i], err));
  }
  return YK_OK;
}

static yk_status create_stages(parts *p, const yk_wires *wires, const yk_comm_auto_options *options, yk_err *err)
{
  const int64_t row_bytes = options->hidden * (int64_t)yk_dtype_bytes(p->devs[0]->dtype);
  if (p->world->n_stages == 1) return YK_OK;
  return yk_stage_ends_create(p->world, wires, p->devs, p->messages[0] ? p->messages : NULL,
                              options->max_rows * row_bytes, p->stages, err);
}

static yk_status create_parts(parts *p, const yk_wires *wires, const yk_comm_auto_options *options, yk_err *err)
{
  if (p->world->n_ranks > 1) YK_TRY(yk_gpu_places_gather(p->world, p->exchange, p->devs, &p->places, err));
  p->has_nccl = !yk_gpu_places_share_gpus(&p->places);
  p->host_ranks = options->nccl_only ? 0 : find_host_ranks(p);
  p->sizes = yk_p2p_options_for(p->host_ranks, options->max_rows,
                                options->hidden * (int64_t)yk_dtype_bytes(p->devs[0]->dtype), options->step_limit_s);
  YK_TRY(create_nccl(p, wires, err));
  YK_TRY(create_p2p(p, err));
  YK_TRY(check_without_nccl(p, options, err));
  YK_TRY(create_between(p, err));
  YK_TRY(allocate_gathered(p, err));
  return create_stages(p, wires, options, err);
}

/* Sets the levels of an end whose other parts are set. */
static void set_levels(const parts *p, int i, auto_comm *end)
{
  static const yk_comm_ops ops = {.name = "slots",
                                  .all_reduce = local_all_reduce,
                                  .all_reduce_i32 = local_all_reduce_i32,
                                  .reduce_scatter = local_reduce_scatter,
                                  .all_gather = local_all_gather};
  const int rank = end->base.rank % p->host_ranks;
  end->local = (yk_comm){.ops = &ops, .dev = end->base.dev, .rank = rank, .n_ranks = p->host_ranks};
  end->levels = (yk_levels){.sizes = level_sizes(p),
                            .local = p->host_ranks > 1 ? &end->local : NULL,
                            .between = p->host_ranks > 1 ? end->between : end->nccl,
                            .gathered = p->gathered[i]};
}

static auto_comm *end_of(const parts *p, int i, const yk_comm_auto_options *options)
{
  static const yk_comm_ops ops = {.name = "auto",
                                  .destroy = auto_destroy,
                                  .all_reduce = auto_all_reduce,
                                  .all_reduce_tree = auto_all_reduce_tree,
                                  .all_reduce_add_norm = auto_all_reduce_add_norm,
                                  .all_reduce_i32 = auto_all_reduce_i32,
                                  .gather = auto_gather,
                                  .gather_host = auto_gather_host,
                                  .open_memories = auto_open_memories,
                                  .peer_wait = auto_peer_wait,
                                  .await_writes = auto_await_writes,
                                  .barrier = auto_barrier,
                                  .send_next = auto_send_next,
                                  .receive_previous = auto_receive_previous,
                                  .abort = auto_abort};
  const int rank_0 = p->world->first_rank + i - p->nccl[i]->rank; /* of the group, in the world */
  auto_comm *end = calloc(1, sizeof *end);
  if (!end) return NULL;
  *end = (auto_comm){
      .base = *p->nccl[i],
      .nccl = p->nccl[i],
      .messages = p->messages[i],
      .between = p->between[i],
      .p2p = p->p2p[i],
      .stages = p->stages[i],
      .has_nccl = p->has_nccl || p->nccl[i]->n_ranks == 1,
      .is_divided = !yk_world_is_whole(p->world),
      .local_ranks = {yk_max_i64(p->world->first_rank - rank_0, 0), p->world->first_rank + p->world->n_local - rank_0},
      .stream = yk_cuda_device_stream(p->devs[i]),
      .row_bytes = options->hidden * (int64_t)yk_dtype_bytes(p->devs[i]->dtype)};
  end->base.ops = &ops;
  if (end_has_levels(p, i)) set_levels(p, i, end);
  return end;
}

static void destroy_parts(parts *p)
{
  for (int i = 0; i < p->world->n_local; i++) {
    yk_stage_end_destroy(p->stages[i]);
    yk_p2p_destroy(p->p2p[i]);
    if (p->gathered[i]) p->devs[i]->ops->free(p->devs[i], p->gathered[i]);
    destroy_nccl(p->messages[i]);
    destroy_nccl(p->between[i]);
    destroy_nccl(p->nccl[i]);
  }
}

yk_status yk_comm_auto_create(const yk_world *world, const yk_exchange *exchange, const yk_wires *wires,
                              yk_device *const *devs, const yk_comm_auto_options *options, yk_comm **out, yk_err *err)
{
  auto_comm *made[YK_MAX_RANKS] = {0};
  YK_TRY(yk_world_check(world, err));
  parts p = {.world = world, .exchange = exchange, .devs = devs};
  yk_status status = create_parts(&p, wires, options, err);
  if (status == YK_E_TIMEOUT) return status; /* the ends are lost */
  for (int i = 0; i < world->n_local && status == YK_OK; i++) {
    made[i] = end_of(&p, i, options);
    if (!made[i]) status = yk_err_set(err, YK_E_NOMEM, "no memory for a communicator");
  }
  if (status != YK_OK) {
    for (int i = 0; i < world->n_local; i++) free(made[i]);
    destroy_parts(&p);
    return status;
  }
  for (int i = 0; i < world->n_local; i++) {
    yk_cuda_device_set_watch(devs[i], check, made[i]); /* replaces NCCL's watch, which `check` includes */
    out[i] = &made[i]->base;
  }
  return YK_OK;
}

yk_p2p_route yk_comm_auto_route(const yk_comm *comm, int64_t n_rows)
{
  const auto_comm *end = (const auto_comm *)comm;
  int64_t at_once = rows_at_once(end, n_rows, end->row_bytes);
  return at_once > 0 ? yk_p2p_route_of_rows(yk_p2p_get_options(end->p2p), at_once, end->row_bytes) : YK_P2P_NONE;
}

yk_levels_route yk_comm_auto_levels_route(const yk_comm *comm, int64_t n_rows)
{
  const auto_comm *end = (const auto_comm *)comm;
  return levels_route(end, n_rows * end->row_bytes);
}
