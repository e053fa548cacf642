/* int8.h - 8-bit weights of any packing, integers or float8, brought into rows of bytes, which devices take.
 *
 * A packing is a row of a table (int8_packing.h), one file each: where the bytes, the zero point and the scale of a
 * group stand. The numbers are the checkpoint's, so that a weight is what it was: scale * (q - zero), or scale * f8.
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

/* yk_int8_repacked_bytes - what a slice whose inputs share scales by group_local needs of a buffer. order: as below;
 *   only whether it names inputs, and outputs, matters. */
size_t yk_int8_repacked_bytes(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                              int64_t group_local);

/* yk_int8_repack - a slice of an 8-bit weight as a weight of its own, in ROWS with float32 scales and zeros; *out
 *   points into the buffer, and at the weight's biases.
 *   order: of the slice's inputs or outputs, or NULL; biases are not put into it.
 *   group_local: as in yk_linear_part; the order's group where it names inputs.
 *   pool: threads that share the work, or NULL; what comes out and which error does not depend on them.
 *   buffer: yk_int8_repacked_bytes, aligned to 64 bytes.
 *   Errors: YK_E_FORMAT naming tensor, group and output of a scale or zero that is not finite, or tensor, row
 *   and column of a float8 that is no number; YK_E_NOMEM. Thread: any. */
yk_status yk_int8_repack(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                         int64_t group_local, yk_cpu_pool *pool, void *buffer, yk_weight_view *out, yk_err *err);

/* yk_int8_read - the bytes of a slice as to [n, stride]. Errors: YK_E_FORMAT naming tensor, row and column of a float8
 *   that is no number. Thread: any. */
yk_status yk_int8_read(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride,
                       yk_err *err);

/* yk_int8_read_scales - of output n: its scales, and its zeros unless zeros is NULL (0 where the weight has none), of
 *   the groups that inputs [k_begin, k_end) of the slice lie in. Errors: as of yk_int8_repack. Thread: any. */
yk_status yk_int8_read_scales(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t n, float *scales,
                              float *zeros, yk_err *err);

#endif
