#include "quantize/run.h"

#include <stdlib.h>

#include "loader/safetensors/transposed.h"

yk_status yk_quantize_progress(const yk_quantize_rank *rank, const char *what, int64_t done, int64_t total, yk_err *err)
{
  yk_quantize_run *run = rank->run;
  const yk_quantize_options *o = run->options;
  if (rank->index == 0 && o->progress && !o->progress(o->progress_user, what, done, total))
    atomic_store(&run->is_stopped, true);
  if (!atomic_load(&run->is_stopped)) return YK_OK;
  return yk_err_set(err, YK_E_CANCELLED, "quantising was stopped");
}

yk_status yk_quantize_reserve(const yk_quantize_rank *rank, yk_quantize_buffer *buffer, size_t n_bytes, yk_err *err)
{
  if (buffer->n_bytes >= n_bytes) return YK_OK;
  yk_quantize_release(rank, buffer);
  YK_TRY(rank->dev->ops->alloc(rank->dev, n_bytes, &buffer->memory, err));
  buffer->n_bytes = n_bytes;
  return YK_OK;
}

void yk_quantize_release(const yk_quantize_rank *rank, yk_quantize_buffer *buffer)
{
  if (buffer->memory) rank->dev->ops->free(rank->dev, buffer->memory);
  *buffer = (yk_quantize_buffer){0};
}

yk_status yk_quantize_show(const yk_quantize_rank *rank, yk_quantize_buffer *buffer, const void *data, size_t n_bytes,
                           const void **out, yk_err *err)
{
  *out = data;
  if (rank->dev->ops->is_host) return YK_OK;
  YK_TRY(yk_quantize_reserve(rank, buffer, n_bytes, err));
  *out = buffer->memory;
  return rank->dev->ops->upload(rank->dev, buffer->memory, data, n_bytes, err);
}

yk_status yk_quantize_rows_of(const yk_tensor *tensor, yk_quantize_rows *buffer, const void **out, yk_err *err)
{
  const int64_t n = tensor->shape[0], k = tensor->shape[1];
  *out = tensor->data;
  if (tensor->column_stride == 0) return YK_OK;
  if (buffer->n_bytes < tensor->n_bytes) {
    free(buffer->memory);
    *buffer = (yk_quantize_rows){.memory = malloc(tensor->n_bytes)};
    if (!buffer->memory) return yk_err_set(err, YK_E_NOMEM, "tensor %s: no memory for its rows", tensor->name);
    buffer->n_bytes = tensor->n_bytes;
  }
  const yk_transposed matrix = {.data = tensor->data,
                                .stride = tensor->column_stride,
                                .element_bytes = n * k > 0 ? tensor->n_bytes / (size_t)(n * k) : 0,
                                .n_k = k};
  yk_transposed_copy(&matrix, 0, n, buffer->memory);
  *out = buffer->memory;
  return YK_OK;
}

yk_status yk_quantize_found(const yk_quantize_rank *rank, const yk_awq_floats *weight, double *loss, yk_err *err)
{
  yk_awq_found found;
  YK_TRY(rank->dev->ops->download(rank->dev, &found, rank->found.memory, sizeof found, err));
  if (loss) *loss = found.loss;
  return yk_awq_check(weight, &found, err);
}
