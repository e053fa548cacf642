#include "quantize/run.h"

#include <stdlib.h>

yk_status yk_quantize_progress(const yk_quantize_run *run, const char *what, int64_t done, int64_t total, yk_err *err)
{
  const yk_quantize_options *o = run->options;
  if (!o->progress || o->progress(o->progress_user, what, done, total)) return YK_OK;
  return yk_err_set(err, YK_E_CANCELLED, "quantising was stopped");
}

yk_status yk_quantize_reserve(yk_quantize_buffer *buffer, size_t n_bytes, yk_err *err)
{
  if (buffer->n_bytes >= n_bytes) return YK_OK;
  free(buffer->memory);
  *buffer = (yk_quantize_buffer){.memory = malloc(n_bytes), .n_bytes = n_bytes};
  if (buffer->memory) return YK_OK;
  buffer->n_bytes = 0;
  return yk_err_set(err, YK_E_NOMEM, "no memory for %zu bytes of a layer", n_bytes);
}
