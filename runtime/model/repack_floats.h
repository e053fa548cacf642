/* repack_floats.h - slices that are floats when they reach the device: dequantised, or rows in another order. The
 * pool's threads share the outputs; what comes out and which error does not depend on their number. */
#ifndef YK_MODEL_REPACK_FLOATS_H
#define YK_MODEL_REPACK_FLOATS_H

#include "base/cpu_pool.h"
#include "kernels/linear.h"

/* yk_repack_as_floats - the slice of a quantised part, outputs in the order that the part says, as to dtype [n, k],
 *   each weight rounded once. pool: or NULL. Errors: YK_E_NOMEM; those of yk_dequantise. Thread: any. */
yk_status yk_repack_as_floats(yk_cpu_pool *pool, const yk_linear_part *part, yk_dtype dtype, void *to, yk_err *err);

/* yk_repack_rows - rows n_order of a plain part, all inputs of each, as to [n, k of the weight] of the weight's type.
 *   pool: or NULL. Thread: any. */
void yk_repack_rows(yk_cpu_pool *pool, const yk_linear_part *part, void *to);

#endif
