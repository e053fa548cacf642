/* all_reduce.h - arguments of an all-reduce, for communicators (parallel/comm.h) and for all-reduce kernels. */
#ifndef YK_KERNELS_ALL_REDUCE_H
#define YK_KERNELS_ALL_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/partial.h"

/* The operation that reads the normalised rows next, for communicators that overlap operations. */
typedef enum yk_reader {
  YK_READER_GEMM, /* loads weights before its rows: should start as soon as the all-reduce has started */
  /* for several rows, loads little before them: overlapped with the operation before the all-reduce, the router would
   * only occupy multiprocessors; should start while the ranks wait for each other */
  YK_READER_ROUTER
} yk_reader;

/* residual += alpha * sum over ranks of partial; y = rms_norm(residual, w), or unchanged if w is NULL.
 * result_w, gain: as in yk_add_norm_args; with result_w, y is overwritten.
 *   rows of partial, residual, y act [n_rows, hidden]. rows of partial may be overwritten. See yk_add_norm_args for the
 *   numerics. */
typedef struct yk_all_reduce_add_norm_args {
  yk_partial partial;
  void *residual, *y;
  const void *result_w, *w;
  int32_t n_rows, hidden;
  float alpha, gain, eps;
  yk_reader reader;
} yk_all_reduce_add_norm_args;

typedef enum yk_reduction { YK_REDUCE_SUM, YK_REDUCE_MAX } yk_reduction;

#endif
