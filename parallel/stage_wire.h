/* stage_wire.h - connections between ranks of the same number in neighbouring pipeline stages that different processes
 * run. Owner: a communicator's end. */
#ifndef YK_PARALLEL_STAGE_WIRE_H
#define YK_PARALLEL_STAGE_WIRE_H

#include <stdint.h>

#include "parallel/wire.h"
#include "parallel/world.h"

/* The connections of one rank; NULL where the neighbouring rank belongs to this process, or there is no such stage. */
typedef struct yk_stage_wires {
  yk_wire *to_next, *from_previous;
} yk_stage_wires;

/* yk_stage_wires_open - the connections of a rank of this process. Every process calls it for its ranks in ascending
 *   order, with the same tag: at most 15 bytes, different for communicators that exist at the same time.
 *   Errors: those of the transport; connections that are already open stay in *out. */
yk_status yk_stage_wires_open(const yk_world *world, const yk_wires *wires, int rank, const char *tag,
                              yk_stage_wires *out, yk_err *err);
void yk_stage_wires_abort(const yk_stage_wires *wires); /* any thread */
void yk_stage_wires_destroy(yk_stage_wires *wires);

/* yk_stage_wire_send, yk_stage_wire_receive - a message of n_bytes of host memory; both ends pass the same size.
 *   Errors: those of the transport. Thread: the rank's own. */
yk_status yk_stage_wire_send(yk_wire *wire, const void *data, size_t n_bytes, yk_err *err);
yk_status yk_stage_wire_receive(yk_wire *wire, void *data, size_t n_bytes, yk_err *err);

#endif
