/* cap_logits.h - cap_logits of kernels/device.h. Asynchronous on the stream. */
#ifndef YK_KERNELS_CUDA_SAMPLING_CAP_LOGITS_H
#define YK_KERNELS_CUDA_SAMPLING_CAP_LOGITS_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t yk_cuda_launch_cap_logits(const yk_cap_logits_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
