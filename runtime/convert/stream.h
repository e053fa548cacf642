/* stream.h - copy weights from a mapped checkpoint to a file, piece by piece: memory use does not depend on their size.
 * One thread at a time. */
#ifndef YK_CONVERT_STREAM_H
#define YK_CONVERT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/weight.h"

/* Destination of the bytes, and the receiver of progress reports. */
typedef struct yk_convert_stream {
  yk_status (*put)(void *file, const void *bytes, size_t n_bytes, yk_err *err);
  void *file;
  bool (*progress)(void *user, int64_t done_bytes, int64_t total_bytes); /* returns false to stop; or NULL */
  void *progress_user;
  int64_t done_bytes, total_bytes;
} yk_convert_stream;

/* yk_convert_put - write bytes unchanged. Errors: those of the file; YK_E_CANCELLED if progress returns false. */
yk_status yk_convert_put(yk_convert_stream *stream, const void *bytes, int64_t n_bytes, yk_err *err);

/* yk_convert_put_f16 - write n floats of dtype as float16, without changing a value. name: of the tensor.
 *   Errors: those above; YK_E_UNSUPPORTED naming tensor and element that float16 cannot represent. */
yk_status yk_convert_put_f16(yk_convert_stream *stream, const char *name, yk_dtype dtype, const void *elements,
                             int64_t n, yk_err *err);

/* yk_convert_put_int4 - write qweight, qzeros and scales of a 4-bit weight in AWQ's "gemm" order, one after another.
 *   group: divides the weight's own group, whose scales and zero points are then repeated; -1: all inputs.
 *   f16_name: name of the scales' tensor, which becomes float16; NULL: scales keep their type.
 *   Errors: those above; those of yk_int4_repack, which name tensor, group and output; YK_E_NOMEM. */
yk_status yk_convert_put_int4(yk_convert_stream *stream, const yk_weight_view *weight, int32_t group,
                              const char *f16_name, yk_err *err);

#endif
