/* staging.c - pinned slots, filled one after the other. */
#include "kernels/cuda/device/staging.h"

#include <stdlib.h>
#include <string.h>

enum {
  N_SLOTS = 4,
  SLOT_BYTES = 4 << 20,
  PAGE_BYTES = 4096,
  MIN_THREAD_BYTES = 1 << 17 /* bytes of a slot per thread: filling fewer costs more than it saves */
};

typedef struct yk_cuda_staging {
  char *slots[N_SLOTS];
  cudaEvent_t copied[N_SLOTS]; /* recorded after the slot's last copy */
  int next;                    /* the slot to be filled next */
} yk_cuda_staging;

yk_status yk_cuda_staging_create(yk_cuda_device *cuda, yk_err *err)
{
  yk_cuda_staging *s = calloc(1, sizeof *s);
  if (!s) return yk_err_set(err, YK_E_NOMEM, "GPU %d: no memory for staging", cuda->ordinal);
  cuda->staging = s;
  for (int i = 0; i < N_SLOTS; i++) {
    YK_TRY(yk_cuda_check(cuda, cudaMallocHost((void **)&s->slots[i], SLOT_BYTES), "pinned memory", err));
    YK_TRY(yk_cuda_check(cuda, cudaEventCreateWithFlags(&s->copied[i], cudaEventDisableTiming), "event", err));
  }
  return YK_OK;
}

void yk_cuda_staging_destroy(yk_cuda_staging *staging)
{
  if (!staging) return;
  for (int i = 0; i < N_SLOTS; i++) {
    if (staging->slots[i]) cudaFreeHost(staging->slots[i]);
    if (staging->copied[i]) cudaEventDestroy(staging->copied[i]);
  }
  free(staging);
}

/* Takes the next slot, once the copy of its last contents has completed. */
static yk_status take_slot(yk_cuda_device *cuda, int *slot, yk_err *err)
{
  yk_cuda_staging *s = cuda->staging;
  *slot = s->next;
  s->next = (s->next + 1) % N_SLOTS;
  return yk_cuda_wait(cuda, s->copied[*slot], "upload", err);
}

static yk_status send_slot(yk_cuda_device *cuda, int slot, void *dst, size_t n_bytes, yk_err *err)
{
  yk_cuda_staging *s = cuda->staging;
  cudaError_t error = cudaMemcpyAsync(dst, s->slots[slot], n_bytes, cudaMemcpyHostToDevice, cuda->stream);
  if (error == cudaSuccess) error = cudaEventRecord(s->copied[slot], cuda->stream);
  return yk_cuda_check(cuda, error, "upload", err);
}

/* Rows of n_bytes in all, the last of which may be short. */
typedef struct filling {
  char *to;
  const char *from;
  size_t row_bytes, stride, n_bytes;
} filling;

static void fill_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const filling *f = context;
  size_t row = f->row_bytes == f->stride ? (size_t)(end - begin) * f->row_bytes : f->row_bytes,
         last = (size_t)end * f->row_bytes;
  if (last > f->n_bytes) last = f->n_bytes;
  const char *from = f->from + (size_t)begin * f->stride;
  for (size_t at = (size_t)begin * f->row_bytes; at < last; at += row, from += f->stride)
    memcpy(f->to + at, from, last - at < row ? last - at : row);
}

/* Fills the next slot, by all of the device's host threads, and issues its copy. */
static yk_status upload_slot(yk_cuda_device *cuda, char *dst, filling f, yk_err *err)
{
  int slot;
  YK_TRY(take_slot(cuda, &slot, err));
  f.to = cuda->staging->slots[slot];
  int64_t n_rows = (int64_t)((f.n_bytes + f.row_bytes - 1) / f.row_bytes);
  yk_cpu_pool_deal(cuda->base.pool, n_rows, (int64_t)(MIN_THREAD_BYTES / f.row_bytes), fill_rows, &f);
  return send_slot(cuda, slot, dst, f.n_bytes, err);
}

static yk_status upload_bytes(yk_cuda_device *cuda, char *dst, const char *src, size_t n_bytes, yk_err *err)
{
  for (size_t done = 0; done < n_bytes;) {
    size_t n = n_bytes - done < SLOT_BYTES ? n_bytes - done : SLOT_BYTES;
    filling f = {.from = src + done, .row_bytes = PAGE_BYTES, .stride = PAGE_BYTES, .n_bytes = n};
    YK_TRY(upload_slot(cuda, dst + done, f, err));
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
  size_t rows_per_slot = SLOT_BYTES / row_bytes;
  for (size_t row = 0; row < n_rows;) {
    if (rows_per_slot == 0) { /* a row is longer than a slot */
      YK_TRY(upload_bytes(cuda, to + row * row_bytes, from + row * src_stride, row_bytes, err));
      row++;
      continue;
    }
    size_t n = n_rows - row < rows_per_slot ? n_rows - row : rows_per_slot;
    filling f = {
        .from = from + row * src_stride, .row_bytes = row_bytes, .stride = src_stride, .n_bytes = n * row_bytes};
    YK_TRY(upload_slot(cuda, to + row * row_bytes, f, err));
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
