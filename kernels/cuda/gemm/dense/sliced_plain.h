/* sliced_plain.h - GEMM of 16-bit weights whose results do not depend on the number of rows, with the division of K of
 * sliced.cuh. A slice's sum is one chain of matrix instructions (16 inputs each, float32): of mma.sync, or on 9.0 for
 * many rows of wgmma, which has the same bits (sliced_plain_wgmma.cuh). */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SLICED_PLAIN_H
#define YK_KERNELS_CUDA_GEMM_DENSE_SLICED_PLAIN_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/dense/plain_gemm.h"
#include "kernels/cuda/gemm/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_sliced_plain_launch - asynchronous on the stream, as a dependent of the previous kernel: W is read before that
 *   kernel has ended. x and W 16-byte aligned; k_slices: as in yk_gemm_desc; k: a multiple of 8, and with more than one
 *   slice of 128 times the slices; else cudaErrorInvalidValue. Other errors: those of the launch. Does nothing if m or
 *   n is 0. Thread: any. */
cudaError_t yk_sliced_plain_launch(const yk_gemm_gpu *gpu, const yk_plain_gemm *gemm, int k_slices,
                                   cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
