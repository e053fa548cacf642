/* few_outputs.h - GEMM of few rows with few columns of 16-bit weights, such as the router of a mixture of experts. It
 * takes little longer than the memory latency, so weights must be read while the preceding kernel still runs, and one
 * launch must do all work. A row's results do not depend on the number of rows. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_FEW_OUTPUTS_H
#define YK_KERNELS_CUDA_GEMM_DENSE_FEW_OUTPUTS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y [m, n] of y_dtype, rows y_stride elements apart = x [m, k] W^T, W [n, k]; x and W of dtype. */
typedef struct yk_few_outputs_gemm {
  const void *x, *w;
  void *y;
  int64_t m, n, k, y_stride;
  yk_dtype dtype, y_dtype; /* y_dtype: dtype, or float32 */
} yk_few_outputs_gemm;

/* yk_few_outputs_takes - whether the kernel can multiply this GEMM and is the faster choice: at most 256 rows, 2^24
 *   weights and 2^26 products m n k, k a multiple of 8, x and W 16-byte aligned. dtype must be float16 or bfloat16. */
bool yk_few_outputs_takes(const yk_few_outputs_gemm *gemm);

/* yk_few_outputs_launch - launches a GEMM that yk_few_outputs_takes accepts; does nothing if m or n is 0. Asynchronous
 *   on the stream, as a dependent of the previous kernel: W is read before that kernel has ended, so no kernel of the
 *   step may write W. Errors: those of the launch. Thread: any. */
cudaError_t yk_few_outputs_launch(const yk_few_outputs_gemm *gemm, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
