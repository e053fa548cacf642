/* int4.h - repack 4-bit weights of any packing of public tools into AWQ's "gemm" order, which devices take.
 *
 * A packing is a row of a table (int4_packing.h), one file each: the positions of the q of eight inputs and eight
 * outputs, and of the zero point and scale of a group. int4.c processes a rank's slice in blocks of 64 inputs by 64
 * outputs, independent of the packing. The numbers are those of the checkpoint, so the weight does not change: scale *
 * (q - zero).
 *
 *   checkpoint                   table                     int4.c                       device
 *   qweight in its order  -->  8 x 8 nibbles         --> transposed, in AWQ's order --> words [k, n/8]
 *   qzeros, scales        -->  one value (group, n)  --> checked                    --> [k/group, n/8], [k/group, n]
 */
#ifndef YK_LOADER_INT4_H
#define YK_LOADER_INT4_H

#include <stddef.h>

#include "base/cpu_pool.h"
#include "base/status.h"
#include "kernels/weight.h"

/* A slice as a separate weight, whose input 0 and output 0 are first_k and first_n of the checkpoint's weight. k and n
 * may extend beyond the slice, to whole words and groups; elements outside the slice must not be used. */
typedef struct yk_int4_repacked {
  yk_weight_view weight; /* AWQ_GEMM, with zeros; points into the buffer */
  int64_t first_k, first_n;
} yk_int4_repacked;

/* yk_int4_is_ready - whether devices take the weight as stored in the checkpoint. */
bool yk_int4_is_ready(const yk_weight_view *weight);

/* yk_int4_repacked_bytes - buffer size for a slice. order: as below; only the presence of its arrays matters. */
size_t yk_int4_repacked_bytes(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order);

/* yk_int4_repack - a slice of a 4-bit weight in AWQ "gemm" order. buffer: yk_int4_repacked_bytes, aligned to 64 bytes.
 *   order: of the slice's inputs or outputs, or NULL. Biases are not reordered.
 *   pool: threads that share the work, or NULL; result and error do not depend on the pool.
 *   A zero point of 16, which GPTQ can store and AWQ cannot, becomes 15, and every q of its group and output is
 *   decreased by 1. This is exact, unless such a q is 0 (then the file is refused).
 *   Errors: YK_E_FORMAT naming tensor, group and output: a scale that is not finite, a zero that is not an integer from
 *   0 to 15; naming tensor, row and column: an element of more than 4 bits. YK_E_UNSUPPORTED for a zero of 16 together
 *   with a q of 0. Thread: any. */
yk_status yk_int4_repack(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                         yk_cpu_pool *pool, void *buffer, yk_int4_repacked *out, yk_err *err);

/* yk_int4_check_scales - check that all scales of the slice are finite. Errors: YK_E_FORMAT naming tensor, group and
 *   output. pool: as above. */
yk_status yk_int4_check_scales(const yk_weight_view *weight, const yk_weight_slice *slice, yk_cpu_pool *pool,
                               yk_err *err);

/* yk_int4_read - write the integers of a slice, 0 to 15, to `to` [n, stride]. Errors: YK_E_FORMAT naming tensor, row
 *   and column of an element of more than 4 bits. Thread: any. */
yk_status yk_int4_read(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride,
                       yk_err *err);

/* yk_int4_read_scales - scales and zeros of output n, for the groups that contain inputs [k_begin, k_end) of the slice.
 *   Errors: YK_E_FORMAT as for yk_int4_repack. Thread: any. */
yk_status yk_int4_read_scales(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t n, float *scales,
                              float *zeros, yk_err *err);

#endif
