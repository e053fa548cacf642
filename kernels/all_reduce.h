/* all_reduce.h - the arguments of an all-reduce, for communicators (parallel/comm.h) and for kernels that are one. */
#ifndef YK_KERNELS_ALL_REDUCE_H
#define YK_KERNELS_ALL_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/partial.h"

/* What reads the normalised rows next: a property of the reader, for communicators that overlap operations. */
typedef enum yk_reader {
  YK_READER_GEMM,  /* reads weights ahead of its rows: it should start as soon as the all-reduce has started */
  YK_READER_ROUTER /* of several rows reads little ahead: beside the operation in front of the all-reduce it would only
                      take room, and should start while the ranks wait for each other */
} yk_reader;

/* residual += alpha * sum over ranks of partial; y = rms_norm(residual, w), or untouched where w is NULL.
 *   rows of partial, residual, y act [n_rows, hidden]. rows of partial may be overwritten. See yk_add_norm_args for the
 *   numerics. */
typedef struct yk_all_reduce_add_norm_args {
  yk_partial partial;
  void *residual, *y;
  const void *w;
  int32_t n_rows, hidden;
  float alpha, eps;
  yk_reader reader;
} yk_all_reduce_add_norm_args;

typedef enum yk_reduction { YK_REDUCE_SUM, YK_REDUCE_MAX } yk_reduction;

#endif
