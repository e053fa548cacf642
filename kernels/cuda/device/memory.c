/* memory.c - device memory. An allocation is zeroed on the stream; a free waits for the stream first. */
#include "kernels/cuda/device/memory.h"

yk_status yk_cuda_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  void *ptr = NULL;
  YK_TRY(yk_cuda_enter(cuda, err));
  cudaError_t error = cudaMalloc(&ptr, n_bytes ? n_bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    size_t free_bytes = 0, total_bytes = 0;
    cudaGetLastError();
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return yk_err_set(err, YK_E_CAPACITY, "GPU %d: no memory for %zu bytes; %zu of %zu are free", cuda->ordinal,
                      n_bytes, free_bytes, total_bytes);
  }
  YK_TRY(yk_cuda_check(cuda, error, "allocation", err));
  error = cudaMemsetAsync(ptr, 0, n_bytes, cuda->stream);
  if (error != cudaSuccess) {
    cudaFree(ptr);
    return yk_cuda_check(cuda, error, "allocation", err);
  }
  *out = ptr;
  return YK_OK;
}

/* cudaFree waits for all work on the GPU, without a limit. yk_cuda_drain waits for the work first because the watch can
 * end that wait, by aborting kernels that wait for a lost peer. */
void yk_cuda_free(yk_device *dev, void *ptr)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (!ptr || yk_cuda_enter(cuda, NULL) != YK_OK) return;
  yk_cuda_drain(cuda, "free", NULL);
  cudaFree(ptr);
  cudaGetLastError();
}

yk_status yk_cuda_grow(yk_cuda_device *cuda, yk_cuda_buffer *buffer, size_t n_bytes, yk_err *err)
{
  if (n_bytes <= buffer->n_bytes) return YK_OK;
  yk_cuda_release(cuda, buffer);
  YK_TRY(yk_cuda_alloc(&cuda->base, n_bytes, &buffer->ptr, err));
  buffer->n_bytes = n_bytes;
  return YK_OK;
}

void yk_cuda_release(yk_cuda_device *cuda, yk_cuda_buffer *buffer)
{
  yk_cuda_free(&cuda->base, buffer->ptr);
  *buffer = (yk_cuda_buffer){0};
}

/* Pinned: the GPU copies from and to this memory without the CPU. */
yk_status yk_cuda_host_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, cudaMallocHost(out, n_bytes ? n_bytes : 1), "pinned memory", err);
}

void yk_cuda_host_free(yk_device *dev, void *ptr)
{
  if (!ptr || yk_cuda_enter(yk_cuda_device_of(dev), NULL) != YK_OK) return;
  cudaFreeHost(ptr);
  cudaGetLastError();
}

yk_status yk_cuda_copy(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (n_bytes == 0) return YK_OK;
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, cudaMemcpyAsync(dst, src, n_bytes, cudaMemcpyDeviceToDevice, cuda->stream), "copy", err);
}

yk_status yk_cuda_download(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (n_bytes == 0) return YK_OK;
  YK_TRY(yk_cuda_sync(dev, err));
  YK_TRY(
      yk_cuda_check(cuda, cudaMemcpyAsync(dst, src, n_bytes, cudaMemcpyDeviceToHost, cuda->stream), "download", err));
  return yk_cuda_drain(cuda, "download", err);
}
