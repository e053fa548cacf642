/* repack_request.h - a slice of a weight and the form in which a device takes it. */
#ifndef YK_LOADER_REPACK_REQUEST_H
#define YK_LOADER_REPACK_REQUEST_H

#include <stddef.h>

#include "kernels/weight.h"

/* Rounds n floats to dtype. */
typedef void yk_round_floats(void *to, yk_dtype dtype, const float *from, size_t n);

/* Converts n numbers of dtype to float, exactly. from is aligned. */
typedef void yk_widen_floats(float *to, yk_dtype dtype, const void *from, size_t n);

/* Names as in yk_linear_part (kernels/linear.h). */
typedef struct yk_repack_request {
  const yk_weight_view *weight;
  yk_weight_slice slice; /* of the weight, possibly empty; if k_is_sorted, k counts inputs sorted by group */
  int64_t group_local;
  int64_t k_places; /* with act order: number of positions of the sorted inputs, padding included; 0: no such order */
  bool k_is_sorted;
  const int32_t *n_order; /* [outputs of the slice] or NULL */
  bool folds_bias;        /* output biases, including terms that the weight folds into them (integers/folded_bias.h) */
  bool as_floats;         /* a quantised weight becomes floats of dtype, each rounded once; inputs are not sorted */
  bool as_int8;           /* a plain weight becomes INT8 in ROWS, with a scale for each output (repack_int8.h) */
  yk_dtype dtype;
  yk_round_floats *round;
  yk_widen_floats *widen; /* with as_int8 */
} yk_repack_request;

#endif
