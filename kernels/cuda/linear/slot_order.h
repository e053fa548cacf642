/* slot_order.h - x of the slots of a grouped layer (kernels/linear.h) whose matrices have their inputs in orders of
 * their own: y[slot] = x[row_of_slot[slot]] in the order of the slot's matrix. Asynchronous on the stream, a dependent of
 * the kernel before. The next kernel may start once this one has waited for that, so that starts are complete there. */
#ifndef YK_KERNELS_CUDA_LINEAR_SLOT_ORDER_H
#define YK_KERNELS_CUDA_LINEAR_SLOT_ORDER_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_cuda_slot_order_args {
  void *y;                    /* 16 bits [max_slots, k], written up to starts[n_matrices] */
  const void *x;              /* 16 bits [rows, x_size] */
  const int32_t *row_of_slot; /* [max_slots], or NULL: the slot */
  const int32_t *starts;      /* [n_matrices + 1] */
  const int32_t *order;       /* [k] of matrix 0: the column of x that each input is, or -1: a zero */
  int64_t matrix_bytes;       /* from a matrix's order to the next's */
  int32_t n_matrices;
  int64_t max_slots, x_size, k; /* x_size: a row lies in shared memory, so that 2 x_size bytes must fit there */
} yk_cuda_slot_order_args;
cudaError_t yk_cuda_launch_slot_order(const yk_cuda_slot_order_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
