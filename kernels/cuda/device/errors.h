/* errors.h - CUDA's error codes as errors of ours. */
#ifndef YK_KERNELS_CUDA_DEVICE_ERRORS_H
#define YK_KERNELS_CUDA_DEVICE_ERRORS_H

#include <cuda_runtime_api.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_error_tell - YK_OK for cudaSuccess, else an error that names the GPU, the operation and CUDA's own words, and
 *   says when only a new process can use the GPU again. CUDA's record of the error is cleared.
 *   Errors: YK_E_CAPACITY where device memory does not suffice, else YK_E_DEVICE. Thread: any. */
yk_status yk_cuda_error_tell(int ordinal, cudaError_t error, const char *operation, yk_err *err);

/* yk_cuda_error_lasting - the error of an earlier operation that every further use of the current GPU by this process
 *   returns, or cudaSuccess where there is none. Waits for nothing. */
cudaError_t yk_cuda_error_lasting(cudaStream_t stream);

/* yk_cuda_error_remedy - what to add to a message about `error`: empty unless a new process is needed. */
const char *yk_cuda_error_remedy(cudaError_t error);

#ifdef __cplusplus
}
#endif
#endif
