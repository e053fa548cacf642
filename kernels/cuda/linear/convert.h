/* convert.h - kernels that linear layers run before and after their GEMMs. Launches are asynchronous on the stream;
 * pointers are to device memory. "act" below is the activations' type, float16 or bfloat16, given as dtype. Errors:
 * those of the launch. */
#ifndef YK_KERNELS_CUDA_LINEAR_CONVERT_H
#define YK_KERNELS_CUDA_LINEAR_CONVERT_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dst act [n] = src of dtype src_dtype [n]. */
cudaError_t yk_cuda_launch_convert(yk_dtype dtype, void *dst, yk_dtype src_dtype, const void *src, int64_t n,
                                   cudaStream_t stream);

/* Destination of unpacked weights: act [n, stride], input i of a row at column order[i], or at column i without an
 * order; an input whose column is -1 is dropped. */
typedef struct yk_cuda_unpack_target {
  yk_dtype dtype;
  void *weights;
  int64_t stride;
  const int32_t *order; /* device int32 [k] or NULL */
} yk_cuda_unpack_target;

/* Dequantises n columns of W, of k inputs each, from an AWQ source or from rows of 8-bit integers (gemm/types.h), to
 * act; each weight is rounded once. */
cudaError_t yk_cuda_launch_unpack_awq(const yk_cuda_unpack_target *to, const yk_gemm_source *source, int64_t k,
                                      int64_t n, cudaStream_t stream);
cudaError_t yk_cuda_launch_unpack_int8(const yk_cuda_unpack_target *to, const yk_gemm_rows *source, int64_t k,
                                       int64_t n, cudaStream_t stream);

/* Copies src act [n_rows, n] to columns 0 .. n-1 of y [n_rows, y_stride]. */
cudaError_t yk_cuda_launch_copy_rows(yk_dtype dtype, void *y, int64_t y_stride, const void *src, int64_t n_rows,
                                     int64_t n, cudaStream_t stream);

/* The epilogue for a GEMM without one: y = the activation of src + bias, rounded once.
 *   src    f32 [n_rows, n]; if the activation is gated, the first half of a row are gates, and n / 2 columns are
 *          written
 *   bias   f32 [n], or NULL
 *   y      of y_dtype [n_rows, y_stride] */
typedef struct yk_cuda_finish_args {
  void *y;
  yk_dtype y_dtype;
  int64_t y_stride;
  const float *src, *bias;
  int64_t n_rows, n;
  yk_activation activation;
} yk_cuda_finish_args;
cudaError_t yk_cuda_launch_finish(const yk_cuda_finish_args *args, cudaStream_t stream);

/* The activation without a gate of a GEMM whose epilogue applies no activation: y = f(y), rounded once more.
 *   y         act [max_rows, y_stride], n columns of it
 *   n_rows    device: actual number of rows, at most max_rows; NULL: max_rows */
typedef struct yk_cuda_activate_args {
  void *y;
  yk_dtype dtype;
  int64_t y_stride, max_rows, n;
  const int32_t *n_rows;
  yk_activation activation;
} yk_cuda_activate_args;
cudaError_t yk_cuda_launch_activate(const yk_cuda_activate_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
