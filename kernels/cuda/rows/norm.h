/* norm.h - RMSNorm of rows, with or without partial results that are added to the residual first. Asynchronous on the
 * stream; see kernels/device.h for the operations.
 *
 * One thread block per row. A thread keeps the same vectors of 16 bytes throughout:
 *
 *   its first weights --> registers, before griddepcontrol.wait
 *   x, or residual + alpha * partial results --> shared memory, rounded as stored; sum of squares --> thread block
 *   shared memory * rsqrt(mean of squares + eps), rounded, * weights --> y
 *
 * If a thread has at most one vector, the vector stays in a register; parameters, and settled choices of experts, are
 * then also read before griddepcontrol.wait. With a norm of the sum or a gain (result_w, gain of yk_add_norm_args), a
 * separate kernel holds every row in shared memory, first the sum, then the residual. Many rows whose partial result is
 * a combination of experts have a separate kernel (combine_norm.h). */
#ifndef YK_KERNELS_CUDA_ROWS_NORM_H
#define YK_KERNELS_CUDA_ROWS_NORM_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/common/limits.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* add_norm and rms_norm of kernels/device.h, with act of dtype; hidden: at most YK_CUDA_MAX_HIDDEN; with result_w or a
 * gain, combine is NULL. Errors: those of the launch. */
cudaError_t yk_cuda_launch_add_norm(yk_dtype dtype, const yk_add_norm_args *args, cudaStream_t stream);
cudaError_t yk_cuda_launch_rms_norm(yk_dtype dtype, const yk_rms_norm_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
