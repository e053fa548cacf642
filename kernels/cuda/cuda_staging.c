/* cuda_staging.c - from the host's memory to the GPU through pinned slots, so that the source may be reused at once and
 * filling one slot overlaps with the copy of another. */
#include <string.h>

#include "kernels/cuda/cuda_internal.h"

yk_status yk_cuda_staging_create(yk_cuda_device *cuda, yk_err *err)
{
  yk_cuda_staging *s = &cuda->staging;
  for (int i = 0; i < YK_CUDA_STAGING_SLOTS; i++) {
    YK_TRY(yk_cuda_check(cuda, cudaMallocHost((void **)&s->slots[i], YK_CUDA_STAGING_BYTES), "pinned memory", err));
    YK_TRY(yk_cuda_check(cuda, cudaEventCreateWithFlags(&s->copied[i], cudaEventDisableTiming), "event", err));
  }
  return YK_OK;
}

void yk_cuda_staging_destroy(yk_cuda_staging *staging)
{
  for (int i = 0; i < YK_CUDA_STAGING_SLOTS; i++) {
    if (staging->slots[i]) cudaFreeHost(staging->slots[i]);
    if (staging->copied[i]) cudaEventDestroy(staging->copied[i]);
  }
}

/* The next slot, once what it held last is on the device. */
static yk_status take_slot(yk_cuda_device *cuda, int *slot, yk_err *err)
{
  yk_cuda_staging *s = &cuda->staging;
  *slot = s->next;
  s->next = (s->next + 1) % YK_CUDA_STAGING_SLOTS;
  return yk_cuda_wait(cuda, s->copied[*slot], "upload", err);
}

static yk_status send_slot(yk_cuda_device *cuda, int slot, void *dst, size_t n_bytes, yk_err *err)
{
  yk_cuda_staging *s = &cuda->staging;
  cudaError_t error = cudaMemcpyAsync(dst, s->slots[slot], n_bytes, cudaMemcpyHostToDevice, cuda->stream);
  if (error == cudaSuccess) error = cudaEventRecord(s->copied[slot], cuda->stream);
  return yk_cuda_check(cuda, error, "upload", err);
}

static yk_status upload_bytes(yk_cuda_device *cuda, char *dst, const char *src, size_t n_bytes, yk_err *err)
{
  for (size_t done = 0; done < n_bytes;) {
    size_t n = n_bytes - done < YK_CUDA_STAGING_BYTES ? n_bytes - done : YK_CUDA_STAGING_BYTES;
    int slot;
    YK_TRY(take_slot(cuda, &slot, err));
    memcpy(cuda->staging.slots[slot], src + done, n);
    YK_TRY(send_slot(cuda, slot, dst + done, n, err));
    done += n;
  }
  return YK_OK;
}

yk_status yk_cuda_upload_rows(yk_cuda_device *cuda, void *dst, const void *src, size_t row_bytes, size_t src_stride,
                              size_t n_rows, yk_err *err)
{
  if (row_bytes == 0) return YK_OK;
  if (row_bytes == src_stride) return upload_bytes(cuda, dst, src, row_bytes * n_rows, err);
  const char *from = src;
  char *to = dst;
  size_t rows_per_slot = YK_CUDA_STAGING_BYTES / row_bytes;
  for (size_t row = 0; row < n_rows;) {
    if (rows_per_slot == 0) { /* rows longer than a slot */
      YK_TRY(upload_bytes(cuda, to + row * row_bytes, from + row * src_stride, row_bytes, err));
      row++;
      continue;
    }
    size_t n = n_rows - row < rows_per_slot ? n_rows - row : rows_per_slot;
    int slot;
    YK_TRY(take_slot(cuda, &slot, err));
    for (size_t i = 0; i < n; i++)
      memcpy(cuda->staging.slots[slot] + i * row_bytes, from + (row + i) * src_stride, row_bytes);
    YK_TRY(send_slot(cuda, slot, to + row * row_bytes, n * row_bytes, err));
    row += n;
  }
  return YK_OK;
}

yk_status yk_cuda_upload(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return upload_bytes(cuda, dst, src, n_bytes, err);
}
