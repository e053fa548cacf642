/* grouped.h - GEMMs with many matrices of one shape, each of which has its own rows (the experts of a mixture): y[slot]
 * = x[row_of_slot[slot]] W_m (+ bias), or a gated activation of it, for the slots starts[m] .. starts[m + 1] - 1 of
 * each matrix m. Only the device has the number of slots per matrix.
 *
 *   rows a matrix  GPU      kernel
 *   1 row in all   9.0      single_row_kernel.cuh: with the combination of its slots
 *   less than 1    9.0      few_rows_kernel.cuh: mma.sync; bound by memory bandwidth
 *   more           9.0      wgmma_kernel.cuh: a matrix of up to 8 rows by mma.sync, others by wgmma
 *   any            8.0 on   mma_sm80.cu: mma.sync
 *
 * The first and third kernels also multiply the weight of a shared expert (yk_grouped_call.shared_expert).
 *
 * Every thread block computes the row tiles from starts (row_tile_order.cuh). The kernels for 9.0 are persistent: a
 * thread block takes its next output tile from a counter (next_tile in types.h). Weights of matrices without slots are
 * not read. Rows of x are gathered by cp.async, weights are loaded by bulk copies, as in dense/dense.h, whose packed
 * form and device functions these kernels share.
 *
 * Numerics, stream and thread rules: as in dense/dense.h. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_GROUPED_H
#define YK_KERNELS_CUDA_GEMM_GROUPED_GROUPED_H

#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/gemm/grouped/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_gemm_grouped_init - loads every kernel that the next functions may launch. Errors: YK_E_DEVICE. */
yk_status yk_gemm_grouped_init(const yk_gemm_gpu *gpu, yk_err *err);

/* yk_gemm_grouped_combines - whether a forward computes the combination call.combine instead of y. If
 *   call.shared_expert has weights, it is the shared expert of that combination, and a forward that combines multiplies
 *   it. */
bool yk_gemm_grouped_combines(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_grouped_call *call);

/* yk_gemm_grouped_takes_shared_expert - whether a forward multiplies call.shared_expert too: one row with the
 *   combination, or up to 128 rows if there are at least as many slots as matrices. */
bool yk_gemm_grouped_takes_shared_expert(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_grouped_call *call);

/* yk_gemm_grouped_forward - the forward with packed weights.
 *   Errors  YK_E_INVAL on shapes, alignment, a shared expert's weight that the kernel does not take, or x of more than
 *           16 G values (y untouched), YK_E_DEVICE when the launch failed. */
yk_status yk_gemm_grouped_forward(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_grouped_call *call,
                                  struct CUstream_st *stream, yk_err *err);

/* yk_16_bits_grouped_forward - the forward with weights of 16 bits, desc.dtype [n, k]; desc.group is ignored. Same
 *   errors. */
yk_status yk_16_bits_grouped_forward(const yk_gemm_desc *desc, const yk_grouped_call *call, struct CUstream_st *stream,
                                     yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
