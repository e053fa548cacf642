/* int4.h - 4-bit weights of any packing that public tools write, brought into AWQ's "gemm" order, which devices take.
 *
 * A packing is a row of a table (int4_packing.h), one file each: where q of eight inputs and eight outputs, the zero
 * point and the scale of a group stand. int4.c walks a rank's slice in blocks of 64 inputs by 64 outputs, and knows no
 * packing. The numbers are the checkpoint's, so that a weight is what it was: scale * (q - zero).
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

/* A slice as a weight of its own: its input 0 and output 0 are first_k and first_n of the checkpoint's weight. k and n
 * may reach beyond the slice, to whole words and groups; what lies there is not meant to be read. */
typedef struct yk_int4_repacked {
  yk_weight_view weight; /* AWQ_GEMM, with zeros; points into the buffer */
  int64_t first_k, first_n;
} yk_int4_repacked;

/* yk_int4_is_ready - whether devices take the weight as it lies in the checkpoint. */
bool yk_int4_is_ready(const yk_weight_view *weight);

/* yk_int4_repacked_bytes - what a slice needs of a buffer. order: as below; which inputs and outputs it names does not
 *   matter here, only whether it names them. */
size_t yk_int4_repacked_bytes(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order);

/* yk_int4_repack - a slice of a 4-bit weight in AWQ "gemm" order. buffer: yk_int4_repacked_bytes, aligned to 64 bytes.
 *   order: of the slice's inputs or outputs, or NULL. Biases are not put into it.
 *   pool: threads that share the work, or NULL; what comes out and which error does not depend on them.
 *   A zero point of 16, which GPTQ can say and AWQ cannot, becomes 15 with every q of its group and output less one;
 *   exact, unless one of them is 0 (then the file is refused).
 *   Errors: YK_E_FORMAT naming tensor, group and output: a scale that is not finite, a zero that is not a whole number
 *   of 0 to 15; YK_E_UNSUPPORTED for a zero of 16 beside a q of 0. Thread: any. */
yk_status yk_int4_repack(const yk_weight_view *weight, const yk_weight_slice *slice, const yk_slice_order *order,
                         yk_cpu_pool *pool, void *buffer, yk_int4_repacked *out, yk_err *err);

/* yk_int4_check_scales - all scales of the slice are finite. Errors: YK_E_FORMAT naming tensor, group and output.
 *   pool: as above. */
yk_status yk_int4_check_scales(const yk_weight_view *weight, const yk_weight_slice *slice, yk_cpu_pool *pool,
                               yk_err *err);

/* yk_int4_read - the integers of a slice, 0 to 15, as to [n, stride]. Thread: any. */
void yk_int4_read(const yk_weight_view *weight, const yk_weight_slice *slice, int8_t *to, int64_t stride);

/* yk_int4_read_scales - scales and zeros of output n, of the groups that inputs [k_begin, k_end) of the slice lie in.
 *   Errors: YK_E_FORMAT as of yk_int4_repack. Thread: any. */
yk_status yk_int4_read_scales(const yk_weight_view *weight, const yk_weight_slice *slice, int64_t n, float *scales,
                              float *zeros, yk_err *err);

#endif
