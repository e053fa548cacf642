/* stream.h - what goes on beside the thread that quantises the tensors of a shard: the next ones are read from the
 * disk, and those that are made are written.
 *
 *   reader            rank's thread                                   writer
 *   pages of tensor   upload -> quantise -> download to a buffer  ->  safetensors file
 *   i + 1, i + 2      of tensor i                                     tensor i - 1
 *
 * Memory: two buffers, each as large as the largest tensor that was made. */
#ifndef YK_QUANTIZE_STREAM_H
#define YK_QUANTIZE_STREAM_H

#include "kernels/device.h"
#include "loader/safetensors/safetensors_write.h"

typedef struct yk_quantize_stream yk_quantize_stream;

/* yk_quantize_stream_open - for the mapped tensors sources [n], in the order in which they will be passed. dev gives
 *   the buffers; it, writer and sources must outlive the stream. Errors: YK_E_NOMEM. */
yk_status yk_quantize_stream_open(yk_device *dev, yk_safetensors_writer *writer, const yk_tensor *const *sources,
                                  size_t n, yk_quantize_stream **out, yk_err *err);

/* yk_quantize_stream_buffer - n_bytes of host memory that nobody reads any more, the caller's until the next call.
 *   Errors: of earlier writes (YK_E_IO); YK_E_NOMEM, YK_E_CAPACITY. */
yk_status yk_quantize_stream_buffer(yk_quantize_stream *stream, size_t n_bytes, void **out, yk_err *err);

/* yk_quantize_stream_put - the next bytes of the file: in the last buffer, or of a source; those of a source are let go
 *   of behind. Errors: of earlier writes. */
yk_status yk_quantize_stream_put(yk_quantize_stream *stream, const void *data, size_t n_bytes, yk_err *err);

/* yk_quantize_stream_pass - the next of the sources will not be read any more but by writes. */
void yk_quantize_stream_pass(yk_quantize_stream *stream);

/* yk_quantize_stream_drain - wait until all is written. Errors: of writes. */
yk_status yk_quantize_stream_drain(yk_quantize_stream *stream, yk_err *err);

void yk_quantize_stream_close(yk_quantize_stream *stream); /* NULL is allowed */

/* yk_quantize_let_go - pages of a mapped file that will not be read again do not count as this process's memory. */
void yk_quantize_let_go(const void *data, uint64_t n_bytes);

#endif
