/* cuda_blas.h - 16-bit products by cuBLAS, which is loaded when a GPU is opened: the program starts without it. */
#ifndef YK_KERNELS_CUDA_CUDA_BLAS_H
#define YK_KERNELS_CUDA_CUDA_BLAS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_cuda_blas yk_cuda_blas; /* one a device */


/* yk_cuda_blas_create - cuBLAS of the major version that this program was built with, on the current GPU.
 *   workspace: device [YK_CUDA_CUBLAS_BYTES], not owned.
 *   Errors: YK_E_UNSUPPORTED in the loader's words where the library is missing, YK_E_NOMEM, YK_E_DEVICE. */
yk_status yk_cuda_blas_create(cudaStream_t stream, void *workspace, yk_cuda_blas **out, yk_err *err);
void yk_cuda_blas_destroy(yk_cuda_blas *blas);

/* yk_cuda_blas_multiply - y = x w^T, summed in float32.
 *   x of dtype [m, k], w of dtype [n, k], y of y_dtype [m, y_stride]
 *   Errors: YK_E_DEVICE, naming the sizes. Asynchronous on the stream; thread: the device's.                         */
typedef struct yk_cuda_blas_product {
  const void *x, *w;
  void *y;
  int64_t m, n, k, y_stride;
  yk_dtype dtype, y_dtype; /* y_dtype: YK_F32 or dtype */
} yk_cuda_blas_product;
yk_status yk_cuda_blas_multiply(const yk_cuda_blas *blas, const yk_cuda_blas_product *product, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
