/* awq_quantize.h - conversion of floats to AWQ's 4-bit integers: the operations that quantise one weight, or a slice of
 * its outputs.
 *
 * A group of neighbouring inputs of one output shares a scale and a zero point. Let low be the least and high the
 * greatest weight of a group, extended to include 0 (low <= 0 <= high):
 *
 *   scale = f16(max(high - low, 1e-5) / 15)     zero = clamp(round(-low / scale), 0, 15)
 *   q = clamp(round(w / scale) + zero, 0, 15)   and the weight becomes scale * (q - zero)
 *
 * in float32, rounded to the nearest, ties to even. That is the public definition of AutoAWQ
 * (pseudo_quantize_tensor in awq/quantize/quantizer.py, WQLinear_GEMM.from_linear in awq/modules/linear/gemm.py), where
 * the scale is a float16 number before q is computed, with two differences: AutoAWQ does not include 0 in low and high,
 * so a group whose weights have one sign gets a zero point outside 0..15, and clamping it corrupts the group; and
 * AutoAWQ computes high - low in float16 too, which may move a scale by its last bit.
 *
 * Devices implement this (awq_quantize of kernels/device.h), all with the same bits, and the operations of a search for
 * better scales and limits: awq_observe, awq_loss, awq_limits. All pointers are device memory. */
#ifndef YK_KERNELS_AWQ_QUANTIZE_H
#define YK_KERNELS_AWQ_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  YK_AWQ_MAX_LIMITED_GROUP = 1024,
  YK_AWQ_SLICE_OUTPUTS = 2048, /* outputs of a weight whose errors are held in memory at once */
  YK_AWQ_GRID = 20,            /* limits are 1 - i / GRID times the greatest |w| */
  YK_AWQ_LIMITS = 10
};

/* The numbers to quantise: w(n, k) * n_scales[n] * k_scales[k], clamped to +-limits[n, k / group]. */
typedef struct yk_awq_floats {
  const void *w; /* [n, k] row-major of dtype; may be unaligned on a CPU */
  yk_dtype dtype;
  int64_t n, k, group;   /* n: a multiple of 8; group divides k */
  const float *n_scales; /* [n], or NULL: 1 */
  const float *k_scales; /* [k], or NULL: 1 */
  const float *limits;   /* [n, k / group], or NULL: none */
} yk_awq_floats;

/* The three tensors in AWQ's "gemm" order: see kernels/weight.h. */
typedef struct yk_awq_tensors {
  uint32_t *qweight; /* [k, n / 8] */
  uint32_t *qzeros;  /* [k / group, n / 8] */
  uint16_t *scales;  /* f16 [k / group, n] */
} yk_awq_tensors;

/* Results of an operation. */
typedef struct yk_awq_found {
  /* the smallest n * groups + group that cannot be quantised; -1: none. Otherwise the results are undefined */
  int64_t first_bad;
  double loss; /* result of awq_loss */
} yk_awq_found;

/* awq_quantize: *out <- weight. group, on a GPU: 32, 64, 128 or k. */
typedef struct yk_awq_quantize_args {
  yk_awq_floats weight;
  yk_awq_tensors out;
  yk_awq_found *found;
} yk_awq_quantize_args;

/* yk_awq_is_kept - whether token t of a text of n_text tokens belongs to the sample of n_kept evenly spaced tokens; if
 *   so, its row in the sample is t * n_kept / n_text. */
static inline bool yk_awq_is_kept(int64_t t, int64_t n_text, int64_t n_kept)
{
  return t * n_kept / n_text != (t + 1) * n_kept / n_text;
}

/* awq_observe: records the inputs of a linear layer while the model reads a text of n_text tokens. sums[j] += |x(t, j)|
 * over all rows; the rows of sampled tokens (yk_awq_is_kept) are copied. */
typedef struct yk_awq_observe_args {
  const void *x;    /* act [n_tokens, k]: tokens first_token .. first_token + n_tokens - 1 of the text */
  int64_t x_stride; /* elements from one row of x to the next */
  int64_t first_token, n_text, n_kept;
  int32_t n_tokens;
  int64_t k;
  double *sums; /* [k] */
  float *kept;  /* [n_kept, k] */
} yk_awq_observe_args;

/* awq_loss: found->loss <- sum over rows and outputs of the square of the output error caused by quantising, with the
 * scales undone: rows (the quantised w, divided by its scales, minus w)^T. */
typedef struct yk_awq_loss_args {
  yk_awq_floats weight;
  const float *rows; /* [n_rows, k] */
  int32_t n_rows;    /* at most YK_AWQ_SLICE_OUTPUTS */
  float *scratch;    /* number of floats: yk_awq_scratch_floats */
  yk_awq_found *found;
} yk_awq_loss_args;

/* awq_limits: limits [n, k / group] <- for each output and group the limit, among 1, 0.95, ... 0.55 times the greatest
 * |w|, with which quantising changes the group's part of the output least, in the mean square over the rows, which are
 * divided by the weight's k_scales. This is the search of AutoAWQ (_search_best_clip: n_grid 20, max_shrink 0.5). The
 * products of errors and inputs are summed as e^T G e, whose cost does not depend on the number of rows.
 *   weight.limits is ignored. group: at most YK_AWQ_MAX_LIMITED_GROUP. */
typedef struct yk_awq_limits_args {
  yk_awq_floats weight;
  const float *rows; /* [n_rows, k] */
  int32_t n_rows;    /* at most YK_AWQ_SLICE_OUTPUTS */
  float *grams;      /* scratch [k / group, group, group]: for each group the mean over rows of x_i x_j */
  float *scratch;    /* number of floats: yk_awq_scratch_floats */
  float *limits;
  yk_awq_found *found;
} yk_awq_limits_args;

/* yk_awq_scratch_floats - scratch of the operations for a weight of n outputs and k inputs, and n_rows rows. */
static inline int64_t yk_awq_scratch_floats(int64_t n, int64_t k, int64_t n_rows)
{
  const int64_t most = YK_AWQ_SLICE_OUTPUTS, outputs = n < most ? n : most, rows = n_rows > outputs ? n_rows : outputs;
  return 2 * rows * k + rows * n_rows + 2 * outputs * k + 1024;
}

/* yk_awq_check - returns YK_OK, or YK_E_FORMAT naming output and inputs of found's first_bad: weights that are not
 *   finite, or so large that the scale would not be finite in float16. found: in host memory. Thread: any. */
yk_status yk_awq_check(const yk_awq_floats *weight, const yk_awq_found *found, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
