/* dequantise.h - convert weights of every format to floats: w = scale * (q - zero), or scale * f8, in float32 with one
 * rounding.
 *
 * For devices without a GEMM for a format, and for code that rewrites checkpoints. */
#ifndef YK_LOADER_DEQUANTISE_H
#define YK_LOADER_DEQUANTISE_H

#include "base/status.h"
#include "kernels/weight.h"

/* yk_dequantise - write a slice of a weight to f32 [n, stride], k elements per row. Inputs keep their order, for any
 *   groups in g_idx.
 *   Slices of 128 inputs by 128 outputs, or multiples, are read fastest.
 *   Errors: YK_E_FORMAT naming tensor, group and output of a scale or zero that is not finite, or an element that is
 *   NaN; YK_E_NOMEM. Thread: any. */
yk_status yk_dequantise(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                        yk_err *err);

#endif
