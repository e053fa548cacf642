/* awq_quantize.h - floats to AWQ's 4-bit integers: what quantises one weight, or a slice of its outputs.
 *
 * A group of neighbouring inputs of one output shares a scale and a zero point. With low <= 0 <= high the least and the
 * greatest weight of a group, 0 among them:
 *
 *   scale = f16(max(high - low, 1e-5) / 15)     zero = clamp(round(-low / scale), 0, 15)
 *   q = clamp(round(w / scale) + zero, 0, 15)   and the weight becomes scale * (q - zero)
 *
 * in float32, rounded to the nearest, ties to even. That is the public definition of AutoAWQ
 * (pseudo_quantize_tensor in awq/quantize/quantizer.py, WQLinear_GEMM.from_linear in awq/modules/linear/gemm.py), where
 * the scale is a float16 number before q is computed, but for two things: AutoAWQ leaves 0 out of low and high, so that
 * a group whose weights have one sign gets a zero point outside of 0..15, which is cut and spoils the group; and
 * AutoAWQ computes high - low in float16 too, which may move a scale by its last bit.
 *
 * A device that is to take this over needs yk_awq_quantize alone. */
#ifndef YK_KERNELS_AWQ_QUANTIZE_H
#define YK_KERNELS_AWQ_QUANTIZE_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

typedef struct yk_cpu_pool yk_cpu_pool;

enum { YK_AWQ_MAX_LIMITED_GROUP = 1024 };

/* What is quantised: w(n, k) * n_scales[n] * k_scales[k], cut to +-limits[n, k / group]. */
typedef struct yk_awq_floats {
  const void *w; /* [n, k] row-major of dtype, maybe unaligned */
  yk_dtype dtype;
  int64_t n, k, group;   /* n: a multiple of 8; group divides k */
  const float *n_scales; /* [n], or NULL: 1 */
  const float *k_scales; /* [k], or NULL: 1 */
  const float *limits;   /* [n, k / group], or NULL: none */
} yk_awq_floats;

/* The three tensors in AWQ's "gemm" order: see base/weight.h. */
typedef struct yk_awq_tensors {
  uint32_t *qweight; /* [k, n / 8] */
  uint32_t *qzeros;  /* [k / group, n / 8] */
  uint16_t *scales;  /* f16 [k / group, n] */
} yk_awq_tensors;

/* yk_awq_quantize - as above, on the pool's threads; the result does not depend on their number.
 *   Errors: YK_E_FORMAT naming the first output and group with a weight that is not finite, or so large that the scale
 *   would not be finite in float16. *out is then undefined. Thread: the pool's caller. */
yk_status yk_awq_quantize(yk_cpu_pool *pool, const yk_awq_floats *weight, const yk_awq_tensors *out, yk_err *err);

/* yk_awq_errors - errors [n, k] = what quantising makes of w, with n_scales and k_scales undone, less w.
 *   Errors: those of yk_awq_quantize. */
yk_status yk_awq_errors(yk_cpu_pool *pool, const yk_awq_floats *weight, float *errors, yk_err *err);

/* yk_awq_grams - grams [k / group, group, group] = for each group the mean over rows of x_i x_j.
 *   rows [n_rows, k]; x = rows / k_scales (NULL: 1). group: at most YK_AWQ_MAX_LIMITED_GROUP. */
void yk_awq_grams(yk_cpu_pool *pool, const float *rows, int64_t n_rows, int64_t k, int64_t group, const float *k_scales,
                  float *grams);

/* yk_awq_find_limits - limits [n, k / group]: for each output and group the limit of 1, 0.95, ... 0.55 times the
 *   greatest |w| with which quantising changes the group's part of the output least, in the mean square over the rows
 *   of grams. That is the search of AutoAWQ (_search_best_clip: n_grid 20, max_shrink 0.5). The products of errors and
 *   inputs are summed as e^T G e, which is the same number for any number of rows.
 *   weight->limits is not looked at. Errors: those of yk_awq_quantize. */
yk_status yk_awq_find_limits(yk_cpu_pool *pool, const yk_awq_floats *weight, const float *grams, float *limits,
                             yk_err *err);

#endif
