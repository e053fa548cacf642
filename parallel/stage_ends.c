/* stage_ends.c - a link of two ranks of one process is a slot on the receiver's GPU, and two mailboxes in host memory
 * that signal that the slot's copies are queued on the streams: other streams can wait for an event only after it has
 * been recorded. */
#include "parallel/stage_ends.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda_device.h"
#include "parallel/mailbox.h"
#include "parallel/p2p/stage_slot.h"
#include "parallel/stage_wire.h"

/* Freed with the last of its two ends. */
typedef struct link {
  yk_stage_slot *slot;
  yk_mailbox filled, emptied; /* messages without data */
  atomic_int n_ends;
} link;

struct yk_stage_end {
  yk_device *dev;
  yk_comm *nccl;                 /* or NULL */
  link *to_next, *from_previous; /* within this process */
  yk_stage_wires wires;          /* to other processes, without NCCL */
  void *host;                    /* [host_bytes] pinned: the message that a wire carries */
  size_t host_bytes;
};

static yk_status watch_device(void *context, yk_err *err)
{
  return yk_cuda_device_check_watch(context, err);
}

/* ---- Within this process ----------------------------------------------------------------------------------------- */

static void link_release(link *l)
{
  if (!l || atomic_fetch_sub(&l->n_ends, 1) > 1) return;
  yk_stage_slot_destroy(l->slot);
  yk_mailbox_destroy(&l->filled);
  yk_mailbox_destroy(&l->emptied);
  free(l);
}

static yk_status link_create(yk_device *from, yk_device *to, int64_t max_bytes, link **out, yk_err *err)
{
  const yk_mailbox_watch none = {0};
  link *l = calloc(1, sizeof *l);
  if (!l) return yk_err_set(err, YK_E_NOMEM, "no memory for messages between pipeline stages");
  yk_mailbox_init(&l->filled);
  yk_mailbox_init(&l->emptied);
  atomic_store(&l->n_ends, 1);
  yk_status status =
      yk_stage_slot_create(yk_cuda_device_ordinal(from), yk_cuda_device_ordinal(to), max_bytes, &l->slot, err);
  if (status == YK_OK) status = yk_mailbox_put(&l->emptied, NULL, 0, &none, err);
  if (status == YK_OK)
    *out = l;
  else
    link_release(l);
  return status;
}

static void link_abort(link *l)
{
  if (!l) return;
  yk_mailbox_abort(&l->filled);
  yk_mailbox_abort(&l->emptied);
}

static yk_status link_send(link *l, yk_device *dev, const void *data, int64_t n_bytes, yk_err *err)
{
  const yk_mailbox_watch watch = {watch_device, dev};
  YK_TRY(yk_mailbox_take(&l->emptied, NULL, 0, &watch, err));
  YK_TRY(yk_stage_slot_put(l->slot, data, n_bytes, yk_cuda_device_stream(dev), err));
  return yk_mailbox_put(&l->filled, NULL, 0, &watch, err);
}

static yk_status link_receive(link *l, yk_device *dev, void *data, int64_t n_bytes, yk_err *err)
{
  const yk_mailbox_watch watch = {watch_device, dev};
  YK_TRY(yk_mailbox_take(&l->filled, NULL, 0, &watch, err));
  YK_TRY(yk_stage_slot_take(l->slot, data, n_bytes, yk_cuda_device_stream(dev), err));
  return yk_mailbox_put(&l->emptied, NULL, 0, &watch, err);
}

/* ---- Through host memory ----------------------------------------------------------------------------------------- */

static yk_status reserve(yk_stage_end *end, size_t n_bytes, yk_err *err)
{
  if (n_bytes <= end->host_bytes) return YK_OK;
  end->dev->ops->host_free(end->dev, end->host);
  end->host = NULL;
  end->host_bytes = 0;
  YK_TRY(end->dev->ops->host_alloc(end->dev, n_bytes, &end->host, err));
  end->host_bytes = n_bytes;
  return YK_OK;
}

static yk_status wire_send(yk_stage_end *end, const void *data, size_t n_bytes, yk_err *err)
{
  YK_TRY(reserve(end, n_bytes, err));
  YK_TRY(end->dev->ops->download(end->dev, end->host, data, n_bytes, err));
  return yk_stage_wire_send(end->wires.to_next, end->host, n_bytes, err);
}

static yk_status wire_receive(yk_stage_end *end, void *data, size_t n_bytes, yk_err *err)
{
  YK_TRY(reserve(end, n_bytes, err));
  YK_TRY(yk_stage_wire_receive(end->wires.from_previous, end->host, n_bytes, err));
  return end->dev->ops->upload(end->dev, data, end->host, n_bytes, err);
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

yk_status yk_stage_end_send(yk_stage_end *end, const void *data, int64_t n_bytes, yk_err *err)
{
  if (end->to_next) return link_send(end->to_next, end->dev, data, n_bytes, err);
  if (end->wires.to_next) return wire_send(end, data, (size_t)n_bytes, err);
  return end->nccl->ops->send_next(end->nccl, data, n_bytes, err);
}

yk_status yk_stage_end_receive(yk_stage_end *end, void *data, int64_t n_bytes, yk_err *err)
{
  if (end->from_previous) return link_receive(end->from_previous, end->dev, data, n_bytes, err);
  if (end->wires.from_previous) return wire_receive(end, data, (size_t)n_bytes, err);
  return end->nccl->ops->receive_previous(end->nccl, data, n_bytes, err);
}

void yk_stage_end_abort(yk_stage_end *end)
{
  link_abort(end->to_next);
  link_abort(end->from_previous);
  yk_stage_wires_abort(&end->wires);
}

void yk_stage_end_destroy(yk_stage_end *end)
{
  if (!end) return;
  link_release(end->to_next);
  link_release(end->from_previous);
  yk_stage_wires_destroy(&end->wires);
  end->dev->ops->host_free(end->dev, end->host);
  free(end);
}

static yk_status connect_within(const yk_world *world, yk_device *const *devs, int64_t max_bytes, yk_stage_end **ends,
                                yk_err *err)
{
  const int n_ranks = yk_world_group_size(world);
  for (int i = 0; i + n_ranks < world->n_local; i++) {
    yk_stage_end *next = ends[i + n_ranks];
    YK_TRY(link_create(devs[i], devs[i + n_ranks], max_bytes, &ends[i]->to_next, err));
    next->from_previous = ends[i]->to_next;
    atomic_fetch_add(&next->from_previous->n_ends, 1);
  }
  return YK_OK;
}

static yk_status connect(const yk_world *world, const yk_wires *wires, yk_device *const *devs, yk_comm *const *nccl,
                         int64_t max_bytes, yk_stage_end **ends, yk_err *err)
{
  char tag[16];
  YK_TRY(connect_within(world, devs, max_bytes, ends, err));
  if (!wires || nccl) return YK_OK;
  snprintf(tag, sizeof tag, "%u gpu", (*wires->n_communicators)++);
  for (int i = 0; i < world->n_local; i++)
    YK_TRY(yk_stage_wires_open(world, wires, world->first_rank + i, tag, &ends[i]->wires, err));
  return YK_OK;
}

yk_status yk_stage_ends_create(const yk_world *world, const yk_wires *wires, yk_device *const *devs,
                               yk_comm *const *nccl, int64_t max_bytes, yk_stage_end **out, yk_err *err)
{
  yk_stage_end *ends[YK_MAX_RANKS] = {0};
  yk_status status = YK_OK;
  for (int i = 0; i < world->n_local && status == YK_OK; i++) {
    ends[i] = calloc(1, sizeof *ends[i]);
    if (ends[i])
      *ends[i] = (yk_stage_end){.dev = devs[i], .nccl = nccl ? nccl[i] : NULL};
    else
      status = yk_err_set(err, YK_E_NOMEM, "no memory for messages between pipeline stages");
  }
  if (status == YK_OK) status = connect(world, wires, devs, nccl, max_bytes, ends, err);
  for (int i = 0; i < world->n_local; i++) {
    if (status == YK_OK)
      out[i] = ends[i];
    else
      yk_stage_end_destroy(ends[i]);
  }
  return status;
}
