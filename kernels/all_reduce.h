/* all_reduce.h - the arguments of an all-reduce, for communicators (parallel/comm.h) and for kernels that are one. */
#ifndef YK_KERNELS_ALL_REDUCE_H
#define YK_KERNELS_ALL_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/experts.h"

/* residual += alpha * sum over ranks of partial; y = rms_norm(residual, w), or untouched where w is NULL.
 *   partial, residual, y act [n_rows, hidden]. partial may be overwritten. See yk_add_norm_args for the numerics.
 *   combine: partial is computed first, by this combination of experts, whose y is partial, n_tokens is n_rows, and
 *   hidden the same; NULL: partial is complete.
 *   late_next: the next kernel on the stream may start only once the kernels before the all-reduce have ended, that is
 *   while the ranks wait for each other, and not as soon as the all-reduce itself has started. For a next kernel that
 *   reads so little ahead of its own wait (programmatic dependent launch) that it would only take room from them. */
typedef struct yk_all_reduce_add_norm_args {
  void *partial, *residual, *y;
  const void *w;
  int32_t n_rows, hidden;
  float alpha, eps;
  const yk_combine_args *combine;
  bool late_next;
} yk_all_reduce_add_norm_args;

typedef enum yk_reduction { YK_REDUCE_SUM, YK_REDUCE_MAX } yk_reduction;

#endif
