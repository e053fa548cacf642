#include "quantize/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_BUFFERS = 2, MAX_WRITES = 16, SOURCES_AHEAD = 3, PIECE_BYTES = 16 << 20 };

#ifndef MADV_POPULATE_READ /* since Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

typedef struct pending_write {
  const void *data;
  size_t n_bytes;
  int buffer; /* buffer that contains data; -1: data is in a source */
} pending_write;

typedef struct buffer {
  void *memory;
  size_t n_bytes;
  int n_writes; /* pending writes */
} buffer;

struct yk_quantize_stream {
  yk_device *dev;
  yk_safetensors_writer *writer;
  const yk_tensor *const *sources; /* [n_sources] */
  size_t n_sources;
  buffer buffers[N_BUFFERS]; /* memory: only the rank's thread uses it */
  int last;                  /* buffer returned last */
  pthread_t reading, writing;
  int n_threads; /* number of threads started: writing first, then reading */
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* signals a change of any field below */
  pending_write writes[MAX_WRITES];
  size_t n_put, n_written; /* writes so far; number i is in writes[i % MAX_WRITES] */
  size_t n_passed;         /* sources passed */
  bool is_closing;
  yk_status status; /* status of the first write that failed; later writes are dropped */
  yk_err err;
};

void yk_quantize_let_go(const void *data, uint64_t n_bytes)
{
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)data + page - 1) / page * page, end = ((uintptr_t)data + n_bytes) / page * page;
  if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Waits until source number i may be read ahead, or is no longer needed. Returns whether to read it. */
static bool may_read(yk_quantize_stream *s, size_t i)
{
  pthread_mutex_lock(&s->mutex);
  while (!s->is_closing && i >= s->n_passed + SOURCES_AHEAD) pthread_cond_wait(&s->changed, &s->mutex);
  bool may = !s->is_closing && i >= s->n_passed;
  pthread_mutex_unlock(&s->mutex);
  return may;
}

/* Only an optimisation: if the system cannot populate pages ahead, they are read at the first access. */
static void *read_ahead(void *context)
{
  yk_quantize_stream *s = context;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < s->n_sources; i++) {
    uintptr_t at = (uintptr_t)s->sources[i]->data / page * page, end = (uintptr_t)s->sources[i]->data;
    end += s->sources[i]->n_bytes;
    for (; at < end && may_read(s, i); at += PIECE_BYTES)
      madvise((void *)at, end - at < PIECE_BYTES ? end - at : PIECE_BYTES, MADV_POPULATE_READ);
  }
  return NULL;
}

void yk_quantize_stream_pass(yk_quantize_stream *stream)
{
  pthread_mutex_lock(&stream->mutex);
  stream->n_passed++;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->mutex);
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static void write_pieces(yk_quantize_stream *s, const pending_write *w, yk_status *status, yk_err *err)
{
  for (size_t at = 0; at < w->n_bytes && *status == YK_OK; at += PIECE_BYTES) {
    size_t n = w->n_bytes - at < PIECE_BYTES ? w->n_bytes - at : PIECE_BYTES;
    *status = yk_safetensors_writer_put(s->writer, (const char *)w->data + at, n, err);
    if (w->buffer < 0) yk_quantize_let_go((const char *)w->data + at, n);
  }
}

static void *write_all(void *context)
{
  yk_quantize_stream *s = context;
  pthread_mutex_lock(&s->mutex);
  for (;;) {
    while (!s->is_closing && s->n_written == s->n_put) pthread_cond_wait(&s->changed, &s->mutex);
    if (s->is_closing) break;
    const pending_write w = s->writes[s->n_written % MAX_WRITES];
    yk_status status = s->status;
    yk_err err = YK_ERR_INIT;
    pthread_mutex_unlock(&s->mutex);
    write_pieces(s, &w, &status, &err);
    pthread_mutex_lock(&s->mutex);
    if (s->status == YK_OK && status != YK_OK) s->err = err;
    s->status = status;
    if (w.buffer >= 0) s->buffers[w.buffer].n_writes--;
    s->n_written++;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* The caller holds the mutex. */
static yk_status status_of(const yk_quantize_stream *s, yk_err *err)
{
  if (s->status != YK_OK && err) *err = s->err;
  return s->status;
}

yk_status yk_quantize_stream_buffer(yk_quantize_stream *stream, size_t n_bytes, void **out, yk_err *err)
{
  stream->last = (stream->last + 1) % N_BUFFERS;
  buffer *b = &stream->buffers[stream->last];
  pthread_mutex_lock(&stream->mutex);
  while (b->n_writes > 0) pthread_cond_wait(&stream->changed, &stream->mutex);
  yk_status status = status_of(stream, err);
  pthread_mutex_unlock(&stream->mutex);
  YK_TRY(status);
  if (b->n_bytes < n_bytes) {
    stream->dev->ops->host_free(stream->dev, b->memory);
    b->memory = NULL;
    b->n_bytes = 0;
    YK_TRY(stream->dev->ops->host_alloc(stream->dev, n_bytes, &b->memory, err));
    b->n_bytes = n_bytes;
  }
  *out = b->memory;
  return YK_OK;
}

yk_status yk_quantize_stream_put(yk_quantize_stream *stream, const void *data, size_t n_bytes, yk_err *err)
{
  buffer *b = &stream->buffers[stream->last];
  uintptr_t at = (uintptr_t)data, begin = (uintptr_t)b->memory;
  bool is_buffer = b->memory && at >= begin && at < begin + b->n_bytes;
  pthread_mutex_lock(&stream->mutex);
  while (stream->n_put - stream->n_written == MAX_WRITES) pthread_cond_wait(&stream->changed, &stream->mutex);
  yk_status status = status_of(stream, err);
  if (status == YK_OK) {
    stream->writes[stream->n_put++ % MAX_WRITES] = (pending_write){data, n_bytes, is_buffer ? stream->last : -1};
    b->n_writes += is_buffer;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->mutex);
  return status;
}

yk_status yk_quantize_stream_drain(yk_quantize_stream *stream, yk_err *err)
{
  pthread_mutex_lock(&stream->mutex);
  while (stream->n_written < stream->n_put) pthread_cond_wait(&stream->changed, &stream->mutex);
  yk_status status = status_of(stream, err);
  pthread_mutex_unlock(&stream->mutex);
  return status;
}

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

yk_status yk_quantize_stream_open(yk_device *dev, yk_safetensors_writer *writer, const yk_tensor *const *sources,
                                  size_t n, yk_quantize_stream **out, yk_err *err)
{
  yk_quantize_stream *s = calloc(1, sizeof *s);
  if (!s) return yk_err_set(err, YK_E_NOMEM, "no memory for writing a weight file");
  *s = (yk_quantize_stream){.dev = dev, .writer = writer, .sources = sources, .n_sources = n};
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->changed, NULL);
  if (pthread_create(&s->writing, NULL, write_all, s) == 0) s->n_threads++;
  if (s->n_threads == 1 && pthread_create(&s->reading, NULL, read_ahead, s) == 0) s->n_threads++;
  if (s->n_threads == 2) {
    *out = s;
    return YK_OK;
  }
  yk_quantize_stream_close(s);
  return yk_err_set(err, YK_E_NOMEM, "no thread for writing a weight file");
}

void yk_quantize_stream_close(yk_quantize_stream *stream)
{
  if (!stream) return;
  pthread_mutex_lock(&stream->mutex);
  stream->is_closing = true;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->mutex);
  if (stream->n_threads > 0) pthread_join(stream->writing, NULL);
  if (stream->n_threads > 1) pthread_join(stream->reading, NULL);
  for (int i = 0; i < N_BUFFERS; i++) stream->dev->ops->host_free(stream->dev, stream->buffers[i].memory);
  pthread_cond_destroy(&stream->changed);
  pthread_mutex_destroy(&stream->mutex);
  free(stream);
}
