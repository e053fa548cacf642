/* grouped.h - W8A8 GEMMs with many matrices of one shape, each of which has its own rows (the experts of a mixture):
 * the GEMM of w8a8.h for the slots starts[m] .. starts[m + 1] - 1 of each matrix m. Only the device has the number of
 * slots per matrix.
 *
 *   x act --(rows/quantise.h, a row for each slot)--> x_q int8 [slots, k_padded], s_x --> GEMM --> y act [slots]
 *
 *   GPU      kernel
 *   9.0      grouped_wgmma_kernel.cuh
 *   8.0 on   grouped_mma_sm80.cu
 *
 * Rows of a matrix are contiguous, so that a tile of them is one tensor copy; rows of the next matrix in the same copy
 * are multiplied and not written. Every thread block computes the row tiles from starts
 * (gemm/grouped/row_tile_table.cuh). Bits are those of w8a8.h. */
#ifndef YK_KERNELS_CUDA_W8A8_GROUPED_H
#define YK_KERNELS_CUDA_W8A8_GROUPED_H

#include "kernels/cuda/w8a8/grouped_types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

/* yk_w8a8_grouped_init - loads every kernel that a forward may launch. Errors: YK_E_DEVICE. */
yk_status yk_w8a8_grouped_init(const yk_w8a8_gpu *gpu, yk_err *err);

/* yk_w8a8_grouped_forward - asynchronous on the stream, a dependent of the preceding kernel; may be recorded in a
 *   graph. Errors: YK_E_DEVICE. Thread: the device's. */
yk_status yk_w8a8_grouped_forward(const yk_w8a8_gpu *gpu, const yk_w8a8_desc *desc, const yk_w8a8_grouped_call *call,
                                  struct CUstream_st *stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
