/* repack_int8.h - a slice of a plain weight as 8-bit integers. Not for use outside the loader. */
#ifndef YK_LOADER_REPACK_INT8_H
#define YK_LOADER_REPACK_INT8_H

#include "base/cpu_pool.h"
#include "base/status.h"
#include "loader/repack_request.h"

/* yk_repack_int8 - write the slice of a plain weight as int8 [n, k] to `to`, its scales as float32 [n], outputs in the
 *   request's order: w is about scale * q, where scale is the largest |w| of the output's inputs in the slice
 *   over 127, and q is w / scale, rounded to the nearest integer, ties to even, within -127 to 127. An output of zeros
 *   has scale 0. Every operation is a float32 one, rounded once.
 *   pool: threads that share the work, or NULL; bytes and errors do not depend on the pool. Errors: YK_E_FORMAT naming
 *   tensor, output and input of a number that is not finite; YK_E_NOMEM. Thread: any. */
yk_status yk_repack_int8(const yk_repack_request *request, yk_cpu_pool *pool, int8_t *to, float *scales, yk_err *err);

#endif
