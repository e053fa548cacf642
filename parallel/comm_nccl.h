/* comm_nccl.h - ranks with a GPU each, threads of one or several processes, over NCCL. */
#ifndef YK_PARALLEL_COMM_NCCL_H
#define YK_PARALLEL_COMM_NCCL_H

#include "parallel/comm.h"
#include "parallel/exchange.h"

/* Which operations use NCCL. With YK_NCCL_NONE only host data passes between ranks, which may then share a GPU: the
 * other operations of several ranks return YK_E_UNSUPPORTED. */
typedef enum yk_nccl_use { YK_NCCL_ALL, YK_NCCL_NONE } yk_nccl_use;

/* yk_comm_nccl_create - ends for the ranks of a world that belong to this process, one GPU each, in a group for each
 *   pipeline stage; without messages between stages. exchange: sends NCCL's ids between processes. wires: host data of
 *   ranks between processes; NULL allowed if all ranks belong to this process.
 *   devs [n_local], not owned; each device's waits watch its end, so that an abort releases them. out [n_local];
 *   destroy each end once, before its device.
 *   A group of one rank needs no transport, and no libnccl.
 *   Errors: YK_E_INVAL (ranks), YK_E_UNSUPPORTED (no libnccl, with the loader's message), YK_E_NOMEM, YK_E_COMM (with
 *   NCCL's message), YK_E_TIMEOUT if NCCL does not start in time.
 *   NVLink multicast stays off: see yk_nccl_load. */
yk_status yk_comm_nccl_create(const yk_world *world, yk_nccl_use use, const yk_exchange *exchange,
                              const yk_wires *wires, yk_device *const *devs, yk_comm **out, yk_err *err);

/* yk_comm_nccl_create_messages - ends that have send_next, receive_previous, abort and destroy alone, in one group of
 *   all ranks. Otherwise as above. */
yk_status yk_comm_nccl_create_messages(const yk_world *world, const yk_exchange *exchange, yk_device *const *devs,
                                       yk_comm **out, yk_err *err);

/* yk_comm_nccl_create_between - ends that have all_reduce, all_reduce_i32, all_gather, abort and destroy alone, in one
 *   group per rank number within a host: each host has n_local consecutive ranks of a stage, and ranks whose numbers
 *   differ by a multiple of n_local form a group. An end's `rank` is the number of its host.
 *   Otherwise as above. */
yk_status yk_comm_nccl_create_between(const yk_world *world, int n_local, const yk_exchange *exchange,
                                      yk_device *const *devs, yk_comm **out, yk_err *err);

/* ---- For a communicator that contains such an end and sets the device's watch itself ----------------------------- */

/* yk_comm_nccl_check - returns YK_OK, or YK_E_COMM if the group was aborted, or NCCL or this end has failed: NCCL's
 *   kernels of this end will then end. Never blocks. Thread: the end's own. */
yk_status yk_comm_nccl_check(yk_comm *comm, yk_err *err);

/* yk_comm_nccl_give_up - makes this end alone fail from now on; its kernels will end. Never blocks. Thread: the
 *   end's. */
void yk_comm_nccl_give_up(yk_comm *comm);

/* yk_comm_nccl_share_host - data [n_bytes] of every rank, equal size, goes to all + rank * n_bytes on every rank.
 *   Host-side. Errors: as barrier. Thread: the end's own. */
yk_status yk_comm_nccl_share_host(yk_comm *comm, const void *data, size_t n_bytes, void *all, yk_err *err);

#endif
