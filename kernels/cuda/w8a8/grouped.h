/* grouped.h - W8A8 GEMMs with many matrices of one shape, each of which has rows of its own (the experts of a
 * mixture): what w8a8.h says of one matrix, for the slots starts[m] .. starts[m + 1] - 1 of each matrix m. How many
 * slots a matrix has is known to the device alone.
 *
 *   x act --(rows/quantise.h, a row for each slot)--> x_q int8 [slots, k_padded], s_x --> GEMM --> y act [slots]
 *
 *   GPU      kernel
 *   9.0      grouped_wgmma_kernel.cuh
 *   8.0 on   grouped_mma_sm80.cu
 *
 * Rows of a matrix lie side by side, so that a tile of them is one tensor copy; rows of the next matrix that it brings
 * along are multiplied and not written. Every thread block works out from starts which row tiles there are
 * (gemm/grouped/row_tile_table.cuh). Bits are those of w8a8.h. */
#ifndef YK_KERNELS_CUDA_W8A8_GROUPED_H
#define YK_KERNELS_CUDA_W8A8_GROUPED_H

#include "kernels/cuda/w8a8/grouped_types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

/* yk_w8a8_grouped_init - load every kernel that a forward may launch. Errors: YK_E_DEVICE. */
yk_status yk_w8a8_grouped_init(const yk_w8a8_gpu *gpu, yk_err *err);

/* yk_w8a8_grouped_forward - asynchronous on the stream, a dependent of the kernel before; may be recorded in a graph.
 *   Errors: YK_E_DEVICE. Thread: the device's. */
yk_status yk_w8a8_grouped_forward(const yk_w8a8_gpu *gpu, const yk_w8a8_desc *desc, const yk_w8a8_grouped_call *call,
                                  struct CUstream_st *stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
