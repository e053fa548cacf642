/* int8.h - repack 8-bit weights of any packing, integers or float8, and float4 into rows of bytes, which devices take.
 *
 * A packing is a row of a table (int8_packing.h), one file each: the positions of the bytes, and of the zero point and
 * scale of a group. The numbers are those of the checkpoint, so the weight does not change: scale * (q - zero), or
 * scale * f8. A code of float4 becomes a byte.
 *
 *   checkpoint                     int8.c                             device
 *   qweight in its packing  --> an output's inputs side by side --> bytes [n, k]
 *   scales, qzeros          --> float32, checked                --> [n, k/group rounded up]
 */
#ifndef YK_LOADER_INT8_H
#define YK_LOADER_INT8_H

#include <stddef.h>

#include "base/cpu_pool.h"
#include "base/status.h"
#include "kernels/weight.h"

/* yk_int8_repacked_bytes - buffer size for a slice with local groups of group_local inputs. order: as below; only the
 *   presence of its arrays matters. */
size_t yk_int8_repacked_bytes(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                              int64_t group_local);

/* yk_int8_repack - a slice of an 8-bit weight as a separate weight, in ROWS with float32 scales and zeros; *out points
 *   into the buffer, and at the weight's biases.
 *   order: of the slice's inputs or outputs, or NULL; biases are not reordered.
 *   group_local: as in yk_linear_part; the order's group if inputs are reordered.
 *   pool: threads that share the work, or NULL; result and error do not depend on the pool.
 *   buffer: yk_int8_repacked_bytes, aligned to 64 bytes.
 *   Errors: YK_E_FORMAT naming tensor, group and output of a scale or zero that is not finite, or tensor, row and
 *   column of a float8 that is NaN; YK_E_NOMEM. Thread: any. */
yk_status yk_int8_repack(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                         int64_t group_local, yk_cpu_pool *pool, void *buffer, yk_weight_view *out, yk_err *err);

/* yk_int8_read - write the bytes of a slice to `to` [n, stride]. Errors: YK_E_FORMAT naming tensor, row and column of a
 *   float8 that is NaN. Thread: any. */
yk_status yk_int8_read(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride,
                       yk_err *err);

/* yk_int8_read_scales - the scales of output n, and its zeros unless zeros is NULL (0 if the weight has none), for the
 *   groups that contain inputs [k_begin, k_end) of the slice. Errors: as for yk_int8_repack. Thread: any. */
yk_status yk_int8_read_scales(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t n, float *scales,
                              float *zeros, yk_err *err);

#endif
