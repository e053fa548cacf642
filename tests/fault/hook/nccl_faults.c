#include "fault/hook/nccl_faults.h"

#include <stdbool.h>

#include "kernels/device.h"
#include "parallel/nccl_functions.h"

static _Thread_local bool goes_astray;
static __typeof__(ncclSend) *real_send; /* set before sending ranks exist */

void nccl_fault_bad_peer(void)
{
  goes_astray = true;
}

static ncclResult_t send(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream)
{
  if (goes_astray) peer = YK_MAX_RANKS;
  goes_astray = false;
  return real_send(src, count, type, peer, comm, stream);
}

yk_status __real_yk_nccl_load(yk_nccl_functions *table, yk_err *err);
yk_status __wrap_yk_nccl_load(yk_nccl_functions *table, yk_err *err);
yk_status __wrap_yk_nccl_load(yk_nccl_functions *table, yk_err *err)
{
  YK_TRY(__real_yk_nccl_load(table, err));
  real_send = table->send;
  table->send = send;
  return YK_OK;
}
