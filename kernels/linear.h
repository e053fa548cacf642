/* linear.h - linear layers on a device: y = x W^T (+ bias) on this rank's shard, whatever format the weight has.
 *
 * A linear is a list of parts (q, k, v; gate, up), each a slice of one weight in the checkpoint with a format of its
 * own, written side by side into one output row. A device fuses parts of one format into one product.
 *
 * Column-parallel layers slice n and keep all of k. Row-parallel layers slice k: the result is then a PARTIAL sum and
 * the caller owes one sum over ranks; only rank 0's part may carry the bias. */
#ifndef YK_KERNELS_LINEAR_H
#define YK_KERNELS_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/weight.h"

typedef struct yk_linear yk_linear; /* a device's own prepared form */

enum { YK_MAX_LINEAR_PARTS = 3 };

typedef struct yk_range {
  int64_t begin, end; /* [begin, end) */
} yk_range;

static inline int64_t yk_range_size(yk_range range)
{
  return range.end - range.begin;
}

/* One part: the weight in the checkpoint, and the slice of it that this rank holds. An empty slice is legal. */
typedef struct yk_linear_part {
  yk_weight_view weight;
  yk_range k, n;
  int64_t group_local; /* AWQ: rows of the local shard that share a scale, starting at k.begin; divides weight.group, or
                          is the whole local k. Local group j reads the scales of row k.begin + j * group_local. */
  bool use_bias;       /* add weight.bias[n] */
  /* A plain weight whose rows n the device holds already, as act [n, weight.k] (an embedding that is lm_head too): a
   * device may use them in place. They must outlive the layer; linear_bytes looks at is_resident alone. */
  bool is_resident;
  const void *resident;
} yk_linear_part;

typedef enum yk_epilogue {
  YK_EPILOGUE_NONE,
  YK_EPILOGUE_SILU_MUL /* two parts of equal n (gate, up): y = silu(gate) * up, n columns */
} yk_epilogue;

typedef struct yk_linear_spec {
  yk_linear_part parts[YK_MAX_LINEAR_PARTS];
  int n_parts;
  yk_epilogue epilogue;
  bool f32_output;    /* lm_head: y is float32 whatever the activation type */
  int32_t max_tokens; /* rows of the largest forward */
} yk_linear_spec;

/* forward: x act [n_tokens, k_local]; y [n_tokens, y_stride] act (or f32), written in columns 0 .. n_local - 1, where
 * n_local is the sum of the parts' n (or one part's, with SILU_MUL). y must not alias x. With an empty k, y is zeros.
 */
typedef struct yk_linear_args {
  const void *x;
  void *y;
  int32_t n_tokens;
  int64_t y_stride; /* elements from one row of y to the next */
} yk_linear_args;

/* yk_linear_check - slices inside their weights, equal k, AWQ groups that do not straddle, an epilogue that fits.
 *   Errors: YK_E_INVAL or YK_E_UNSUPPORTED, naming the part. Thread: any. Every device calls it first.               */
#ifdef __cplusplus
extern "C"
#endif
    yk_status
    yk_linear_check(const yk_linear_spec *spec, yk_err *err);

#endif
