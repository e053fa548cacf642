/* comm_auto.h - ranks with a GPU each: an all-reduce uses stores into peers' memory (allreduce_p2p.h) if these are
 * faster, the GPUs have access to each other's memory and all ranks of the group are on one host. With the same number
 * of ranks on each of several hosts, reductions take two levels up to a size (comm_levels.h): stores into peers' memory
 * within a host, NCCL between hosts. All other operations of a group use NCCL. Messages between pipeline stages:
 * stage_ends.h.
 *
 * Ranks that share a GPU, which NCCL refuses, do without NCCL within a host: in tests. */
#ifndef YK_PARALLEL_COMM_AUTO_H
#define YK_PARALLEL_COMM_AUTO_H

#include "parallel/comm.h"
#include "parallel/comm_levels.h"
#include "parallel/exchange.h"
#include "parallel/p2p/p2p_sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_comm_auto_options {
  int64_t max_rows;    /* maximum of an all_reduce_add_norm by peer stores; larger ones use NCCL */
  int32_t hidden;      /* elements of its rows */
  double step_limit_s; /* see yk_p2p_options_for; 0: a rank waits until abort */
  bool nccl_only;      /* no slots: every operation of a group uses NCCL */
} yk_comm_auto_options;

/* yk_comm_auto_create - ends for the ranks of a world that belong to this process, in a group for each pipeline stage,
 *   as yk_comm_nccl_create, with the memory of yk_levels_device_bytes on each device. Processes of one host open each
 *   other's slots. The route of an all-reduce depends only on its size (p2p_sizes.h), and is therefore the
 *   same on every rank. If a rank misses an all-reduce, the other ranks name it in err->rank and in the message.
 *   Errors: those of yk_comm_nccl_create and yk_stage_ends_create, YK_E_CAPACITY if the slots do not fit, and
 *   YK_E_UNSUPPORTED if ranks that share a GPU cannot use slots. GPUs without access to each other's memory are no
 *   error: all operations then use NCCL. */
yk_status yk_comm_auto_create(const yk_world *world, const yk_exchange *exchange, const yk_wires *wires,
                              yk_device *const *devs, const yk_comm_auto_options *options, yk_comm **out, yk_err *err);

/* yk_comm_auto_route - route of this end's all_reduce_add_norm of n_rows rows on one host; YK_P2P_NONE: NCCL, or the
 *   route between hosts of yk_comm_auto_levels_route. Thread: any. */
yk_p2p_route yk_comm_auto_route(const yk_comm *comm, int64_t n_rows);
yk_levels_route yk_comm_auto_levels_route(const yk_comm *comm, int64_t n_rows);

#ifdef __cplusplus
}
#endif
#endif
