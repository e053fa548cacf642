/* comm_auto.h - ranks that are threads of one process with a GPU each: an all-reduce goes by stores into each other's
 * memory (allreduce_p2p.h) where that is faster and the GPUs have peer access; everything else goes over NCCL. */
#ifndef YK_PARALLEL_COMM_AUTO_H
#define YK_PARALLEL_COMM_AUTO_H

#include "parallel/comm.h"
#include "parallel/exchange.h"
#include "parallel/p2p/p2p_sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_comm_auto_options {
  int64_t max_rows;    /* of an all_reduce_add_norm at most; more go over NCCL */
  int32_t hidden;      /* elements of its rows */
  double step_limit_s; /* see yk_p2p_options_for; 0: a rank is waited for until abort */
} yk_comm_auto_options;

/* yk_comm_auto_create - ends for the ranks of a world that are this process's, as yk_comm_nccl_create, with the slots
 *   that yk_p2p_layout_of gives on each device. The route of an all-reduce depends on its size alone (p2p_sizes.h), and
 *   so is the same on every rank. A rank that does not come to an all-reduce in time is named by the others, in
 *   err->rank and in the message.
 *   Errors: those of yk_comm_nccl_create, and YK_E_CAPACITY where the slots do not fit. GPUs that cannot reach each
 *   other's memory are no error: then all goes over NCCL. */
yk_status yk_comm_auto_create(const yk_world *world, const yk_exchange *exchange, yk_device *const *devs,
                              const yk_comm_auto_options *options, yk_comm **out, yk_err *err);

/* yk_comm_auto_route - how this end's all_reduce_add_norm of n_rows rows goes; YK_P2P_NONE: over NCCL. Thread: any. */
yk_p2p_route yk_comm_auto_route(const yk_comm *comm, int64_t n_rows);

#ifdef __cplusplus
}
#endif
#endif
