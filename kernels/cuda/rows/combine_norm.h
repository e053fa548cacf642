/* combine_norm.h - add_norm of many rows whose only partial result is a combination of experts (norm.h,
 * kernels/experts.h), on GPUs of 9.0. Results have the bits of norm.cu's kernel. Asynchronous on the stream.
 *
 * What counts is that memory never waits for a row to be done: a row's slots are some ten reads of kilobytes. A thread
 * block has every n-th row, and a ring of stages of a row each:
 *
 *   warp 0    residual, slots and shared expert of the row to come --(bulk copies)--> its stage
 *   a thread  its vector of all of a stage --> sum, residual --> sum of squares over the block --> y
 *
 * Once the block has met for the sum everyone has read the stage, so warp 0 fills it again. */
#ifndef YK_KERNELS_CUDA_ROWS_COMBINE_NORM_H
#define YK_KERNELS_CUDA_ROWS_COMBINE_NORM_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_combine_norm_takes - whether the kernel can do it, and is the faster one. */
bool yk_cuda_combine_norm_takes(yk_dtype dtype, const yk_add_norm_args *args);

/* yk_cuda_launch_combine_norm - of args that it takes. */
cudaError_t yk_cuda_launch_combine_norm(yk_dtype dtype, const yk_add_norm_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
