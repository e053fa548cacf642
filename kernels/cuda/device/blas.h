/* blas.h - GEMM of 16-bit matrices by cuBLAS. The library is loaded when a GPU is opened, so that a program without
 * GPUs starts where there is no cuBLAS. */
#ifndef YK_KERNELS_CUDA_DEVICE_BLAS_H
#define YK_KERNELS_CUDA_DEVICE_BLAS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

typedef struct yk_cuda_blas yk_cuda_blas; /* one for each device, which owns it */

/* yk_cuda_blas_create - load cuBLAS, of the major version that this program was built with, for the current GPU.
 *   workspace: device memory of YK_CUDA_CUBLAS_BYTES, not owned.
 *   Errors: YK_E_UNSUPPORTED in the loader's words where the library is missing, YK_E_NOMEM, YK_E_DEVICE. */
yk_status yk_cuda_blas_create(cudaStream_t stream, void *workspace, yk_cuda_blas **out, yk_err *err);
void yk_cuda_blas_destroy(yk_cuda_blas *blas);

/* yk_cuda_blas_multiply - y = x w^T, accumulated in float32.
 *   x of dtype [m, k], w of dtype [n, k], y of y_dtype [m, y_stride].
 *   Errors: YK_E_DEVICE, naming the sizes. Asynchronous on the stream. Thread: the device's. */
typedef struct yk_cuda_blas_gemm {
  const void *x, *w;
  void *y;
  int64_t m, n, k, y_stride;
  yk_dtype dtype, y_dtype; /* y_dtype: YK_F32 or dtype */
} yk_cuda_blas_gemm;
yk_status yk_cuda_blas_multiply(const yk_cuda_blas *blas, const yk_cuda_blas_gemm *gemm, yk_err *err);

#endif
