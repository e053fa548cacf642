/* layer_inputs.h - layer_inputs and multiply of kernels/device.h. Asynchronous on the stream. */
#ifndef YK_KERNELS_CUDA_ROWS_LAYER_INPUTS_H
#define YK_KERNELS_CUDA_ROWS_LAYER_INPUTS_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t yk_cuda_launch_layer_inputs(yk_dtype dtype, const yk_layer_inputs_args *args, cudaStream_t stream);
cudaError_t yk_cuda_launch_multiply(yk_dtype dtype, const yk_multiply_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
