/* sliced_plain.h - GEMM of 16-bit weights whose results do not depend on the number of rows: the same kernel for all
 * numbers, with the division of K of sliced.cuh. A slice's sum is one chain of mma.sync (16 inputs each, float32). */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SLICED_PLAIN_H
#define YK_KERNELS_CUDA_GEMM_DENSE_SLICED_PLAIN_H

#include <stdint.h>

#include <cuda_runtime_api.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y [m, n] of y_dtype, rows y_stride elements apart = x [m, k] W^T, W [n, k]; x and W of dtype, 16-byte aligned. */
typedef struct yk_sliced_plain_gemm {
  const void *x, *w;
  void *y;
  int64_t m, n, k, y_stride;
  int k_slices;            /* as in yk_gemm_desc */
  yk_dtype dtype, y_dtype; /* float16 or bfloat16; the same, or float32 */
} yk_sliced_plain_gemm;

/* yk_sliced_plain_launch - asynchronous on the stream, as a dependent of the previous kernel: W is read before that
 *   kernel has ended. k: a multiple of 8, and with more than one slice of 128 times the slices; else
 *   cudaErrorInvalidValue. Other errors: those of the launch. Does nothing if m or n is 0. Thread: any. */
cudaError_t yk_sliced_plain_launch(const yk_sliced_plain_gemm *gemm, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
