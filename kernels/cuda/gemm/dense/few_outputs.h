/* few_outputs.h - GEMM of few rows with few columns of 16-bit weights, such as the router of a mixture of experts. It
 * takes little longer than the memory latency, so weights must be read while the preceding kernel still runs, and one
 * launch must do all work. A row's results do not depend on the number of rows. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_FEW_OUTPUTS_H
#define YK_KERNELS_CUDA_GEMM_DENSE_FEW_OUTPUTS_H

#include <stdbool.h>

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/dense/plain_gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_few_outputs_takes - whether the kernel can multiply this GEMM and is the faster choice: at most 256 rows, 2^24
 *   weights and 2^26 products m n k, k a multiple of 8, x and W 16-byte aligned. */
bool yk_few_outputs_takes(const yk_plain_gemm *gemm);

/* yk_few_outputs_launch - launches a GEMM that yk_few_outputs_takes accepts; does nothing if m or n is 0. Asynchronous
 *   on the stream, as a dependent of the previous kernel: W is read before that kernel has ended, so no kernel of the
 *   step may write W. Errors: those of the launch. Thread: any. */
cudaError_t yk_few_outputs_launch(const yk_plain_gemm *gemm, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
