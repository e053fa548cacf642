/* slot_rows.h - rows of experts' inputs and results that some mixtures need between the GEMMs: inputs times the weights
 * of their choices (weigh of kernels/experts.h), and results of latent experts added to those of a shared expert.
 * Asynchronous on the stream; nothing is read before the preceding kernel has ended. Errors: those of the launch. */
#ifndef YK_KERNELS_CUDA_MOE_SLOT_ROWS_H
#define YK_KERNELS_CUDA_MOE_SLOT_ROWS_H

#include <cuda_runtime_api.h>

#include "base/dtype.h"
#include "kernels/experts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_launch_weigh - weigh of kernels/experts.h; x and y of dtype. */
cudaError_t yk_cuda_launch_weigh(yk_dtype dtype, const yk_weigh_args *args, cudaStream_t stream);

/* yk_cuda_launch_add_rows - y[i] += x[i] for n elements of dtype, in float32 and rounded once. */
cudaError_t yk_cuda_launch_add_rows(yk_dtype dtype, void *y, const void *x, int64_t n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
