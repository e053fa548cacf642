/* types.h - arguments of a W8A8 GEMM: see w8a8.h. */
#ifndef YK_KERNELS_CUDA_W8A8_TYPES_H
#define YK_KERNELS_CUDA_W8A8_TYPES_H

#include "kernels/cuda/gemm/types.h"
#include "kernels/cuda/w8a8/sizes.h"

enum { YK_W8A8_MOST_SPLITS = 8 /* thread blocks that share a tile: the portable cluster size */ };

/* Properties of the current GPU; filled once by yk_w8a8_init. */
typedef struct yk_w8a8_gpu {
  const yk_gemm_gpu *gpu;
  /* by size: number of clusters, of thread blocks that take a multiprocessor each, that can run at once; 0 on the MMA
   * path */
  int clusters_at_once[YK_W8A8_MOST_SPLITS + 1];
} yk_w8a8_gpu;

/* Columns of W in device memory, to be repacked into the packed form. */
typedef struct yk_w8a8_source {
  const int8_t *weights; /* [n_columns, k] */
  const float *scales;   /* [n_columns] */
} yk_w8a8_source;

/* One call of a GEMM. */
typedef struct yk_w8a8_call {
  const void *packed;    /* 256-byte aligned */
  const float *bias;     /* [n], or NULL */
  const int8_t *x;       /* [m, yk_w8a8_k_padded], 16-byte aligned; zeros past k */
  const float *x_scales; /* [m], readable up to a multiple of YK_W8A8_ROW_MULTIPLE */
  void *y;               /* y_dtype [m, y_stride]; NULL: sums is written instead */
  yk_dtype y_dtype;      /* YK_F16 or YK_BF16 */
  int64_t y_stride;
  int32_t *sums; /* [m, n], without gates: x_q w_q^T - zero * sums of w_q */
  int64_t m;     /* rows, 0 or more */
} yk_w8a8_call;

#endif
