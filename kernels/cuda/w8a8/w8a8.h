/* w8a8.h - GEMM of 8-bit weights with 8-bit activations (W8A8): y = (x_q w_q^T - zero * sums of w_q) * s_x * s_w, then
 * bias and a gated activation, if any. Products are summed in int32, exactly, on the tensor cores; the other operations
 * are float32, each rounded separately in the order of kernels/cpu/linear/format_w8a8.c.
 *
 *   x act --(rows/quantise.h)--> x_q int8 [m, k_padded], s_x f32 [m] --+--> GEMM --> y act, or sums int32
 *   w --(yk_w8a8_pack, at load)--> packed: w_q, s_w, sums of w_q ------+
 *
 *   types.h        arguments of a GEMM
 *   sizes.h        sizes, for plans on any machine
 *   layout.cuh     the position of a weight in the packed copy
 *   pack.cu        packing
 *   wgmma.cu       9.0: wgmma, persistent, split-K; plans in tiles.h
 *   mma_sm80.cu    8.0 and later: mma.sync
 *   grouped.h      the same for many matrices, each with its own rows
 *
 * Results depend neither on the path nor on the split of K, since integers are exact. */
#ifndef YK_KERNELS_CUDA_W8A8_W8A8_H
#define YK_KERNELS_CUDA_W8A8_W8A8_H

#include "kernels/cuda/w8a8/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

/* yk_w8a8_init - called once per GPU, which must be current; gpu: from yk_gemm_gpu_init; the pointer is kept, and its
 *   path is used here too. Errors: YK_E_DEVICE. */
yk_status yk_w8a8_init(const yk_gemm_gpu *gpu, yk_w8a8_gpu *out, yk_err *err);

/* yk_w8a8_pack - repacks columns first_column .. first_column + n_columns - 1 into the packed weights, which must have
 *   been zeroed. Asynchronous on the stream. Errors: YK_E_DEVICE. */
yk_status yk_w8a8_pack(const yk_w8a8_desc *desc, void *packed, const yk_w8a8_source *source, int64_t first_column,
                       int64_t n_columns, struct CUstream_st *stream, yk_err *err);

/* yk_w8a8_forward - asynchronous on the stream, a dependent of the preceding kernel; may be recorded in a graph.
 *   Errors: YK_E_DEVICE. Thread: the device's. */
yk_status yk_w8a8_forward(const yk_w8a8_gpu *gpu, const yk_w8a8_desc *desc, const yk_w8a8_call *call,
                          struct CUstream_st *stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
