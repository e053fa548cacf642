/* stage_slot.h - memory on the device of a rank to which the rank of the same number in the previous pipeline stage, in
 * the same process, copies one message at a time.
 *
 * The copies are on the ranks' streams, and wait for each other there: no host thread waits for a GPU. Without peer
 * access the driver copies through the host. The caller orders the calls: put, take, put, take, ... */
#ifndef YK_PARALLEL_P2P_STAGE_SLOT_H
#define YK_PARALLEL_P2P_STAGE_SLOT_H

#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

typedef struct yk_stage_slot yk_stage_slot;

/* yk_stage_slot_create - from, to: the CUDA devices of the ranks. n_bytes: of the largest message.
 *   Errors: YK_E_CAPACITY, YK_E_DEVICE, YK_E_NOMEM. Thread: any; changes no current device. */
yk_status yk_stage_slot_create(int from, int to, int64_t n_bytes, yk_stage_slot **out, yk_err *err);

/* yk_stage_slot_put - copies data [n_bytes] on the device `from` to the slot, once the receiver has taken the previous
 *   message. Asynchronous on stream. Errors: YK_E_INVAL (longer than the slot), YK_E_DEVICE. Thread: the sender's, with
 *   its device current. */
yk_status yk_stage_slot_put(yk_stage_slot *slot, const void *data, int64_t n_bytes, struct CUstream_st *stream,
                            yk_err *err);

/* yk_stage_slot_take - copies the message in the slot to data [n_bytes] on the device `to`. Otherwise as above, for the
 *   receiver. */
yk_status yk_stage_slot_take(yk_stage_slot *slot, void *data, int64_t n_bytes, struct CUstream_st *stream, yk_err *err);

/* yk_stage_slot_destroy - once no stream uses the slot. NULL is allowed. Thread: any; changes no current device. */
void yk_stage_slot_destroy(yk_stage_slot *slot);

#ifdef __cplusplus
}
#endif
#endif
