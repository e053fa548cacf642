/* quantise.h - rows of activations as 8-bit integers, for layers that multiply integers, and back from their sums.
 * Asynchronous on the stream, dependents of the preceding kernel; dtype is the activations' type, called "act" below.
 * Formulas and rounding are those of kernels/cpu/linear/format_w8a8.c, bit for bit.
 *
 *   one thread block per row, or one warp for many short rows: x in registers -> largest |x| -> scale -> x_q
 *
 * Rows that are not whole, aligned units of 16 bytes, and rows of more than 32768 inputs, are read twice instead. */
#ifndef YK_KERNELS_CUDA_ROWS_QUANTISE_H
#define YK_KERNELS_CUDA_ROWS_QUANTISE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_cuda_quantise_args {
  const void *x;         /* act [n_rows, k] */
  int8_t *quants;        /* [n_rows, k_padded], zeros past k; k_padded a multiple of 16, 16-byte aligned */
  float *scales;         /* [n_rows]; NaN if a row holds a NaN or an infinity */
  const int32_t *maxima; /* [n_rows] bits of the largest |x| of the row on all ranks; NULL: x holds whole rows */
  int64_t n_rows, k, k_padded;
  float static_scale; /* 0: per token */
  int32_t zero;
  const int32_t *rows; /* [n_rows] the row of x for each; NULL: the same row */
  /* Actual number of rows, at most n_rows: later rows are neither read nor written, and the next kernel may start once
   * this kernel has waited for the preceding kernel, so that it reads this number, and data written with it, when they
   * are complete. NULL: n_rows */
  const int32_t *n_there;
} yk_cuda_quantise_args;
cudaError_t yk_cuda_launch_quantise(yk_dtype dtype, const yk_cuda_quantise_args *args, cudaStream_t stream);

/* maxima [n_rows]: the largest |x| of each row of x act [n_rows, k], as the bits of a float32. */
cudaError_t yk_cuda_launch_maxima(yk_dtype dtype, int32_t *maxima, const void *x, int64_t n_rows, int64_t k,
                                  cudaStream_t stream);

/* y act [n_rows, n] = sums * scale of the row * scale of the column + bias; a row's scale is derived from maxima. */
typedef struct yk_cuda_scale_sums_args {
  void *y;
  const int32_t *sums;   /* [n_rows, n] */
  const int32_t *maxima; /* [n_rows] */
  const float *w_scales; /* [n] */
  const float *bias;     /* [n] or NULL */
  int64_t n_rows, n;
  float static_scale; /* 0: per token */
} yk_cuda_scale_sums_args;
cudaError_t yk_cuda_launch_scale_sums(yk_dtype dtype, const yk_cuda_scale_sums_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
