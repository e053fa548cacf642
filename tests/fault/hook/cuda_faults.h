/* cuda_faults.h - kernels that misbehave. Each is queued on a stream and returns at once. */
#ifndef TESTS_FAULT_HOOK_CUDA_FAULTS_H
#define TESTS_FAULT_HOOK_CUDA_FAULTS_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

void cuda_fault_illegal_address(cudaStream_t stream);
void cuda_fault_trap(cudaStream_t stream);

/* Runs for this many seconds, or until *stop (memory that the GPU can read) is not zero. */
void cuda_fault_spin(cudaStream_t stream, const volatile int *stop, double seconds);

#ifdef __cplusplus
}
#endif
#endif
