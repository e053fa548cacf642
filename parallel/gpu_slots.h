/* gpu_slots.h - the slots of the peer-to-peer all-reduce (allreduce_p2p.h) on the GPUs of this process's ranks, open to
 * the other ranks of the same group and host, of other processes too. */
#ifndef YK_PARALLEL_GPU_SLOTS_H
#define YK_PARALLEL_GPU_SLOTS_H

#include "parallel/exchange.h"
#include "parallel/p2p/allreduce_p2p.h"
#include "parallel/world.h"

typedef struct yk_gpu_slots_plan {
  const yk_world *world;
  const yk_exchange *exchange;
  yk_device *const *devs; /* [n_local] CUDA devices */
  int host_ranks;         /* consecutive ranks of a group that share a host, at least 2; divides the group */
  const yk_p2p_options *sizes;
} yk_gpu_slots_plan;

/* yk_gpu_slots_create - every process calls it. out [n_local], all NULL before. An end stays NULL, as all ends of its
 *   group, on all of the group's hosts, if a rank of the group cannot reach the memory of the others on its host.
 *   After an error the caller destroys the ends that are not NULL. Errors: YK_E_CAPACITY, YK_E_DEVICE, YK_E_NOMEM,
 *   those of the exchange. */
yk_status yk_gpu_slots_create(const yk_gpu_slots_plan *plan, yk_p2p **out, yk_err *err);

#endif
