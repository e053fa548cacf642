/* remote_buffer.h - memory that grows with the messages between processes. */
#ifndef YK_ENGINE_REMOTE_BUFFER_H
#define YK_ENGINE_REMOTE_BUFFER_H

#include <stdlib.h>

#include "base/status.h"

typedef struct yk_remote_buffer {
  void *bytes; /* [size], owned: free() */
  size_t size;
} yk_remote_buffer;

/* yk_remote_buffer_reserve - at least n_bytes; the content is lost if the buffer grows. what: in the message of
 *   YK_E_NOMEM, after "no memory for N bytes of". */
static inline yk_status yk_remote_buffer_reserve(yk_remote_buffer *buffer, size_t n_bytes, const char *what,
                                                 yk_err *err)
{
  if (n_bytes <= buffer->size) return YK_OK;
  free(buffer->bytes);
  buffer->bytes = malloc(n_bytes);
  buffer->size = buffer->bytes ? n_bytes : 0;
  return buffer->bytes ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for %zu bytes of %s", n_bytes, what);
}

#endif
