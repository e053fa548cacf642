/* blas.h - GEMMs by cuBLAS: of 16-bit matrices, and of float32 matrices for quantising. The library is loaded when a
 * GPU is opened, so that a program without GPUs starts without cuBLAS. */
#ifndef YK_KERNELS_CUDA_BLAS_BLAS_H
#define YK_KERNELS_CUDA_BLAS_BLAS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

enum { YK_CUDA_CUBLAS_BYTES = 32 << 20 /* recommended for its workspace on compute capability 9.0 */ };

typedef struct yk_cuda_blas yk_cuda_blas; /* one for each device, which owns it */

/* yk_cuda_blas_create - loads cuBLAS, of the major version that this program was built with, for the current GPU.
 *   workspace: device memory of YK_CUDA_CUBLAS_BYTES, not owned.
 *   Errors: YK_E_UNSUPPORTED with the loader's message if the library is missing, YK_E_NOMEM, YK_E_DEVICE. */
yk_status yk_cuda_blas_create(struct CUstream_st *stream, void *workspace, yk_cuda_blas **out, yk_err *err);
void yk_cuda_blas_destroy(yk_cuda_blas *blas);

/* yk_cuda_blas_multiply - y = x w^T, accumulated in float32.
 *   x of dtype [m, k], w of dtype [n, k], y of y_dtype [m, y_stride]. Inputs of float32 are rounded to TF32.
 *   Errors: YK_E_DEVICE, naming the sizes. Asynchronous on the stream. Thread: the device's. */
typedef struct yk_cuda_blas_gemm {
  const void *x, *w;
  void *y;
  int64_t m, n, k, y_stride;
  yk_dtype dtype, y_dtype; /* y_dtype: YK_F32 or dtype */
} yk_cuda_blas_gemm;
yk_status yk_cuda_blas_multiply(const yk_cuda_blas *blas, const yk_cuda_blas_gemm *gemm, yk_err *err);

/* yk_cuda_blas_multiply_batch - y[i] = x[i] w[i]^T, or x[i] w[i] with w_is_kn, for n_batch matrices of dtype.
 *   x [m, k], rows x_row_stride elements apart; w contiguous [n, k], or [k, n]; y [m, n], rows y_row_stride apart.
 *   Consecutive matrices are x_stride, w_stride and y_stride elements apart. Errors and thread as above. */
typedef struct yk_cuda_blas_batch {
  const void *x, *w;
  void *y;
  int64_t m, n, k, x_row_stride, y_row_stride;
  int64_t x_stride, w_stride, y_stride;
  int32_t n_batch;
  bool w_is_kn;
  yk_dtype dtype;
} yk_cuda_blas_batch;
yk_status yk_cuda_blas_multiply_batch(const yk_cuda_blas *blas, const yk_cuda_blas_batch *batch, yk_err *err);

/* yk_cuda_blas_find_grams - grams [n_groups, group, group] = for each group of columns of x, float32 [n_rows, n_groups
 *   * group], the mean over rows of the products of two columns. All in float32. Errors, thread: as above. */
typedef struct yk_cuda_blas_grams {
  const float *x;
  float *grams;
  int64_t n_rows, group, n_groups;
} yk_cuda_blas_grams;
yk_status yk_cuda_blas_find_grams(const yk_cuda_blas *blas, const yk_cuda_blas_grams *args, yk_err *err);

/* yk_cuda_blas_multiply_groups - y = x times the symmetric matrix of each group of columns; x, y float32 [n_rows,
 *   n_groups * group], grams as above. All in float32. Errors, thread: as above. */
typedef struct yk_cuda_blas_groups {
  const float *x, *grams;
  float *y;
  int64_t n_rows, group, n_groups;
} yk_cuda_blas_groups;
yk_status yk_cuda_blas_multiply_groups(const yk_cuda_blas *blas, const yk_cuda_blas_groups *args, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
