/* awq_quantize.h - weights to AWQ's tensors: launches. Asynchronous on the stream; see kernels/awq_quantize.h.
 *
 * Weights of 16 bits in groups of 32, 64 or 128, without scales and limits, are read once (data flow: awq_fused.cuh).
 * If all inputs are one group, the scale is available only after all have been read: then 16 MiB of outputs at a time
 * are read for their ranges, and again from the L2 cache by the same kernel. Weights with scales or limits, and float32
 * weights, use plain kernels in two passes. */
#ifndef YK_KERNELS_CUDA_QUANTIZE_AWQ_QUANTIZE_H
#define YK_KERNELS_CUDA_QUANTIZE_AWQ_QUANTIZE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "kernels/awq_quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_awq_takes - whether the launch takes the weight's group size. */
bool yk_cuda_awq_takes(const yk_awq_floats *weight);

/* yk_cuda_launch_awq_quantize - found->first_bad must be -1. */
cudaError_t yk_cuda_launch_awq_quantize(const yk_awq_quantize_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
