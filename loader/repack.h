/* repack.h - repacks a rank's slice of one weight into the form that the device takes: the loader's part of the weight
 * path. runtime/model/repack.h is the other part, for parts and matrices of layers.
 *
 *   weight                             repacked
 *   already in the devices' form       unchanged; its scales are checked
 *   any other packing                  the slice in that form (integers/format.h)
 *   with act order                     the slice sorted by group (integers/group_order.h), and an order of x
 *   with n_order                       the slice with its outputs in that order
 *   with as_floats                     the slice as floats: a PLAIN weight
 *   a plain one with as_int8           the slice as 8-bit integers: an INT8 weight */
#ifndef YK_LOADER_REPACK_H
#define YK_LOADER_REPACK_H

#include "base/cpu_pool.h"
#include "base/status.h"
#include "loader/repack_request.h"

typedef struct yk_repack_result {
  yk_weight_view weight; /* points into the buffer or the checkpoint; its bias is indexed like its outputs */
  yk_weight_slice slice; /* slice of that weight */
  int64_t x_size;        /* columns of x if x_order is not NULL, else 0 */
  const int32_t *x_order;
} yk_repack_result;

/* yk_repack_buffer_bytes - size of the buffer for yk_repack. Thread: any. */
int64_t yk_repack_buffer_bytes(const yk_repack_request *request);

/* yk_repack - repack a slice. buffer: yk_repack_buffer_bytes, aligned to YK_REPACK_ALIGNMENT_BYTES. pool: threads that
 *   share the work, or NULL. The result does not depend on the pool; among several errors, the error of the first
 *   outputs or groups is returned.
 *   Errors: YK_E_FORMAT naming tensor, group and output of a scale or zero that is not finite, or the element that is
 *   NaN, or not finite with as_int8; those of yk_folded_bias; YK_E_UNSUPPORTED for a zero point that devices cannot
 *   represent; YK_E_NOMEM.
 *   Thread: any. */
yk_status yk_repack(const yk_repack_request *request, yk_cpu_pool *pool, void *buffer, yk_repack_result *out,
                    yk_err *err);

enum { YK_REPACK_ALIGNMENT_BYTES = 256 };

#endif
