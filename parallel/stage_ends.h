/* stage_ends.h - messages between pipeline stages whose ranks have a GPU each: one rank's messages from the previous
 * stage and to the next stage.
 *
 *   ranks of one process         copies between the GPUs, on the streams (p2p/stage_slot.h)
 *   of several, with NCCL        NCCL's messages, on the streams; a message that NCCL cannot buffer waits for its
 *                                receiver, on the GPU
 *   of several, without NCCL     through host memory, over the connections of the processes; the host waits
 *
 * Owner: a communicator's end. */
#ifndef YK_PARALLEL_STAGE_ENDS_H
#define YK_PARALLEL_STAGE_ENDS_H

#include "parallel/comm.h"

typedef struct yk_stage_end yk_stage_end;

/* yk_stage_ends_create - for the ranks of this process. devs, nccl, out [n_local].
 *   nccl: ends of yk_comm_nccl_create_messages, not owned; NULL: without NCCL. wires: NULL if this process has all
 *   ranks. max_bytes: of the largest message.
 *   Errors: those of yk_stage_slot_create and yk_stage_wires_open, YK_E_NOMEM. */
yk_status yk_stage_ends_create(const yk_world *world, const yk_wires *wires, yk_device *const *devs,
                               yk_comm *const *nccl, int64_t max_bytes, yk_stage_end **out, yk_err *err);

/* yk_stage_end_send, yk_stage_end_receive - send_next and receive_previous of the communicator. */
yk_status yk_stage_end_send(yk_stage_end *end, const void *data, int64_t n_bytes, yk_err *err);
yk_status yk_stage_end_receive(yk_stage_end *end, void *data, int64_t n_bytes, yk_err *err);

/* yk_stage_end_abort - every present and later wait of the host for a message fails. Never blocks. Thread: any. */
void yk_stage_end_abort(yk_stage_end *end);

/* yk_stage_end_destroy - once the streams of this rank and of its neighbours in this process are empty, before the
 *   rank's device. NULL is allowed. */
void yk_stage_end_destroy(yk_stage_end *end);

#endif
