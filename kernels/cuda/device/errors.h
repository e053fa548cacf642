/* errors.h - CUDA's error codes as yk_status and yk_err. */
#ifndef YK_KERNELS_CUDA_DEVICE_ERRORS_H
#define YK_KERNELS_CUDA_DEVICE_ERRORS_H

#include <cuda_runtime_api.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_error_report - returns YK_OK for cudaSuccess, else an error that names the GPU, the operation and CUDA's
 *   message, and states if only a new process can use the GPU again. Clears CUDA's record of the error.
 *   Errors: YK_E_CAPACITY if device memory is insufficient, else YK_E_DEVICE. Thread: any. */
yk_status yk_cuda_error_report(int ordinal, cudaError_t error, const char *operation, yk_err *err);

/* yk_cuda_error_lasting - the error of an earlier operation that every further use of the current GPU by this process
 *   returns, or cudaSuccess. Waits for nothing. */
cudaError_t yk_cuda_error_lasting(cudaStream_t stream);

/* yk_cuda_error_remedy - text to append to a message about `error`: empty unless a new process is needed. */
const char *yk_cuda_error_remedy(cudaError_t error);

#ifdef __cplusplus
}
#endif
#endif
