/* input_order.h - permutes x for layers whose inputs are in another order than x (kernels/linear.h): y[i] = x[rows[i]]
 * in that order. Asynchronous on the stream, a dependent of the previous kernel. The next kernel may start once this
 * kernel has waited for the previous kernel, so starts are complete there. */
#ifndef YK_KERNELS_CUDA_LINEAR_INPUT_ORDER_H
#define YK_KERNELS_CUDA_LINEAR_INPUT_ORDER_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_cuda_input_order_args {
  void *y;              /* 16 bits [n_rows, k] */
  const void *x;        /* 16 bits [*, x_size] */
  const int32_t *rows;  /* [n_rows], or NULL: row i of x */
  const int32_t *order; /* [k]: the column of x of each input, or -1: a zero */
  int64_t n_rows, x_size, k;
  /* For a grouped layer, whose rows are slots: starts [n_matrices + 1], and the distance in bytes between the orders of
   * the matrices, the first of which is `order`. Rows from starts[n_matrices] on are neither read nor written. NULL:
   * one order. */
  const int32_t *starts;
  int32_t n_matrices;
  int64_t matrix_bytes;
} yk_cuda_input_order_args;
cudaError_t yk_cuda_launch_input_order(const yk_cuda_input_order_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
