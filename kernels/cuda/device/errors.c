/* errors.c - messages of CUDA's errors, and the errors that last until the process ends. */
#include "kernels/cuda/device/errors.h"

#include <stdbool.h>

/* After one of these errors CUDA refuses all further work in this process. CUDA's manual states for each of them that
 * the process must be terminated and launched again. */
static bool poisons_process(cudaError_t error)
{
  switch (error) {
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchFailure:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorTensorMemoryLeak:
  case cudaErrorMpsClientTerminated:
  case cudaErrorExternalDevice:
  case cudaErrorContained:
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable: return true;
  default: return false;
  }
}

const char *yk_cuda_error_remedy(cudaError_t error)
{
  return poisons_process(error) ? "; a new process is needed" : "";
}

yk_status yk_cuda_error_report(int ordinal, cudaError_t error, const char *operation, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  cudaGetLastError(); /* the error is reported here, so the next operation must not find it again */
  return yk_err_set(err, error == cudaErrorMemoryAllocation ? YK_E_CAPACITY : YK_E_DEVICE, "GPU %d: %s: %s%s", ordinal,
                    operation, cudaGetErrorString(error), yk_cuda_error_remedy(error));
}

/* Transient errors, such as "not ready" and errors of a stream that is being recorded, mean that the GPU works. */
cudaError_t yk_cuda_error_lasting(cudaStream_t stream)
{
  cudaError_t error = cudaStreamQuery(stream);
  cudaGetLastError();
  return poisons_process(error) ? error : cudaSuccess;
}
