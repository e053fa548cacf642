/* timestamp.h - the GPU's clock, written by a kernel: an operation of the device's table, see kernels/device.h. */
#ifndef YK_KERNELS_CUDA_DEVICE_TIMESTAMP_H
#define YK_KERNELS_CUDA_DEVICE_TIMESTAMP_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_launch_timestamp - sets *at (device memory) to the clock in nanoseconds once all preceding operations of the
 *   stream have ended. */
cudaError_t yk_cuda_launch_timestamp(int64_t *at, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
