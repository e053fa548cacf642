/* dequantise.h - weights of every format as floats: w = scale * (q - zero), or scale * f8, in float32 with one
 * rounding.
 *
 * For devices that have no GEMM for a format, and for whoever rewrites a checkpoint. */
#ifndef YK_LOADER_DEQUANTISE_H
#define YK_LOADER_DEQUANTISE_H

#include "base/status.h"
#include "kernels/weight.h"

/* yk_dequantise - a slice of a weight as to f32 [n, stride], k of each row written. Inputs stay where they
 *   are, whatever groups g_idx says that they are of.
 *   Slices of 128 inputs by 128 outputs, or whole multiples, are read fastest.
 *   Errors: YK_E_FORMAT naming tensor, group and output of a scale or zero that is not finite, or
 *   an element that is no number; YK_E_NOMEM. Thread: any. */
yk_status yk_dequantise(const yk_weight_view *weight, const yk_weight_slice *slice, float *to, int64_t stride,
                        yk_err *err);

#endif
