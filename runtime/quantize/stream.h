/* stream.h - two threads that assist the thread that quantises a shard's tensors: one reads the next tensors from the
 * disk, the other writes finished tensors.
 *
 *   reader            rank's thread                                   writer
 *   pages of tensor   upload -> quantise -> download to a buffer  ->  safetensors file
 *   i + 1, i + 2      of tensor i                                     tensor i - 1
 *
 * Memory: two buffers, each as large as the largest tensor written so far. */
#ifndef YK_QUANTIZE_STREAM_H
#define YK_QUANTIZE_STREAM_H

#include "kernels/device.h"
#include "loader/safetensors/safetensors_write.h"

typedef struct yk_quantize_stream yk_quantize_stream;

/* yk_quantize_stream_open - for the mapped tensors sources [n], in the order in which they will be passed. dev
 *   allocates the buffers; dev, writer and sources must outlive the stream. Errors: YK_E_NOMEM. */
yk_status yk_quantize_stream_open(yk_device *dev, yk_safetensors_writer *writer, const yk_tensor *const *sources,
                                  size_t n, yk_quantize_stream **out, yk_err *err);

/* yk_quantize_stream_buffer - n_bytes of host memory that no pending write reads, valid until the next call. Errors:
 *   those of earlier writes (YK_E_IO); YK_E_NOMEM, YK_E_CAPACITY. */
yk_status yk_quantize_stream_buffer(yk_quantize_stream *stream, size_t n_bytes, void **out, yk_err *err);

/* yk_quantize_stream_put - queue the next bytes of the file: in the last buffer, or in a source. Pages of a source are
 *   released after the write. Errors: those of earlier writes. */
yk_status yk_quantize_stream_put(yk_quantize_stream *stream, const void *data, size_t n_bytes, yk_err *err);

/* yk_quantize_stream_pass - after this call, only writes read the next source. */
void yk_quantize_stream_pass(yk_quantize_stream *stream);

/* yk_quantize_stream_drain - wait until everything is written. Errors: those of writes. */
yk_status yk_quantize_stream_drain(yk_quantize_stream *stream, yk_err *err);

void yk_quantize_stream_close(yk_quantize_stream *stream); /* NULL is allowed */

/* yk_quantize_let_go - release pages of a mapped file that will not be read again, so that they do not count as this
 *   process's memory. */
void yk_quantize_let_go(const void *data, uint64_t n_bytes);

#endif
