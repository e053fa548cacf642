/* combine_norm.h - add_norm of many rows whose only partial result is a combination of experts (norm.h,
 * kernels/experts.h), on GPUs of 9.0. Results have the bits of norm.cu's kernel. Asynchronous on the stream.
 *
 * The copies of the next rows are always in flight: a row's sources are some ten reads of kilobytes. A thread block
 * processes every gridDim.x-th row, and a ring of stages in shared memory, each with all sources of one row:
 *
 *   warp 0       residual, slots and shared expert of a later row --(bulk copies)--> that row's stage
 *   each thread  its vector of every source in a stage --> sum, residual --> sum of squares over the block --> y
 *
 * The barrier of the sum of squares also protects the stage: after it every thread has read the stage, and warp 0 fills
 * the stage again. */
#ifndef YK_KERNELS_CUDA_ROWS_COMBINE_NORM_H
#define YK_KERNELS_CUDA_ROWS_COMBINE_NORM_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_combine_norm_takes - whether the kernel can run args on the current device, and is faster than norm.cu's. */
bool yk_cuda_combine_norm_takes(yk_dtype dtype, const yk_add_norm_args *args);

/* yk_cuda_launch_combine_norm - launches the kernel for args that yk_cuda_combine_norm_takes accepts. */
cudaError_t yk_cuda_launch_combine_norm(yk_dtype dtype, const yk_add_norm_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
