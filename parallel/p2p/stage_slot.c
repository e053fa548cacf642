#include "parallel/p2p/stage_slot.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

struct yk_stage_slot {
  int from, to;
  void *memory; /* [n_bytes] on `to` */
  int64_t n_bytes;
  cudaEvent_t put, taken; /* the last copy to the slot, and from the slot; on `from`, and on `to` */
};

static yk_status check(const yk_stage_slot *slot, cudaError_t error, const char *what, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  cudaGetLastError();
  return yk_err_set(err, error == cudaErrorMemoryAllocation ? YK_E_CAPACITY : YK_E_DEVICE,
                    "messages from GPU %d to GPU %d: %s: %s", slot->from, slot->to, what, cudaGetErrorString(error));
}

static yk_status open_slot(yk_stage_slot *slot, yk_err *err)
{
  YK_TRY(check(slot, cudaSetDevice(slot->from), "select", err));
  YK_TRY(check(slot, cudaEventCreateWithFlags(&slot->put, cudaEventDisableTiming), "event", err));
  YK_TRY(check(slot, cudaSetDevice(slot->to), "select", err));
  YK_TRY(check(slot, cudaEventCreateWithFlags(&slot->taken, cudaEventDisableTiming), "event", err));
  return check(slot, cudaMalloc(&slot->memory, (size_t)slot->n_bytes), "no memory for a message", err);
}

yk_status yk_stage_slot_create(int from, int to, int64_t n_bytes, yk_stage_slot **out, yk_err *err)
{
  int current = 0;
  yk_stage_slot *slot = calloc(1, sizeof *slot);
  if (!slot) return yk_err_set(err, YK_E_NOMEM, "no memory for messages between pipeline stages");
  *slot = (yk_stage_slot){.from = from, .to = to, .n_bytes = n_bytes};
  cudaGetDevice(&current);
  yk_status status = open_slot(slot, err);
  cudaSetDevice(current);
  if (status == YK_OK)
    *out = slot;
  else
    yk_stage_slot_destroy(slot);
  return status;
}

static yk_status check_size(const yk_stage_slot *slot, int64_t n_bytes, yk_err *err)
{
  if (n_bytes >= 0 && n_bytes <= slot->n_bytes) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "messages from GPU %d to GPU %d: expected at most %lld bytes, found %lld",
                    slot->from, slot->to, (long long)slot->n_bytes, (long long)n_bytes);
}

/* A wait for an event that was never recorded ends at once: before the first message the slot is free. */
yk_status yk_stage_slot_put(yk_stage_slot *slot, const void *data, int64_t n_bytes, cudaStream_t stream, yk_err *err)
{
  YK_TRY(check_size(slot, n_bytes, err));
  YK_TRY(check(slot, cudaStreamWaitEvent(stream, slot->taken, 0), "wait for the receiver", err));
  YK_TRY(
      check(slot, cudaMemcpyPeerAsync(slot->memory, slot->to, data, slot->from, (size_t)n_bytes, stream), "copy", err));
  return check(slot, cudaEventRecord(slot->put, stream), "event", err);
}

yk_status yk_stage_slot_take(yk_stage_slot *slot, void *data, int64_t n_bytes, cudaStream_t stream, yk_err *err)
{
  YK_TRY(check_size(slot, n_bytes, err));
  YK_TRY(check(slot, cudaStreamWaitEvent(stream, slot->put, 0), "wait for the sender", err));
  YK_TRY(
      check(slot, cudaMemcpyAsync(data, slot->memory, (size_t)n_bytes, cudaMemcpyDeviceToDevice, stream), "copy", err));
  return check(slot, cudaEventRecord(slot->taken, stream), "event", err);
}

void yk_stage_slot_destroy(yk_stage_slot *slot)
{
  int current = 0;
  if (!slot) return;
  cudaGetDevice(&current);
  cudaSetDevice(slot->to);
  if (slot->memory) cudaFree(slot->memory);
  if (slot->put) cudaEventDestroy(slot->put);
  if (slot->taken) cudaEventDestroy(slot->taken);
  cudaGetLastError();
  cudaSetDevice(current);
  free(slot);
}
