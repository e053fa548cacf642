#include "parallel/stage_wire.h"

#include <stdio.h>

static int process_of(const yk_wires *wires, int rank)
{
  int process = wires->n_processes - 1;
  while (process > 0 && rank < wires->first_ranks[process]) process--;
  return process;
}

/* The connection between two ranks of neighbouring stages, of which one is local; *out is NULL if both are. */
static yk_status connect_ranks(const yk_wires *wires, int rank, int next, const char *tag, yk_wire **out, yk_err *err)
{
  char name[32];
  const int processes[2] = {process_of(wires, rank), process_of(wires, next)};
  if (processes[0] == processes[1]) return YK_OK;
  snprintf(name, sizeof name, "%s rank %d", tag, rank);
  return wires->open(wires->context, processes, 2, name, out, err);
}

yk_status yk_stage_wires_open(const yk_world *world, const yk_wires *wires, int rank, const char *tag,
                              yk_stage_wires *out, yk_err *err)
{
  const int n_ranks = yk_world_group_size(world), stage = yk_world_stage_of(world, rank);
  if (stage > 0) YK_TRY(connect_ranks(wires, rank - n_ranks, rank, tag, &out->from_previous, err));
  if (stage == world->n_stages - 1) return YK_OK;
  return connect_ranks(wires, rank, rank + n_ranks, tag, &out->to_next, err);
}

void yk_stage_wires_abort(const yk_stage_wires *wires)
{
  if (wires->to_next) wires->to_next->ops->abort(wires->to_next);
  if (wires->from_previous) wires->from_previous->ops->abort(wires->from_previous);
}

void yk_stage_wires_destroy(yk_stage_wires *wires)
{
  if (wires->to_next) wires->to_next->ops->destroy(wires->to_next);
  if (wires->from_previous) wires->from_previous->ops->destroy(wires->from_previous);
  *wires = (yk_stage_wires){0};
}

yk_status yk_stage_wire_send(yk_wire *wire, const void *data, size_t n_bytes, yk_err *err)
{
  struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = n_bytes};
  yk_wire_message send[2] = {{0}}, receive[2] = {{0}};
  send[1 - wire->self] = (yk_wire_message){.pieces = &piece, .n_pieces = 1};
  return wire->ops->swap(wire, send, receive, err);
}

yk_status yk_stage_wire_receive(yk_wire *wire, void *data, size_t n_bytes, yk_err *err)
{
  struct iovec piece = {.iov_base = data, .iov_len = n_bytes};
  yk_wire_message send[2] = {{0}}, receive[2] = {{0}};
  receive[1 - wire->self] = (yk_wire_message){.pieces = &piece, .n_pieces = 1};
  return wire->ops->swap(wire, send, receive, err);
}
