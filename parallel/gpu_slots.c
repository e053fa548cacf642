#include "parallel/gpu_slots.h"

#include <stdlib.h>

#include "base/checked.h"
#include "kernels/cuda/cuda_device.h"

/* The first of the ranks that share a host and a group with a rank. */
static int first_on_host(const yk_gpu_slots_plan *p, int rank)
{
  return rank - rank % p->host_ranks;
}

/* The ends of the ranks of one group and one host in this process. They stay NULL if the devices have no peer access to
 * each other. */
static yk_status create_slots(const yk_gpu_slots_plan *p, int first, int n_local, yk_p2p **ends, yk_err *err)
{
  const int n_ranks = p->host_ranks, first_of_all = first_on_host(p, first);
  int ordinals[YK_P2P_MAX_RANKS];
  yk_err why = YK_ERR_INIT;
  const int at = first - p->world->first_rank;
  for (int i = 0; i < n_local; i++) ordinals[i] = yk_cuda_device_ordinal(p->devs[at + i]);
  const yk_p2p_ranks ranks = {.n_ranks = n_ranks,
                              .first = first - first_of_all,
                              .n_local = n_local,
                              .first_of_all = first_of_all,
                              .cuda_devices = ordinals};
  yk_status status = yk_p2p_create(&ranks, p->sizes, ends + at, &why);
  if (status == YK_OK || status == YK_E_UNSUPPORTED) return YK_OK;
  return yk_err_set(err, status, "%s", why.message);
}

static yk_status create_all_slots(const yk_gpu_slots_plan *p, yk_p2p **ends, yk_err *err)
{
  const int end = p->world->first_rank + p->world->n_local;
  for (int first = p->world->first_rank; first < end;) {
    const int next = (int)yk_min_i64(end, first_on_host(p, first) + p->host_ranks);
    YK_TRY(create_slots(p, first, next - first, ends, err));
    first = next;
  }
  return YK_OK;
}

/* A process's ranks with slots. */
typedef struct own_slots {
  bool has_slots[YK_MAX_RANKS]; /* [ranks of all processes], like handles */
  yk_p2p_handle handles[YK_MAX_RANKS];
} own_slots;

/* Exchanges slots: *own then has the slots of every process. all: scratch [n_processes]. */
static yk_status share_slots(const yk_gpu_slots_plan *p, own_slots *own, own_slots *all, yk_err *err)
{
  YK_TRY(p->exchange->all_gather(p->exchange, own, sizeof *own, all, err));
  *own = (own_slots){0};
  for (int process = 0; process < p->exchange->n_processes; process++)
    for (int rank = 0; rank < p->world->n_ranks; rank++) {
      if (!all[process].has_slots[rank]) continue;
      own->has_slots[rank] = true;
      own->handles[rank] = all[process].handles[rank];
    }
  return YK_OK;
}

/* Whether every rank of a rank's group has slots. */
static bool group_has_slots(const yk_gpu_slots_plan *p, const own_slots *slots, int rank)
{
  const int n_ranks = yk_world_group_size(p->world), first = rank - yk_world_group_rank(p->world, rank);
  for (int i = 0; i < n_ranks; i++)
    if (!slots->has_slots[first + i]) return false;
  return true;
}

static void drop_slots(const yk_gpu_slots_plan *p, const own_slots *slots, yk_p2p **ends)
{
  for (int i = 0; i < p->world->n_local; i++) {
    if (group_has_slots(p, slots, p->world->first_rank + i)) continue;
    yk_p2p_destroy(ends[i]);
    ends[i] = NULL;
  }
}

/* Processes open each other's slots. A group in which a rank cannot do so has no slots. */
static yk_status connect_slots(const yk_gpu_slots_plan *p, own_slots *own, own_slots *all, yk_p2p **ends, yk_err *err)
{
  const int first = p->world->first_rank, n_local = p->world->n_local;
  for (int i = 0; i < n_local; i++)
    own->has_slots[first + i] = ends[i] && yk_p2p_export(ends[i], &own->handles[first + i], NULL) == YK_OK;
  YK_TRY(share_slots(p, own, all, err));
  drop_slots(p, own, ends);
  own_slots opened = {0};
  for (int i = 0; i < n_local; i++) {
    const yk_p2p_handle *handles = own->handles + first_on_host(p, first + i);
    opened.has_slots[first + i] = ends[i] && yk_p2p_connect(ends[i], handles, NULL) == YK_OK;
  }
  YK_TRY(share_slots(p, &opened, all, err));
  drop_slots(p, &opened, ends);
  return YK_OK;
}

yk_status yk_gpu_slots_create(const yk_gpu_slots_plan *p, yk_p2p **out, yk_err *err)
{
  yk_status status = create_all_slots(p, out, err);
  if (status != YK_OK || yk_world_is_whole(p->world)) return status;
  own_slots *own = calloc(1, sizeof *own), *all = calloc((size_t)p->exchange->n_processes, sizeof *all);
  status = own && all ? connect_slots(p, own, all, out, err)
                      : yk_err_set(err, YK_E_NOMEM, "no memory to share slots of %d ranks", p->world->n_ranks);
  free(own);
  free(all);
  return status;
}
