#include "fault/hook/nccl_faults.h"

#include <nccl.h>
#include <stdbool.h>

#include "kernels/device.h"

static _Thread_local bool goes_astray;

void nccl_fault_bad_peer(void)
{
  goes_astray = true;
}

ncclResult_t __real_ncclSend(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream);
ncclResult_t __wrap_ncclSend(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream);
ncclResult_t __wrap_ncclSend(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream)
{
  if (goes_astray) peer = YK_MAX_RANKS;
  goes_astray = false;
  return __real_ncclSend(src, count, type, peer, comm, stream);
}
