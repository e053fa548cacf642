/* plain_gemm.h - a GEMM of 16-bit weights as the host describes it. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_PLAIN_GEMM_H
#define YK_KERNELS_CUDA_GEMM_DENSE_PLAIN_GEMM_H

#include <stdint.h>

#include "base/dtype.h"

/* y [m, n] of y_dtype, rows y_stride elements apart = x [m, k] W^T, W [n, k]; x and W of dtype, float16 or bfloat16. */
typedef struct yk_plain_gemm {
  const void *x, *w;
  void *y;
  int64_t m, n, k, y_stride;
  yk_dtype dtype, y_dtype; /* y_dtype: dtype, or float32 */
} yk_plain_gemm;

#endif
