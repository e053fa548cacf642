/* memory.h - memory of a GPU: allocation, copies within the GPU and to the host. Copies to the GPU are in staging.h. */
#ifndef YK_KERNELS_CUDA_DEVICE_MEMORY_H
#define YK_KERNELS_CUDA_DEVICE_MEMORY_H

#include "kernels/cuda/device/state.h"

/* Operations of the device's table: see kernels/device.h. */
yk_status yk_cuda_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err);
void yk_cuda_free(yk_device *dev, void *ptr);
yk_status yk_cuda_host_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err);
void yk_cuda_host_free(yk_device *dev, void *ptr);
yk_status yk_cuda_copy(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err);
yk_status yk_cuda_download(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err);

/* yk_cuda_grow - makes the buffer hold at least n_bytes. A buffer that was too small is replaced by zeroed memory, and
 *   its contents are lost. Errors: YK_E_CAPACITY, YK_E_DEVICE; the buffer is then empty. */
yk_status yk_cuda_grow(yk_cuda_device *cuda, yk_cuda_buffer *buffer, size_t n_bytes, yk_err *err);

/* yk_cuda_release - frees the buffer's memory, if it has any, once no operation of the stream uses it. */
void yk_cuda_release(yk_cuda_device *cuda, yk_cuda_buffer *buffer);

#endif
