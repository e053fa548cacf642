/* stream.h - weights on their way from a mapped checkpoint to a file, piece by piece: memory does not grow with them.
 * One thread at a time. */
#ifndef YK_CONVERT_STREAM_H
#define YK_CONVERT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/weight.h"

/* Where bytes go, and whom to tell of them. */
typedef struct yk_convert_stream {
  yk_status (*put)(void *file, const void *bytes, size_t n_bytes, yk_err *err);
  void *file;
  bool (*progress)(void *user, int64_t done_bytes, int64_t total_bytes); /* false stops; or NULL */
  void *progress_user;
  int64_t done_bytes, total_bytes;
} yk_convert_stream;

/* yk_convert_put - bytes as they are. Errors: the file's; YK_E_CANCELLED where progress says so. */
yk_status yk_convert_put(yk_convert_stream *stream, const void *bytes, int64_t n_bytes, yk_err *err);

/* yk_convert_put_f16 - n floats of dtype as float16, each exactly what it was. name: of the tensor.
 *   Errors: those above; YK_E_UNSUPPORTED naming tensor and element: one that float16 does not have. */
yk_status yk_convert_put_f16(yk_convert_stream *stream, const char *name, yk_dtype dtype, const void *elements,
                             int64_t n, yk_err *err);

/* yk_convert_put_int4 - qweight, qzeros and scales of a 4-bit weight in AWQ's "gemm" order, one behind the other.
 *   group: divides the weight's own, whose scales and zero points are then repeated; -1: all inputs.
 *   f16_name: of the scales' tensor, which become float16; NULL: they stay of their type.
 *   Errors: those above; those of yk_int4_repack, which name tensor, group and output; YK_E_NOMEM. */
yk_status yk_convert_put_int4(yk_convert_stream *stream, const yk_weight_view *weight, int32_t group,
                              const char *f16_name, yk_err *err);

#endif
